// The context binary: what a finalized context is on disk. docs/context-binary.md has the format
// byte by byte; io.h how its fields are read and written.
//
// A binary is untrusted input: every offset, size, count, enumerator and string is
// checked before it is used, and what is allocated is bounded by the size of the metadata.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/tensor.h"
#include "support/status.h"

namespace qnnrt {

inline constexpr uint32_t kBinaryFormat = 2;
inline constexpr uint32_t kBinaryFormatCommon = 3;  // with a part that several graphs read
inline constexpr uint64_t kBinaryHeaderSize = 256;
inline constexpr uint64_t kBinaryBlobAlignment = 64;    // of every weight blob in its section
inline constexpr uint64_t kBinaryPageAlignment = 4096;  // of every graph's weights in the binary

struct BinaryHeader {
  uint32_t format = kBinaryFormat;
  uint64_t size = 0;  // of the whole binary, header included
  uint64_t metadata_size = 0;
  uint64_t weights_offset = 0;  // from the start of the binary
  uint64_t weights_size = 0;    // of all graphs
  uint32_t backend_id = 0;
  Qnn_Version_t core_api = {0, 0, 0}, backend_api = {0, 0, 0};
  std::string build_id;  // kBuildId
  std::string kernels;   // what the graphs were prepared with: KernelIdentity() of that machine
};

// A graph as far as it can be described without its nodes.
struct BinaryGraph {
  std::string name;
  std::vector<Tensor> inputs, outputs;  // in the client's order, with ids; `data` is null
  int threads = 1;                      // that its kernels were made for
  bool portable_only = false;
  uint64_t arena_bytes = 0;     // scratch memory of one execution
  uint64_t weights_offset = 0;  // from the start of the binary
  uint64_t weights_size = 0;
  uint32_t weights_checksum = 0;
  uint64_t nodes_offset = 0, nodes_size = 0;  // its nodes, from the start of the binary
  // What it reads together with other graphs of the binary; the same of all of them. 0: nothing.
  uint64_t common_offset = 0, common_size = 0;
  uint32_t common_checksum = 0;
};

// A binary whose header, graphs and io tensors are sound. Points into the memory that it was opened
// on, which has to outlive it.
class BinaryView {
 public:
  // Reads header and metadata, never the weights. Errors: 5000 null, 5005 no binary of this
  // runtime, truncated or altered, 5004 another version of the format.
  static Result<BinaryView> Open(const void* data, uint64_t size);

  const BinaryHeader& header() const { return header_; }
  const std::vector<BinaryGraph>& graphs() const { return graphs_; }
  const BinaryGraph* Find(const std::string& name) const;  // null: no such graph
  const uint8_t* data() const { return data_; }

  // Whether the binary begins as one of this runtime does, whatever follows.
  static bool HasMagic(const void* data, uint64_t size);

 private:
  const uint8_t* data_ = nullptr;
  BinaryHeader header_;
  std::vector<BinaryGraph> graphs_;
};

class Graph;

// Writes finalized graphs of one backend. Used under the graphs' locks, after CheckWeights.
class BinaryWriter {
 public:
  struct Backend {
    uint32_t id;
    Qnn_Version_t core_api, api;
  };
  BinaryWriter(const Backend& backend, const std::vector<const Graph*>& graphs);
  ~BinaryWriter();
  uint64_t size() const;
  // size() bytes: a function of the graphs alone.
  void Write(uint8_t* to) const;

 private:
  struct Part;
  BinaryHeader header_;
  std::vector<uint8_t> metadata_;  // without checksums
  std::vector<Part> parts_;        // what graphs have in common, if anything, then each one's own
  uint32_t num_graphs_ = 0;
};

// "oneDNN 3.2.0 (qnnrt), avx512", or "portable, avx2": what packed weights depend on.
std::string KernelIdentity(bool portable_only);

}  // namespace qnnrt
