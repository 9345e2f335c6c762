// Context binaries as files of unknown origin: what is sound comes back as it was, everything else
// is an error, and nothing that is read is read from outside.
#include <dirent.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "../fuzz/binary_harness.h"
#include "abi/qnn_errors.h"
#include "check.h"
#include "test_graph.h"

using namespace qnnrt;
using binary_harness::LoadAndRun;
using binary_harness::LoadAndRunInPools;
using binary_harness::Repair;

namespace {

using Bytes = std::vector<uint8_t>;

// The corpus was made with the plainest kernels, which every machine has.
const int kPlainKernels = setenv("QNNRT_ISA", "base", 0);

// y = relu(conv(x) + r), z = x picked by constant indices, s = reshape(softmax(matmul)): packed
// weights, data that is read in place, post ops with an operand, aliases.
class Sample : public TestGraph {
 public:
  explicit Sample(const std::string& name, bool portable, float scale = 0.1f)
      : TestGraph(name, portable, 1) {
    const Tensor* x = Add("x", QNN_TENSOR_TYPE_APP_WRITE, {1, 8, 8, 4});
    const Tensor* r = Add("r", QNN_TENSOR_TYPE_APP_WRITE, {1, 8, 8, 8});
    const Tensor* weight = Static("weight", {3, 3, 4, 8}, scale);
    const Tensor* bias = Static("bias", {8}, 1);
    const Tensor* c = Add("c", QNN_TENSOR_TYPE_NATIVE, {1, 8, 8, 8});
    const Tensor* sum = Add("sum", QNN_TENSOR_TYPE_NATIVE, {1, 8, 8, 8});
    const Tensor* y = Add("y", QNN_TENSOR_TYPE_APP_READ, {1, 8, 8, 8});
    CHECK_OK(Op("Conv2d", {x, weight, bias}, {c},
                {Words("stride", {1, 1}), Words("pad_amount", {1, 1, 1, 1}, {2, 2})}));
    CHECK_OK(Op("ElementWiseAdd", {c, r}, {sum}));
    CHECK_OK(Op("Relu", {sum}, {y}));
    const Tensor* rows = Add("rows", QNN_TENSOR_TYPE_NATIVE, {64, 8});
    const Tensor* table = Static("table", {8, 16}, scale);
    const Tensor* product = Add("product", QNN_TENSOR_TYPE_NATIVE, {64, 16});
    const Tensor* soft = Add("soft", QNN_TENSOR_TYPE_NATIVE, {64, 16});
    const Tensor* s = Add("s", QNN_TENSOR_TYPE_APP_READ, {8, 128});
    CHECK_OK(Op("Reshape", {y}, {rows}));
    CHECK_OK(Op("MatMul", {rows, table}, {product}));
    CHECK_OK(Op("Softmax", {product}, {soft}));
    CHECK_OK(Op("Reshape", {soft}, {s}));
    const uint32_t picked[] = {3, 0, 7};
    const Tensor* indices = Add("indices", QNN_TENSOR_TYPE_STATIC, {3}, QNN_DATATYPE_UINT_32,
                                AlignedBytes::Copy(picked, sizeof picked));
    const Tensor* z = Add("z", QNN_TENSOR_TYPE_APP_READ, {1, 3, 8, 4});
    CHECK_OK(Op("Gather", {x, indices}, {z}, {{"axis", int64_t{1}}}));
    CHECK_OK(graph().Finalize(nullptr));
  }

