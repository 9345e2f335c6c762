// What an op is: its definition (ports, params, types, shape rule) and its kernels. A family's file
// holds both; op_table.cc lists the families and nothing else knows one op from another.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/node.h"
#include "support/interrupt.h"
#include "support/status.h"
#include "support/threads.h"

namespace qnnrt {

// ---- kernels ---------------------------------------------------------------------------------

struct ExecArgs {
  const void* const* in;  // one pointer for each input of the node; null where it was left out
  void* const* out;
  void* scratch;  // ScratchBytes() bytes, 64-byte aligned
  const Threads& threads;
  // PersistentBytes() bytes, 64-byte aligned: what this kernel left there in its last run, zeros
  // before the first one and after a reset.
  void* persistent = nullptr;
};
// What so many bytes of scratch take up, so that what follows them is aligned, too.
inline size_t ScratchRoom(size_t bytes) { return (bytes + 63) / 64 * 64; }

// The executable form of one node: everything that can be decided, packed or allocated is done by
// the time it exists. Run must not allocate, and must keep no state between two runs but in
// args.persistent.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Only a value in the data can make it fail (an index out of range): then a Status that says so.
  virtual Status Run(const ExecArgs& args) = 0;
  virtual size_t ScratchBytes() const { return 0; }
  virtual size_t PersistentBytes() const { return 0; }  // state of ops like Lstm, Gru and Buffer
  // False when the kernel never reads in[i]: it keeps its own (packed) form of a static one, or
  // adds what output 0 holds where Node::in_place says so.
  virtual bool ReadsInput(size_t /*i*/) const { return true; }
  virtual const char* Name() const { return "portable"; }  // or "onednn:brgemm", ...
  virtual size_t WeightBytes() const { return 0; }         // what it packed
};

class WeightStore;
struct KernelOptions {
  bool portable_only = false;      // leave the fast library out
  int threads = 1;                 // how many threads Run may use
  WeightStore* weights = nullptr;  // weights.h; null: kernels keep what they pack to themselves
  const Interrupt* interrupt = nullptr;  // asked between kernels
  // Of the constants of the whole graph: all that a run reads.
  uint64_t weight_bytes = UINT64_MAX;
  // So much stays from run to run in the second caches of two cores; from the last cache, kernels
  // for weights from memory are as fast.
  bool weights_in_cache() const { return weight_bytes <= uint64_t{4} << 20; }
  // A core's own, of 2 MiB, keeps so much of them beside what else a graph reads.
  static constexpr uint64_t kOwnCache = uint64_t{3} << 19;
  // Inputs (bit i) of FLOAT_32 that MakeViaFloat has from BFLOAT_16.
  uint64_t brain_inputs = 0;
  bool IsBrain(size_t input) const { return input < 64 && ((brain_inputs >> input) & 1) != 0; }
};

// A null pointer in a Result means "not for me": the next candidate is asked.
using KernelPtr = std::unique_ptr<Kernel>;
using MakeKernelFn = Result<KernelPtr> (*)(const Node&, const KernelOptions&);

// ---- definitions -----------------------------------------------------------------------------

struct PortSpec {
  const char* name;
  TypeSet types;
  enum Count : uint8_t {
    kOne,
    kOptional,
    kVariadic
  } count = kOne;         // kVariadic: last port, one or more
  int same_type_as = -1;  // element type equal to that of input number n
  int min_rank = 0, max_rank = 8;
};

// Fixed-point numbers stand for real ones, so they go where floats go.
inline TypeSet WithFixed(TypeSet set) {
  return set | ((set & types::kF32) != 0 ? types::kFixed : 0);
}
// What a port takes.
inline TypeSet AcceptedTypes(const PortSpec& port) { return WithFixed(port.types); }

// What a param is where the client leaves it out.
struct ParamDefault {
  enum Kind : uint8_t {
    kRequired,  // it must not be left out
    kNone,      // nothing: the op goes by something else
    kValue,
    kOfNode  // depends on the node's other params and inputs
  } kind;
  ParamValue value{};
  ParamValue (*of_node)(const Node&) = nullptr;
};
inline ParamDefault Required() { return {ParamDefault::kRequired}; }
inline ParamDefault NoDefault() { return {ParamDefault::kNone}; }
inline ParamDefault Default(int value) { return {ParamDefault::kValue, int64_t{value}}; }
inline ParamDefault Default(double value) { return {ParamDefault::kValue, value}; }
inline ParamDefault Default(bool value) { return {ParamDefault::kValue, value}; }
// A tensor of this shape, every element of which is `value`.
ParamDefault DefaultInts(const Shape& shape, int32_t value);
inline ParamDefault DefaultOf(ParamValue (*of_node)(const Node&)) {
  return {ParamDefault::kOfNode, {}, of_node};
}

