// RandomUniformLike, RandomNormalLike: numbers of Philox4x32-10 (philox.h). Word w of block b of
// execution r is that of the counter {b, r}. The key is the bits of the seed, where there is one:
// every execution gives the same numbers then, as on the vendor's HTP backend. Without one it is a
// hash of the node's name, and executions go on from each other.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "abi/qnn_op_names.h"
#include "ops/movement/indices.h"
#include "ops/random/philox.h"
#include "ops/random/random.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

constexpr size_t kSeed = 1;
constexpr size_t kGrainBlocks = 1024;
constexpr float kUnit = 1.0f / (1 << 24);  // of what a float has of a word: its upper 24 bits

uint64_t Hash(const std::string& name) {  // FNV-1a
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

// What four words become.
struct Uniform {
  float low, high;

  void operator()(const PhiloxCounter& words, float numbers[4]) const {
    for (size_t i = 0; i < 4; ++i) {
      const float at = static_cast<float>(words[i] >> 8) * kUnit;
      const float number = low + at * (high - low);
      // What rounding makes of a number near the end is still below it.
      numbers[i] = number < high || low == high ? number : std::nextafter(high, low);
    }
  }
};

struct Normal {  // Box and Muller's transform of pairs
  float mean, scale;

  void operator()(const PhiloxCounter& words, float numbers[4]) const {
    constexpr float kTurn = 6.2831853071795865f;
    for (size_t i = 0; i < 4; i += 2) {
      const float share = static_cast<float>((words[i] >> 8) + 1) * kUnit;  // above 0
      const float angle = static_cast<float>(words[i + 1] >> 8) * kUnit * kTurn;
      const float radius = scale * std::sqrt(-2.0f * std::log(share));
      numbers[i] = mean + radius * std::cos(angle);
      numbers[i + 1] = mean + radius * std::sin(angle);
    }
  }
};

template <typename Numbers>
class RandomKernel final : public Kernel {
 public:
  RandomKernel(const Node& node, Numbers numbers)
      : reader_(node.inputs[0]->dtype),
        shape_(node.outputs[0]->shape),
        count_(node.outputs[0]->elements()),
        seeded_(node.HasInput(kSeed)),
        hash_(Hash(node.name)),
        numbers_(numbers) {}

  Status Run(const ExecArgs& args) override {
    for (size_t d = 0; d < shape_.size(); ++d) {
      const int64_t wanted = reader_.At(args.in[0], d);
      if (wanted == shape_[d]) continue;
      return Error(QNN_GRAPH_ERROR_INVALID_ARGUMENT,
                   "input 0 asks for %lld as dim %zu of the output, which is declared as %s",
                   static_cast<long long>(wanted), d, ShapeText(shape_).c_str());
    }
    PhiloxKey key{};
    uint64_t run = 0;
    if (seeded_) {
      std::memcpy(&key[0], args.in[kSeed], sizeof(float));
    } else {
      key = {static_cast<uint32_t>(hash_), static_cast<uint32_t>(hash_ >> 32)};
      run = (*static_cast<uint64_t*>(args.persistent))++;
    }
    float* out = static_cast<float*>(args.out[0]);
    args.threads.For((count_ + 3) / 4, kGrainBlocks, [&](size_t begin, size_t end) {
      for (size_t block = begin; block < end; ++block) {
        const uint64_t b = block;
        float four[4];
        numbers_(Philox({static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32),
                         static_cast<uint32_t>(run), static_cast<uint32_t>(run >> 32)},
                        key),
                 four);
        std::memcpy(out + block * 4, four, std::min<size_t>(4, count_ - block * 4) * sizeof(float));
      }
    });
    return {};
  }

  size_t PersistentBytes() const override { return seeded_ ? 0 : sizeof(uint64_t); }

 private:
  const IndexReader reader_;
  const Shape shape_;
  const size_t count_;
  const bool seeded_;
  const uint64_t hash_;
  const Numbers numbers_;
};

// The output's shape is what it is declared with: the input's values say the same.
Status Rule(const Node& node, std::vector<Shape>* outputs) {
  const Tensor& wanted = *node.inputs[0];
  const Shape& out = node.outputs[0]->shape;
  QNNRT_RETURN_IF_ERROR(CheckShape(node, kSeed, "seed", {1}));
  Shape shape = out;
  if (wanted.shape[0] != out.size()) {
    return Invalid("input 0 (shape) has %u values for an output of rank %zu", wanted.shape[0],
                   out.size());
  }
  for (size_t d = 0; wanted.is_static() && d < out.size(); ++d) {
    const int64_t size = IndexReader(wanted.dtype).At(wanted.data->data(), d);
    QNNRT_RETURN_IF_ERROR(CheckSize("a dim", size));
    shape[d] = static_cast<uint32_t>(size);
  }
  (*outputs)[0] = std::move(shape);
  return {};
}

