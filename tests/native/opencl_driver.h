// An OpenCL driver for tests: its queues run commands at once, and any of its calls can be made to
// fail. What it is given has to be right: live objects, arguments that are set, in a queue without
// order the event of the command before.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "abi/qnnrt_opencl.h"
#include "check.h"

namespace opencl_test {

constexpr uint32_t kElements = 16;
constexpr uint64_t kBytes = kElements * sizeof(float);

struct Buffer {
  std::vector<float> data = std::vector<float>(kElements);
  uint64_t size = kBytes;
  Buffer* of = nullptr;  // of a sub-buffer
};
struct Event {
  uint64_t at;  // the number of its command
};
struct Queue {
  bool ordered = true;
  Event* last = nullptr;  // of a queue without order
};
// args[1] = args[0] + add
struct Kernel {
  float add = 1;
  std::map<uint32_t, Buffer*> args;
};
// A command buffer: kernels as they were.
struct Recorded {
  std::vector<Kernel> kernels;
  bool final = false;
};

// One at a time; its functions are plain ones.
struct Driver {
  std::mutex mutex;
  std::map<std::string, int> calls;
  std::string failing;  // the function of which call number `fails_at` fails, with `code`
  int fails_at = 0;
  int32_t code = -5;
  std::set<void*> buffers, events, queues, recordings;  // live
  uint64_t bytes = 0, most_bytes = UINT64_MAX;          // of buffers that are no parts
  bool asynchronous = false;                            // events end only when they are asked twice
  std::set<void*> asked;
  uint64_t commands = 0;
  uint64_t unordered = 0;  // commands that did not wait for the one before

  Driver() { Current() = this; }
  ~Driver() {
    CHECK(buffers.empty());
    CHECK(events.empty());
    CHECK(queues.empty());
    CHECK(recordings.empty());
    CHECK_EQ(bytes, 0u);
    CHECK_EQ(unordered, 0u);
  }
  static Driver*& Current() {
    static Driver* driver = nullptr;
    return driver;
  }
  // `name` fails at its nth call from now.
  void Fail(const char* name, int nth, int32_t with = -5) {
    std::lock_guard<std::mutex> lock(mutex);
    calls.clear();
    failing = name;
    fails_at = nth;
    code = with;
  }
  int Calls(const char* name) {
    std::lock_guard<std::mutex> lock(mutex);
    return calls[name];
  }

