// Context binaries: what is sound comes back as it was, and what does not fit this machine is
// refused.
#include "binary_samples.h"

using namespace binary_test;

namespace {

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
  says(message(Bytes(64, 0x42)), "(64 bytes that begin with 42 42 42 42 42 42 42 42)");
  says(message(Bytes(3, 0x42)), "(3 bytes that begin with 42 42 42)");
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

TEST(AFileIsOursWhenItBeginsWithTheWholeMagicNumber) {
  const Bytes sound(kBinaryMagic, kBinaryMagic + sizeof kBinaryMagic);
  CHECK(BinaryView::HasMagic(sound.data(), sound.size()));
  CHECK(!BinaryView::HasMagic(sound.data(), sound.size() - 1));
  CHECK(!BinaryView::HasMagic(nullptr, sound.size()));
  CHECK(!BinaryView::HasMagic(nullptr, 0));
  for (size_t i = 0; i < sound.size(); ++i) {
    Bytes other = sound;
    other[i] ^= 0x20;
    CHECK(!BinaryView::HasMagic(other.data(), other.size()));
  }
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

// A plan that holds is taken as it was written: planning again could take its whole time.
TEST(PlacesInTheArenaThatHoldAreTaken) {
  Sample sample("sample", true);
  Bytes bytes = Written({&sample.graph()});
  ArenaPlan arena = sample.graph().plan()->arena();
  const auto fields = [&] {
    ByteWriter out;
    out.Put(arena.peak);
    out.Put(arena.lower_bound);
    out.Put(arena.sum);
    out.Text(arena.order);
    out.Put(static_cast<uint32_t>(arena.offsets.size()));
    for (uint64_t offset : arena.offsets) out.Put(offset);
    return out.Take();
  };
  const Bytes before = fields();
  const auto found = std::search(bytes.begin(), bytes.end(), before.begin(), before.end());
  REQUIRE(found != bytes.end() && !arena.offsets.empty());
  // All of it 64 bytes higher, which no planner does.
  arena.peak += 64;
  for (uint64_t& offset : arena.offsets) offset += 64;
  const Bytes after = fields();
  std::copy(after.begin(), after.end(), found);
  Repair(&bytes);
  auto memory = AlignedBytes::Copy(bytes.data(), bytes.size());
  Result<BinaryView> view = BinaryView::Open(memory->data(), bytes.size());
  REQUIRE(view.ok());
  Status status;
  std::unique_ptr<Graph> graph = Loaded(*view, 0, &status);
  REQUIRE(CHECK_OK(status));
  CHECK(graph->plan()->arena().offsets == arena.offsets);
  CHECK(Results(graph.get(), &status) == Results(&sample.graph(), &status));
}

TEST(PackedWeightsLieWithinTheWeights) {
  Sample sample("sample", true);
  const Bytes sound = Written({&sample.graph()});
  auto view = BinaryView::Open(sound.data(), sound.size());
  REQUIRE(view.ok() && !sample.graph().plan()->packed().empty());
  const uint64_t all = view->graphs()[0].weights_size;
  const PackedWeight& packed = sample.graph().plan()->packed()[0];
  const auto found =
      std::search(sound.begin(), sound.end(), packed.layout.begin(), packed.layout.end());
  REQUIRE(found != sound.end());
  const size_t at = static_cast<size_t>(found - sound.begin()) + packed.layout.size();
  const struct {
    uint64_t offset, size;
  } outside[] = {{64, all}, {64, all - 63}, {all + 64, 0}, {all + 64, 64}, {0, all + 1}, {32, 64}};
  for (const auto& range : outside) {
    Bytes bytes = sound;
    std::memcpy(&bytes[at], &range.offset, 8);
    std::memcpy(&bytes[at + 8], &range.size, 8);
    Repair(&bytes);
    const Status status = LoadAndRun(bytes.data(), bytes.size(), true);
    if (!CHECK(status.message().find("lies outside of the weights") != std::string::npos))
      std::fprintf(stderr, "  %s\n", status.message().c_str());
  }
}

// Weights for tiles of another width, as another machine packs them.
TEST(WeightsForOtherKernelsAreRefused) {
  Bytes bytes = SampleBinary(false);
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

}  // namespace

CHECK_MAIN("binary_test")
