// oneDNN's primitives called directly, with the layouts that QNN has: what kernels.py compares
// with. Channels last, weights packed once as the primitive likes them, the scratchpad kept.
#include <omp.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

using namespace dnnl;
using Type = memory::data_type;
using Tag = memory::format_tag;
using Dims = memory::dims;

namespace {

enum Kind : int32_t { kConv, kMatMul, kMaxPool, kAvgPool, kSoftmax, kAdd };
enum Stored : int32_t { kFloat, kFixed, kBrain };  // f32; u8 with weights of s8; bf16

// As kernels.py has it. An image is n x h x w x c; a product has n batches of h x c by c x o.
struct Problem {
  int32_t kind, stored, threads, static_weights;
  int64_t n, h, w, c, o, kernel, stride, pad, group;
  float src_scale, src1_scale, dst_scale;
  int32_t src_zero, dst_zero;
  const float* weight_scales;  // one for each of `o`
  const void* bias;            // real numbers, of bf16 where the others are; null: none
  const void* src;
  const void* weights;  // the second operand
};

struct WithThreads {
  const int before = omp_get_max_threads();
  explicit WithThreads(int threads) { omp_set_num_threads(threads); }
  ~WithThreads() { omp_set_num_threads(before); }
};

struct Call {
  engine eng{engine::kind::cpu, 0};
  stream strm{eng};
  int threads = 1;
  primitive prim;
  std::unordered_map<int, memory> args;

