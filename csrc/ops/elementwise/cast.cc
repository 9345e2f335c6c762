// Cast and Convert: one element type to another.
//
// To an integer from a float: truncated, then clamped to the type's range; NaN becomes 0. Between
// integers: the low bits, as C++ and numpy do. To BOOL_8: 1 for everything but 0.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "abi/qnn_op_names.h"
#include "ir/visit.h"
#include "ops/fixed/kernels.h"
#include "ops/isa.h"
#include "ops/rules.h"
#include "ops/strided_copy.h"

namespace qnnrt {
namespace {

using Loop = void (*)(const void* in, void* out, size_t n);
constexpr size_t kBlock = 1024;
constexpr size_t kGrainBytes = 64 << 10;

struct Bool {  // a type of its own beside uint8_t
  uint8_t value;
};

template <typename From, typename To>
QNNRT_INLINE To One(From x) {
  if constexpr (std::is_same_v<To, Bool>) {
    return Bool{static_cast<uint8_t>(x != From{0})};
  } else if constexpr (std::is_same_v<From, Bool>) {
    return static_cast<To>(x.value != 0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // The first power of two beyond the type is exact in every float type; its predecessor is the
    // largest value that fits.
    constexpr From kBeyond =
        static_cast<From>(uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * From{2};
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    if (!(x < kBeyond)) return x >= kBeyond ? std::numeric_limits<To>::max() : To{0};
    return x > kLow ? static_cast<To>(x) : std::numeric_limits<To>::min();
  } else {
    return static_cast<To>(x);
  }
}

// Whether int32_t holds all of To, and From both of its ends: clamped to those first, a value is
// converted by the one instruction that there is for vectors.
template <typename From, typename To>
constexpr bool ByWord() {
  if (!std::is_floating_point_v<From> || !std::is_integral_v<To>) return false;
  constexpr int kDigits = std::numeric_limits<To>::digits;
  return kDigits <= std::numeric_limits<int32_t>::digits &&
         kDigits <= std::numeric_limits<From>::digits;
}

// As One(), of whole blocks; returns how many values these have. Two limits in one loop become
// three choices between results, and a type of another size is vectorized by its own: with one step
// a loop 262,144 values of FLOAT_32 take 11 to 13 us instead of 22 to 31, of FLOAT_64 23 to 33
// instead of 48 to 78 (Zen 5).
template <typename From, typename To>
QNNRT_INLINE size_t ConvertBlocks(const From* x, To* o, size_t n) {
  constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
  constexpr From kHigh = static_cast<From>(std::numeric_limits<To>::max());
  constexpr size_t kValues = 128;
  alignas(64) From above[kValues];
  alignas(64) int32_t words[kValues];
  size_t i = 0;
  for (; i + kValues <= n; i += kValues, x += kValues, o += kValues) {
    QNNRT_SIMD
    for (size_t k = 0; k < kValues; ++k) above[k] = x[k] > kLow ? x[k] : kLow;  // NaN, too
    QNNRT_SIMD
    for (size_t k = 0; k < kValues; ++k) {
      const int32_t word = static_cast<int32_t>(above[k] < kHigh ? above[k] : kHigh);
      words[k] = kLow == 0 || x[k] == x[k] ? word : 0;
    }
    QNNRT_SIMD
    for (size_t k = 0; k < kValues; ++k) o[k] = static_cast<To>(words[k]);
  }
  return i;
}

template <typename From, typename To>
struct Convert {
  static QNNRT_INLINE void Run(const void* in, void* out, size_t n) {
    const From* x = static_cast<const From*>(in);
    To* o = static_cast<To*>(out);
    size_t i = 0;
    if constexpr (ByWord<From, To>()) i = ConvertBlocks(x, o, n);
    for (; i < n; ++i) o[i] = One<From, To>(x[i]);
  }
};

template <typename From, typename To>
Loop Pick() {
  if constexpr (std::is_same_v<From, Bool> && std::is_same_v<To, Bool>) {
    return nullptr;
  } else if constexpr (std::is_floating_point_v<From> || sizeof(From) == 4 || sizeof(To) == 4) {
    return PickIsa<Convert<From, To>>();
  } else {
    return Convert<From, To>::Run;
  }
}

// Floats of 16 bits go through FLOAT_32.
Loop FromTo(Qnn_DataType_t from, Qnn_DataType_t to) {
  const auto pick = [to](auto f) -> Loop {
    using From = decltype(f);
    if (to == QNN_DATATYPE_BOOL_8) return Pick<From, Bool>();
    return VisitNumber(to, [](auto t) { return Pick<From, decltype(t)>(); });
  };
  return from == QNN_DATATYPE_BOOL_8 ? pick(Bool{}) : VisitNumber(from, pick);
}

// Rounded to odd, so that rounding once more to half precision gives what one rounding would.
float OddFloat(double x) {
  float f = static_cast<float>(x);
  const double back = f;
  if (back == x || x != x || std::isinf(f)) return f;
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof(bits));
  if (std::fabs(back) > std::fabs(x)) --bits;  // towards 0
  bits |= 1;
  std::memcpy(&f, &bits, sizeof(f));
  return f;
}

class CastKernel final : public Kernel {
 public:
  CastKernel(const Node& node, Loop loop)
      : loop_(loop),
        same_(node.inputs[0]->dtype == node.outputs[0]->dtype),
        narrow_in_(NarrowFloatOf(node.inputs[0]->dtype)),
        narrow_out_(NarrowFloatOf(node.outputs[0]->dtype)),
        float_in_(narrow_in_ != nullptr || node.inputs[0]->dtype == QNN_DATATYPE_FLOAT_32),
        double_in_(node.inputs[0]->dtype == QNN_DATATYPE_FLOAT_64),
        count_(node.inputs[0]->elements()),
        in_size_(ElementSize(node.inputs[0]->dtype)),
        out_size_(ElementSize(node.outputs[0]->dtype)) {}

  Status Run(const ExecArgs& args) override {
    const char* in = static_cast<const char*>(args.in[0]);
    char* out = static_cast<char*>(args.out[0]);
    if (same_) {
      ParallelCopy(args.threads, out, in, count_ * in_size_);
      return {};
    }
    args.threads.For(count_, kGrainBytes / in_size_, [&](size_t begin, size_t end) {
      const char* x = in + begin * in_size_;
      char* o = out + begin * out_size_;
      if (narrow_in_ != nullptr || narrow_out_ != nullptr) return Narrow(x, o, end - begin);
      loop_(x, o, end - begin);
    });
    return {};
  }

 private:
  void Narrow(const char* in, char* out, size_t n) const {
    alignas(64) float wide[kBlock];
    for (size_t i = 0; i < n; i += kBlock) {
      const size_t count = n - i < kBlock ? n - i : kBlock;
      const char* x = in + i * in_size_;
      char* o = out + i * out_size_;
      const float* floats = reinterpret_cast<const float*>(x);
      if (narrow_in_ != nullptr) {
        const bool last = out_size_ == 4 && loop_ == nullptr;
        float* to = last ? reinterpret_cast<float*>(o) : wide;
        narrow_in_->widen(reinterpret_cast<const uint16_t*>(x), to, count);
        if (last) continue;
        if (narrow_out_ == nullptr) {
          loop_(wide, o, count);
          continue;
        }
        floats = wide;
      } else if (double_in_) {
        for (size_t k = 0; k < count; ++k) {
          wide[k] = OddFloat(reinterpret_cast<const double*>(x)[k]);
        }
        floats = wide;
      } else if (!float_in_) {
        loop_(x, wide, count);
        floats = wide;
      }
      narrow_out_->narrow(floats, reinterpret_cast<uint16_t*>(o), count);
    }
  }

  const Loop loop_;
  const bool same_;
  const NarrowFloat *const narrow_in_, *const narrow_out_;  // null: not in 16 bits
  const bool float_in_, double_in_;
  const size_t count_, in_size_, out_size_;
};

Result<KernelPtr> Make(const Node& node, const KernelOptions&) {
  const Qnn_DataType_t from = node.inputs[0]->dtype, to = node.outputs[0]->dtype;
  const Loop loop = IsFloat(from) && IsFloat(to) ? nullptr : FromTo(from, to);
  return KernelPtr(std::make_unique<CastKernel>(node, loop));
}

}  // namespace

OpList CastOps() {
  const PortSpec in{"in[0]", types::kAny}, out{"out[0]", types::kAny};
  const PortSpec real{"in[0]", types::kFloat}, fixed{"out[0]", types::kFixed};
  const PortSpec code{"in[0]", types::kFixed}, decoded{"out[0]", types::kFloat};
  const uint32_t converts = OpDef::kNativeHalf | OpDef::kConverts | OpDef::kLpai;
  return {
      {QNN_OP_CAST, {in}, {out}, {}, SameShapeAsInput, Make, converts | OpDef::kIntegers},
      {QNN_OP_CONVERT,
       {in},
       {out},
       {{"dynamic_input_data", ParamSpec::kBool, Default(false), "no effect on floats"},
        {"dynamic_output_data", ParamSpec::kBool, Default(false), "no effect on floats"}},
       SameShapeAsInput,
       Make,
       converts,
       MakeFixedConvert},
      {QNN_OP_QUANTIZE, {real}, {fixed}, {}, SameShapeAsInput, Make, converts, MakeFixedConvert},
      {QNN_OP_DEQUANTIZE,
       {code},
       {decoded},
       {},
       SameShapeAsInput,
       Make,
       converts,
       MakeFixedConvert},
  };
}

}  // namespace qnnrt
