#include "tflite/delegate/options.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sstream>
#include <vector>

#include "abi/qnn_errors.h"
#include "support/guard.h"
#include "support/json.h"

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

enum OptionKind {
  kBackend,  // a choice; as the value of a key, by its name
  kChoice,
  kSwitch,
  kNumber,  // of 32 bits without a sign
  kText,
  kNumbers,  // of numbers
};

// All that is known of an option. Python has it as JSON.
struct OptionSpec {
  const char* key;  // of an external delegate
  OptionKind kind;
  size_t at = 0;                         // in the C struct; not of texts and lists
  const char* choices = "";              // the names of 0, 1, ..., with spaces between
  int64_t most = 0;                      // as the value of a key; 0: of choices, the last one
  std::string Options::*text = nullptr;  // null: without effect in this library
  std::set<int> Options::*list = nullptr;
};

#define QNNRT_AT(field) offsetof(TfLiteQnnDelegateOptions, field)

constexpr const char kModes[] =
    "default sustained_high_performance burst high_performance power_saver low_power_saver "
    "high_power_saver low_balanced balanced extreme_power_saver";

const OptionSpec kOptions[] = {
    // backend_type is the first one
    {"backend_type", kBackend, QNNRT_AT(backend_type), "undefined gpu htp dsp ir"},
    {"library_path", kText, 0, "", 0, &Options::library_path},
    {"tensor_dump_output_path", kText, 0, "", 0, &Options::dump_path},
    {"skip_delegate_ops", kNumbers, 0, "", 0, nullptr, &Options::skip_ops},
    {"skip_delegate_node_ids", kNumbers, 0, "", 0, nullptr, &Options::skip_nodes},
    {"log_level", kChoice, QNNRT_AT(log_level), "off error warning info verbose debug"},
    {"gpu_precision", kChoice, QNNRT_AT(gpu_options.precision), "user fp32 fp16 hybrid"},
    {"gpu_performance_mode", kChoice, QNNRT_AT(gpu_options.performance_mode),
     "default high normal low"},
    {"htp_performance_mode", kChoice, QNNRT_AT(htp_options.performance_mode), kModes},
    {"htp_perf_ctrl_strategy", kChoice, QNNRT_AT(htp_options.perf_ctrl_strategy), "manual auto"},
    {"htp_precision", kChoice, QNNRT_AT(htp_options.precision), "quantized fp16"},
    {"htp_pd_session", kChoice, QNNRT_AT(htp_options.pd_session), "unsigned signed"},
    {"htp_optimization_strategy", kChoice, QNNRT_AT(htp_options.optimization_strategy),
     "inference prepare inference_o3"},
    {"htp_use_conv_hmx", kSwitch, QNNRT_AT(htp_options.useConvHmx), "", 1},
    {"htp_use_fold_relu", kSwitch, QNNRT_AT(htp_options.useFoldRelu), "", 1},
    {"htp_vtcm_size", kNumber, QNNRT_AT(htp_options.vtcm_size), "", 64},
    {"htp_num_hvx_threads", kNumber, QNNRT_AT(htp_options.num_hvx_threads), "", 64},
    {"htp_device_id", kNumber, QNNRT_AT(htp_options.device_id), "", INT32_MAX},
    {"dsp_performance_mode", kChoice, QNNRT_AT(dsp_options.performance_mode), kModes, 8},
    {"dsp_perf_ctrl_strategy", kChoice, QNNRT_AT(dsp_options.perf_ctrl_strategy), "manual auto"},
    {"dsp_pd_session", kChoice, QNNRT_AT(dsp_options.pd_session), "unsigned signed"},
    {"profiling", kChoice, QNNRT_AT(profiling), "off basic per_op linting"},
    {"graph_priority", kChoice, QNNRT_AT(graph_priority), "low normal normal_high high"},
    {"qnnrt_shared_memory", kSwitch, QNNRT_AT(qnnrt_shared_memory), "", 1},
    {"skel_library_dir", kText},
    {"gpu_kernel_repo_dir", kText},
    {"cache_dir", kText},
    {"model_token", kText},
};

#undef QNNRT_AT

std::vector<std::string> Names(const OptionSpec& spec) {
  std::istringstream text(spec.choices);
  return {std::istream_iterator<std::string>(text), {}};
}

int64_t Most(const OptionSpec& spec) {
  return spec.most != 0 ? spec.most : static_cast<int64_t>(Names(spec).size()) - 1;
}

// Numbers, choices and flags; all but flags have 32 bits.
int64_t Get(const OptionSpec& spec, const TfLiteQnnDelegateOptions& o) {
  int32_t value = 0;
  const char* from = reinterpret_cast<const char*>(&o) + spec.at;
  std::memcpy(&value, from, spec.kind == kSwitch ? sizeof(bool) : sizeof value);
  return value;
}

void Set(const OptionSpec& spec, int64_t value, TfLiteQnnDelegateOptions* o) {
  const auto narrow = static_cast<int32_t>(value);
  char* to = reinterpret_cast<char*>(o) + spec.at;
  std::memcpy(to, &narrow, spec.kind == kSwitch ? sizeof(bool) : sizeof narrow);
}