 private:
  const Tensor* Add(const char* name, Qnn_TensorType_t type, const Shape& shape,
                    Qnn_DataType_t dtype = QNN_DATATYPE_FLOAT_32,
                    std::shared_ptr<AlignedBytes> data = nullptr) {
    Tensor t;
    t.name = name;
    t.type = type;
    t.dtype = dtype;
    t.shape = shape;
    t.data = std::move(data);
    if (t.name == "r") t.mem_type = QNN_TENSORMEMTYPE_MEMHANDLE;
    if (t.name == "x") {
      t.quantization.defined = true;
      t.quantization.encoding = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET;
      t.quantization.scales = {0.5f};
      t.quantization.offsets = {-3};
    }
    return TestGraph::Add(std::move(t));
  }
  const Tensor* Static(const char* name, const Shape& shape, float scale) {
    std::vector<float> values(ElementCount(shape));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = scale * static_cast<float>(static_cast<int>(i * 37 % 19) - 9);
    return Add(name, QNN_TENSOR_TYPE_STATIC, shape, QNN_DATATYPE_FLOAT_32,
               AlignedBytes::Copy(values.data(), values.size() * sizeof(float)));
  }
};

Quantization Encoded(Qnn_QuantizationEncoding_t encoding, std::vector<float> scales,
                     int32_t offset = 0, int32_t axis = -1, uint32_t bitwidth = 0,
                     std::vector<uint32_t> block = {}) {
  std::vector<int32_t> offsets(scales.size(), offset);
  return {true, encoding, axis, bitwidth, std::move(scales), std::move(offsets), std::move(block)};
}

// y = conv(x) with weights of some encoding, d = dequantize(c) of scales along an axis.
class FixedSample : public TestGraph {
 public:
  explicit FixedSample(Quantization weights) : TestGraph("fixed", true, 1) {
    constexpr auto kIn = QNN_TENSOR_TYPE_APP_WRITE, kOut = QNN_TENSOR_TYPE_APP_READ,
                   kStatic = QNN_TENSOR_TYPE_STATIC;
    constexpr auto kPlain = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET;
    const Tensor* x =
        Add("x", kIn, QNN_DATATYPE_UFIXED_POINT_8, {1, 2, 2, 4}, Encoded(kPlain, {0.1f}, -128));
    const Tensor* w =
        Add("w", kStatic, QNN_DATATYPE_SFIXED_POINT_8, {1, 1, 4, 2}, std::move(weights));
    const Tensor* y = Add("y", kOut, QNN_DATATYPE_UFIXED_POINT_16, {1, 2, 2, 2},
                          Encoded(kPlain, {1e-4f}, -30000));
    CHECK_OK(Op("Conv2d", {x, w}, {y},
                {Words("stride", {1, 1}), Words("pad_amount", {0, 0, 0, 0}, {2, 2})}));
    const Tensor* c =
        Add("c", kIn, QNN_DATATYPE_SFIXED_POINT_8, {2, 3},
            Encoded(QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET, {1, 2, 3}, 5, 1, 4));
    CHECK_OK(Op("Dequantize", {c}, {Add("d", kOut, QNN_DATATYPE_FLOAT_32, {2, 3}, {})}));
    CHECK_OK(graph().Finalize(nullptr));
  }

