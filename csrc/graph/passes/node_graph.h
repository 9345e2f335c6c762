// The graph while it is being finalized: a copy of the client's nodes that passes may rewrite.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/node.h"
#include "support/interrupt.h"
#include "support/pointer_map.h"
#include "support/threads.h"

namespace qnnrt {

class NodeGraph {
 public:
  explicit NodeGraph(std::vector<Node> nodes) : nodes(std::move(nodes)) {}

  std::vector<Node> nodes;  // topologically sorted
  // In which constants that passes make when they are read first are shared.
  std::optional<uint64_t> scope;

  // The node that writes a tensor, or -1; how many node inputs read it (an app output counts one
  // more, since the client reads it too). Call Index() after changing nodes.
  void Index();
  int Producer(const Tensor* tensor) const;
  int Uses(const Tensor* tensor) const;
  // Written and read by nodes only, by exactly one reader: a pass may make it disappear.
  bool IsPrivate(const Tensor* tensor) const;
  // Instead of Index() when nodes[at] writes what the one reader of the private tensor `gone`
  // wrote, and reads what else that did: the rest of the graph is as it was.
  void Absorbed(const Tensor* gone, size_t at);

  // A tensor that no client described, owned by the graph.
  Tensor* NewTensor(const Tensor& like);
  // A STATIC float tensor; null: out of memory.
  Tensor* NewStatic(const std::string& name, Qnn_DataType_t type, const Shape& shape,
                    const std::vector<float>& values);
  Tensor* NewStatic(const std::string& name, Qnn_DataType_t type, const Shape& shape,
                    std::shared_ptr<AlignedBytes> data);
  // Static tensors of the client that it gives up: those that passes make go, too.
  void MayRelease(const std::vector<Tensor*>& tensors);
  // A node that read a static tensor reads another one by now. Without a reader its memory goes, so
  // that a graph's weights are not held twice while passes make new ones of them.
  void Replaced(const Tensor* tensor);
  void ReplaceUses(const Tensor* from, const Tensor* to);
  void Erase(const std::vector<bool>& dead);

  std::vector<std::unique_ptr<Tensor>> owned;

