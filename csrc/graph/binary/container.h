// The outer part of a context binary as it is written: header, graphs with their inputs and
// outputs, and the places of what backends write themselves, nodes and weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/binary/binary.h"

namespace qnnrt {

// A graph that is written, and where; or weights that several have in common.
struct BinaryPart {
  struct Bytes {
    uint64_t offset;  // from the start of the graph's weights
    const void* data;
    uint64_t size;
  };
  std::string name;
  int threads = 1;
  bool portable_only = false;
  uint64_t arena_bytes = 0;
  std::vector<const Tensor*> inputs, outputs;
  std::vector<uint8_t> nodes;
  std::vector<Bytes> weights;  // in the order of their offsets
  uint64_t weights_size = 0;   // whole pages

  // Of LayOut's.
  uint64_t offset = 0;  // of its weights in the binary
  size_t checksum = 0;  // where its checksum is in the metadata
};

// Places the parts one behind the other: the metadata without checksums, and the header's sizes.
// `common`: weights in front of the others; null: there are none.
std::vector<uint8_t> LayOut(const std::vector<BinaryPart*>& graphs, BinaryPart* common,
                            BinaryHeader* header);

// Writes header.size bytes. `parts`: the graphs and what they have in common.
void WriteBinary(const BinaryHeader& header, uint32_t num_graphs,
                 const std::vector<uint8_t>& metadata, const std::vector<const BinaryPart*>& parts,
                 uint8_t* to);

}  // namespace qnnrt
