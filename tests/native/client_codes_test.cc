// One answer for one mistake: backendValidateOpConfig refuses a tensor with the code and the reason
// of tensorCreateGraphTensor, and executions refuse what creation would.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "abi/qnn_errors.h"
#include "abi/qnn_interface.h"
#include "check.h"
#include "qnn_tensor.h"

namespace {

const QnnInterface_ImplementationV2_32_t& Table() {
  const QnnInterface_t** list = nullptr;
  uint32_t count = 0;
  QnnInterface_getProviders(&list, &count);
  return list[0]->v2_32;
}
const QnnInterface_ImplementationV2_32_t& q = Table();

std::string Message(Qnn_ErrorHandle_t code) {
  const char* text = nullptr;
  if (q.errorGetVerboseMessage(code, &text) != QNN_SUCCESS) return "";
  const std::string message = text;
  q.errorFreeVerboseMessage(text);
  return message;
}

struct Add {
  Qnn_BackendHandle_t backend = nullptr;
  Qnn_ContextHandle_t context = nullptr;
  uint32_t dims[2] = {2, 4};
  Qnn_Tensor_t tensors[3] = {};

  explicit Add(bool fixed) {
    CHECK_EQ(q.backendCreate(nullptr, nullptr, &backend), QNN_SUCCESS);
    CHECK_EQ(q.contextCreate(backend, nullptr, nullptr, &context), QNN_SUCCESS);
    const Qnn_TensorType_t types[] = {QNN_TENSOR_TYPE_APP_WRITE, QNN_TENSOR_TYPE_APP_WRITE,
                                      QNN_TENSOR_TYPE_APP_READ};
    const char* names[] = {"a", "b", "y"};
    for (int i = 0; i < 3; ++i) {
      tensors[i] = TensorOf(names[i], types[i], dims, 2);
      if (fixed) Encode(&tensors[i], 0.1f, 0);
    }
  }
  ~Add() {
    q.contextFree(context, nullptr);
    q.backendFree(backend);
  }
  static void Encode(Qnn_Tensor_t* t, float scale, int32_t offset) {
    t->v1.dataType = QNN_DATATYPE_UFIXED_POINT_8;
    t->v1.quantizeParams.encodingDefinition = QNN_DEFINITION_DEFINED;
    t->v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET;
    t->v1.quantizeParams.scaleOffsetEncoding = {scale, offset};
  }
  Qnn_OpConfig_t op() {
    Qnn_OpConfig_t config;
    std::memset(&config, 0, sizeof config);
    config.version = QNN_OPCONFIG_VERSION_1;
    config.v1 = {"n", "qti.aisw", "ElementWiseAdd", 0, nullptr, 2, tensors, 1, &tensors[2]};
    return config;
  }
  // What the first refused call of composing it says; 0: none was.
  Qnn_ErrorHandle_t Compose(Qnn_GraphHandle_t* graph) {
    Qnn_ErrorHandle_t code = q.graphCreate(context, "g", nullptr, graph);
    for (Qnn_Tensor_t& t : tensors) {
      if (code == QNN_SUCCESS) code = q.tensorCreateGraphTensor(*graph, &t);
    }
    return code != QNN_SUCCESS ? code : q.graphAddNode(*graph, op());
  }
};

using Mistake = std::function<void(Qnn_Tensor_t*)>;

}  // namespace

