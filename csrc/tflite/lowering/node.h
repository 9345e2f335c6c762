// One operator of TFLite as the lowering sees it. The delegate makes it from TFLite's context,
// the library from what an importer has read of a file.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tflite/lowering/plan.h"

namespace qnnrt::tflite {

struct TensorView {
  bool omitted = false;
  Dims dims;
  Qnn_DataType_t dtype = QNN_DATATYPE_UNDEFINED;
  Encoding encoding;
  // The elements of a constant: as many bytes as type and shape give. `constant` without `data`:
  // it has no elements.
  const void* data = nullptr;
  bool constant = false;
  bool variable = false;

  uint64_t bytes() const { return Elements(dims) * ElementBytes(dtype); }
};

// An option: a number, or a list of them. Doubles hold all that the schema's options have.
struct Option {
  double number = 0;
  std::vector<double> list;
};

// What becomes of the variable tensors of recurrent operators.
enum class States {
  kReset,   // every run starts from zeros
  kInputs,  // each is an input of the graph, and an output for what it is next
  kKept,    // the operation keeps it from run to run
};

struct Operator;

struct NodeView {
  const Operator* op = nullptr;
  int32_t version = 1;
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;  // types and encodings; shapes where `shapes_known`
  bool shapes_known = false;
  std::map<std::string, Option, std::less<>> options;  // by their names in the schema
  States states = States::kReset;
  uint64_t budget = std::numeric_limits<uint64_t>::max();  // of bytes of constants made
};

}  // namespace qnnrt::tflite
