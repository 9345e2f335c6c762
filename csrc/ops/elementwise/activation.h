// The table of activations: whatever any part of the runtime knows of one. (oneDNN's names for them
// are in onednn/kernel.cc.)
#pragma once

#include <cstddef>

#include "ops/elementwise/unary.h"

namespace qnnrt {

constexpr Activation kLastActivation = Activation::kMish;
constexpr size_t kActivations = static_cast<size_t>(kLastActivation) + 1;

struct Limits {
  float low, high;
};

struct ActivationDef {
  Activation id;
  const char* name;          // as a post op
  const char* op = nullptr;  // the op that does this and nothing else; null: none
  // Name and value as `operation` of ElementWiseNeuron; null: none.
  const char* neuron = nullptr;
  uint32_t operation = 0;
  UnaryLoops loops{};
  Limits (*limits)(float alpha, float beta) = nullptr;  // of a clamp: what it limits to
  ParamOrConstant alpha{}, beta{};                      // the numbers that the loops take
  bool fuses = true;                                    // may be a post op
  bool lpai = true;                                     // the lpai backend takes the op
  bool internal = false;                                // only passes make the op
};

const ActivationDef& DefOf(Activation activation);

// Whether a Prelu has one slope for each index of dim 1, and they do not broadcast as they lie.
// That is what a client has that asks for nodes before it puts channels last
// (passes/shape_slopes.cc).
bool HasSlopesOfChannelsFirst(const Node& node);

}  // namespace qnnrt
