#include "tflite/delegate/graph.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "abi/qnn_errors.h"
#include "abi/qnn_htp.h"
#include "abi/qnnrt_ext.h"
#include "tflite/delegate/qnn_tensors.h"

namespace qnnrt::tflite {
namespace {

// By the delegate's numbers.
constexpr Qnn_Priority_t kPriorities[] = {QNN_PRIORITY_LOW, QNN_PRIORITY_NORMAL,
                                          QNN_PRIORITY_NORMAL_HIGH, QNN_PRIORITY_HIGH};

// What the options of the delegate are as configs of an htp graph.
std::vector<QnnHtpGraph_CustomConfig_t> HtpConfigs(const TfLiteQnnDelegateHtpBackendOptions& o) {
  std::vector<QnnHtpGraph_CustomConfig_t> found;
  auto add = [&](QnnHtpGraph_ConfigOption_t option) -> QnnHtpGraph_CustomConfig_t& {
    found.push_back({});
    found.back().option = option;
    return found.back();
  };
  if (o.precision == kHtpFp16)
    add(QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION).precision = QNN_PRECISION_FLOAT16;
  if (o.vtcm_size != 0) add(QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_MB).vtcmSizeInMB = o.vtcm_size;
  if (o.num_hvx_threads != 0)
    add(QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS).numHvxThreads = o.num_hvx_threads;
  if (!o.useFoldRelu)
    add(QNN_HTP_GRAPH_CONFIG_OPTION_FOLD_RELU_ACTIVATION_INTO_CONV_OFF)
        .foldReluActivationIntoConvOff = true;
  if (!o.useConvHmx)
    add(QNN_HTP_GRAPH_CONFIG_OPTION_SHORT_DEPTH_CONV_ON_HMX_OFF).shortDepthConvOnHmxOff = true;
  if (o.optimization_strategy != 0) {
    auto& c = add(QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION).optimizationOption;
    c.type = QNN_HTP_GRAPH_OPTIMIZATION_TYPE_FINALIZE_OPTIMIZATION_FLAG;
    c.floatValue = o.optimization_strategy == 1 ? 1 : 3;
  }
  return found;
}

// Constants in another order of dimensions, as QNN wants them.
std::vector<uint8_t> Moved(const PlannedTensor& t) {
  std::vector<int64_t> strides;  // of the source, in the order of the result
  for (const uint32_t from : t.order) {
    int64_t stride = 1;
    for (size_t k = from + 1; k < t.source.size(); ++k) stride *= t.source[k];
    strides.push_back(stride);
  }
  return Gathered(t.bytes(), 0, t.dims, strides, ElementBytes(t.dtype));
}

// `wanted`, or with a number behind it: the names of a file need not differ, those of a graph do.
std::string Unique(const std::string& wanted, std::set<std::string>* names) {
  std::string name = wanted;
  for (size_t n = names->size(); !names->insert(name).second; ++n)
    name = wanted + "." + std::to_string(n);
  return name;
}

}  // namespace

Result<std::unique_ptr<Graph>> Graph::Build(std::shared_ptr<Backend> backend,
                                            const Options& options, const Plan& plan, bool shared) {
  std::unique_ptr<Graph> graph(new Graph(std::move(backend)));
  QNNRT_RETURN_IF_ERROR(graph->Create(options));
  QNNRT_RETURN_IF_ERROR(graph->Fill(plan, shared));
  return graph;
}

Status Graph::Create(const Options& options) {
  const auto& qnn = backend_->qnn();
  Qnn_ErrorHandle_t error = qnn.contextCreate(backend_->handle(), nullptr, nullptr, &context_);
  if (error != QNN_SUCCESS) return backend_->Failed(error, "contextCreate");
  std::vector<QnnHtpGraph_CustomConfig_t> htp;
  if (backend_->id() == QNN_BACKEND_ID_HTP) htp = HtpConfigs(options.c.htp_options);
  std::vector<QnnGraph_Config_t> configs(htp.size());
  for (size_t i = 0; i < htp.size(); ++i) {
    configs[i].option = QNN_GRAPH_CONFIG_OPTION_CUSTOM;
    configs[i].customConfig = &htp[i];
  }
  if (options.c.graph_priority != kQnnPriorityNormal) {
    QnnGraph_Config_t priority{};
    priority.option = QNN_GRAPH_CONFIG_OPTION_PRIORITY;
    priority.priority = kPriorities[options.c.graph_priority];
    configs.push_back(priority);
  }
  std::vector<const QnnGraph_Config_t*> list;
  for (const QnnGraph_Config_t& c : configs) list.push_back(&c);
  list.push_back(nullptr);
  error = qnn.graphCreate(context_, "partition", list.data(), &graph_);
  if (error != QNN_SUCCESS) return backend_->Failed(error, "graphCreate");
  return Status::Ok();
}

Status Graph::Fill(const Plan& plan, bool shared) {
  const auto& qnn = backend_->qnn();
  QnnTensors tensors(plan);
  std::set<std::string> names;
  std::vector<std::string> unique(plan.tensors.size());
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const PlannedTensor& p = plan.tensors[i];
    Qnn_Tensor_t& t = tensors.all()[i];
    unique[i] = Unique(p.name.empty() ? "value" : p.name, &names);
    t.v1.name = unique[i].c_str();
    std::vector<uint8_t> moved;
    if (!p.order.empty()) {
      moved = Moved(p);
      t.v1.clientBuf.data = moved.data();
    }
    if (p.index >= 0 && shared && !p.state) {
      t.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
      t.v1.memHandle = nullptr;
    }
    const Qnn_ErrorHandle_t error = qnn.tensorCreateGraphTensor(graph_, &t);
    if (error != QNN_SUCCESS) return backend_->Failed(error, "creating tensor '" + unique[i] + "'");
  }
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const PlannedOp& op = plan.ops[i];
    Qnn_OpConfig_t config = tensors.Op(op);
    std::deque<std::string> param_names;
    for (Qnn_Param_t& p : tensors.params()) {
      if (p.paramType != QNN_PARAMTYPE_TENSOR) continue;
      param_names.push_back(Unique(op.name + "." + p.name, &names));
      p.tensorParam.v1.name = param_names.back().c_str();
      const Qnn_ErrorHandle_t error = qnn.tensorCreateGraphTensor(graph_, &p.tensorParam);
      if (error != QNN_SUCCESS) return backend_->Failed(error, "creating " + param_names.back());
    }
    const Qnn_ErrorHandle_t error = qnn.graphAddNode(graph_, config);
    if (error != QNN_SUCCESS) return backend_->Failed(error, "adding node " + op.name);
  }
  const Qnn_ErrorHandle_t error = qnn.graphFinalize(graph_, nullptr, nullptr);
  if (error != QNN_SUCCESS) return backend_->Failed(error, "graphFinalize");

  for (const bool output : {false, true}) {
    const Qnn_TensorType_t type = output ? QNN_TENSOR_TYPE_APP_READ : QNN_TENSOR_TYPE_APP_WRITE;
    for (size_t i = 0; i < plan.tensors.size(); ++i) {
      const PlannedTensor& p = plan.tensors[i];
      if (p.type != type) continue;
      dims_.push_back(p.dims);
      Qnn_Tensor_t t = tensors.all()[i];
      t.v1.name = "";
      t.v1.dimensions = dims_.back().data();
      t.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
      t.v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
      (output ? outputs_ : inputs_).push_back(t);
      ports_.push_back({p.index, output, Elements(p.dims) * ElementBytes(p.dtype), nullptr});
    }
  }
  for (size_t i = 0; i < ports_.size(); ++i)
    ports_[i].tensor = i < inputs_.size() ? &inputs_[i] : &outputs_[i - inputs_.size()];
  return Status::Ok();
}