struct ParamSpec {
  const char* name;
  enum Kind : uint8_t { kInt, kFloat, kBool, kNumber, kInts, kFloats } kind;  // kNumber: any scalar
  ParamDefault fallback;
  const char* rule = "";  // its shape, and what it means, for the docs: "[2]: height, width"
  // Of a kInt that chooses: the names of 0, 1, ...; others are refused.
  std::vector<const char*> values{};
};

// A number that an op computes with.
struct ParamOrConstant {
  const char* param = nullptr;  // null: the constant
  float constant = 0;
};

// How a node's tensors make up one: the whole is `outer` rows of `row` elements, and each part has
// the elements [begin, begin + size) of every row.
struct Parts {
  struct Part {
    size_t begin, size;
  };
  bool joins;  // the whole is output 0 and part i is input i; else input 0 and output i
  size_t outer, row;
  std::vector<Part> parts;
};

struct OpDef {
  const char* type;
  std::vector<PortSpec> inputs;
  std::vector<PortSpec> outputs;
  std::vector<ParamSpec> params;
  // The rule that ports and params cannot say: checks values and fills the shape of every output.
  // Ports, param kinds, ranks and types were checked before, and `outputs` has an entry for each
  // output of the node. An op whose output shape is the
  // client's choice (Reshape) copies the declared one after checking it.
  Status (*infer)(const Node&, std::vector<Shape>* outputs);
  MakeKernelFn portable;

  enum Flags : uint32_t {
    kNone = 0,
    kAlias = 1u << 0,       // output 0 is input 0 under another shape: no work if memory is shared
    kInPlace = 1u << 1,     // output 0 may be written over any input of its shape and element size
    kPostOps = 1u << 2,     // portable and fast kernels apply Node::post_ops
    kNativeHalf = 1u << 3,  // the portable kernel takes 16-bit floats; else it is run in float
    kMoves = 1u << 4,       // moves elements, at most comparing them: fixed-point numbers go as the
                            // integers that they are (movement/fixed/move.cc)
    kIntegers = 1u << 5,    // takes fixed-point numbers as integers, whatever their encodings
    kFills = 1u << 6,       // kMoves that also writes values of its own, in the output's encoding
    kConverts = 1u << 7,    // takes floats and fixed-point numbers in one node; a port that takes
                            // nothing but floats is the float side, on any backend
    kLpai = 1u << 8,        // the lpai backend takes it (docs/decisions/0016-lpai-backend.md)
    kInternal = 1u << 9,    // passes make it, clients cannot: it is none of QNN's
    kMixes = 1u << 10,  // kMoves from FLOAT_32 to 16-bit floats, too, or back, where a pass wants
                        // that of a node
    kSumsInside = 1u << 11,  // sums many products, though it has no weights_axis
    kUpdates = 1u << 12,     // output 0 is input 0 with some elements replaced, and may be written
                             // over it: the kernel leaves the others alone then
  };
  uint32_t flags = kNone;
  // Computes on fixed-point numbers as they are; null, or a null kernel: MakeViaFloat does.
  MakeKernelFn fixed = nullptr;
  // The node as the activation that it is of input 0; null, or nothing: none.
  std::optional<PostOp> (*activation)(const Node&) = nullptr;
  // Of kMoves, whether a node's params leave it at that; null: always.
  bool (*moves)(const Node&) = nullptr;
  // Of an op that multiplies input 0 by weights (input 1), sums, and adds a bias (input 2, of 32
  // bits in fixed point): the dim of the weights that runs over the outputs, from the end: -1 or
  // -2, and the other one where a param transpose_in1 is true (OutputAxis). 0: no such op.
  int weights_axis = 0;
  bool sums_products() const { return weights_axis != 0; }
  // Further inputs (bit i) by which products are made: constants there are stored in BFLOAT_16
  // where floats between nodes are.
  uint32_t further_weights = 0;
  // Of an op that cuts off at constants: the lowest and the highest, or the params that give them.
  std::vector<ParamOrConstant> clamps{};
  // What is computed of input 0 when the other inputs are constants.
  enum Linear : uint8_t {
    kNotLinear,
    kAdd,
    kSubtract,
    kMultiply,
    kMultiplyAdd
  } linear = kNotLinear;
  // Of an op with a param `operation`: bit i is set when kLpai holds for value i.
  uint32_t lpai_operations = ~uint32_t{0};
  // Inputs (bit i) of which a small change may make the result another one: angles, exponents,
  // coordinates, what is rounded or put in order. Where floats between nodes are stored in 16 bits,
  // these stay FLOAT_32 (docs/decisions/0032-sixteen-bit-floats.md).
  uint32_t sensitive_inputs = 0;
  // Whether they are in this node; null: in all.
  bool (*sensitive)(const Node&) = nullptr;
  // Whether a node's result depends on earlier executions, too; null: no node's.
  bool (*keeps_state)(const Node&) = nullptr;
  // Of an op that puts tensors together or takes one apart, and does nothing else: how. Null, or
  // nothing: it is none. Its kernel leaves out Node::in_place.
  std::optional<Parts> (*parts)(const Node&) = nullptr;
  // Whether the kernels of a node take rows of so many elements with a Pitch at that port; null: at
  // none. Those of `parts` take the whole and each part as its rows.
  bool (*takes_pitch)(const Node&, bool output, size_t port, uint64_t row) = nullptr;
};