  memory Own(const memory::desc& desc, const void* from = nullptr) {
    memory m(desc, eng);
    if (from != nullptr) std::memcpy(m.get_data_handle(), from, desc.get_size());
    return m;
  }
  void Constant(int id, Type type, const void* data, int64_t count) {
    args[id] = Own(memory::desc({count}, type, Tag::x), data);
  }
  memory Packed(const memory::desc& lies, const memory::desc& wanted, const void* data) {
    memory from = Own(lies, data), to(wanted, eng);
    reorder(from, to).execute(strm, from, to);
    strm.wait();
    return to;
  }
  void Run() { prim.execute(strm, args); }
};

Type Bias(const Problem& p) { return p.stored == kBrain ? Type::bf16 : Type::f32; }
Type Activation(const Problem& p) { return p.stored == kFixed ? Type::u8 : Bias(p); }
Type Weights(const Problem& p) { return p.stored == kFixed ? Type::s8 : Bias(p); }

void Quantize(const Problem& p, int weight_mask, primitive_attr* attr, Call* call) {
  if (p.stored != kFixed) return;
  const bool weights = p.kind == kConv || p.kind == kMatMul;
  if (p.kind == kMaxPool || p.kind == kAvgPool) return;  // one scale for both ends
  attr->set_scales_mask(DNNL_ARG_SRC, 0);
  call->Constant(DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, Type::f32, &p.src_scale, 1);
  if (p.kind == kAdd) {
    attr->set_scales_mask(DNNL_ARG_SRC_1, 0);
    call->Constant(DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC_1, Type::f32, &p.src1_scale, 1);
    return;
  }
  attr->set_scales_mask(DNNL_ARG_DST, 0);
  call->Constant(DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, Type::f32, &p.dst_scale, 1);
  if (!weights) return;
  attr->set_scales_mask(DNNL_ARG_WEIGHTS, p.static_weights != 0 ? weight_mask : 0);
  call->Constant(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, Type::f32, p.weight_scales,
                 p.static_weights != 0 ? p.o : 1);
  for (const auto& [id, zero] : {std::pair(DNNL_ARG_SRC, p.src_zero), {DNNL_ARG_DST, p.dst_zero}}) {
    if (zero == 0) continue;
    attr->set_zero_points_mask(id, 0);
    call->Constant(DNNL_ARG_ATTR_ZERO_POINTS | id, Type::s32, &zero, 1);
  }
}

template <typename Desc>
void Finish(const Problem& p, const Desc& desc, Call* call) {
  call->args[DNNL_ARG_SRC] = call->Own(desc.src_desc(), p.src);
  call->args[DNNL_ARG_DST] = call->Own(desc.dst_desc());
  call->args[DNNL_ARG_SCRATCHPAD] = memory(desc.scratchpad_desc(), call->eng);
  call->prim = primitive(desc);
}

int64_t OutSide(const Problem& p, int64_t side) {
  return (side + 2 * p.pad - p.kernel) / p.stride + 1;
}

void MakeConv(const Problem& p, primitive_attr attr, Call* call) {
  const int64_t cin = p.c / p.group, cout = p.o / p.group, k = p.kernel;
  Dims dims{cout, cin, k, k}, strides{1, p.o, k * cin * p.o, cin * p.o};
  if (p.group > 1) {
    dims.insert(dims.begin(), p.group);
    strides.insert(strides.begin(), cout);
  }
  Quantize(p, p.group > 1 ? 3 : 1, &attr, call);
  const memory::desc lie(dims, Weights(p), strides);
  const Dims stride{p.stride, p.stride}, pads{p.pad, p.pad};
  const memory::desc src({p.n, p.c, p.h, p.w}, Activation(p), Tag::nhwc);
  const memory::desc dst({p.n, p.o, OutSide(p, p.h), OutSide(p, p.w)}, Activation(p), Tag::nhwc);
  const memory::desc bias =
      p.bias != nullptr ? memory::desc({p.o}, Bias(p), Tag::x) : memory::desc();
  const convolution_forward::primitive_desc desc(
      call->eng, prop_kind::forward_inference, algorithm::convolution_direct, src,
      memory::desc(dims, Weights(p), Tag::any), bias, dst, stride, pads, pads, attr);
  Finish(p, desc, call);
  call->args[DNNL_ARG_WEIGHTS] = call->Packed(lie, desc.weights_desc(), p.weights);
  if (p.bias != nullptr) call->args[DNNL_ARG_BIAS] = call->Own(desc.bias_desc(), p.bias);
}

void MakeMatMul(const Problem& p, primitive_attr attr, Call* call) {
  Quantize(p, 2, &attr, call);
  // Static weights are FullyConnected's, [o, c]; else the second operand is [n, c, o].
  const bool fixed = p.static_weights != 0;
  const memory::desc src = fixed ? memory::desc({p.n * p.h, p.c}, Activation(p), Tag::ab)
                                 : memory::desc({p.n, p.h, p.c}, Activation(p), Tag::abc);
  const memory::desc dst = fixed ? memory::desc({p.n * p.h, p.o}, Activation(p), Tag::ab)
                                 : memory::desc({p.n, p.h, p.o}, Activation(p), Tag::abc);
  const memory::desc lie = fixed ? memory::desc({p.c, p.o}, Weights(p), Tag::ba)
                                 : memory::desc({p.n, p.c, p.o}, Weights(p), Tag::abc);
  const memory::desc wanted = fixed ? memory::desc({p.c, p.o}, Weights(p), Tag::any) : lie;
  const memory::desc bias =
      p.bias != nullptr ? memory::desc({1, p.o}, Bias(p), Tag::ab) : memory::desc();
  const matmul::primitive_desc desc(call->eng, src, wanted, bias, dst, attr);
  Finish(p, desc, call);
  call->args[DNNL_ARG_WEIGHTS] = call->Packed(lie, desc.weights_desc(), p.weights);
  if (p.bias != nullptr) call->args[DNNL_ARG_BIAS] = call->Own(desc.bias_desc(), p.bias);
}

void MakePool(const Problem& p, const primitive_attr& attr, Call* call) {
  const Dims kernel{p.kernel, p.kernel}, stride{p.stride, p.stride}, pads{p.pad, p.pad};
  const memory::desc src({p.n, p.c, p.h, p.w}, Activation(p), Tag::nhwc);
  const memory::desc dst({p.n, p.c, OutSide(p, p.h), OutSide(p, p.w)}, Activation(p), Tag::nhwc);
  const pooling_forward::primitive_desc desc(
      call->eng, prop_kind::forward_inference,
      p.kind == kMaxPool ? algorithm::pooling_max : algorithm::pooling_avg_exclude_padding, src,
      dst, stride, kernel, {0, 0}, pads, pads, attr);
  Finish(p, desc, call);
}

void MakeSoftmax(const Problem& p, primitive_attr attr, Call* call) {
  Quantize(p, 0, &attr, call);
  const memory::desc both({p.n, p.c}, Activation(p), Tag::ab);
  const softmax_forward::primitive_desc desc(call->eng, prop_kind::forward_inference,
                                             algorithm::softmax_accurate, both, both, 1, attr);
  Finish(p, desc, call);
}

void MakeAdd(const Problem& p, primitive_attr attr, Call* call) {
  Quantize(p, 0, &attr, call);
  const memory::desc all({p.n, p.c, p.h, p.w}, Activation(p), Tag::nhwc);
  const binary::primitive_desc desc(call->eng, algorithm::binary_add, all, all, all, attr);
  Finish(p, desc, call);
  call->args[DNNL_ARG_SRC_1] = call->Own(all, p.weights);
}

double Now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace

extern "C" {

// Null, and why in `error`, where oneDNN has nothing for the problem.
void* make(const Problem* p, char* error, size_t size) {
  Call* call = new Call;
  call->threads = p->threads;
  const WithThreads with(p->threads);
  try {
    primitive_attr attr;
    attr.set_scratchpad_mode(scratchpad_mode::user);
    switch (p->kind) {
      case kConv:
        MakeConv(*p, attr, call);
        break;
      case kMatMul:
        MakeMatMul(*p, attr, call);
        break;
      case kMaxPool:
      case kAvgPool:
        MakePool(*p, attr, call);
        break;
      case kSoftmax:
        MakeSoftmax(*p, attr, call);
        break;
      default:
        MakeAdd(*p, attr, call);
    }
  } catch (const dnnl::error& e) {
    std::snprintf(error, size, "%s", e.what());
    delete call;
    call = nullptr;
  }
  return call;
}

void destroy(void* call) { delete static_cast<Call*>(call); }

const void* result(void* call) {
  return static_cast<Call*>(call)->args.at(DNNL_ARG_DST).get_data_handle();
}

void once(void* handle) {
  Call* call = static_cast<Call*>(handle);
  const WithThreads with(call->threads);
  call->Run();
}

// Seconds for a call, the mean of n; one goes before them.
double run(void* handle, long n) {
  Call* call = static_cast<Call*>(handle);
  const WithThreads with(call->threads);
  call->Run();
  const double start = Now();
  for (long i = 0; i < n; ++i) call->Run();
  return (Now() - start) / static_cast<double>(n);
}
}