  int32_t Called(const char* name) {  // the lock is held
    return ++calls[name] == fails_at && failing == name ? code : 0;
  }
  // A command in a queue, which waits for these events and answers with its own.
  int32_t Enqueued(const char* name, void* queue, uint32_t count, void* const* waits,
                   void** event) {
    const int32_t status = Called(name);
    if (status != 0) return status;
    Queue* q = static_cast<Queue*>(queue);
    if (!q->ordered) {
      for (uint32_t i = 0; i < count; ++i) unordered += events.count(waits[i]) == 0 ? 1 : 0;
      unordered += count != 0 && q->last != nullptr && waits[0] != q->last ? 1 : 0;
    }
    ++commands;
    if (event == nullptr) return 0;
    Event* made = new Event{commands};
    events.insert(made);
    q->last = made;
    *event = made;
    return 0;
  }
};

// ---- the functions

#define QNNRT_DRIVER(name)        \
  Driver& d = *Driver::Current(); \
  std::lock_guard<std::mutex> lock(d.mutex)

inline int32_t NDRange(void* queue, void* kernel, uint32_t dims, const size_t*, const size_t* total,
                       const size_t*, uint32_t count, void* const* waits, void** event) {
  QNNRT_DRIVER();
  const int32_t status = d.Enqueued("ndrange", queue, count, waits, event);
  if (status != 0) return status;
  Kernel* k = static_cast<Kernel*>(kernel);
  if (dims != 1 || k->args[0] == nullptr || k->args[1] == nullptr) return -52;
  for (size_t i = 0; i < total[0]; ++i) k->args[1]->data[i] = k->args[0]->data[i] + k->add;
  return 0;
}
inline int32_t Write(void* queue, void* mem, uint32_t, size_t, size_t size, const void* data,
                     uint32_t count, void* const* waits, void** event) {
  QNNRT_DRIVER();
  const int32_t status = d.Enqueued("write", queue, count, waits, event);
  if (status == 0) std::memcpy(static_cast<Buffer*>(mem)->data.data(), data, size);
  return status;
}
inline int32_t Read(void* queue, void* mem, uint32_t, size_t, size_t size, void* data,
                    uint32_t count, void* const* waits, void** event) {
  QNNRT_DRIVER();
  const int32_t status = d.Enqueued("read", queue, count, waits, event);
  if (status == 0) std::memcpy(data, static_cast<Buffer*>(mem)->data.data(), size);
  return status;
}
inline int32_t Barrier(void* queue, uint32_t count, void* const* waits, void** event) {
  QNNRT_DRIVER();
  return d.Enqueued("barrier", queue, count, waits, event);
}
inline int32_t SetArg(void* kernel, uint32_t index, size_t, const void* value) {
  QNNRT_DRIVER();
  const int32_t status = d.Called("set_arg");
  if (status == 0) static_cast<Kernel*>(kernel)->args[index] = *static_cast<Buffer* const*>(value);
  return status;
}
inline int32_t Finish(void* queue) {
  QNNRT_DRIVER();
  static_cast<Queue*>(queue)->last = nullptr;
  return d.Called("finish");
}
inline int32_t Flush(void*) {
  QNNRT_DRIVER();
  return d.Called("flush");
}
inline void* CreateBuffer(void*, uint64_t, size_t size, void*, int32_t* status) {
  QNNRT_DRIVER();
  *status = d.Called("create_buffer");
  if (*status == 0 && size > d.most_bytes - d.bytes) *status = -4;
  if (*status != 0) return nullptr;
  d.bytes += size;
  Buffer* made = new Buffer;
  made->size = size;
  return *d.buffers.insert(made).first;
}
inline void* CreateSubBuffer(void* mem, uint64_t, uint32_t, const void* region, int32_t* status) {
  QNNRT_DRIVER();
  *status = d.Called("create_sub_buffer");
  if (*status != 0) return nullptr;
  CHECK_EQ(d.buffers.count(mem), 1u);
  const auto* at = static_cast<const size_t*>(region);
  CHECK(at[0] + at[1] <= static_cast<Buffer*>(mem)->size);
  Buffer* made = new Buffer;
  made->of = static_cast<Buffer*>(mem);
  return *d.buffers.insert(made).first;
}
inline int32_t EventInfo(void* event, uint32_t name, size_t size, void* value, size_t*) {
  QNNRT_DRIVER();
  CHECK_EQ(name, 0x11D3u);
  CHECK_EQ(size, sizeof(int32_t));
  const int32_t status = d.Called("event_info");
  const int32_t state = d.asynchronous && d.asked.insert(event).second ? 1 : 0;
  if (status == 0) std::memcpy(value, &state, sizeof(state));
  return status;
}
inline int32_t WaitFor(uint32_t count, void* const* events) {
  QNNRT_DRIVER();
  for (uint32_t i = 0; i < count; ++i) CHECK_EQ(d.events.count(events[i]), 1u);
  return d.Called("wait");
}
inline void* CreateRecording(uint32_t count, void* const*, const uint64_t*, int32_t* status) {
  QNNRT_DRIVER();
  CHECK_EQ(count, 1u);
  *status = d.Called("create_record");
  return *status != 0 ? nullptr : *d.recordings.insert(new Recorded).first;
}
inline int32_t RecordKernel(void* buffer, void*, const uint64_t*, void* kernel, uint32_t dims,
                            const size_t*, const size_t*, const size_t*, uint32_t, const uint32_t*,
                            uint32_t*, void**) {
  QNNRT_DRIVER();
  CHECK_EQ(dims, 1u);
  CHECK_EQ(d.recordings.count(buffer), 1u);
  const int32_t status = d.Called("record");
  if (status == 0) static_cast<Recorded*>(buffer)->kernels.push_back(*static_cast<Kernel*>(kernel));
  return status;
}
inline int32_t FinalizeRecording(void* buffer) {
  QNNRT_DRIVER();
  const int32_t status = d.Called("finalize");
  static_cast<Recorded*>(buffer)->final = status == 0;
  return status;
}
inline int32_t EnqueueRecording(uint32_t, void**, void* buffer, uint32_t, void* const*, void**) {
  QNNRT_DRIVER();
  CHECK_EQ(d.recordings.count(buffer), 1u);
  const int32_t status = d.Called("replay");
  if (status != 0) return status;
  const auto& recorded = *static_cast<Recorded*>(buffer);
  CHECK(recorded.final);
  for (const Kernel& k : recorded.kernels) {
    bool live = true;
    for (uint32_t i : {0u, 1u})
      live = live && (k.args.at(i)->of == nullptr || d.buffers.count(k.args.at(i)) != 0);
    CHECK(live);
    for (uint32_t i = 0; i < kElements; ++i) k.args.at(1)->data[i] = k.args.at(0)->data[i] + k.add;
  }
  return 0;
}
inline int32_t ReleaseRecording(void* buffer) {
  QNNRT_DRIVER();
  CHECK_EQ(d.recordings.erase(buffer), 1u);
  delete static_cast<Recorded*>(buffer);
  return 0;
}
inline void* CreateQueue(void*, void*, uint64_t, int32_t* status) {
  QNNRT_DRIVER();
  *status = d.Called("create_queue");
  return *status != 0 ? nullptr : *d.queues.insert(new Queue).first;
}
inline int32_t Times(void* event, uint32_t name, size_t, void* value, size_t*) {
  QNNRT_DRIVER();
  const int32_t status = d.Called("times");
  // Queued, submitted, started and ended: a microsecond from one to the next, 10 for a command.
  const uint64_t t = (static_cast<Event*>(event)->at * 10 + (name - 0x1280)) * 1000;
  if (status == 0) std::memcpy(value, &t, sizeof(t));
  return status;
}
inline int32_t ReleaseBuffer(void* mem) {
  QNNRT_DRIVER();
  CHECK_EQ(d.buffers.erase(mem), 1u);
  auto* buffer = static_cast<Buffer*>(mem);
  if (buffer->of == nullptr) d.bytes -= buffer->size;
  delete buffer;
  return 0;
}
inline int32_t ReleaseEvent(void* event) {
  QNNRT_DRIVER();
  CHECK_EQ(d.events.erase(event), 1u);
  d.asked.erase(event);
  delete static_cast<Event*>(event);
  return 0;
}
inline int32_t ReleaseQueue(void* queue) {
  QNNRT_DRIVER();
  CHECK_EQ(d.queues.erase(queue), 1u);
  delete static_cast<Queue*>(queue);
  return 0;
}
inline void* Map(void* queue, void* mem, uint32_t, uint64_t, size_t, size_t size, uint32_t,
                 void* const*, void**, int32_t* status) {
  QNNRT_DRIVER();
  CHECK_EQ(size, kBytes);
  *status = d.Enqueued("map", queue, 0, nullptr, nullptr);
  return static_cast<Buffer*>(mem)->data.data();
}
inline int32_t Unmap(void* queue, void*, void*, uint32_t, void* const*, void**) {
  QNNRT_DRIVER();
  return d.Enqueued("unmap", queue, 0, nullptr, nullptr);
}
inline int32_t Acquire(void* queue, uint32_t count, void* const*, uint32_t, void* const*, void**) {
  QNNRT_DRIVER();
  CHECK_EQ(count, 1u);
  return d.Enqueued("acquire", queue, 0, nullptr, nullptr);
}
inline int32_t ReleaseExternal(void* queue, uint32_t count, void* const*, uint32_t, void* const*,
                               void**) {
  QNNRT_DRIVER();
  CHECK_EQ(count, 1u);
  return d.Enqueued("release", queue, 0, nullptr, nullptr);
}
#undef QNNRT_DRIVER

inline const Qnnrt_OpenClFunctions_t kFunctions = {
    NDRange,      Write,           Read,        Barrier, SetArg,        Finish,
    Flush,        CreateBuffer,    CreateQueue, Times,   ReleaseBuffer, ReleaseEvent,
    ReleaseQueue, CreateSubBuffer, EventInfo,   WaitFor};
inline const Qnnrt_OpenClRecording_t kRecording = {CreateRecording, RecordKernel, FinalizeRecording,
                                                   EnqueueRecording, ReleaseRecording};

// A pool of arenas.
struct Pool {
  Qnnrt_OpenClPoolHandle_t handle = nullptr;
  Pool() { CHECK_EQ(qnnrt_opencl_pool_create(&kFunctions, this, &handle), 0u); }
  Pool(const Pool&) = delete;
  ~Pool() { qnnrt_opencl_pool_free(handle); }
  Qnnrt_OpenClPoolCounts_t counts() const {
    Qnnrt_OpenClPoolCounts_t counts;
    qnnrt_opencl_pool_counts(handle, &counts);
    return counts;
  }
};

// ---- a command list: y = x + 1 + 1 ..., and clients of it

constexpr uint32_t kDims[] = {1, kElements};
const Qnn_ContextHandle_t kContext = reinterpret_cast<Qnn_ContextHandle_t>(uintptr_t{0x1001});

struct Options {
  uint32_t kernels = 2;
  uint32_t flags = QNNRT_OPENCL_PROFILE_NODES;
  Qnnrt_OpenClCall_t call = nullptr;  // in the place of the last kernel
  void* user = nullptr;
  uint32_t flush_every = 0;
  bool other_base = false;  // memory changes owners in another queue
  const Pool* pool = nullptr;
  std::vector<uint64_t> arenas = {};  // kernels pass their results in these, in turn
  uint64_t offset = 0;                // of what is passed, in its arena
  const Qnnrt_OpenClRecording_t* recording = nullptr;
  bool may_fail = false;
};

class List {
 public:
  explicit List(const Options& options = {})
      : kernels_(options.kernels), between_(options.kernels) {
    queue_.ordered = (options.flags & QNNRT_OPENCL_OUT_OF_ORDER) == 0;
    std::vector<Qnnrt_OpenClStep_t> steps(options.kernels);
    for (uint32_t i = 0; i < options.kernels; ++i) {
      steps[i] = {};
      steps[i].node = i < 2 ? "first" : "second";
      steps[i].name = "add";
      steps[i].kernel = &kernels_[i];
      steps[i].dims = 1;
      steps[i].total[0] = kElements;
      if (!options.arenas.empty()) continue;
      if (i > 0) kernels_[i].args[0] = &between_[i - 1];
      if (i + 1 < options.kernels) kernels_[i].args[1] = &between_[i];
    }
    std::vector<Qnnrt_OpenClPlace_t> places;
    for (uint32_t i = 0; !options.arenas.empty() && i + 1 < options.kernels; ++i) {
      const auto arena = static_cast<uint32_t>(i % options.arenas.size());
      places.push_back({arena, i, 1, options.offset, kBytes});
      places.push_back({arena, i + 1, 0, options.offset, kBytes});
    }
    void* memories[] = {options.kernels > 1 ? &between_[options.kernels - 2] : nullptr, nullptr};
    if (options.call != nullptr) {
      steps.back().kernel = nullptr;
      steps.back().call = options.call;
      steps.back().user = options.user;
      steps.back().memories = memories;
      steps.back().num_memories = 2;
    }
    const Qnnrt_OpenClTensor_t tensors[] = {
        {"x", 1, QNN_DATATYPE_FLOAT_32, 0, 2, kDims, kBytes},
        {"y", 2, QNN_DATATYPE_FLOAT_32, QNNRT_OPENCL_OUTPUT, 2, kDims, kBytes}};
    const Qnnrt_OpenClPatch_t patches[] = {{0, 0, 0}, {1, options.kernels - 1, 1}};
    Qnnrt_OpenClListInfo_t info = {};
    info.functions = &kFunctions;
    info.context = this;
    info.device = this;
    info.queue = &queue_;
    info.base = options.other_base ? &base_ : &queue_;
    info.flags = options.flags;
    info.flush_every = options.flush_every;
    info.steps = steps.data();
    info.tensors = tensors;
    info.patches = patches;
    info.num_steps = options.kernels;
    info.num_tensors = info.num_patches = 2;
    info.pool = options.pool == nullptr ? nullptr : options.pool->handle;
    info.arenas = options.arenas.data();
    info.num_arenas = static_cast<uint32_t>(options.arenas.size());
    info.places = places.data();
    info.num_places = static_cast<uint32_t>(places.size());
    info.recording = options.recording;
    Qnnrt_ExecutorText_t text = {};
    code_ = qnnrt_opencl_list_create(&info, &handle_, &text);
    why_ = text.text;
    CHECK(options.may_fail || code_ == 0);
    if (code_ != 0) return;
    qnnrt_opencl_list_executor(handle_, kContext, 0, &executor_);
  }
  List(const List&) = delete;
  ~List() {
    if (handle_ != nullptr) qnnrt_opencl_list_free(handle_);
  }
  uint64_t code() const { return code_; }  // of its making
  const std::string& why() const { return why_; }

