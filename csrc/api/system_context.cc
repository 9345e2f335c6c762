// Descriptions of context binaries, as the C structs of the system interface.
#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <new>

#include "abi/qnn_htp.h"
#include "abi/qnnrt_ext.h"
#include "api/client_structs.h"
#include "api/device.h"
#include "api/runtime.h"
#include "api/system.h"
#include "graph/binary/binary.h"
#include "support/crc32c.h"

namespace qnnrt::system {
namespace {

// ---- descriptions ----

// A described binary: structs and all that they point at, nothing of it in the binary itself.
class Description {
 public:
  static std::unique_ptr<Description> Make(const BinaryView& view);
  const QnnSystemContext_BinaryInfo_t* info() const { return info_; }
  uint64_t bytes() const {
    return structs_.bytes() + (platform_ == nullptr ? 0 : sizeof(PlatformInfo));
  }

 private:
  template <typename T>
  T* Array(size_t n) {
    return structs_.Array<T>(n);
  }
  char* Text(const std::string& text) { return structs_.Text(text); }
  Qnn_Tensor_t* Tensors(const std::vector<Tensor>& tensors, uint32_t* count);
  void Graph(const BinaryGraph& graph, bool htp, QnnSystemContext_GraphInfo_t* out);
  void Htp(const BinaryGraph& graph, QnnSystemContext_GraphInfoV3_t* out);
  void Htp(QnnSystemContext_BinaryInfoV3_t* out);

