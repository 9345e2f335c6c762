// Options of the TFLite delegate: of each the last value that is taken and the first that is not,
// as keys and as fields of the C struct.
#include "tflite/delegate/options.h"

#include <climits>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "abi/qnn_errors.h"
#include "check.h"

using qnnrt::Result;
using qnnrt::tflite::Options;
using qnnrt::tflite::ReadKeys;
using qnnrt::tflite::ReadOptions;

namespace {

using Pairs = std::vector<std::pair<const char*, const char*>>;

Result<Options> Read(const Pairs& pairs) {
  std::vector<const char*> keys = {"backend_type"}, values = {"htp"};
  for (const auto& [key, value] : pairs) {
    keys.push_back(key);
    values.push_back(value);
  }
  return ReadKeys(keys.data(), values.data(), keys.size());
}

bool Refused(const qnnrt::Status& status, const std::string& words) {
  const bool good = status.code() == QNN_COMMON_ERROR_INVALID_ARGUMENT &&
                    status.message().find(words) != std::string::npos;
  if (!good) std::fprintf(stderr, "  expected '%s': %s\n", words.c_str(), status.message().c_str());
  return good;
}

// An option that is a number, as a key and as what it becomes.
struct Numeric {
  const char* key;
  long long most;       // as a key
  long long most_of_c;  // in the struct; 0: the same
  std::function<void*(TfLiteQnnDelegateOptions*)> field;
  size_t size = 4;
};
#define FIELD(name) [](TfLiteQnnDelegateOptions* o) -> void* { return &o->name; }
const Numeric kNumeric[] = {
    {"log_level", 5, 0, FIELD(log_level)},
    {"gpu_precision", 3, 0, FIELD(gpu_options.precision)},
    {"gpu_performance_mode", 3, 0, FIELD(gpu_options.performance_mode)},
    {"htp_performance_mode", 9, 0, FIELD(htp_options.performance_mode)},
    {"htp_perf_ctrl_strategy", 1, 0, FIELD(htp_options.perf_ctrl_strategy)},
    {"htp_precision", 1, 0, FIELD(htp_options.precision)},
    {"htp_pd_session", 1, 0, FIELD(htp_options.pd_session)},
    {"htp_optimization_strategy", 2, 0, FIELD(htp_options.optimization_strategy)},
    {"htp_use_conv_hmx", 1, -1, FIELD(htp_options.useConvHmx), 1},
    {"htp_use_fold_relu", 1, -1, FIELD(htp_options.useFoldRelu), 1},
    {"htp_vtcm_size", 64, -1, FIELD(htp_options.vtcm_size)},
    {"htp_num_hvx_threads", 64, -1, FIELD(htp_options.num_hvx_threads)},
    {"htp_device_id", INT_MAX, -1, FIELD(htp_options.device_id)},
    {"dsp_performance_mode", 8, 0, FIELD(dsp_options.performance_mode)},
    {"dsp_perf_ctrl_strategy", 1, 0, FIELD(dsp_options.perf_ctrl_strategy)},
    {"dsp_pd_session", 1, 0, FIELD(dsp_options.pd_session)},
    {"profiling", 3, 0, FIELD(profiling)},
    {"graph_priority", 3, 0, FIELD(graph_priority)},
    {"qnnrt_shared_memory", 1, -1, FIELD(qnnrt_shared_memory), 1},
};
#undef FIELD

long long Value(const Numeric& n, TfLiteQnnDelegateOptions o) {
  int value = 0;
  std::memcpy(&value, n.field(&o), n.size);
  return value;
}

TEST(a_key_takes_the_numbers_up_to_its_last) {
  for (const Numeric& n : kNumeric) {
    const std::string most = std::to_string(n.most), more = std::to_string(n.most + 1);
    for (const std::string& text : {std::string("0"), most}) {
      auto read = Read({{n.key, text.c_str()}});
      if (!CHECK_OK(read.status())) continue;
      CHECK_EQ(Value(n, read->c), std::stoll(text));
      // Nothing else.
      for (const Numeric& other : kNumeric) {
        if (other.key != n.key)
          CHECK_EQ(Value(other, read->c), Value(other, TfLiteQnnDelegateOptionsDefault()));
      }
    }
    const std::string range = std::string(n.key) + " is '";
    for (const std::string& text : {more, std::string("-1"), std::string(""), std::string("x"),
                                    most + "x", "0" + more + "0000000000000000000000"}) {
      CHECK(Refused(Read({{n.key, text.c_str()}}).status(), range + text));
      CHECK(Refused(Read({{n.key, text.c_str()}}).status(), "from 0 to " + most));
    }
  }
}

TEST(a_field_that_is_a_choice_has_the_same_range) {
  for (const Numeric& n : kNumeric) {
    if (n.most_of_c < 0) continue;
    for (long long value : {-1LL, 0LL, n.most, n.most + 1, static_cast<long long>(INT_MAX)}) {
      TfLiteQnnDelegateOptions o = TfLiteQnnDelegateOptionsDefault();
      o.backend_type = kHtpBackend;
      const int narrow = static_cast<int>(value);
      std::memcpy(n.field(&o), &narrow, n.size);
      const auto status = ReadOptions(o).status();
      if (value >= 0 && value <= n.most) {
        CHECK_OK(status);
      } else {
        CHECK(Refused(status, std::string(n.key) + " is " + std::to_string(value) +
                                  "; it goes from 0 to " + std::to_string(n.most)));
      }
    }
  }
}

TEST(backends_are_named_or_numbered) {
  const struct {
    const char* name;
    int number;
    const char* complaint;
  } cases[] = {{"htp", kHtpBackend, nullptr}, {"cpu", kQnnrtCpuBackend, nullptr},
               {"gpu", 1, "library_path"},    {"dsp", 3, "library_path"},
               {"ir", 4, "library_path"},     {"undefined", 0, "backend_type"},
               {"HTP", -1, "backend_type"},   {"", 5, "backend_type"},
               {"2", INT_MAX, "backend_type"}};
  for (const auto& c : cases) {
    const char* const key = "backend_type";
    auto read = ReadKeys(&key, &c.name, 1);
    TfLiteQnnDelegateOptions o = TfLiteQnnDelegateOptionsDefault();
    o.backend_type = static_cast<TfLiteQnnDelegateBackendType>(c.number);
    const auto given = ReadOptions(o);
    if (c.complaint == nullptr) {
      if (CHECK_OK(read.status())) CHECK_EQ(static_cast<int>(read->c.backend_type), c.number);
      CHECK_OK(given.status());
      continue;
    }
    CHECK(Refused(read.status(), c.complaint));
    CHECK(Refused(given.status(), c.complaint));
    // With a library of its own each backend that has a name is taken.
    o.library_path = "/x.so";
    CHECK_EQ(ReadOptions(o).ok(), c.number == 1 || c.number == 3 || c.number == 4);
  }
}

TEST(defaults_are_those_of_the_header) {
  const TfLiteQnnDelegateOptions o = TfLiteQnnDelegateOptionsDefault();
  CHECK_EQ(static_cast<int>(o.gpu_options.precision), 2);
  CHECK_EQ(static_cast<int>(o.graph_priority), static_cast<int>(kQnnPriorityNormal));
}

TEST(lists_and_texts_are_kept) {
  auto read = Read({{"skip_delegate_ops", "3,0,2147483647"},
                    {"skip_delegate_node_ids", "7,"},
                    {"library_path", "/a.so"},
                    {"tensor_dump_output_path", "/dump"},
                    {"cache_dir", "/none"}});
  REQUIRE(CHECK_OK(read.status()));
  CHECK(read->skip_ops == std::set<int>({0, 3, INT_MAX}));
  CHECK(read->skip_nodes == std::set<int>({7}));
  CHECK_EQ(read->library_path, "/a.so");
  CHECK_EQ(read->dump_path, "/dump");
  for (const char* text : {"2147483648", "-1", ",", "1,,2", "x", "1;2", "1, x"})
    CHECK(Refused(Read({{"skip_delegate_ops", text}}).status(), "skip_delegate_ops"));
  CHECK_OK(Read({{"skip_delegate_ops", ""}}).status());

  const int ops[] = {4, 2}, nodes[] = {9};
  TfLiteQnnDelegateOptions o = TfLiteQnnDelegateOptionsDefault();
  o.backend_type = kHtpBackend;
  o.library_path = "/b.so";
  o.tensor_dump_output_path = "/d";
  o.skip_options.skip_delegate_ops = ops;
  o.skip_options.skip_delegate_ops_nr = 2;
  o.skip_options.skip_delegate_node_ids = nodes;
  o.skip_options.skip_delegate_node_ids_nr = 1;
  auto given = ReadOptions(o);
  REQUIRE(CHECK_OK(given.status()));
  CHECK(given->skip_ops == std::set<int>({2, 4}) && given->skip_nodes == std::set<int>({9}));
  CHECK(given->library_path == "/b.so" && given->dump_path == "/d");
  o.skip_options.skip_delegate_ops = nullptr;
  CHECK(Refused(ReadOptions(o).status(), "skip_options"));
  o.skip_options.skip_delegate_ops_nr = 1;
  CHECK(Refused(ReadOptions(o).status(), "skip_options"));
  o.skip_options.skip_delegate_ops_nr = 0;
  CHECK_OK(ReadOptions(o).status());
  o.skip_options.skip_delegate_node_ids = nullptr;
  CHECK(Refused(ReadOptions(o).status(), "skip_options"));
  o.skip_options.skip_delegate_node_ids_nr = 0;
  CHECK_OK(ReadOptions(o).status());
  o.op_package_options.num_op_package_infos = 1;
  CHECK(Refused(ReadOptions(o).status(), "op_package_options"));
}

TEST(a_pair_has_a_key_and_a_value) {
  const char *key = "backend_type", *value = "htp", *none = nullptr;
  CHECK_OK(ReadKeys(&key, &value, 1).status());
  CHECK(Refused(ReadKeys(&none, &value, 1).status(), "no key or no value"));
  CHECK(Refused(ReadKeys(&key, &none, 1).status(), "no key or no value"));
  CHECK(Refused(ReadKeys(nullptr, &value, 1).status(), "no key or no value"));
  CHECK(Refused(ReadKeys(&key, nullptr, 1).status(), "no key or no value"));
  CHECK(Refused(ReadKeys(&key, &value, 0).status(), "backend_type is missing"));
  CHECK(Refused(Read({{"backend", "htp"}}).status(), "there is no option 'backend'"));
}

}  // namespace

CHECK_MAIN("tflite_options_test")