 private:
  const Tensor* Add(const char* name, Qnn_TensorType_t type, Qnn_DataType_t dtype, Shape shape,
                    Quantization quantization) {
    Tensor t;
    t.name = name;
    t.type = type;
    t.dtype = dtype;
    t.shape = std::move(shape);
    t.quantization = std::move(quantization);
    if (type == QNN_TENSOR_TYPE_STATIC) {
      t.data = AlignedBytes::Make(t.bytes());
      std::memset(t.data->data(), 3, t.bytes());
    }
    return TestGraph::Add(std::move(t));
  }
};

// One for each encoding of weights.
std::vector<Quantization> WeightEncodings() {
  return {
      Encoded(QNN_QUANTIZATION_ENCODING_SCALE_OFFSET, {0.5f}),
      Encoded(QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET, {0.5f, 0.25f}, 0, 3),
      Encoded(QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET, {0.5f}, -2, -1, 4),
      Encoded(QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET, {0.5f, 0.25f}, 0, 3, 4),
      Encoded(QNN_QUANTIZATION_ENCODING_BLOCK, {1, 2, 3, 4}, 0, -1, 0, {1, 1, 2, 1}),
      Encoded(QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION, {1, 2, 3, 4}, 0, -1, 4, {1, 1, 2, 1})};
}

Bytes Written(const std::vector<const Graph*>& graphs) {
  BinaryWriter writer({6, {2, 40, 0}, {5, 43, 0}}, graphs);
  Bytes bytes(writer.size(), 0xEE);
  writer.Write(bytes.data());
  return bytes;
}

Bytes SampleBinary() {
  Sample sample("sample", true);
  return Written({&sample.graph()});
}

// What a graph makes of a ramp.
std::vector<std::vector<float>> Results(Graph* graph, Status* status) {
  std::vector<std::vector<float>> memory, results;
  std::vector<Qnn_Tensor_t> in, out;
  for (const auto* tensors : {&graph->inputs(), &graph->outputs()}) {
    for (const Tensor* t : *tensors) {
      memory.emplace_back(t->elements());
      for (size_t i = 0; i < memory.back().size(); ++i)
        memory.back()[i] = static_cast<float>(i % 23) * 0.25f - 2;
      Qnn_Tensor_t raw;
      std::memset(&raw, 0, sizeof raw);
      raw.version = QNN_TENSOR_VERSION_1;
      raw.v1.id = t->id;
      raw.v1.dataType = t->dtype;
      raw.v1.rank = static_cast<uint32_t>(t->shape.size());
      raw.v1.dimensions = const_cast<uint32_t*>(t->shape.data());
      raw.v1.clientBuf = {memory.back().data(), static_cast<uint32_t>(t->bytes())};
      (t->is_input() ? in : out).push_back(raw);
    }
  }
  *status = graph->Execute(in.data(), static_cast<uint32_t>(in.size()), out.data(),
                           static_cast<uint32_t>(out.size()), {});
  results.assign(memory.begin() + static_cast<ptrdiff_t>(in.size()), memory.end());
  return results;
}

// A graph of a binary; the binary stays as long as `bytes` does.
std::unique_ptr<Graph> Loaded(const BinaryView& view, size_t number, Status* status) {
  const BinaryGraph& described = view.graphs()[number];
  auto graph = std::make_unique<Graph>(described.name, 1, GraphOptions());
  LoadOptions load;
  load.weights = view.data() + described.weights_offset;
  *status = graph->Declare(described);
  if (status->ok()) *status = graph->Load(view, described, load);
  return graph;
}

ErrorCode Run(const Bytes& bytes, bool trusted) {
  return LoadAndRun(bytes.data(), bytes.size(), trusted).code();
}

TEST(ABinaryHoldsTheGraphAsItWasFinalized) {
  for (bool portable : {true, false}) {
    Sample one("one", portable), two("two", portable, 0.2f);
    const Bytes bytes = Written({&one.graph(), &two.graph()});
    CHECK(bytes == Written({&one.graph(), &two.graph()}));
    const std::string text(bytes.begin(), bytes.end());
    CHECK(text.find("pad_amount") != std::string::npos);     // what the client gave
    CHECK(text.find("transpose_in0") == std::string::npos);  // a default of the library
    auto memory = AlignedBytes::Copy(bytes.data(), bytes.size());
    Result<BinaryView> view = BinaryView::Open(memory->data(), bytes.size());
    REQUIRE(view.ok());
    CHECK_EQ(view->graphs().size(), 2u);
    std::vector<std::unique_ptr<Graph>> loaded;
    for (size_t i = 0; i < 2; ++i) {
      Graph& before = (i == 0 ? one : two).graph();
      Status status;
      loaded.push_back(Loaded(*view, i, &status));
      if (!CHECK_OK(status)) continue;
      Graph& after = *loaded.back();
      CHECK_EQ(after.name(), before.name());
      CHECK_EQ(after.plan()->steps().size(), before.plan()->steps().size());
      CHECK_EQ(after.plan()->arena().peak, before.plan()->arena().peak);
      CHECK_EQ(after.plan()->weight_bytes(), before.plan()->weight_bytes());
      CHECK_EQ(after.Describe(), before.Describe());
      Status ran;
      const auto expected = Results(&before, &ran);
      CHECK_OK(ran);
      const auto got = Results(&after, &ran);
      CHECK_OK(ran);
      CHECK(got == expected);
    }
    CHECK(bytes == Written({loaded[0].get(), loaded[1].get()}));
  }
}

TEST(IoTensorsComeBackAsTheyWereDeclared) {
  const Bytes bytes = SampleBinary();
  Result<BinaryView> view = BinaryView::Open(bytes.data(), bytes.size());
  REQUIRE(view.ok());
  CHECK_EQ(view->header().backend_id, 6u);
  CHECK_EQ(view->header().core_api.minor, 40u);
  CHECK_EQ(view->header().size, bytes.size());
  const BinaryGraph* graph = view->Find("sample");
  REQUIRE(graph != nullptr);
  CHECK(view->Find("other") == nullptr);
  REQUIRE(graph->inputs.size() == 2 && graph->outputs.size() == 3);
  const Tensor &x = graph->inputs[0], &r = graph->inputs[1];
  CHECK_EQ(x.name, "x");
  CHECK_EQ(x.id, 1u);
  CHECK(x.shape == Shape({1, 8, 8, 4}));
  CHECK_EQ(x.mem_type, QNN_TENSORMEMTYPE_RAW);
  CHECK_EQ(r.mem_type, QNN_TENSORMEMTYPE_MEMHANDLE);
  CHECK(x.quantization.defined && !r.quantization.defined);
  CHECK_EQ(x.quantization.offsets[0], -3);
  CHECK_EQ(graph->outputs[0].name, "y");
}

TEST(EveryFlippedByteOfHeaderAndMetadataIsFound) {
  const Bytes sound = SampleBinary();
  Result<BinaryView> view = BinaryView::Open(sound.data(), sound.size());
  REQUIRE(view.ok());
  const uint64_t end = view->header().weights_offset;
  for (uint64_t at = 0; at < end; ++at) {
    for (uint8_t mask : {0x01, 0x80, 0xFF}) {
      Bytes bytes = sound;
      bytes[at] ^= mask;
      const Status status = BinaryView::Open(bytes.data(), bytes.size()).status();
      if (status.code() != QNN_CONTEXT_ERROR_CREATE_FROM_BINARY &&
          status.code() != QNN_CONTEXT_ERROR_BINARY_VERSION) {
        CHECK_EQ(status.code(), QNN_CONTEXT_ERROR_CREATE_FROM_BINARY);
        std::fprintf(stderr, "  byte %zu, mask %u\n", static_cast<size_t>(at), mask);
      }
    }
  }
  CHECK_EQ(end % kBinaryPageAlignment, 0u);
}

TEST(EveryTruncationIsFound) {
  const Bytes sound = SampleBinary();
  for (size_t size = 0; size < sound.size(); ++size) {
    // Exactly so long, that an access behind it is seen by the sanitizer.
    const Bytes bytes(sound.begin(), sound.begin() + static_cast<ptrdiff_t>(size));
    const Status status =
        BinaryView::Open(bytes.data() == nullptr ? sound.data() : bytes.data(), bytes.size())
            .status();
    if (status.code() != QNN_CONTEXT_ERROR_CREATE_FROM_BINARY)
      CHECK_EQ(status.code(), QNN_CONTEXT_ERROR_CREATE_FROM_BINARY);
  }
  Bytes longer = sound;
  longer.push_back(0);
  CHECK_EQ(BinaryView::Open(longer.data(), longer.size()).status().code(),
           QNN_CONTEXT_ERROR_CREATE_FROM_BINARY);
  CHECK_EQ(BinaryView::Open(nullptr, 0).status().code(), QNN_CONTEXT_ERROR_INVALID_ARGUMENT);
}

TEST(EveryFlippedByteOfTheWeightsIsFoundBeforeTheFirstExecution) {
  const Bytes sound = SampleBinary();
  Result<BinaryView> intact = BinaryView::Open(sound.data(), sound.size());
  REQUIRE(intact.ok());
  for (uint64_t at = intact->header().weights_offset; at < sound.size(); at += 61) {
    auto memory = AlignedBytes::Copy(sound.data(), sound.size());
    static_cast<uint8_t*>(memory->data())[at] ^= 0x10;
    Result<BinaryView> view = BinaryView::Open(memory->data(), sound.size());
    REQUIRE(view.ok());  // loading does not read weights
    Status status;
    std::unique_ptr<Graph> graph = Loaded(*view, 0, &status);
    // But for constants that say what a graph does: those are looked at.
    if (status.code() == QNN_CONTEXT_ERROR_CREATE_FROM_BINARY) continue;
    if (!CHECK_OK(status)) continue;
    for (int again = 0; again < 2; ++again) {
      Results(graph.get(), &status);
      CHECK_EQ(status.code(), QNN_CONTEXT_ERROR_CREATE_FROM_BINARY);
      CHECK(status.message().find("graph 'sample'") != std::string::npos);
    }
  }
}

TEST(AnErrorSaysWhatIsWrong) {
  const Bytes sound = SampleBinary();
  const auto message = [](const Bytes& bytes) {
    return BinaryView::Open(bytes.data(), bytes.size()).status().message();
  };
  const auto says = [](const std::string& message, const char* text) {
    if (!CHECK(message.find(text) != std::string::npos))
      std::fprintf(stderr, "  '%s' does not say '%s'\n", message.c_str(), text);
  };
  says(message(Bytes(64, 0x42)), "no context binary of qnnrt");
  says(message(Bytes(64, 0x42)), "42 42 42");
  Bytes bytes = sound;
  bytes[BinaryHeaderAt::kFormat] = 9;
  says(message(bytes), "format 9");
  CHECK_EQ(BinaryView::Open(bytes.data(), bytes.size()).status().code(),
           QNN_CONTEXT_ERROR_BINARY_VERSION);
  bytes = sound;
  bytes.resize(bytes.size() / 2);
  says(message(bytes), "truncated");
  bytes = sound;
  bytes[300] ^= 1;
  says(message(bytes), "metadata does not have its checksum");
}

// Places in the arena that do not hold are found anew: no tensor is written over another.
TEST(PlacesInTheArenaAreTakenOnlyWhenTheyHold) {
  Sample sample("sample", true);
  const Bytes sound = Written({&sample.graph()});
  const ArenaPlan& arena = sample.graph().plan()->arena();
  ByteWriter out;
  out.Put(arena.peak);
  out.Put(arena.lower_bound);
  out.Put(arena.sum);
  const Bytes head = out.Take();
  const auto found = std::search(sound.begin(), sound.end(), head.begin(), head.end());
  REQUIRE(found != sound.end() && arena.peak > 64);
  const size_t at =
      static_cast<size_t>(found - sound.begin()) + head.size() + 4 + std::strlen(arena.order) + 4;
  Status status;
  const auto expected = Results(&sample.graph(), &status);
  for (uint64_t offset : {uint64_t{0}, arena.peak, uint64_t{8}, ~uint64_t{0} - 63}) {
    Bytes bytes = sound;
    for (size_t i = 0; i < arena.offsets.size(); ++i)
      std::memcpy(&bytes[at + 8 * i], &offset, sizeof offset);
    Repair(&bytes);
    auto memory = AlignedBytes::Copy(bytes.data(), bytes.size());
    Result<BinaryView> view = BinaryView::Open(memory->data(), bytes.size());
    REQUIRE(view.ok());
    std::unique_ptr<Graph> graph = Loaded(*view, 0, &status);
    if (!CHECK_OK(status)) continue;
    CHECK(graph->plan()->arena().offsets == arena.offsets);  // the planner's own
    CHECK(Results(graph.get(), &status) == expected);
    CHECK_OK(status);
  }
}

// Weights for tiles of another width, as another machine packs them.
TEST(WeightsForOtherKernelsAreRefused) {
  Bytes bytes = SampleBinary();
  const std::string panels = " in panels of ";
  auto at = std::search(bytes.begin(), bytes.end(), panels.begin(), panels.end());
  REQUIRE(at != bytes.end());
  at[static_cast<ptrdiff_t>(panels.size())] = '9';
  Repair(&bytes);
  const Status status = LoadAndRun(bytes.data(), bytes.size(), true);
  CHECK_EQ(status.code(), QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES);
  CHECK(status.message().find("prepared for other kernels") != std::string::npos);
  CHECK(status.message().find("panels of 9") != std::string::npos);
}

// Edits that the checksums do not stop, since they are made to fit again.
TEST(EditsWithFittingChecksumsNeverDoHarm) {
  const char* given = std::getenv("QNNRT_SEED");
  const uint32_t first =
      given == nullptr ? 1 : static_cast<uint32_t>(std::strtoul(given, nullptr, 10));
  const uint32_t count = given == nullptr ? 4000 : 1;
  const Bytes sound = SampleBinary();
  const uint32_t metadata_end = 3072;  // what is behind is padding
  std::map<ErrorCode, int> seen;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    if ((seed - first) % 1000 == 0)
      std::printf("  seeds %u to %u (QNNRT_SEED=N runs one)\n", seed,
                  std::min(seed + 999, first + count - 1));
    std::mt19937 random(seed);
    Bytes bytes = sound;
    const int edits = static_cast<int>(random() % 8) + 1;
    for (int i = 0; i < edits; ++i) {
      const size_t at = kBinaryHeaderSize + random() % metadata_end;
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<uint8_t>(random());
          break;
        case 1:
          bytes[at] ^= static_cast<uint8_t>(1u << random() % 8);
          break;
        case 2: {
          const uint32_t values[] = {0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x10000, 255};
          std::memcpy(&bytes[at], &values[random() % 7], 4);
          break;
        }
        default: {
          const size_t from = kBinaryHeaderSize + random() % metadata_end;
          std::memmove(&bytes[at], &bytes[from], random() % 64);
        }
      }
    }
    if (random() % 4 == 0) bytes[sound.size() - 1 - random() % 4096] ^= 0xFF;
    Repair(&bytes);
    ++seen[Run(bytes, true)];
  }
  for (const auto& entry : seen) std::printf("  code %u: %d times\n", entry.first, entry.second);
  if (given == nullptr) {
    CHECK(seen[0] > 0);  // some edits change nothing that counts
    CHECK(seen[QNN_CONTEXT_ERROR_CREATE_FROM_BINARY] > 100);  // most are found
  } else {
    CHECK(!seen.empty());
  }
}