  std::unique_ptr<PlatformInfo> platform_;
  ClientStructs structs_;
  QnnSystemContext_BinaryInfo_t* info_ = nullptr;
};

Qnn_Tensor_t* Description::Tensors(const std::vector<Tensor>& tensors, uint32_t* count) {
  *count = static_cast<uint32_t>(tensors.size());
  auto* out = Array<Qnn_Tensor_t>(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) structs_.Describe(tensors[i], &out[i]);
  return out;
}

uint64_t Bytes(const std::vector<Tensor>& tensors) {
  uint64_t sum = 0;
  for (const Tensor& t : tensors) sum += t.bytes();
  return sum;
}

// Both versions of the blob, the older first, as the vendor's system library lays them out. What
// this runtime has not (vector memory, threads and channels of the accelerator) is 0.
void Description::Htp(const BinaryGraph& graph, QnnSystemContext_GraphInfoV3_t* out) {
  struct Blobs {
    QnnHtpSystemContext_GraphBlobInfo_t v1;
    QnnHtpSystemContext_GraphBlobInfoV2_t v2;
  };
  auto* blobs = Array<Blobs>(1);
  blobs->v1.version = QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V1;
  blobs->v1.contextBinaryGraphBlobInfoV1.spillFillBufferSize = graph.arena_bytes;
  blobs->v2.version = QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V2;
  blobs->v2.ioTensorSize = Bytes(graph.inputs) + Bytes(graph.outputs);
  blobs->v2.opDataSize = graph.nodes_size;
  blobs->v2.constSize = graph.weights_size;
  blobs->v2.sharedWeightsSize = graph.common_size;
  blobs->v2.ddrTensorSize = graph.arena_bytes;
  out->graphBlobInfoSize = sizeof(Blobs);
  out->graphBlobInfo = blobs;
}

// A binary runs on any device of the htp backend, whatever SoC that one stands for: described is
// the one that nobody configured.
void Description::Htp(QnnSystemContext_BinaryInfoV3_t* out) {
  platform_ = std::make_unique<PlatformInfo>(DeviceOptions());
  out->platformInfo = &platform_->info;
  auto* blob = Array<QnnHtpSystemContext_ContextBlobInfo_t>(1);
  blob->version = QNN_SYSTEM_CONTEXT_HTP_CONTEXT_INFO_BLOB_VERSION_V1;
  blob->contextBinaryContextBlobInfoV1.dspArch = DeviceOptions().arch();
  out->contextMetadata = blob;
  out->contextMetadataSize = sizeof(*blob);
}

void Description::Graph(const BinaryGraph& graph, bool htp, QnnSystemContext_GraphInfo_t* out) {
  out->version = QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_3;
  QnnSystemContext_GraphInfoV3_t& g = out->graphInfoV3;
  g.graphName = Text(graph.name);
  g.graphInputs = Tensors(graph.inputs, &g.numGraphInputs);
  g.graphOutputs = Tensors(graph.outputs, &g.numGraphOutputs);
  if (htp) Htp(graph, &g);
}

std::unique_ptr<Description> Description::Make(const BinaryView& view) {
  const BinaryHeader& header = view.header();
  auto made = std::make_unique<Description>();
  Description& d = *made;
  auto* info = d.Array<QnnSystemContext_BinaryInfo_t>(1);
  info->version = QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3;
  QnnSystemContext_BinaryInfoV3_t& v3 = info->contextBinaryInfoV3;
  v3.backendId = header.backend_id;
  v3.buildId = d.Text(header.build_id);
  v3.coreApiVersion = header.core_api;
  v3.backendApiVersion = header.backend_api;
  v3.socVersion = d.Text("");  // graphs run on the host's processor
  v3.contextBlobVersion = {header.format, 0, 0};
  v3.contextBlobSize = header.size - kBinaryHeaderSize;
  v3.numGraphs = static_cast<uint32_t>(view.graphs().size());
  v3.graphs = d.Array<QnnSystemContext_GraphInfo_t>(view.graphs().size());
  bool htp = header.backend_id == QNN_BACKEND_ID_HTP;
  if (htp) d.Htp(&v3);
  for (size_t i = 0; i < view.graphs().size(); ++i) d.Graph(view.graphs()[i], htp, &v3.graphs[i]);
  d.info_ = info;
  return made;
}

// ---- foreign binaries ----

struct Magic {
  size_t at;
  const char* bytes;
  size_t size;
  const char* what;
};
constexpr Magic kMagics[] = {
    {0, "\0\0\0\2\0\0\0\3", 8,
     "a context binary that the vendor's libraries made: their libQnnSystem.so describes it"},
    {4, "TFL3", 4, "a TFLite model: make a context binary of it first"},
    {0, "PK\3\4", 4, "a zip archive, as the vendor's DLC files are: make a context binary first"},
    {0, "\177ELF", 4, "a shared library or program"},
};

// 30010 for whatever is wrong with the binary: this interface has one code for it.
Status Malformed(Status opened, const uint8_t* data, uint64_t size) {
  if (BinaryView::HasMagic(data, size))
    return std::move(opened).WithCode(QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY);
  for (const Magic& m : kMagics) {
    if (size >= m.at + m.size && std::memcmp(data + m.at, m.bytes, m.size) == 0)
      return Error(QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY,
                   "this is no qnnrt context binary, but %s", m.what);
  }
  return Error(QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY,
               "these %" PRIu64
               " bytes are no qnnrt context binary; if the vendor's libraries made them, their "
               "libQnnSystem.so describes them",
               size);
}

Result<BinaryView> Open(const void* binary, uint64_t size) {
  if (binary == nullptr || size == 0)
    return Status(QNN_SYSTEM_CONTEXT_ERROR_INVALID_ARGUMENT, "the binary is null or empty");
  Result<BinaryView> view = BinaryView::Open(binary, size);
  if (view.ok()) return view;
  return Malformed(std::move(view).status(), static_cast<const uint8_t*>(binary), size);
}

Status Verify(const void* binary, uint64_t size) {
  QNNRT_ASSIGN_OR_RETURN(BinaryView view, Open(binary, size));
  if (!view.graphs().empty() && view.graphs()[0].common_size != 0) {
    const BinaryGraph& one = view.graphs()[0];
    if (Crc32c(view.data() + one.common_offset, one.common_size) != one.common_checksum) {
      return Error(QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY,
                   "the weights that graphs have in common do not have their checksum: the binary "
                   "was altered or did not arrive whole; copy it again");
    }
  }
  for (const BinaryGraph& graph : view.graphs()) {
    if (Crc32c(view.data() + graph.weights_offset, graph.weights_size) != graph.weights_checksum)
      return Error(
          QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY,
          "the weights of graph '%s' do not have their checksum: the binary was altered or "
          "did not arrive whole; copy it again",
          graph.name.c_str());
  }
  return Status::Ok();
}

// ---- the function table's entries ----

// Owns what its last successful call described.
struct SystemContext {
  std::mutex mutex;
  std::unique_ptr<Description> description;
};

using Contexts = HandleTable<SystemContext, HandleKind::kSystemContext>;
Contexts& AllContexts() {
  static Contexts* contexts = new Contexts;
  return *contexts;
}

Status Stale() {
  return Status(QNN_SYSTEM_CONTEXT_ERROR_INVALID_HANDLE, "this is no live system context handle");
}

Qnn_ErrorHandle_t Create(QnnSystemContext_Handle_t* handle) {
  return Guarded([&] {
    if (handle == nullptr)
      return ReportToLogs(Status(QNN_SYSTEM_CONTEXT_ERROR_INVALID_ARGUMENT,
                                 "the system context handle to fill in must not be null"));
    *handle = nullptr;
    *handle = AllContexts().Add(std::make_unique<SystemContext>());
    if (*handle == nullptr)
      return ReportToLogs(
          Status(QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED, "too many live system contexts"));
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Status Describe(QnnSystemContext_Handle_t handle, const void* binary, uint64_t size,
                const QnnSystemContext_BinaryInfo_t** info, uint64_t* info_size) {
  if (info == nullptr)
    return Status(QNN_SYSTEM_CONTEXT_ERROR_INVALID_ARGUMENT, "the info to fill in is null");
  *info = nullptr;
  auto context = AllContexts().Find(handle);
  if (!context) return Stale();
  QNNRT_ASSIGN_OR_RETURN(BinaryView view, Open(binary, size));
  std::unique_ptr<Description> made = Description::Make(view);
  std::lock_guard<std::mutex> lock(context->mutex);
  context->description = std::move(made);
  *info = context->description->info();
  if (info_size != nullptr) *info_size = context->description->bytes();
  return Status::Ok();
}

Qnn_ErrorHandle_t GetBinaryInfo(QnnSystemContext_Handle_t handle, void* binary, uint64_t size,
                                const QnnSystemContext_BinaryInfo_t** info,
                                Qnn_ContextBinarySize_t* info_size) {
  return Guarded([&] {
    if (info_size != nullptr) *info_size = 0;
    return ReportToLogs(Describe(handle, binary, size, info, info_size));
  });
}

Qnn_ErrorHandle_t GetMetaData(QnnSystemContext_Handle_t handle, const void* binary, uint64_t size,
                              const QnnSystemContext_BinaryInfo_t** info) {
  return Guarded([&] { return ReportToLogs(Describe(handle, binary, size, info, nullptr)); });
}

Qnn_ErrorHandle_t Free(QnnSystemContext_Handle_t handle) {
  return Guarded([&] {
    std::unique_ptr<SystemContext> context;
    switch (AllContexts().Take(handle, &context)) {
      case Contexts::Taken::kYes:
        return Qnn_ErrorHandle_t{QNN_SUCCESS};
      case Contexts::Taken::kBusy:
        return ReportToLogs(Status(QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED,
                                   "another thread is using this system context"));
      default:
        return ReportToLogs(Stale());
    }
  });
}

}  // namespace

void FillContext(QnnSystemInterface_ImplementationV1_7_t* table) {
  table->systemContextCreate = Create;
  table->systemContextGetBinaryInfo = GetBinaryInfo;
  table->systemContextGetMetaData = GetMetaData;
  table->systemContextFree = Free;
}

}  // namespace qnnrt::system

uint64_t qnnrt_binary_verify(const void* binary, uint64_t size) {
  namespace system = qnnrt::system;
  return qnnrt::Guarded([&] { return system::ReportToLogs(system::Verify(binary, size)); });
}