// Kernels for nodes of 16-bit floats of an op without kNativeHalf, and for fixed-point nodes that
// have no kernel of their own: inputs become FLOAT_32 in scratch, the float kernel runs, outputs
// are rounded back. Static inputs are converted once, here.
Result<KernelPtr> MakeViaFloat(const OpDef& def, const Node& node, const KernelOptions& options);

// ---- the table -------------------------------------------------------------------------------

// Null when no such op. Op types are those of the package "qti.aisw", the internal ones, and those
// of other packages, which have one record (package_op.h).
const OpDef* FindOp(const std::string& type);
const std::vector<const OpDef*>& AllOps();  // that clients can add: without the internal ones

// Which dim of a product's weights runs over the outputs that a bias has a value for.
size_t OutputAxis(const OpDef& def, const Node& node);

// True of a node that carries something from one execution to the next: passes neither evaluate it
// ahead nor take it out nor run it twice.
bool KeepsState(const Node& node);

// Ports, params, types, ranks, then OpDef::infer, then declared against inferred output shapes.
// The message names the op, the tensor or param and the rule. A valid node's params are complete.
Status ValidateNode(Node* node);
// The same of a node that a client adds, which is of no internal op.
Status ValidateClientNode(Node* node);
// Adds the defaults of the params that the node lacks: for nodes that passes make.
void CompleteParams(Node* node);

// The best kernel for a validated node: fast library (unless portable_only), then portable.
Result<KernelPtr> MakeKernel(const Node& node, const KernelOptions& options);

// Each family's folder defines some of these; op_table.cc concatenates them. They run once: cold
// makes them half as large.
using OpList = std::vector<OpDef>;
[[gnu::cold]] OpList ConvOps();         // Conv1d to Conv3d, DepthWiseConv1d and 2d, TransposeConv2d
[[gnu::cold]] OpList MatMulOps();       // MatMul, FullyConnected
[[gnu::cold]] OpList DynamicOps();      // the internal ones of dynamic quantization
[[gnu::cold]] OpList PoolOps();         // PoolMax2d, PoolAvg2d, ...
[[gnu::cold]] OpList NormOps();         // Batchnorm, LayerNorm, ...
[[gnu::cold]] OpList ResizeOps();       // Resize, ResizeBilinear, ResizeNearestNeighbor
[[gnu::cold]] OpList RecurrentOps();    // Lstm, Gru
[[gnu::cold]] OpList StreamOps();       // Buffer
[[gnu::cold]] OpList ElementWiseOps();  // unary, binary, select, compare, logic
[[gnu::cold]] OpList ActivationOps();   // Relu..., ElementWiseNeuron, Prelu
[[gnu::cold]] OpList ReduceOps();       // Reduce*, Argmax, Argmin, CumulativeSum, TopK
[[gnu::cold]] OpList SoftmaxOps();      // Softmax, LogSoftmax
[[gnu::cold]] OpList CastOps();         // Cast, Convert
[[gnu::cold]] OpList ShapeOps();  // Reshape, Squeeze, ExpandDims, Transpose, DepthToSpace, ...
[[gnu::cold]] OpList ConcatSplitOps();  // Concat, Split, Pack, UnPack, StridedSlice, Pad, Tile
[[gnu::cold]] OpList GatherOps();       // Gather*, Scatter*, OneHot, ...

// onednn/: a fast kernel for the node, or null when the library is absent or has none.
Result<KernelPtr> MakeOneDnnKernel(const Node& node, const KernelOptions& options);
const char* OneDnnVersion();  // "oneDNN 3.2.0 (qnnrt)", or null when it is not there
int OneDnnLoadState(
    std::string* why);  // 0 not tried, 1 loaded, -1 absent (why says what was tried)

}  // namespace qnnrt