// Each byte of the metadata replaced, checksums made to fit: encodings that mean nothing are found
// before anything reads by them.
TEST(EveryByteOfFixedPointMetadataMayBeWrong) {
  for (const Quantization& weights : WeightEncodings()) {
    FixedSample sample(weights);
    const Bytes sound = Written({&sample.graph()});
    CHECK_EQ(Run(sound, false), 0u);
    size_t end = kBinaryPageAlignment;  // of what is not padding
    while (sound[end - 1] == 0) --end;
    std::map<ErrorCode, int> seen;
    for (size_t at = kBinaryHeaderSize; at < end; ++at) {
      for (const uint8_t value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
        if (sound[at] == value) continue;
        Bytes bytes = sound;
        bytes[at] = value;
        Repair(&bytes);
        ++seen[Run(bytes, true)];
      }
    }
    for (const auto& entry : seen) std::printf("  code %u: %d times\n", entry.first, entry.second);
    CHECK(seen[0] > 0);
    CHECK(seen[QNN_CONTEXT_ERROR_CREATE_FROM_BINARY] > 500);
  }
}

TEST(EncodingsComeBackAsTheyWereWritten) {
  for (const Quantization& weights : WeightEncodings()) {
    FixedSample sample(weights);
    const Bytes bytes = Written({&sample.graph()});
    Result<BinaryView> view = BinaryView::Open(bytes.data(), bytes.size());
    REQUIRE(view.ok());
    Status status;
    const std::unique_ptr<Graph> graph = Loaded(*view, 0, &status);
    CHECK_OK(std::move(status));
    const Tensor* found = nullptr;
    for (const Node& node : graph->plan()->nodes()) {
      if (node.type == "Conv2d") found = node.inputs[1];
    }
    REQUIRE(found != nullptr);
    const Quantization& q = found->quantization;
    CHECK_EQ(q.encoding, weights.encoding);
    CHECK_EQ(q.axis, weights.axis);
    CHECK_EQ(q.bitwidth, weights.bitwidth);
    CHECK(q.scales == weights.scales && q.offsets == weights.offsets && q.block == weights.block);
  }
}

