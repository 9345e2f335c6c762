// Context binaries whose fields are wrong one at a time, with checksums that fit: each is refused
// for what it is, and no check of the loader goes without a field that it refuses.
#include <set>

#include "binary_samples.h"
#include "ops/elementwise/activation.h"
#include "support/version.h"

using namespace binary_test;  // NOLINT(build/namespaces)
using At = BinaryHeaderAt;

namespace {

template <typename T>
T Field(const Bytes& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
template <typename T>
void Set(Bytes* bytes, size_t at, T value) {
  std::memcpy(bytes->data() + at, &value, sizeof value);
}
// Of metadata as long as it was, and of the header.
void Sum(Bytes* bytes, uint64_t metadata) {
  Set(bytes, At::kMetadataChecksum, Crc32c(bytes->data() + kBinaryHeaderSize, metadata));
  Set(bytes, At::kHeaderChecksum, Crc32c(bytes->data(), At::kHeaderChecksum));
}
void Sum(Bytes* bytes) { Sum(bytes, Field<uint64_t>(*bytes, At::kMetadataSize)); }

// Other values of a field: its neighbours, those of the alignments, the ends of its type.
template <typename T>
std::set<T> Others(T value) {
  std::set<T> found = {0, 1, static_cast<T>(~T{0}), static_cast<T>(~T{0} >> 1),
                       static_cast<T>((~T{0} >> 1) + 1)};
  for (T by : {1, 64, 4096}) {
    found.insert(static_cast<T>(value + by));
    found.insert(static_cast<T>(value - by));
  }
  found.erase(value);
  return found;
}

// Where the fields of the first graph lie that place its parts.
size_t PlacesOf(const Bytes& bytes) {
  return kBinaryHeaderSize + 4 + Field<uint32_t>(bytes, kBinaryHeaderSize) + 4 + 1 + 8;
}

TEST(every_field_that_places_something_has_one_value) {
  Sample one("one", true), two("two", true);
  const Bytes sound = Written({&one.graph(), &two.graph()});
  CHECK_EQ(Run(sound, false), 0u);
  const uint64_t metadata = Field<uint64_t>(sound, At::kMetadataSize);
  auto refused = [&](Bytes bytes, const std::string& what) {
    Sum(&bytes, metadata);
    const ErrorCode code = Run(bytes, false);
    const bool good =
        code == QNN_CONTEXT_ERROR_CREATE_FROM_BINARY || code == QNN_CONTEXT_ERROR_BINARY_VERSION;
    if (!CHECK(good)) std::fprintf(stderr, "  %s: code %u\n", what.c_str(), code);
  };
  const size_t wide[] = {At::kSize, At::kMetadataOffset, At::kMetadataSize, At::kWeightsOffset,
                         At::kWeightsSize};
  const size_t narrow[] = {At::kFormat, At::kHeaderSize, At::kNumGraphs, At::kFlags};
  for (size_t at : wide) {
    for (uint64_t value : Others(Field<uint64_t>(sound, at))) {
      Bytes bytes = sound;
      Set(&bytes, at, value);
      refused(bytes, "header field at " + std::to_string(at) + " = " + std::to_string(value));
    }
  }
  for (size_t at : narrow) {
    for (uint32_t value : Others(Field<uint32_t>(sound, at))) {
      if (at == At::kNumGraphs && value < 2) continue;  // the others are not looked for
      Bytes bytes = sound;
      Set(&bytes, at, value);
      refused(bytes, "header field at " + std::to_string(at) + " = " + std::to_string(value));
    }
  }
  // weights_offset, weights_size; after the checksum nodes_offset, nodes_size.
  const size_t places = PlacesOf(sound);
  for (size_t at : {places, places + 8, places + 20, places + 28}) {
    for (uint64_t value : Others(Field<uint64_t>(sound, at))) {
      Bytes bytes = sound;
      Set(&bytes, at, value);
      refused(bytes,
              "graph field at +" + std::to_string(at - places) + " = " + std::to_string(value));
    }
  }
  Bytes bytes = sound;
  Set(&bytes, places + 16, Field<uint32_t>(sound, places + 16) ^ 1);
  refused(bytes, "checksum of the weights");
  // Two parts that move together, beyond where parts may lie.
  for (int64_t by : {-4096, 4096}) {
    bytes = sound;
    Set(&bytes, At::kWeightsOffset, Field<uint64_t>(sound, At::kWeightsOffset) + by);
    Set(&bytes, At::kMetadataSize, metadata + by);
    Sum(&bytes, metadata);
    CHECK(BinaryView::Open(bytes.data(), bytes.size()).status().code() != 0);
  }
}

TEST(threads_are_from_1_to_1024) {
  Sample one("one", true);
  const Bytes sound = Written({&one.graph()});
  const size_t at = kBinaryHeaderSize + 4 + 3;
  CHECK_EQ(Field<uint32_t>(sound, at), 1u);
  for (uint32_t threads : {0u, 1u, 2u, 1023u, 1024u, 1025u, 0xFFFFFFFFu}) {
    Bytes bytes = sound;
    Set(&bytes, at, threads);
    Sum(&bytes);
    auto view = BinaryView::Open(bytes.data(), bytes.size());
    CHECK_EQ(view.ok(), threads >= 1 && threads <= 1024);
    if (view.ok()) CHECK_EQ(view->graphs()[0].threads, static_cast<int>(threads));
  }
}

TEST(a_loaded_graph_has_the_threads_that_were_written) {
  for (int threads : {1, 2, 3}) {
    Sample sample("sample", true, 0.1f, threads);
    const Bytes bytes = Written({&sample.graph()});
    auto view = BinaryView::Open(bytes.data(), bytes.size());
    REQUIRE(view.ok());
    Status status;
    std::unique_ptr<Graph> graph = Loaded(*view, 0, &status);
    REQUIRE(CHECK_OK(status));
    CHECK_EQ(graph->options().threads, threads);
    CHECK_EQ(graph->plan()->threads(), threads);
    CHECK(graph->options().portable_only);
  }
}

// y = relu(x + w) of 8-bit numbers, as one node.
class ClampedSample : public TestGraph {
 public:
  ClampedSample() : TestGraph("clamped", true, 1) {
    const Tensor* x = Add("x", QNN_TENSOR_TYPE_APP_WRITE);
    const Tensor* w = Add("w", QNN_TENSOR_TYPE_APP_WRITE);
    const Tensor* sum = Add("sum", QNN_TENSOR_TYPE_NATIVE);
    CHECK_OK(Op("ElementWiseAdd", {x, w}, {sum}));
    CHECK_OK(Op("Relu", {sum}, {Add("y", QNN_TENSOR_TYPE_APP_READ)}));
    CHECK_OK(graph().Finalize(nullptr));
  }

 private:
  const Tensor* Add(const char* name, Qnn_TensorType_t type) {
    Tensor t;
    t.name = name;
    t.type = type;
    t.dtype = QNN_DATATYPE_UFIXED_POINT_8;
    t.shape = {2, 8};
    t.quantization = Encoded(QNN_QUANTIZATION_ENCODING_SCALE_OFFSET, {0.5f}, -100);
    return TestGraph::Add(std::move(t));
  }
};

TEST(a_fixed_point_node_takes_no_post_op_but_a_clamp) {
  ClampedSample sample;
  const Bytes sound = Written({&sample.graph()});
  CHECK_EQ(Run(sound, false), 0u);
  const auto& nodes = sample.graph().plan()->nodes();
  REQUIRE(nodes.size() == 1 && nodes[0].post_ops.size() == 1);
  const PostOp& op = nodes[0].post_ops[0];
  // How many there are, then the fields of the only one.
  ByteWriter fields;
  fields.Put(uint32_t{1});
  fields.Put(static_cast<uint8_t>(op.kind));
  fields.Put(static_cast<uint8_t>(op.activation));
  fields.Put(op.alpha);
  fields.Put(op.beta);
  fields.Put(op.input);
  const Bytes pattern = fields.Take();
  const auto found =
      std::search(sound.begin() + kBinaryHeaderSize, sound.end(), pattern.begin(), pattern.end());
  REQUIRE(found != sound.end());
  const auto at = static_cast<size_t>(found - sound.begin());
  int taken = 0, refused = 0;
  for (uint8_t a = 0; a <= static_cast<uint8_t>(kLastActivation); ++a) {
    const auto& def = DefOf(static_cast<Activation>(a));
    Bytes bytes = sound;
    bytes[at + 5] = a;
    Sum(&bytes);
    const Status status = LoadAndRun(bytes.data(), bytes.size(), false);
    const bool clamps = def.limits != nullptr && def.fuses;
    taken += clamps;
    refused += !clamps;
    const char* words = def.fuses ? "after fixed-point numbers" : "does not take";
    const bool good = clamps ? status.ok()
                             : status.code() == QNN_CONTEXT_ERROR_CREATE_FROM_BINARY &&
                                   status.message().find(words) != std::string::npos;
    if (!CHECK(good)) std::fprintf(stderr, "  %s: %s\n", def.name, status.message().c_str());
  }
  CHECK(taken >= 3 && refused >= 3);
}

// y = x @ a @ b, of one shape, without the constants.
class TwoProducts : public TestGraph {
 public:
  TwoProducts() : TestGraph("products", true, 1) {
    GraphOptions options = graph().options();
    options.keep_constants = false;
    graph().set_options(options);
    const Tensor* x = Add("x", QNN_TENSOR_TYPE_APP_WRITE, 0);
    const Tensor* between = Add("between", QNN_TENSOR_TYPE_NATIVE, 0);
    CHECK_OK(Op("MatMul", {x, Add("a", QNN_TENSOR_TYPE_STATIC, 3)}, {between}));
    CHECK_OK(Op("MatMul", {between, Add("b", QNN_TENSOR_TYPE_STATIC, 5)},
                {Add("y", QNN_TENSOR_TYPE_APP_READ, 0)}));
    CHECK_OK(graph().Finalize(nullptr));
  }

 private:
  const Tensor* Add(const char* name, Qnn_TensorType_t type, int seed) {
    Tensor t;
    t.name = name;
    t.type = type;
    t.dtype = QNN_DATATYPE_FLOAT_32;
    t.shape = {16, 16};
    if (type == QNN_TENSOR_TYPE_STATIC) {
      t.data = AlignedBytes::Make(t.bytes());
      for (int i = 0; i < 256; ++i)
        static_cast<float*>(t.data->data())[i] = static_cast<float>(i * seed % 17 - 8) * 0.1f;
    }
    return TestGraph::Add(std::move(t));
  }
};

// Records of the packed weights: node, input, layout, offset, size.
struct PackedRecord {
  size_t at, bytes;
};
std::vector<PackedRecord> PackedRecords(const Bytes& bytes, const Plan& plan) {
  std::vector<PackedRecord> found;
  auto from = bytes.begin() + kBinaryHeaderSize;
  for (const PackedWeight& packed : plan.packed()) {
    ByteWriter fields;
    fields.Put(packed.node);
    fields.Put(packed.input);
    fields.Text(packed.layout);
    const Bytes pattern = fields.Take();
    from = std::search(from, bytes.end(), pattern.begin(), pattern.end());
    if (!CHECK(from != bytes.end())) return {};
    found.push_back({static_cast<size_t>(from - bytes.begin()), pattern.size() + 16});
  }
  return found;
}

TEST(packed_weights_go_to_their_nodes_in_any_order) {
  TwoProducts products;
  const Bytes sound = Written({&products.graph()});
  Status status;
  const auto wanted = Results(&products.graph(), &status);
  CHECK_OK(status);
  const std::vector<PackedRecord> records = PackedRecords(sound, *products.graph().plan());
  REQUIRE(records.size() == 2 && records[0].bytes == records[1].bytes);
  REQUIRE(CHECK_EQ(records[1].at, records[0].at + records[0].bytes));
  Bytes swapped = sound;
  std::rotate(swapped.begin() + static_cast<ptrdiff_t>(records[0].at),
              swapped.begin() + static_cast<ptrdiff_t>(records[1].at),
              swapped.begin() + static_cast<ptrdiff_t>(records[1].at + records[1].bytes));
  CHECK(swapped != sound);
  Sum(&swapped);
  auto view = BinaryView::Open(swapped.data(), swapped.size());
  REQUIRE(view.ok());
  std::unique_ptr<Graph> graph = Loaded(*view, 0, &status);
  REQUIRE(CHECK_OK(status));
  CHECK(Results(graph.get(), &status) == wanted);
  CHECK_OK(status);
}

TEST(packed_weights_of_no_node_or_input_are_refused) {
  TwoProducts products;
  const Bytes sound = Written({&products.graph()});
  const std::vector<PackedRecord> records = PackedRecords(sound, *products.graph().plan());
  REQUIRE(records.size() == 2);
  const auto other = QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES;
  const struct {
    size_t field;
    uint32_t value;
    ErrorCode code;
    const char* words;
  } cases[] = {{0, 2, QNN_CONTEXT_ERROR_CREATE_FROM_BINARY, "is for node 2, and there are 2"},
               {0, ~0u, QNN_CONTEXT_ERROR_CREATE_FROM_BINARY, "is for node 4294967295"},
               {0, 0, other, "none for input 1"},
               {4, 0, other, "none for input 1"},
               {4, ~0u, other, "none for input 1"}};
  for (const auto& c : cases) {
    Bytes bytes = sound;
    Set(&bytes, records[1].at + c.field, c.value);
    Sum(&bytes);
    const Status status = LoadAndRun(bytes.data(), bytes.size(), false);
    const bool good =
        status.code() == c.code && status.message().find(c.words) != std::string::npos;
    if (!CHECK(good)) {
      std::fprintf(stderr, "  field at +%zu = %u: %u %s\n", c.field, c.value,
                   static_cast<uint32_t>(status.code()), status.message().c_str());
    }
  }
}

TEST(an_input_has_an_id_a_name_and_its_type) {
  Sample one("one", true);
  const Bytes sound = Written({&one.graph()});
  // Number, name and type of the input x.
  ByteWriter fields;
  fields.Put(one.graph().inputs()[0]->id);
  fields.Text("x");
  fields.Put(static_cast<uint32_t>(QNN_TENSOR_TYPE_APP_WRITE));
  const Bytes pattern = fields.Take();
  const auto found =
      std::search(sound.begin() + kBinaryHeaderSize, sound.end(), pattern.begin(), pattern.end());
  REQUIRE(found != sound.end());
  const auto at = static_cast<size_t>(found - sound.begin());
  for (const auto& [place, value] :
       {std::pair(at, 0u), std::pair(at + 9, uint32_t{QNN_TENSOR_TYPE_NATIVE})}) {
    Bytes bytes = sound;
    Set(&bytes, place, value);
    Sum(&bytes);
    const Status status = BinaryView::Open(bytes.data(), bytes.size()).status();
    CHECK(status.message().find("'x' is no graph input or output") != std::string::npos);
  }
}

TEST(parts_that_lie_outside_are_refused_before_they_are_read) {
  Sample one("one", true), two("two", true);
  const Bytes sound = Written({&one.graph(), &two.graph()});
  const size_t places = PlacesOf(sound);
  const uint64_t end = sound.size(), begin = Field<uint64_t>(sound, At::kWeightsOffset);
  const uint64_t at = Field<uint64_t>(sound, places), nodes = Field<uint64_t>(sound, places + 20);
  const struct {
    size_t field;
    uint64_t value;
    const char* words;
  } cases[] = {{places, begin - 4096, "weights of graph 'one' lie outside"},
               {places, end + 4096, "weights of graph 'one' lie outside"},
               {places, at + 64, "weights of graph 'one' lie outside"},
               {places + 8, end - at + 4096, "weights of graph 'one' lie outside"},
               {places + 8, 64, "weights of graph 'one' lie outside"},
               {places + 20, kBinaryHeaderSize - 1, "nodes of graph 'one' lie outside"},
               {places + 20, begin + 1, "nodes of graph 'one' lie outside"},
               {places + 28, begin - nodes + 1, "nodes of graph 'one' lie outside"}};
  for (const auto& c : cases) {
    Bytes bytes = sound;
    Set(&bytes, c.field, c.value);
    Sum(&bytes);
    const Status status = BinaryView::Open(bytes.data(), bytes.size()).status();
    if (!CHECK(status.message().find(c.words) != std::string::npos)) {
      std::fprintf(stderr, "  field at +%zu: %s\n", c.field - places, status.message().c_str());
    }
  }
}

TEST(a_node_whose_op_takes_no_post_ops_has_none) {
  ClampedSample sample;
  Bytes bytes = Written({&sample.graph()});
  const std::string before = "ElementWiseAdd", after = "ElementWiseAnd";
  ByteWriter type;
  type.Text(before);
  const Bytes pattern = type.Take();
  const auto found = std::search(bytes.begin(), bytes.end(), pattern.begin(), pattern.end());
  REQUIRE(found != bytes.end());
  std::copy(after.begin(), after.end(), found + 4);
  Sum(&bytes);
  const Status status = LoadAndRun(bytes.data(), bytes.size(), false);
  CHECK_EQ(status.code(), QNN_CONTEXT_ERROR_CREATE_FROM_BINARY);
  if (!CHECK(status.message().find("takes no post ops") != std::string::npos))
    std::fprintf(stderr, "  %s\n", status.message().c_str());
}

TEST(a_node_that_the_backend_does_not_take_is_refused) {
  const Bytes bytes = SampleBinary();
  auto view = BinaryView::Open(bytes.data(), bytes.size());
  REQUIRE(view.ok());
  GraphHost host;
  host.admit = [](const Node& node) {
    return node.type == "Softmax" ? Status(1, "no softmax here") : Status::Ok();
  };
  const BinaryGraph& described = view->graphs()[0];
  Graph graph(described.name, 1, GraphOptions(), host);
  LoadOptions load;
  load.weights = view->data() + described.weights_offset;
  CHECK_OK(graph.Declare(described));
  const Status status = graph.Load(*view, described, load);
  CHECK_EQ(status.code(), QNN_CONTEXT_ERROR_BINARY_CONFIGURATION);
  CHECK(status.message().find("no softmax here") != std::string::npos);
  CHECK(status.message().find("graph 'sample' of the context binary") != std::string::npos);
}

TEST(the_header_says_what_was_written) {
  Sample one("one", true);
  const Bytes sound = Written({&one.graph()});
  auto view = BinaryView::Open(sound.data(), sound.size());
  REQUIRE(view.ok());
  const BinaryHeader& h = view->header();
  CHECK_EQ(h.format, kBinaryFormat);
  CHECK_EQ(h.size, uint64_t{sound.size()});
  CHECK_EQ(h.weights_offset, kBinaryHeaderSize + h.metadata_size);
  CHECK_EQ(h.weights_offset + h.weights_size, h.size);
  CHECK_EQ(h.backend_id, 6u);
  CHECK(h.core_api.major == 2 && h.core_api.minor == 40 && h.core_api.patch == 0);
  CHECK(h.backend_api.major == 5 && h.backend_api.minor == 43 && h.backend_api.patch == 0);
  CHECK_EQ(h.build_id, std::string(kBuildId));
  CHECK_EQ(h.kernels, KernelIdentity(true));
  const BinaryGraph* graph = view->Find("one");
  REQUIRE(graph != nullptr && view->Find("on") == nullptr && view->graphs().size() == 1);
  CHECK(graph->portable_only);
  CHECK_EQ(graph->arena_bytes, one.graph().plan()->arena().peak);
  CHECK_EQ(graph->weights_offset, h.weights_offset);
  CHECK_EQ(graph->weights_size, h.weights_size);
  CHECK_EQ(graph->nodes_offset + graph->nodes_size <= h.weights_offset, true);
  for (const auto& [found, wanted] : {std::pair(&graph->inputs, &one.graph().inputs()),
                                      std::pair(&graph->outputs, &one.graph().outputs())}) {
    REQUIRE(found->size() == wanted->size());
    for (size_t i = 0; i < found->size(); ++i) {
      const Tensor &a = (*found)[i], &b = *(*wanted)[i];
      CHECK(a.name == b.name && a.id == b.id && a.type == b.type && a.dtype == b.dtype &&
            a.mem_type == b.mem_type && a.shape == b.shape);
      const Quantization &q = a.quantization, &r = b.quantization;
      CHECK(q.defined == r.defined && q.scales == r.scales && q.offsets == r.offsets &&
            q.axis == r.axis && q.bitwidth == r.bitwidth && q.block == r.block);
      if (q.defined) CHECK_EQ(q.encoding, r.encoding);
    }
  }
}

// The message without names and numbers.
std::string Plain(const std::string& message) {
  std::string out;
  bool quoted = false;
  for (char c : message) {
    if (c == '\'') quoted = !quoted;
    if (quoted || c == '\'' || (c >= '0' && c <= '9')) continue;
    out += c;
  }
  return out;
}

// Each byte replaced, and counts and enumerators by their neighbours: what the loader checks of
// graphs and nodes is refused with its own words.
TEST(every_complaint_about_a_field_has_a_field) {
  std::vector<Bytes> binaries = {SampleBinary(true), SampleBinary(false)};
  for (const Quantization& weights : WeightEncodings()) {
    FixedSample sample(weights);
    binaries.push_back(Written({&sample.graph()}));
  }
  std::map<std::string, int> said;
  for (const Bytes& sound : binaries) {
    const uint64_t metadata = Field<uint64_t>(sound, At::kMetadataSize);
    size_t end = kBinaryHeaderSize + metadata;
    while (sound[end - 1] == 0) --end;
    for (size_t at = kBinaryHeaderSize; at < end; ++at) {
      const uint8_t now = sound[at];
      const std::set<uint8_t> values = {0x00, 0xFF, static_cast<uint8_t>(now + 1),
                                        static_cast<uint8_t>(now - 1)};
      for (uint8_t value : values) {
        if (value == now) continue;
        Bytes bytes = sound;
        bytes[at] = value;
        Sum(&bytes, metadata);
        ++said[Plain(LoadAndRun(bytes.data(), bytes.size(), true).message())];
      }
    }
  }
  const char* const expected[] = {
      "is no graph input or output",
      "a graph without name or threads",
      "a tensor has no valid rank",
      "its list of graphs ends too soon",
      "its list of nodes ends too soon",
      "its list of packed weights ends too soon",
      "its list of tensors ends too soon",
      "its nodes do not end where they should",
      "no node writes the output",
      "of another shape or type",
      "adds what is not there",
      "has more inputs than its op takes",
      "before it is written",
      "reads no tensor",
      "takes no post ops",
      "writes what it may not write",
      "ends too soon",
      "has a quantization that its type does not take",
      "has no data",
      "has no valid quantization",
      "has no valid type",
      "is neither static nor an intermediate result",
      "is larger than this machine",
      "which this library does not know",
      "lies outside of the weights",
      "does not take",
      "are the same",
      "of the context binary is a",
      "was prepared for other kernels",
      "blocks of",
      "its bit width is",
      "names axis",
      "puts zero at",
  };
  for (const char* words : expected) {
    bool found = false;
    for (const auto& [message, count] : said) found |= message.find(words) != std::string::npos;
    if (!CHECK(found)) std::fprintf(stderr, "  nothing was refused with '%s'\n", words);
  }
  CHECK(said[""] > 1000);  // names, and values that may be others
}

}  // namespace

CHECK_MAIN("binary_fields_test")