 private:
  struct Ends {
    int producer = -1, uses = 0;
  };
  PointerMap<Ends> ends_;
  std::unordered_map<const Tensor*, Tensor*> releasable_;
};

// The values of a static float tensor (IsStaticFloat) as FLOAT_32.
bool IsStaticFloat(const Tensor* tensor);
std::vector<float> StaticFloats(const Tensor& tensor);

// Moves values and leaves them as they are: with another encoding it would compute, too.
bool KeepsValues(const Node& node);
// A reshape under whatever name that leaves values as they are.
bool IsReshape(const Node& node);

// Sets a param that is a tensor of integers, INT_32 or UINT_32.
void SetInts(Node* node, const char* name, Qnn_DataType_t type, const Shape& shape,
             const std::vector<int64_t>& values);

// What each pass did, for the log and the profile.
struct PassReport {
  std::string name;
  int changes;
};

// The most post ops that passes give a node.
constexpr size_t kMostPostOps = 4;

// How far passes go. All of them fold constants and remove what is not used; kPortable does what
// makes sense for any kernels, kFunctions also finds functions that are no ops of QNN's, kAll also
// does what this runtime's kernels take.
enum class PassLevel : uint8_t { kConstants, kPortable, kFunctions, kAll };

// Nodes that compute in FLOAT_32 whatever the precision, and the tensors that they touched before
// passes fused them with others.
struct KeptFloats {
  std::unordered_set<std::string> nodes;
  std::vector<const Tensor*> tensors;
};

// How the floats between nodes will be stored when all passes are through, where that is known.
struct FloatStorage {
  Qnn_DataType_t type = QNN_DATATYPE_FLOAT_32;
  const KeptFloats* kept = nullptr;
  bool byte_activations = false;  // products with narrow weights may round what they multiply
};

// The passes of a level in their order, once. Numerics stay within float rounding; app tensors are
// never touched. Each has a file here. The interrupt is checked between them.
Status RunPasses(NodeGraph* graph, const Threads& threads, std::vector<PassReport>* report,
                 const Interrupt* interrupt = nullptr, PassLevel level = PassLevel::kAll,
                 const FloatStorage& floats = {});

Status FoldEmpty(NodeGraph* graph, int* changes);  // what has no elements, to constants
Status FoldConstants(NodeGraph* graph, const Threads& threads, int* changes);
// The results of a node of which all inputs are static.
Status EvaluateNode(const Node& node, const Threads& threads,
                    std::vector<std::shared_ptr<AlignedBytes>>* results);
Status KeepNarrowWeights(NodeGraph* graph, const Threads& threads, bool byte_activations,
                         int* changes);                  // of 4 and 8 bits, that multiply floats
Status UnpackConstants(NodeGraph* graph, int* changes);  // with two elements in a byte
Status WidenWeights(NodeGraph* graph, const Threads& threads,
                    int* changes);                   // of fixed-point numbers, that multiply floats
Status ShapeSlopes(NodeGraph* graph, int* changes);  // of channels first, to broadcast
Status MergeCasts(NodeGraph* graph,
                  int* changes);  // between fixed-point numbers and INT_64, by way of INT_32
Status FuseDynamic(NodeGraph* graph,
                   int* changes);  // dynamic quantization into products of bytes
Status MergeConversions(NodeGraph* graph,
                        int* changes);  // of fixed-point numbers, and limits without effect
Status CancelTransposes(NodeGraph* graph,
                        int* changes);  // transposes and reshapes that undo each other
Status SinkReshapes(NodeGraph* graph,
                    int* changes);  // those around convolutions of one dimension
Status FitWindows(NodeGraph* graph,
                  int* changes);  // of convolutions, to pads before and slices behind them
Status FoldScales(NodeGraph* graph, const Threads& threads,
                  int* changes);  // batchnorm, per-channel multiply and add, into weights
Status MergeBranches(NodeGraph* graph, const Threads& threads, bool skips,
                     int* changes);  // sums of convolutions of one tensor, into one; `skips`: and
                                     // of the tensor itself
Status SplitProducts(NodeGraph* graph, int* changes);  // of which parts are taken
Status FuseAttention(NodeGraph* graph, const FloatStorage& floats,
                     int* changes);  // product, softmax, product
Status FindActivations(NodeGraph* graph, PassLevel level,
                       int* changes);  // in arithmetic; below kFunctions, those that are ops
Status FuseTables(NodeGraph* graph, const Threads& threads, const FloatStorage& floats,
                  int* changes);  // functions of one fixed-point number
Status FuseActivations(NodeGraph* graph,
                       int* changes);  // activation and residual add into the producer
Status HandOnParts(NodeGraph* graph, int* changes);  // of a Concat that a Split takes apart again
Status JoinConvolutions(NodeGraph* graph, const KeptFloats* kept,
                        int* changes);  // of a Split's parts, into one in groups
Status FuseSliding(NodeGraph* graph, const FloatStorage& floats,
                   int* changes);  // a binary operation of slices at steps of one axis
Status KeepChannelsFirst(NodeGraph* graph, const FloatStorage& floats,
                         int* changes);  // of what lies alone between two transposes
Status MergeEqualNodes(NodeGraph* graph, const Threads& threads, const KeptFloats* kept,
                       int* changes);  // that compute the same from the same
Status JoinProducts(NodeGraph* graph, const KeptFloats* kept,
                    int* changes);                   // of one tensor with narrow weights
Status ReadIndices(NodeGraph* graph, int* changes);  // below 0, and of 64 bits, as they are
Status RemoveDeadNodes(NodeGraph* graph, int* changes);

// Errors: a name that no node has.
Result<KeptFloats> FindKeptFloats(const NodeGraph& graph, const std::vector<std::string>& names);

// Stores the FLOAT_32 tensors between nodes, and the weights of products, as `type`: FLOAT_16 or
// BFLOAT_16. After RunPasses. BFLOAT_16 leaves out what OpDef::sensitive_inputs names and what
// leads there; FLOAT_16 takes in every tensor, and rounds the graph's inputs and outputs, as a
// device of that type alone does. Both leave out what is kept.
Status LowerPrecision(NodeGraph* graph, Qnn_DataType_t type, const KeptFloats& kept, int* changes);

// Ends the graph with a node for each output that updates a state, which stores the new value
// there. It is left without work where the value is computed in the state's own memory: for that,
// nodes that read the old value are put before those that overwrite it, where they can be. How many
// states there are. After all other passes.
int OrderStates(NodeGraph* graph, const std::vector<const Tensor*>& outputs);

// Of a node that may write over input i: true where nothing else that it reads is lost by that.
bool MayOverwrite(const Node& node, size_t i);

// Makes results that FLOAT_16 cannot hold its largest number, 65,504, instead of infinite. After
// LowerPrecision.
Status ClampHalf(NodeGraph* graph, int* changes);

}  // namespace qnnrt