// Else a binary of a few kilobytes would take as many times its size as it has graphs.
TEST(GraphsHaveTheirPartsForThemselves) {
  Sample one("one", true), two("two", true);
  const Bytes sound = Written({&one.graph(), &two.graph()});
  Result<BinaryView> view = BinaryView::Open(sound.data(), sound.size());
  REQUIRE(view.ok());
  const BinaryGraph &first = view->graphs()[0], &second = view->graphs()[1];
  for (const auto& [from, to] : {std::pair(second.nodes_offset, first.nodes_offset),
                                 std::pair(second.weights_offset, first.weights_offset)}) {
    Bytes bytes = sound;
    // The field of the second graph that says where its part begins.
    const auto field = std::search(bytes.begin() + kBinaryHeaderSize, bytes.end(),
                                   reinterpret_cast<const uint8_t*>(&from),
                                   reinterpret_cast<const uint8_t*>(&from + 1));
    REQUIRE(field != bytes.end());
    std::memcpy(&*field, &to, sizeof to);
    Repair(&bytes);
    const Status status = BinaryView::Open(bytes.data(), bytes.size()).status();
    CHECK_EQ(status.code(), QNN_CONTEXT_ERROR_CREATE_FROM_BINARY);
    CHECK(status.message().find("'two' shares") != std::string::npos);
  }
}

TEST(TheFuzzersCorpusNeverDoesHarm) {
  const std::string folder = "tests/fuzz/corpus";
  DIR* dir = opendir(folder.c_str());
  REQUIRE(dir != nullptr);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] != '.') names.push_back(entry->d_name);
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  std::map<ErrorCode, int> seen, in_pools;
  for (const std::string& name : names) {
    FILE* file = std::fopen((folder + "/" + name).c_str(), "rb");
    if (!CHECK(file != nullptr)) continue;
    Bytes bytes(size_t{1} << 20);
    bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file));
    std::fclose(file);
    ++seen[Run(bytes, false)];
    Repair(&bytes);
    ++seen[Run(bytes, true)];
    ++in_pools[LoadAndRunInPools(bytes.data(), bytes.size(), true).code()];
  }
  for (const auto& entry : seen) std::printf("  code %u: %d times\n", entry.first, entry.second);
  CHECK(names.size() > 50);
  CHECK(seen[0] > 0);
  CHECK(in_pools[0] > 0);
}

}  // namespace

CHECK_MAIN("binary_test")