Graph::~Graph() {
  for (Port& port : ports_) Drop(&port);
  if (context_ != nullptr) backend_->qnn().contextFree(context_, nullptr);
}

void Graph::Drop(Port* port) {
  if (port->handle != nullptr) backend_->qnn().memDeRegister(&port->handle, 1);
  port->handle = nullptr;
  port->buffer = Buffer();
  port->address = nullptr;
}

Result<bool> Graph::Use(Port* port, void* address) {
  if (address == nullptr)
    return Error(QNN_GRAPH_ERROR_INVALID_TENSOR, "tensor %d has no memory", port->index);
  Drop(port);
  Qnn_TensorV1_t& t = port->tensor->v1;
  uint64_t offset = 0;
  Status registered(QNN_MEM_ERROR_INVALID_HANDLE);
  if (qnnrt_buffer_lookup(address, &port->buffer.handle, &offset) == QNN_SUCCESS)
    registered = Register(port, address, offset);
  if (registered.ok()) {
    t.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
    t.memHandle = port->handle;
  } else {
    port->buffer = Buffer();
    t.memType = QNN_TENSORMEMTYPE_RAW;
    t.clientBuf.data = address;
    t.clientBuf.dataSize = static_cast<uint32_t>(std::min<uint64_t>(port->bytes, UINT32_MAX));
  }
  port->address = address;
  return registered.ok();
}

