#include "gpu/executable.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "abi/qnn_errors.h"
#include "graph/binary/io.h"
#include "opencl/error.h"
#include "support/checked.h"
#include "support/fork.h"

namespace qnnrt::gpu {
namespace {

using opencl::DriverError;

constexpr uint8_t kExecutableMagic[8] = {0x89, 'Q', 'N', 'N', 'R', 'T', 'C', 'L'};
constexpr uint32_t kVersion = 1;
constexpr uint64_t kMaxDims = 16;

Status Damaged(const char* what) {
  return Error(QNN_COMMON_ERROR_GENERAL, "it is damaged (%s)", what);
}

void ReadIo(ByteReader* in, Executable::Io* io) {
  io->name = in->Text();
  io->id = in->Get<uint32_t>();
  io->data_type = in->Get<uint32_t>();
  io->flags = in->Get<uint32_t>();
  const uint32_t rank = in->Count(sizeof(uint32_t));
  if (rank > kMaxDims) in->Fail();
  for (uint32_t i = 0; i < rank && in->ok(); ++i) io->dims.push_back(in->Get<uint32_t>());
  io->nbytes = in->Get<uint64_t>();
}

void ReadSizes(ByteReader* in, uint32_t most, std::vector<uint64_t>* sizes) {
  const uint32_t count = in->Enum(most);
  for (uint32_t i = 0; i < count && in->ok(); ++i) {
    sizes->push_back(in->Get<uint64_t>());
    if (sizes->back() == 0) in->Fail();
  }
}

void ReadStep(ByteReader* in, Executable::Step* step) {
  step->node = in->Text();
  step->name = in->Text();
  step->kernel = in->Text();
  step->program = in->Get<uint32_t>();
  ReadSizes(in, 3, &step->total);
  ReadSizes(in, 3, &step->group);
  if (step->total.empty()) in->Fail();
  if (!step->group.empty() && step->group.size() != step->total.size()) in->Fail();
  const uint32_t args = in->Count(5);
  for (uint32_t i = 0; i < args && in->ok(); ++i) {
    Executable::Arg arg;
    arg.kind = static_cast<Executable::Argument>(in->Enum(2));
    arg.bits = in->Get<uint32_t>();
    step->args.push_back(arg);
  }
}

template <typename T, typename F>
void ReadAll(ByteReader* in, uint64_t bytes_each, std::vector<T>* all, F read) {
  const uint32_t count = in->Count(bytes_each);
  all->resize(count);
  for (uint32_t i = 0; i < count && in->ok(); ++i) read(in, &(*all)[i]);
}

Status CheckMemory(const Executable& e, const Executable::Memory& m,
                   const std::vector<uint64_t>& regions) {
  using Kind = Executable::Kind;
  if (m.kind == Kind::kIo)
    return m.where < e.io.size() ? Status::Ok() : Damaged("an input or output");
  if (m.kind == Kind::kFaults) {
    const uint64_t most = e.steps.size() * sizeof(Qnnrt_OpenClFault_t);
    return m.size != 0 && m.size <= most ? Status::Ok() : Damaged("what kernels note");
  }
  const std::vector<uint64_t>& in = m.kind == Kind::kArena ? e.arenas : regions;
  uint64_t end = 0;
  if (m.where >= in.size() || !CheckedAdd(m.offset, m.size, &end) || end > in[m.where])
    return Damaged("a memory lies outside of what it is in");
  return Status::Ok();
}

Status Check(const Executable& e, const std::vector<uint64_t>& regions) {
  bool outputs = false;
  for (const Executable::Io& io : e.io) {
    const bool output = (io.flags & QNNRT_OPENCL_OUTPUT) != 0;
    if (outputs && !output) return Damaged("the order of inputs and outputs");
    outputs = output;
  }
  for (const Executable::Memory& m : e.memories) QNNRT_RETURN_IF_ERROR(CheckMemory(e, m, regions));
  for (const Executable::Step& step : e.steps) {
    if (step.program >= e.programs.size()) return Damaged("the program of a kernel");
    for (size_t i = 0; i < step.args.size(); ++i) {
      const Executable::Arg& arg = step.args[i];
      if (arg.kind != Executable::Argument::kMemory) continue;
      if (arg.bits >= e.memories.size()) return Damaged("the memory of a kernel");
      const Executable::Memory& m = e.memories[arg.bits];
      if (m.kind != Executable::Kind::kFaults) continue;
      if (i + 1 == step.args.size() || step.args[i + 1].kind != Executable::Argument::kInt ||
          step.args[i + 1].bits >= m.size / sizeof(Qnnrt_OpenClFault_t))
        return Damaged("what a kernel notes");
    }
  }
  return Status::Ok();
}

void WriteSizes(const std::vector<uint64_t>& sizes, ByteWriter* out) {
  out->Put(static_cast<uint8_t>(sizes.size()));
  for (uint64_t size : sizes) out->Put(size);
}

}  // namespace

Result<Executable> Executable::Read(const uint8_t* data, uint64_t size,
                                    const std::vector<uint64_t>& regions) {
  ByteReader in(data, size);
  const uint8_t* magic = in.Bytes(sizeof kExecutableMagic);
  if (magic == nullptr || std::memcmp(magic, kExecutableMagic, sizeof kExecutableMagic) != 0)
    return Damaged("it does not begin as one");
  const uint32_t version = in.Get<uint32_t>();
  if (version != kVersion) {
    return Error(QNN_COMMON_ERROR_GENERAL, "it has version %u of the format, this library reads %u",
                 version, kVersion);
  }
  Executable e;
  e.device = in.Text();
  e.options = in.Text();
  e.rounded = in.Text();
  ReadAll(&in, 28, &e.io, ReadIo);
  ReadAll(&in, 8, &e.arenas, [](ByteReader* r, uint64_t* bytes) { *bytes = r->Get<uint64_t>(); });
  ReadAll(&in, 21, &e.memories, [](ByteReader* r, Memory* m) {
    m->kind = static_cast<Kind>(r->Enum(3));
    m->where = r->Get<uint32_t>();
    m->offset = r->Get<uint64_t>();
    m->size = r->Get<uint64_t>();
  });
  ReadAll(&in, 8, &e.programs, [](ByteReader* r, Program* p) {
    p->source = r->Text();
    const uint32_t bytes = r->Get<uint32_t>();
    if (const uint8_t* from = r->Bytes(bytes))
      p->binary.assign(reinterpret_cast<const char*>(from), bytes);
  });
  ReadAll(&in, 30, &e.steps, ReadStep);
  e.description = in.Text();
  if (!in.ok()) return Damaged("a field is cut off or has a value that it cannot have");
  if (in.left() != 0) return Damaged("something follows its end");
  QNNRT_RETURN_IF_ERROR(Check(e, regions));
  return e;
}

std::string Executable::Write() const {
  ByteWriter out;
  out.Bytes(kExecutableMagic, sizeof kExecutableMagic);
  out.Put(kVersion);
  for (const std::string* text : {&device, &options, &rounded}) out.Text(*text);
  out.Put(static_cast<uint32_t>(io.size()));
  for (const Io& t : io) {
    out.Text(t.name);
    for (uint32_t field : {t.id, t.data_type, t.flags}) out.Put(field);
    out.Put(static_cast<uint32_t>(t.dims.size()));
    for (uint32_t n : t.dims) out.Put(n);
    out.Put(t.nbytes);
  }
  out.Put(static_cast<uint32_t>(arenas.size()));
  for (uint64_t bytes : arenas) out.Put(bytes);
  out.Put(static_cast<uint32_t>(memories.size()));
  for (const Memory& m : memories) {
    out.Put(static_cast<uint8_t>(m.kind));
    out.Put(m.where);
    out.Put(m.offset);
    out.Put(m.size);
  }
  out.Put(static_cast<uint32_t>(programs.size()));
  for (const Program& p : programs) {
    out.Text(p.source);
    out.Text(p.binary);
  }
  out.Put(static_cast<uint32_t>(steps.size()));
  for (const Step& step : steps) {
    for (const std::string* text : {&step.node, &step.name, &step.kernel}) out.Text(*text);
    out.Put(step.program);
    WriteSizes(step.total, &out);
    WriteSizes(step.group, &out);
    out.Put(static_cast<uint32_t>(step.args.size()));
    for (const Arg& arg : step.args) {
      out.Put(static_cast<uint8_t>(arg.kind));
      out.Put(arg.bits);
    }
  }
  out.Text(description);
  const std::vector<uint8_t> bytes = out.Take();
  return std::string(bytes.begin(), bytes.end());
}

// ---- in a cl_context

namespace {

constexpr uint32_t kRegionKind = 0x1220;  // CL_BUFFER_CREATE_TYPE_REGION
constexpr uint32_t kFlushEvery = 32;      // commands, on devices with memory of their own

// Sizes of arenas, and where in them each memory is.
struct Arenas {
  std::vector<uint64_t> sizes;
  std::vector<std::pair<uint32_t, uint64_t>> places;  // arena and offset, by memory
};

// What was compiled for a device with a finer alignment gets an arena for each place.
Arenas ArenasOf(const Executable& executable, uint64_t alignment) {
  Arenas found;
  found.sizes = executable.arenas;
  found.places.resize(executable.memories.size());
  std::vector<bool> fits(executable.arenas.size(), true);
  const auto each = [&](auto visit) {
    for (size_t i = 0; i < executable.memories.size(); ++i)
      if (executable.memories[i].kind == Executable::Kind::kArena)
        visit(executable.memories[i], &found.places[i]);
  };
  each([&](const Executable::Memory& m, auto*) {
    fits[m.where] = fits[m.where] && m.offset % alignment == 0;
  });
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, uint32_t> own;
  each([&](const Executable::Memory& m, std::pair<uint32_t, uint64_t>* place) {
    *place = {m.where, m.offset};
    if (fits[m.where]) return;
    const auto [at, added] =
        own.try_emplace({m.where, m.offset, m.size}, static_cast<uint32_t>(found.sizes.size()));
    if (added) found.sizes.push_back(std::max<uint64_t>(m.size, 1));
    *place = {at->second, 0};
  });
  for (size_t i = 0; i < fits.size(); ++i)
    if (!fits[i]) found.sizes[i] = 0;
  return found;
}

// Drivers that allocate when a buffer is first used make one of any size.
Status CheckSize(const Device& device, uint64_t size) {
  if (size <= device.most_bytes) return Status::Ok();
  return Error(QNN_COMMON_ERROR_MEM_ALLOC,
               "a buffer of %llu bytes is needed on %s, where one buffer has %llu at most",
               static_cast<unsigned long long>(size), device.Text().c_str(),
               static_cast<unsigned long long>(device.most_bytes));
}

}  // namespace

Instance::Instance(std::shared_ptr<ClContext> context)
    : context_(std::move(context)), forks_(ForkGeneration()) {}

Instance::~Instance() {
  list_ = nullptr;
  if (forks_ != ForkGeneration()) return;
  const OpenCl& cl = context_->cl();
  for (void* kernel : kernels_) cl.releaseKernel(kernel);
  for (auto buffer = buffers_.rbegin(); buffer != buffers_.rend(); ++buffer)
    cl.releaseMemObject(*buffer);
}

std::string Instance::BinaryOf(size_t program) const {
  void* built = programs_[program];
  return built == nullptr ? std::string() : context_->BinaryOf(built);
}

Result<void*> Instance::NewBuffer(uint64_t flags, uint64_t size, void* host) {
  const Device& device = context_->device();
  size = std::max<uint64_t>(size, 1);
  QNNRT_RETURN_IF_ERROR(CheckSize(device, size));
  buffers_.reserve(buffers_.size() + 1);
  int32_t code = 0;
  void* buffer = context_->cl().createBuffer(context_->raw(), flags, size, host, &code);
  if (buffer == nullptr)
    return DriverError(code,
                       device.Text() + " has no buffer of " + std::to_string(size) + " bytes");
  buffers_.push_back(buffer);
  return buffer;
}

Result<void*> Instance::Part(void* buffer, uint64_t flags, uint64_t offset, uint64_t size) {
  const size_t region[2] = {offset, std::max<size_t>(size, 1)};
  buffers_.reserve(buffers_.size() + 1);
  int32_t code = 0;
  void* part = context_->cl().createSubBuffer(buffer, flags, kRegionKind, region, &code);
  if (part == nullptr) return DriverError(code, context_->device().Text() + " has no sub-buffers");
  buffers_.push_back(part);
  return part;
}

Status Instance::MakeConstants(const Executable& executable, const std::vector<Region>& regions) {
  const Device& device = context_->device();
  std::vector<size_t> rest;
  for (size_t i = 0; i < executable.memories.size(); ++i) {
    const Executable::Memory& m = executable.memories[i];
    if (m.kind != Executable::Kind::kConstant) continue;
    const uint8_t* data = regions[m.where].data + m.offset;
    const uintptr_t step = device.cpu ? kLine : kPage;
    if (!device.shared || m.size == 0 || reinterpret_cast<uintptr_t>(data) % step != 0) {
      rest.push_back(i);
      continue;
    }
    QNNRT_ASSIGN_OR_RETURN(memories_[i], NewBuffer(opencl::kReadOnly | kUseHostPtr, m.size,
                                                   const_cast<uint8_t*>(data)));
  }
  // The others one behind the other, in as few buffers as there may be.
  for (size_t first = 0; first < rest.size();) {
    std::vector<uint64_t> offsets;
    uint64_t end = 0;
    size_t next = first;
    for (; next < rest.size(); ++next) {
      const uint64_t offset = AlignUp(end, device.alignment);
      const uint64_t size = std::max<uint64_t>(executable.memories[rest[next]].size, 1);
      if (next != first && offset + size > device.most_bytes) break;
      offsets.push_back(offset);
      end = offset + size;
    }
    QNNRT_ASSIGN_OR_RETURN(void* buffer, NewBuffer(opencl::kReadOnly, end, nullptr));
    for (size_t k = first; k < next; ++k) {
      const Executable::Memory& m = executable.memories[rest[k]];
      const uint64_t offset = offsets[k - first];
      QNNRT_ASSIGN_OR_RETURN(memories_[rest[k]], Part(buffer, opencl::kReadOnly, offset, m.size));
      if (m.size == 0) continue;
      const int32_t code =
          context_->cl().enqueueWriteBuffer(context_->queue(), buffer, 1, offset, m.size,
                                            regions[m.where].data + m.offset, 0, nullptr, nullptr);
      if (code != 0) return DriverError(code, device.Text() + " does not take a constant");
    }
    first = next;
  }
  return Status::Ok();
}

Status Instance::MakeFaults(const Executable& executable) {
  for (size_t i = 0; i < executable.memories.size(); ++i) {
    const Executable::Memory& m = executable.memories[i];
    if (m.kind != Executable::Kind::kFaults) continue;
    QNNRT_ASSIGN_OR_RETURN(memories_[i], NewBuffer(opencl::kReadWrite, m.size, nullptr));
    const std::vector<uint8_t> none(m.size);
    const int32_t code = context_->cl().enqueueWriteBuffer(
        context_->queue(), memories_[i], 1, 0, m.size, none.data(), 0, nullptr, nullptr);
    if (code != 0)
      return DriverError(code, context_->device().Text() + " does not take a constant");
  }
  return Status::Ok();
}

Status Instance::MakeKernels(const Executable& executable) {
  const OpenCl& cl = context_->cl();
  const Device& device = context_->device();
  const std::string options =
      executable.options + (device.rounds ? " " + executable.rounded : std::string());
  const bool same = executable.device == device.Identity();
  for (const Executable::Step& step : executable.steps) {
    const Executable::Program& program = executable.programs[step.program];
    QNNRT_ASSIGN_OR_RETURN(void* built, context_->Program(program.source, options,
                                                          same ? program.binary : std::string()));
    programs_[step.program] = built;
    kernels_.reserve(kernels_.size() + 1);
    int32_t code = 0;
    void* kernel = cl.createKernel(built, step.kernel.c_str(), &code);
    if (kernel == nullptr)
      return DriverError(code, "node '" + step.node + "': there is no kernel " + step.kernel);
    kernels_.push_back(kernel);
    for (uint32_t i = 0; i < step.args.size(); ++i) {
      const Executable::Arg& arg = step.args[i];
      if (arg.kind != Executable::Argument::kMemory) {
        code = cl.setKernelArg(kernel, i, sizeof arg.bits, &arg.bits);
      } else if (void* mem = memories_[arg.bits]) {
        code = cl.setKernelArg(kernel, i, sizeof mem, &mem);
      }
      if (code != 0) {
        return DriverError(code, "node '" + step.node + "': kernel " + step.kernel +
                                     " does not take argument " + std::to_string(i));
      }
    }
  }
  return Status::Ok();
}

Status Instance::MakeList(const Executable& executable, uint64_t qnn_context, uint32_t flags) {
  std::vector<Qnnrt_OpenClStep_t> steps;
  std::vector<Qnnrt_OpenClTensor_t> tensors;
  std::vector<Qnnrt_OpenClPatch_t> patches;
  std::vector<uint32_t> fault_steps;
  void* faults = nullptr;
  std::vector<Qnnrt_OpenClPlace_t> places;
  const Arenas arenas = ArenasOf(executable, context_->device().alignment);
  for (uint64_t size : arenas.sizes) QNNRT_RETURN_IF_ERROR(CheckSize(context_->device(), size));
  for (const Executable::Step& step : executable.steps) {
    Qnnrt_OpenClStep_t s = {};
    s.node = step.node.c_str();
    s.name = step.name.c_str();
    s.kernel = kernels_[steps.size()];
    s.dims = static_cast<uint32_t>(step.total.size());
    std::copy(step.total.begin(), step.total.end(), s.total);
    std::copy(step.group.begin(), step.group.end(), s.group);
    for (uint32_t i = 0; i < step.args.size(); ++i) {
      if (step.args[i].kind != Executable::Argument::kMemory) continue;
      const Executable::Memory& m = executable.memories[step.args[i].bits];
      const auto at = static_cast<uint32_t>(steps.size());
      const auto& [arena, offset] = arenas.places[step.args[i].bits];
      if (m.kind == Executable::Kind::kIo) patches.push_back({m.where, at, i});
      if (m.kind == Executable::Kind::kArena)
        places.push_back({arena, at, i, offset, std::max<uint64_t>(m.size, 1)});
      if (m.kind != Executable::Kind::kFaults) continue;
      faults = memories_[step.args[i].bits];
      fault_steps.resize(m.size / sizeof(Qnnrt_OpenClFault_t));
      fault_steps[step.args[i + 1].bits] = at;
    }
    steps.push_back(s);
  }
  for (const Executable::Io& io : executable.io) {
    tensors.push_back({io.name.c_str(), io.id, io.data_type, io.flags,
                       static_cast<uint32_t>(io.dims.size()), io.dims.data(), io.nbytes});
  }
  Qnnrt_OpenClListInfo_t info = {};
  info.functions = &context_->cl();
  info.context = context_->raw();
  info.device = context_->device().raw;
  info.queue = info.base = context_->queue();
  info.flags = flags;
  info.flush_every = context_->device().shared ? 0 : kFlushEvery;
  info.steps = steps.data();
  info.tensors = tensors.data();
  info.patches = patches.data();
  info.num_steps = static_cast<uint32_t>(steps.size());
  info.num_tensors = static_cast<uint32_t>(tensors.size());
  info.num_patches = static_cast<uint32_t>(patches.size());
  info.pool = &context_->arenas();
  info.arenas = arenas.sizes.data();
  info.places = places.data();
  info.num_arenas = static_cast<uint32_t>(arenas.sizes.size());
  info.num_places = static_cast<uint32_t>(places.size());
  info.faults = faults;
  info.fault_steps = fault_steps.data();
  info.num_faults = static_cast<uint32_t>(fault_steps.size());
  QNNRT_ASSIGN_OR_RETURN(list_, opencl::CommandList::Make(info));
  list_->set_context(qnn_context);
  return Status::Ok();
}

Result<std::unique_ptr<Instance>> Instance::Make(const Executable& executable,
                                                 const std::vector<Region>& regions,
                                                 std::shared_ptr<ClContext> context,
                                                 uint64_t qnn_context, uint32_t flags) {
  std::unique_ptr<Instance> made(new Instance(std::move(context)));
  made->memories_.resize(executable.memories.size());
  made->programs_.resize(executable.programs.size());
  QNNRT_RETURN_IF_ERROR(made->MakeConstants(executable, regions));
  QNNRT_RETURN_IF_ERROR(made->MakeFaults(executable));
  QNNRT_RETURN_IF_ERROR(made->MakeKernels(executable));
  QNNRT_RETURN_IF_ERROR(made->MakeList(executable, qnn_context, flags));
  return made;
}

}  // namespace qnnrt::gpu