  Qnnrt_OpenClListHandle_t handle() const { return handle_; }
  const Qnnrt_Executor_t& executor() const { return executor_; }
  void* queue() { return &queue_; }
  Qnnrt_OpenClCounts_t counts() const {
    Qnnrt_OpenClCounts_t counts;
    qnnrt_opencl_list_counts(handle_, &counts, nullptr);
    return counts;
  }

  // Bind, run and release. The reason of an error is in *why.
  uint64_t Execute(const Qnn_Tensor_t& x, const Qnn_Tensor_t& y, std::string* why = nullptr,
                   const Qnnrt_ExecutorRun_t& run = {}, bool strict = false) const {
    const Qnnrt_Tensors_t given = {&x, &y, 1, 1, strict ? 1u : 0u};
    return Execute(given, why, run);
  }
  uint64_t Execute(const Qnnrt_Tensors_t& given, std::string* why,
                   const Qnnrt_ExecutorRun_t& run = {}) const {
    void* binding = nullptr;
    Qnnrt_ExecutorText_t text = {};
    uint64_t code = executor_.bind(executor_.self, &given, &binding, &text);
    if (code == 0) {
      code = executor_.run(executor_.self, binding, &run, &text);
      executor_.release(executor_.self, binding);
    }
    if (why != nullptr) *why = text.text;
    return code;
  }