TEST(a_tensor_is_refused_with_one_code_and_reason) {
  const auto with = [](auto change) {
    return [change](Qnn_Tensor_t* t) {
      Add::Encode(t, 0.1f, 0);
      change(&t->v1);
    };
  };
  const std::vector<Mistake> mistakes = {
      [](Qnn_Tensor_t* t) { Add::Encode(t, 0, 0); },
      [](Qnn_Tensor_t* t) { Add::Encode(t, NAN, 0); },
      [](Qnn_Tensor_t* t) { Add::Encode(t, 0.1f, 5); },
      with([](Qnn_TensorV1_t* t) {
        t->quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
      }),
      with([](Qnn_TensorV1_t* t) {
        t->quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET;
        t->quantizeParams.bwScaleOffsetEncoding = {9, 0.1f, 0};
      }),
      with([](Qnn_TensorV1_t* t) {
        t->quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET;
        t->quantizeParams.axisScaleOffsetEncoding = {9, 4, nullptr};
      }),
      with([](Qnn_TensorV1_t* t) {
        t->quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_VECTOR;
      }),
      [](Qnn_Tensor_t* t) { t->v1.dataType = QNN_DATATYPE_STRING; },
      [](Qnn_Tensor_t* t) { t->v1.dataType = QNN_DATATYPE_UNDEFINED; },
      [](Qnn_Tensor_t* t) { t->v1.dataFormat = QNN_TENSOR_DATA_FORMAT_SPARSE; },
      [](Qnn_Tensor_t* t) { t->v1.type = QNN_TENSOR_TYPE_UPDATEABLE_NATIVE; },
      [](Qnn_Tensor_t* t) { t->v1.rank = 17; },
      [](Qnn_Tensor_t* t) { t->v1.dimensions = nullptr; },
      [](Qnn_Tensor_t* t) { t->version = QNN_TENSOR_VERSION_UNDEFINED; },
  };
  for (bool fixed : {false, true}) {
    for (int at = 0; at < 3; ++at) {
      for (const Mistake& make : mistakes) {
        Add add(fixed);
        make(&add.tensors[at]);
        const Qnn_ErrorHandle_t validated = q.backendValidateOpConfig(add.backend, add.op());
        const std::string reason = Message(validated);
        Qnn_GraphHandle_t graph = nullptr;
        CHECK_EQ(add.Compose(&graph), validated);
        CHECK(validated == QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM ||
              validated == QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM);
        CHECK_EQ(Message(validated), reason);
      }
    }
  }
}

// The dimensions end where memory does: none is read beyond the highest rank.
TEST(dimensions_beyond_the_highest_rank_are_not_read) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const map =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(map != MAP_FAILED);
  CHECK_EQ(mprotect(static_cast<char*>(map) + page, page, PROT_NONE), 0);
  auto* const dims = reinterpret_cast<uint32_t*>(static_cast<char*>(map) + page) - 2;
  dims[0] = 2;
  dims[1] = 4;
  for (uint32_t rank : {17u, 1u << 20, UINT32_MAX}) {
    Add add(false);
    add.tensors[0].v1.dimensions = dims;
    add.tensors[0].v1.rank = rank;
    CHECK_EQ(q.backendValidateOpConfig(add.backend, add.op()),
             QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM);
    Qnn_GraphHandle_t graph = nullptr;
    CHECK_EQ(q.graphCreate(add.context, "g", nullptr, &graph), QNN_SUCCESS);
    CHECK_EQ(q.graphAddNode(graph, add.op()), QNN_GRAPH_ERROR_INVALID_TENSOR);
  }
  munmap(map, 2 * page);
}

TEST(an_execution_refuses_tensors_of_unknown_versions) {
  Add add(false);
  Qnn_GraphHandle_t graph = nullptr;
  CHECK_EQ(add.Compose(&graph), QNN_SUCCESS);
  CHECK_EQ(q.graphFinalize(graph, nullptr, nullptr), QNN_SUCCESS);
  float values[3][8] = {{1}, {2}, {}};
  for (int i = 0; i < 3; ++i) add.tensors[i].v1.clientBuf = {values[i], sizeof values[i]};
  const auto run = [&] {
    return q.graphExecute(graph, add.tensors, 2, &add.tensors[2], 1, nullptr, nullptr);
  };
  for (uint32_t version : {0u, 3u, 9u, UINT32_MAX}) {
    for (Qnn_Tensor_t& t : add.tensors) {
      std::memcpy(&t.version, &version, sizeof version);
      CHECK_EQ(run(), QNN_GRAPH_ERROR_INVALID_TENSOR);
      CHECK(Message(QNN_GRAPH_ERROR_INVALID_TENSOR).find("version") != std::string::npos);
      t.version = QNN_TENSOR_VERSION_2;
    }
  }
  CHECK_EQ(run(), QNN_SUCCESS);
  CHECK_EQ(values[2][0], 3.0f);
}

CHECK_MAIN("client_codes_test")