Status CheckFinite(const char* name, float value) {
  if (std::isfinite(value)) return {};
  return Invalid("param '%s' is %g, which is not a finite number", name,
                 static_cast<double>(value));
}

Status UniformRule(const Node& node, std::vector<Shape>* outputs) {
  const float low = node.Float(QNN_OP_RANDOM_UNIFORM_LIKE_PARAM_LOW);
  const float high = node.Float(QNN_OP_RANDOM_UNIFORM_LIKE_PARAM_HIGH);
  QNNRT_RETURN_IF_ERROR(CheckFinite(QNN_OP_RANDOM_UNIFORM_LIKE_PARAM_LOW, low));
  QNNRT_RETURN_IF_ERROR(CheckFinite(QNN_OP_RANDOM_UNIFORM_LIKE_PARAM_HIGH, high));
  if (!(low <= high)) {
    return Invalid("param 'low' is %g, which is not below or equal to 'high', %g",
                   static_cast<double>(low), static_cast<double>(high));
  }
  if (!std::isfinite(high - low)) return Invalid("'high' - 'low' is more than a float can be");
  return Rule(node, outputs);
}

Status NormalRule(const Node& node, std::vector<Shape>* outputs) {
  const float scale = node.Float(QNN_OP_RANDOM_NORMAL_LIKE_PARAM_SCALE);
  QNNRT_RETURN_IF_ERROR(CheckFinite(QNN_OP_RANDOM_NORMAL_LIKE_PARAM_MEAN,
                                    node.Float(QNN_OP_RANDOM_NORMAL_LIKE_PARAM_MEAN)));
  QNNRT_RETURN_IF_ERROR(CheckFinite(QNN_OP_RANDOM_NORMAL_LIKE_PARAM_SCALE, scale));
  if (scale < 0) {
    return Invalid("param 'scale' is %g, and a standard deviation is at least 0",
                   static_cast<double>(scale));
  }
  return Rule(node, outputs);
}

Result<KernelPtr> MakeUniform(const Node& node, const KernelOptions&) {
  const Uniform numbers{node.Float(QNN_OP_RANDOM_UNIFORM_LIKE_PARAM_LOW),
                        node.Float(QNN_OP_RANDOM_UNIFORM_LIKE_PARAM_HIGH)};
  return KernelPtr(std::make_unique<RandomKernel<Uniform>>(node, numbers));
}

Result<KernelPtr> MakeNormal(const Node& node, const KernelOptions&) {
  const Normal numbers{node.Float(QNN_OP_RANDOM_NORMAL_LIKE_PARAM_MEAN),
                       node.Float(QNN_OP_RANDOM_NORMAL_LIKE_PARAM_SCALE)};
  return KernelPtr(std::make_unique<RandomKernel<Normal>>(node, numbers));
}

}  // namespace

OpList RandomOps() {
  OpDef def;
  def.inputs = {{"shape", types::kIndex, PortSpec::kOne, -1, 1, 1},
                {"seed", types::kF32, PortSpec::kOptional, -1, 1, 1}};
  def.outputs = {{"out[0]", types::kFloat}};
  // The numbers may be in fixed point, the seed is not.
  def.flags = OpDef::kConverts;
  def.keeps_state = [](const Node& node) { return !node.HasInput(kSeed); };
  OpDef uniform = def, normal = std::move(def);
  uniform.type = QNN_OP_RANDOM_UNIFORM_LIKE;
  uniform.params = {{QNN_OP_RANDOM_UNIFORM_LIKE_PARAM_LOW, ParamSpec::kFloat, Default(0.0)},
                    {QNN_OP_RANDOM_UNIFORM_LIKE_PARAM_HIGH, ParamSpec::kFloat, Default(1.0),
                     "what the numbers are below"}};
  uniform.infer = UniformRule;
  uniform.portable = MakeUniform;
  normal.type = QNN_OP_RANDOM_NORMAL_LIKE;
  normal.params = {{QNN_OP_RANDOM_NORMAL_LIKE_PARAM_MEAN, ParamSpec::kFloat, Default(0.0)},
                   {QNN_OP_RANDOM_NORMAL_LIKE_PARAM_SCALE, ParamSpec::kFloat, Default(1.0),
                    "the standard deviation"}};
  normal.infer = NormalRule;
  normal.portable = MakeNormal;
  return {std::move(uniform), std::move(normal)};
}

}  // namespace qnnrt