std::string Json() {
  static const char* const kKinds[] = {"choice", "choice", "flag", "number", "text", "list"};
  const TfLiteQnnDelegateOptions defaults = TfLiteQnnDelegateOptionsDefault();
  JsonWriter json;
  json.Object();
  for (const OptionSpec& spec : kOptions) {
    json.Key(spec.key).Object().Key("kind").String(kKinds[static_cast<int>(spec.kind)]);
    const std::vector<std::string> names = Names(spec);
    if (!names.empty()) {
      json.Key("default").String(names[Get(spec, defaults)]).Key("choices").Array();
      for (int64_t i = 0; i <= Most(spec); ++i) json.String(names[i]);
      json.End();
    }
    if (spec.kind == kSwitch) json.Key("default").Bool(Get(spec, defaults) != 0);
    if (spec.kind == kNumber)
      json.Key("default").Number(Get(spec, defaults)).Key("most").Number(UINT32_MAX);
    json.End();
  }
  return json.End().Take();
}

Status Check(const TfLiteQnnDelegateOptions& o) {
  for (const OptionSpec& spec : kOptions) {
    if (spec.kind != kChoice) continue;
    const int64_t value = Get(spec, o);
    if (value < 0 || value > Most(spec))
      return Wrong(std::string(spec.key) + " is " + std::to_string(value) + "; it goes from 0 to " +
                   std::to_string(Most(spec)));
  }
  const int64_t type = Get(kOptions[0], o);  // a client's: any number
  const std::string give = "; give htp (or cpu, which is this runtime's own)";
  if (type == kUndefinedBackend) return Wrong("backend_type is missing" + give);
  if (type != kQnnrtCpuBackend && (type < 0 || type > Most(kOptions[0])))
    return Wrong("backend_type is " + std::to_string(type) + ", which is no backend" + give);
  if (o.op_package_options.num_op_package_infos != 0)
    return Wrong("op_package_options: packages of operations are not supported; leave them out");
  return Status::Ok();
}

Status NeedsLibrary(const Options& o) {
  const int64_t type = Get(kOptions[0], o.c);
  if (!o.library_path.empty() || type == kHtpBackend || type == kQnnrtCpuBackend)
    return Status::Ok();
  return Wrong("backend_type " + Names(kOptions[0])[static_cast<size_t>(type)] +
               " is none of this runtime's backends for TFLite (htp, cpu); give its QNN library as "
               "library_path");
}

// ---- String keys ----

Status ReadNumber(const std::string& key, const char* text, int64_t most, int64_t* out) {
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || value < 0 || value > most)
    return Wrong("the value of " + key + " is '" + text + "'; it takes a number from 0 to " +
                 std::to_string(most));
  *out = value;
  return Status::Ok();
}

Status ReadBackend(const OptionSpec& spec, const std::string& text, TfLiteQnnDelegateOptions* o) {
  const std::vector<std::string> names = Names(spec);
  const auto found = std::find(names.begin() + 1, names.end(), text);
  if (found == names.end() && text != "cpu")
    return Wrong("the value of backend_type is '" + text + "'; it takes htp, cpu, gpu, dsp or ir");
  Set(spec, text == "cpu" ? int64_t{kQnnrtCpuBackend} : found - names.begin(), o);
  return Status::Ok();
}

Status ReadList(const std::string& key, const char* text, std::set<int>* out) {
  for (const char* at = text; *at != '\0';) {
    const char* end = std::strchr(at, ',');
    const std::string item = end == nullptr ? std::string(at) : std::string(at, end);
    int64_t value;
    QNNRT_RETURN_IF_ERROR(ReadNumber(key, item.c_str(), INT32_MAX, &value));
    out->insert(static_cast<int>(value));
    at = end == nullptr ? "" : end + 1;
  }
  return Status::Ok();
}

Status ReadKey(const std::string& key, const char* value, Options* o) {
  std::string keys;
  for (const OptionSpec& spec : kOptions) {
    keys += (keys.empty() ? "" : ", ") + std::string(spec.key);
    if (key != spec.key) continue;
    if (spec.kind == kBackend) return ReadBackend(spec, value, &o->c);
    if (spec.kind == kNumbers) return ReadList(key, value, &(o->*spec.list));
    if (spec.kind == kText) {
      if (spec.text != nullptr) o->*spec.text = value;
      return Status::Ok();
    }
    int64_t number;
    QNNRT_RETURN_IF_ERROR(ReadNumber(key, value, Most(spec), &number));
    Set(spec, number, &o->c);
    return Status::Ok();
  }
  return Wrong("there is no option '" + key + "'; there are " + keys);
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

const char* qnnrt_tflite_options_json(void) {
  return qnnrt::Contained(
      [] {
        static const auto* const text = new std::string(qnnrt::tflite::Json());
        return text->c_str();
      },
      [](const qnnrt::Status&) -> const char* { return nullptr; });
}