Status Graph::Register(Port* port, void* address, uint64_t offset) {
  qnnrt_buffer_info_t info;
  int fd = -1;
  if (qnnrt_buffer_info(port->buffer.handle, &info) != QNN_SUCCESS ||
      qnnrt_buffer_borrow_fd(port->buffer.handle, &fd) != QNN_SUCCESS)
    return Status(QNN_MEM_ERROR_INVALID_HANDLE);
  if (offset > info.nbytes || port->bytes > info.nbytes - offset)
    return Error(QNN_MEM_ERROR_INVALID_ARGUMENT, "tensor %d reaches beyond its memory at %p",
                 port->index, address);
  QnnMemHtp_Descriptor_t htp{};
  htp.type = QNN_HTP_MEM_SHARED_BUFFER;
  htp.size = info.fd_size;
  htp.sharedBufferConfig = {fd, info.fd_offset + offset};
  Qnn_MemDescriptor_t d{};
  d.memShape = {port->tensor->v1.rank, port->tensor->v1.dimensions, nullptr};
  d.dataType = port->tensor->v1.dataType;
  d.memType = QNN_MEM_TYPE_CUSTOM;
  d.customInfo = &htp;
  const Qnn_ErrorHandle_t error = backend_->qnn().memRegister(context_, &d, 1, &port->handle);
  if (error != QNN_SUCCESS) {
    port->handle = nullptr;
    return backend_->Failed(error, "memRegister");
  }
  return Status::Ok();
}

Status Graph::Execute() {
  const Qnn_ErrorHandle_t error = backend_->qnn().graphExecute(
      graph_, inputs_.data(), static_cast<uint32_t>(inputs_.size()), outputs_.data(),
      static_cast<uint32_t>(outputs_.size()), nullptr, nullptr);
  if (error != QNN_SUCCESS) return backend_->Failed(error, "graphExecute");
  if (backend_->ours()) return Status::Ok();
  for (const Port& port : ports_) {
    if (port.handle == nullptr) (port.output ? raw_out_ : raw_in_) += port.bytes;
  }
  return Status::Ok();
}

void Graph::Copied(uint64_t* in, uint64_t* out) const {
  Qnnrt_GraphStats_t stats{};
  *in = raw_in_;
  *out = raw_out_;
  if (!backend_->ours() || qnnrt_graph_stats(graph_, &stats) != QNN_SUCCESS) return;
  *in = stats.copied_in_bytes;
  *out = stats.copied_out_bytes;
}

}  // namespace qnnrt::tflite