 private:
  Queue queue_, base_;
  std::vector<Kernel> kernels_;
  std::vector<Buffer> between_;
  Qnnrt_OpenClListHandle_t handle_ = nullptr;
  Qnnrt_Executor_t executor_ = {};
  uint64_t code_ = 0;
  std::string why_;
};

inline Qnn_Tensor_t Tensor(uint32_t id) {
  Qnn_Tensor_t t;
  std::memset(&t, 0, sizeof(t));
  t.version = QNN_TENSOR_VERSION_1;
  t.v1.id = id;
  t.v1.dataType = QNN_DATATYPE_FLOAT_32;
  t.v1.rank = 2;
  t.v1.dimensions = const_cast<uint32_t*>(kDims);
  return t;
}
inline Qnn_Tensor_t Raw(uint32_t id, std::vector<float>* data) {
  Qnn_Tensor_t t = Tensor(id);
  t.v1.memType = QNN_TENSORMEMTYPE_RAW;
  t.v1.clientBuf = {data->data(), static_cast<uint32_t>(data->size() * sizeof(float))};
  return t;
}
inline Qnn_Tensor_t WithHandle(uint32_t id, Qnn_MemHandle_t handle) {
  Qnn_Tensor_t t = Tensor(id);
  t.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
  t.v1.memHandle = handle;
  return t;
}

// A registered buffer.
struct Registered {
  Buffer buffer;
  Qnn_MemHandle_t handle = nullptr;
  explicit Registered(uint64_t flags = 1, const Qnnrt_OpenClOwnership_t& ownership = {},
                      Qnn_ContextHandle_t context = kContext) {
    const Qnnrt_OpenClMemory_t memory = {&buffer, context, kBytes,   flags, QNN_DATATYPE_FLOAT_32,
                                         2,       kDims,   ownership};
    CHECK_EQ(qnnrt_opencl_register(&memory, &handle), 0u);
  }
  Registered(const Registered&) = delete;
  ~Registered() { CHECK_EQ(qnnrt_opencl_deregister(handle, 0), 0u); }
};

inline bool Has(const std::string& text, const char* part) {
  const bool has = text.find(part) != std::string::npos;
  if (!has) std::fprintf(stderr, "  no \"%s\" in \"%s\"\n", part, text.c_str());
  return has;
}

inline std::vector<float> Floats(float value) { return std::vector<float>(kElements, value); }

inline bool All(const std::vector<float>& data, float value) { return data == Floats(value); }

// Profile events as they come: names with their values.
struct Events {
  std::vector<std::pair<std::string, uint64_t>> all;
  static int32_t Add(void* self, uint32_t, uint32_t, uint64_t value, uint64_t, const char* name,
                     int32_t) {
    auto& all = static_cast<Events*>(self)->all;
    all.emplace_back(name, value);
    return static_cast<int32_t>(all.size()) - 1;
  }
  Qnnrt_ExecutorRun_t Run(bool detailed = true) {
    return {this, detailed ? 1u : 0u, Add, nullptr, nullptr};
  }
  int64_t Value(const char* name) const {
    for (const auto& [known, value] : all)
      if (known == name) return static_cast<int64_t>(value);
    return -1;
  }
};

inline Qnnrt_OpenClOwnership_t Mapped(List* list, void* address) {
  return {QNNRT_OPENCL_MAPPED, list->queue(), reinterpret_cast<void*>(&Unmap),
          reinterpret_cast<void*>(&Map), address};
}

}  // namespace opencl_test
