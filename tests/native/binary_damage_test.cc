// Context binaries that are damaged, with checksums that fit and without: everything is an error,
// and nothing that is read is read from outside.
#include "binary_samples.h"

using namespace binary_test;

namespace {

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

// Of a backend whose memory is the client's, which reads its graphs when they are prepared.
TEST(DamagedWeightsAreFoundInPoolsToo) {
  Sample one("one", true), two("two", true);
  const Bytes sound = Written({&one.graph(), &two.graph()});
  CHECK_OK(LoadAndRunInPools(sound.data(), sound.size(), false));
  Result<BinaryView> view = BinaryView::Open(sound.data(), sound.size());
  REQUIRE(view.ok());
  for (const BinaryGraph& graph : view->graphs()) {
    for (uint64_t at : {uint64_t{0}, graph.weights_size / 2, graph.weights_size - 1}) {
      Bytes bytes = sound;
      bytes[graph.weights_offset + at] ^= 0x10;
      const Status status = LoadAndRunInPools(bytes.data(), bytes.size(), false);
      CHECK_EQ(status.code(), QNN_CONTEXT_ERROR_CREATE_FROM_BINARY);
      CHECK(status.message().find("graph '" + graph.name + "'") != std::string::npos);
    }
  }
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
  const std::string folder = "build/fuzz/corpus";  // run.py unpacks it
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

CHECK_MAIN("binary_damage_test")
