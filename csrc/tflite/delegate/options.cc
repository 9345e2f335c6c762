#include "tflite/delegate/options.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#include "abi/qnn_errors.h"

TfLiteQnnDelegateOptions TfLiteQnnDelegateOptionsDefault(void) {
  TfLiteQnnDelegateOptions o;
  std::memset(&o, 0, sizeof o);
  o.gpu_options.precision = 2;
  o.htp_options.useConvHmx = true;
  o.htp_options.useFoldRelu = true;
  o.log_level = kLogLevelInfo;
  o.graph_priority = kQnnPriorityNormal;
  o.qnnrt_shared_memory = true;
  return o;
}

namespace qnnrt::tflite {
namespace {

Status Wrong(const std::string& text) { return Status(QNN_COMMON_ERROR_INVALID_ARGUMENT, text); }

// An option that is a number from 0 to `most`.
struct Number {
  const char* key;
  int64_t most;
  bool in_struct;  // checked in the C struct, too: it is an enumeration
  int64_t (*get)(const TfLiteQnnDelegateOptions& o);
  void (*set)(TfLiteQnnDelegateOptions* o, int64_t value);
};

#define QNNRT_NUMBER(key, most, in_struct, field)                                        \
  {                                                                                      \
    key, most, in_struct,                                                                \
        [](const TfLiteQnnDelegateOptions& o) { return static_cast<int64_t>(o.field); }, \
        [](TfLiteQnnDelegateOptions* o, int64_t v) {                                     \
          o->field = static_cast<std::remove_reference_t<decltype(o->field)>>(v);        \
        }                                                                                \
  }

const Number kNumbers[] = {
    QNNRT_NUMBER("log_level", 5, true, log_level),
    QNNRT_NUMBER("gpu_precision", 3, true, gpu_options.precision),
    QNNRT_NUMBER("gpu_performance_mode", 3, true, gpu_options.performance_mode),
    QNNRT_NUMBER("htp_performance_mode", 9, true, htp_options.performance_mode),
    QNNRT_NUMBER("htp_perf_ctrl_strategy", 1, true, htp_options.perf_ctrl_strategy),
    QNNRT_NUMBER("htp_precision", 1, true, htp_options.precision),
    QNNRT_NUMBER("htp_pd_session", 1, true, htp_options.pd_session),
    QNNRT_NUMBER("htp_optimization_strategy", 2, true, htp_options.optimization_strategy),
    QNNRT_NUMBER("htp_use_conv_hmx", 1, false, htp_options.useConvHmx),
    QNNRT_NUMBER("htp_use_fold_relu", 1, false, htp_options.useFoldRelu),
    QNNRT_NUMBER("htp_vtcm_size", 64, false, htp_options.vtcm_size),
    QNNRT_NUMBER("htp_num_hvx_threads", 64, false, htp_options.num_hvx_threads),
    QNNRT_NUMBER("htp_device_id", INT32_MAX, false, htp_options.device_id),
    QNNRT_NUMBER("dsp_performance_mode", 8, true, dsp_options.performance_mode),
    QNNRT_NUMBER("dsp_perf_ctrl_strategy", 1, true, dsp_options.perf_ctrl_strategy),
    QNNRT_NUMBER("dsp_pd_session", 1, true, dsp_options.pd_session),
    QNNRT_NUMBER("profiling", 3, true, profiling),
    QNNRT_NUMBER("graph_priority", 3, true, graph_priority),
    QNNRT_NUMBER("qnnrt_shared_memory", 1, false, qnnrt_shared_memory),
};

#undef QNNRT_NUMBER

Status Check(const TfLiteQnnDelegateOptions& o) {
  for (const Number& number : kNumbers) {
    const int64_t value = number.get(o);
    if (number.in_struct && (value < 0 || value > number.most))
      return Wrong(std::string(number.key) + " is " + std::to_string(value) +
                   "; it goes from 0 to " + std::to_string(number.most));
  }
  switch (static_cast<int>(o.backend_type)) {
    case kGpuBackend:
    case kHtpBackend:
    case kDspBackend:
    case kIrBackend:
    case kQnnrtCpuBackend:
      break;
    case kUndefinedBackend:
      return Wrong("backend_type is missing; give htp (or cpu, which is this runtime's own)");
    default:
      return Wrong("backend_type is " + std::to_string(o.backend_type) +
                   ", which is no backend; give htp (or cpu, which is this runtime's own)");
  }
  if (o.op_package_options.num_op_package_infos != 0)
    return Wrong("op_package_options: packages of operations are not supported; leave them out");
  return Status::Ok();
}

Status NeedsLibrary(const Options& o) {
  const auto type = static_cast<int>(o.c.backend_type);
  if (!o.library_path.empty() || type == kHtpBackend || type == kQnnrtCpuBackend)
    return Status::Ok();
  const char* name = type == kGpuBackend ? "gpu" : type == kDspBackend ? "dsp" : "ir";
  return Wrong(std::string("backend_type ") + name + " is none of this runtime's backends for " +
               "TFLite (htp, cpu); give its QNN library as library_path");
}

// ---- String keys ----

Status ReadNumber(const std::string& key, const char* text, int64_t least, int64_t most,
                  int64_t* out) {
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || value < least || value > most)
    return Wrong("the value of " + key + " is '" + text + "'; it takes a number from " +
                 std::to_string(least) + " to " + std::to_string(most));
  *out = value;
  return Status::Ok();
}

Status ReadBackend(const char* text, TfLiteQnnDelegateBackendType* out) {
  const std::pair<const char*, TfLiteQnnDelegateBackendType> names[] = {
      {"gpu", kGpuBackend}, {"htp", kHtpBackend},      {"dsp", kDspBackend},
      {"ir", kIrBackend},   {"cpu", kQnnrtCpuBackend},
  };
  for (const auto& [name, type] : names) {
    if (std::strcmp(text, name) == 0) {
      *out = type;
      return Status::Ok();
    }
  }
  return Wrong(std::string("the value of backend_type is '") + text +
               "'; it takes htp, cpu, gpu, dsp or ir");
}

Status ReadList(const std::string& key, const char* text, std::set<int>* out) {
  for (const char* at = text; *at != '\0';) {
    const char* end = std::strchr(at, ',');
    const std::string item = end == nullptr ? std::string(at) : std::string(at, end);
    int64_t value;
    QNNRT_RETURN_IF_ERROR(ReadNumber(key, item.c_str(), 0, INT32_MAX, &value));
    out->insert(static_cast<int>(value));
    at = end == nullptr ? "" : end + 1;
  }
  return Status::Ok();
}

const char* const kWithoutEffect[] = {"skel_library_dir", "gpu_kernel_repo_dir", "cache_dir",
                                      "model_token"};

Status ReadKey(const std::string& key, const char* value, Options* o) {
  for (const Number& number : kNumbers) {
    if (key != number.key) continue;
    int64_t found;
    QNNRT_RETURN_IF_ERROR(ReadNumber(key, value, 0, number.most, &found));
    number.set(&o->c, found);
    return Status::Ok();
  }
  for (const char* name : kWithoutEffect) {
    if (key == name) return Status::Ok();
  }
  if (key == "backend_type") return ReadBackend(value, &o->c.backend_type);
  if (key == "library_path") {
    o->library_path = value;
    return Status::Ok();
  }
  if (key == "tensor_dump_output_path") {
    o->dump_path = value;
    return Status::Ok();
  }
  if (key == "skip_delegate_ops") return ReadList(key, value, &o->skip_ops);
  if (key == "skip_delegate_node_ids") return ReadList(key, value, &o->skip_nodes);
  std::string names =
      "backend_type, library_path, tensor_dump_output_path, skip_delegate_ops, "
      "skip_delegate_node_ids";
  for (const Number& number : kNumbers) names += std::string(", ") + number.key;
  for (const char* name : kWithoutEffect) names += std::string(", ") + name;
  return Wrong("there is no option '" + key + "'; there are " + names);
}

}  // namespace

