// Context binaries through the function table: what C clients pass, threads, signals, refusals.
#include <atomic>
#include <thread>

#include "qmem_net.h"
#include "qnn_tensor.h"

using namespace qmem;

namespace {

using Bytes = std::vector<uint8_t>;

// Where a mapping of a file would begin.
struct Mapped {
  explicit Mapped(const Bytes& bytes) : size(bytes.size()), data(std::aligned_alloc(4096, size)) {
    std::memcpy(data, bytes.data(), size);
  }
  ~Mapped() { std::free(data); }
  size_t size;
  void* data;
};

Bytes BinaryOf(Qnn_ContextHandle_t context) {
  Qnn_ContextBinarySize_t size = 0, written = 0;
  CHECK_EQ(q.contextGetBinarySize(context, &size), 0u);
  Bytes bytes(size);
  CHECK_EQ(q.contextGetBinary(context, bytes.data(), size, &written), 0u);
  CHECK_EQ(written, size);
  return bytes;
}

Qnn_ContextHandle_t Loaded(const Net& net, const Bytes& bytes) {
  Qnn_ContextHandle_t context = nullptr;
  CHECK_EQ(q.contextCreateFromBinary(net.backend, nullptr, nullptr, bytes.data(), bytes.size(),
                                     &context, nullptr),
           0u);
  return context;
}

// A finalized net, and its binary.
struct Source {
  Source() {
    CHECK_EQ(net.Open(), 0u);
    CHECK_EQ(net.Compose(kRaw, kRaw, kRaw), 0u);
    CHECK_EQ(q.graphFinalize(net.graph, nullptr, nullptr), 0u);
    bytes = BinaryOf(net.context);
  }
  Net net;
  Bytes bytes;
};

const QnnContext_Config_t* Persistent() {
  static const QnnContext_Config_t config = [] {
    QnnContext_Config_t c = {};
    c.option = QNN_CONTEXT_CONFIG_PERSISTENT_BINARY;
    c.isPersistentBinary = 1;
    return c;
  }();
  return &config;
}

TEST(what_a_client_gets_wrong_is_told) {
  Source source;
  Net& net = source.net;
  const Bytes& bytes = source.bytes;
  Qnn_ContextHandle_t context = reinterpret_cast<Qnn_ContextHandle_t>(uintptr_t{1});
  Qnn_ContextBinarySize_t size = 1;
  Bytes small(bytes.size() - 1);
  CHECK_EQ(q.contextGetBinarySize(nullptr, &size), QNN_CONTEXT_ERROR_INVALID_HANDLE);
  CHECK_EQ(q.contextGetBinarySize(net.context, nullptr), QNN_CONTEXT_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(q.contextGetBinary(net.context, nullptr, 0, &size), QNN_CONTEXT_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(q.contextGetBinary(net.context, small.data(), small.size(), &size),
           QNN_CONTEXT_ERROR_GET_BINARY_FAILED);
  CHECK_EQ(size, 0u);
  CHECK_EQ(
      q.contextCreateFromBinary(net.backend, nullptr, nullptr, nullptr, 100, &context, nullptr),
      QNN_CONTEXT_ERROR_INVALID_ARGUMENT);
  CHECK(context == nullptr);
  CHECK_EQ(q.contextCreateFromBinary(net.backend, nullptr, nullptr, bytes.data(), bytes.size(),
                                     nullptr, nullptr),
           QNN_CONTEXT_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(q.contextCreateFromBinary(nullptr, nullptr, nullptr, bytes.data(), bytes.size(),
                                     &context, nullptr),
           QNN_CONTEXT_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(q.contextValidateBinary(net.backend, nullptr, nullptr, nullptr, 0),
           QNN_CONTEXT_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(q.contextValidateBinary(net.backend, nullptr, nullptr, bytes.data(), bytes.size()), 0u);
  CHECK_EQ(q.contextFinalize(net.context, nullptr), QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
  CHECK_EQ(q.contextGetProperty(net.context, nullptr), QNN_CONTEXT_ERROR_INVALID_ARGUMENT);
}

// A type that is not fixed-point has no use for an encoding, but it may come with one.
TEST(an_encoding_of_floats_does_not_spoil_the_binary) {
  for (const Qnn_QuantizationEncoding_t encoding :
       {QNN_QUANTIZATION_ENCODING_SCALE_OFFSET, QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET,
        QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET}) {
    Net net;
    CHECK_EQ(net.Open(), 0u);
    CHECK_EQ(net.Compose(kRaw, kRaw, kRaw), 0u);
    Qnn_GraphHandle_t graph = nullptr;
    CHECK_EQ(q.graphCreate(net.context, "encoded", nullptr, &graph), 0u);
    Qnn_Tensor_t x = net.t[0], y = net.t[2];
    x.v1.name = "x";
    x.v1.quantizeParams = {};
    x.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_DEFINED;
    x.v1.quantizeParams.quantizationEncoding = encoding;
    if (encoding == QNN_QUANTIZATION_ENCODING_SCALE_OFFSET)
      x.v1.quantizeParams.scaleOffsetEncoding = {0.5f, 0};
    if (encoding == QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET)
      x.v1.quantizeParams.bwScaleOffsetEncoding = {8, 0.5f, 0};
    CHECK_EQ(q.tensorCreateGraphTensor(graph, &x), 0u);
    CHECK_EQ(q.tensorCreateGraphTensor(graph, &y), 0u);
    Qnn_OpConfig_t op = {};
    op.version = QNN_OPCONFIG_VERSION_1;
    op.v1 = {"relu", "qti.aisw", "Relu", 0, nullptr, 1, &x, 1, &y};
    CHECK_EQ(q.graphAddNode(graph, op), 0u);
    CHECK_EQ(q.graphFinalize(graph, nullptr, nullptr), 0u);
    CHECK_EQ(net.Finalize(), 0u);
    const Qnn_ContextHandle_t context = Loaded(net, BinaryOf(net.context));
    CHECK_EQ(q.contextFree(context, nullptr), 0u);
  }
}

// The scales of an axis without an index are none, and are read back as that.
TEST(an_axis_of_no_indices_has_an_encoding_in_the_binary) {
  for (const uint32_t bitwidth : {0u, 4u}) {
    Net net;
    CHECK_EQ(net.Open(), 0u);
    CHECK_EQ(net.Compose(kRaw, kRaw, kRaw), 0u);
    uint32_t dims[] = {2, 0};
    Qnn_Tensor_t x = TensorOf("x", QNN_TENSOR_TYPE_APP_WRITE, dims, 2, QNN_DATATYPE_SFIXED_POINT_8);
    Qnn_QuantizeParams_t& params = x.v1.quantizeParams;
    params.encodingDefinition = QNN_DEFINITION_DEFINED;
    if (bitwidth == 0) {
      params.quantizationEncoding = QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET;
      params.axisScaleOffsetEncoding = {1, 0, nullptr};
    } else {
      params.quantizationEncoding = QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET;
      params.bwAxisScaleOffsetEncoding = {bitwidth, 1, 0, nullptr, nullptr};
    }
    CHECK_EQ(q.tensorCreateGraphTensor(net.graph, &x), 0u);
    CHECK_EQ(net.Finalize(), 0u);
    const Bytes bytes = BinaryOf(net.context);
    const Qnn_ContextHandle_t context = Loaded(net, bytes);
    CHECK_EQ(BinaryOf(context).size(), bytes.size());
    CHECK_EQ(q.contextFree(context, nullptr), 0u);
  }
}

TEST(what_is_not_offered_is_1000) {
  Source source;
  Net& net = source.net;
  Qnn_ContextHandle_t context = reinterpret_cast<Qnn_ContextHandle_t>(uintptr_t{1});
  CHECK_EQ(q.contextCreateFromBinaryListAsync(net.backend, nullptr, nullptr, nullptr, nullptr),
           QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE);
  CHECK_EQ(q.contextCreateFromBinaryWithCallback(net.backend, nullptr, nullptr, nullptr,
                                                 source.bytes.data(), source.bytes.size(), &context,
                                                 nullptr, nullptr),
           QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE);
  CHECK(context == nullptr);
  const void* part = nullptr;
  Qnn_ContextBinarySize_t from = 0, size = 0;
  CHECK_EQ(q.contextGetIncrementalBinary(net.context, &part, &from, &size),
           QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE);
  CHECK_EQ(
      q.contextGetBinarySectionSize(net.context, net.graph, QNN_CONTEXT_SECTION_UPDATABLE, &size),
      QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE);
}

TEST(a_signal_may_end_loading) {
  Source source;
  Net& net = source.net;
  const auto load = [&](Qnn_SignalHandle_t signal) {
    Qnn_ContextHandle_t context = nullptr;
    const Code code =
        q.contextCreateFromBinaryWithSignal(net.backend, nullptr, nullptr, source.bytes.data(),
                                            source.bytes.size(), &context, nullptr, signal);
    CHECK_EQ(context != nullptr, code == 0);
    if (context != nullptr) CHECK_EQ(q.contextFree(context, nullptr), 0u);
    return code;
  };
  QnnSignal_Config_t config = {};
  const QnnSignal_Config_t* list[] = {&config, nullptr};
  config.option = QNN_SIGNAL_CONFIG_OPTION_ABORT;
  Qnn_SignalHandle_t abort = nullptr, timeout = nullptr;
  CHECK_EQ(q.signalCreate(net.backend, list, &abort), 0u);
  CHECK_EQ(load(abort), 0u);
  CHECK_EQ(load(abort), 0u);  // it was given back
  config.option = QNN_SIGNAL_CONFIG_OPTION_TIMEOUT;
  config.timeoutDurationUs = 1;
  CHECK_EQ(q.signalCreate(net.backend, list, &timeout), 0u);
  CHECK_EQ(load(timeout), QNN_CONTEXT_ERROR_TIMED_OUT);
  CHECK_EQ(load(net.backend), QNN_CONTEXT_ERROR_INVALID_ARGUMENT);  // no signal at all
  CHECK_EQ(q.signalFree(abort), 0u);
  CHECK_EQ(q.signalFree(timeout), 0u);
}

// Graphs of one binary, in several contexts, while the binary is written from them.
TEST(loading_executing_and_writing_at_once) {
  Source source;
  const Mapped mapped(source.bytes);
  const QnnContext_Config_t* list[] = {Persistent(), nullptr};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 20; ++round) {
        Qnn_ContextHandle_t context = nullptr;
        Qnn_GraphHandle_t graph = nullptr;
        Code e = q.contextCreateFromBinary(source.net.backend, nullptr, list, mapped.data,
                                           mapped.size, &context, nullptr);
        if (e == 0) e = q.graphRetrieve(context, "g", &graph);
        Qnn_Tensor_t t[3];
        std::vector<float> values[3];
        for (int i = 0; i < 3; ++i) {
          t[i] = source.net.t[i];
          values[i].assign(source.net.count, static_cast<float>(thread + 1));
          t[i].v1.memType = QNN_TENSORMEMTYPE_RAW;
          t[i].v1.clientBuf = {values[i].data(), static_cast<uint32_t>(source.net.Bytes())};
        }
        std::thread writer([&] {
          Qnn_ContextBinarySize_t size = 0;
          Bytes again(source.bytes.size());
          if (q.contextGetBinary(context, again.data(), again.size(), &size) != 0 ||
              again != source.bytes)
            ++wrong;
        });
        for (int i = 0; i < 5 && e == 0; ++i)
          e = q.graphExecute(graph, t, 2, t + 2, 1, nullptr, nullptr);
        writer.join();
        for (float y : values[2]) wrong += y != static_cast<float>(2 * (thread + 1));
        wrong += e != 0;
        // A call that is on its way out of another thread may still hold the context.
        while ((e = q.contextFree(context, nullptr)) == QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED) {
        }
        wrong += e != 0;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK_EQ(wrong.load(), 0);
}

}  // namespace

CHECK_MAIN("binary_api_test")