Result<Options> ReadOptions(const TfLiteQnnDelegateOptions& given) {
  QNNRT_RETURN_IF_ERROR(Check(given));
  Options o;
  o.c = given;
  if (given.library_path != nullptr) o.library_path = given.library_path;
  if (given.tensor_dump_output_path != nullptr) o.dump_path = given.tensor_dump_output_path;
  const TfLiteQnnDelegateSkipOption& skip = given.skip_options;
  if ((skip.skip_delegate_ops_nr > 0 && skip.skip_delegate_ops == nullptr) ||
      (skip.skip_delegate_node_ids_nr > 0 && skip.skip_delegate_node_ids == nullptr))
    return Wrong("skip_options: a list is null, but its count is not 0");
  for (int i = 0; i < skip.skip_delegate_ops_nr; ++i) o.skip_ops.insert(skip.skip_delegate_ops[i]);
  for (int i = 0; i < skip.skip_delegate_node_ids_nr; ++i)
    o.skip_nodes.insert(skip.skip_delegate_node_ids[i]);
  QNNRT_RETURN_IF_ERROR(NeedsLibrary(o));
  return o;
}

Result<Options> ReadKeys(const char* const* keys, const char* const* values, size_t count) {
  Options o;
  for (size_t i = 0; i < count; ++i) {
    if (keys == nullptr || values == nullptr || keys[i] == nullptr || values[i] == nullptr)
      return Wrong("an option has no key or no value");
    QNNRT_RETURN_IF_ERROR(ReadKey(keys[i], values[i], &o));
  }
  QNNRT_RETURN_IF_ERROR(Check(o.c));
  QNNRT_RETURN_IF_ERROR(NeedsLibrary(o));
  return o;
}

}  // namespace qnnrt::tflite
