#include "graph/node_text.h"

#include <type_traits>

namespace qnnrt {
namespace {

template <typename T>
void PutList(const std::vector<T>& values, ByteWriter* out) {
  out->Put(static_cast<uint32_t>(values.size()));
  out->Bytes(values.data(), values.size() * sizeof(T));
}

}  // namespace

void PutElements(const Tensor& tensor, ByteWriter* out) {
  const Quantization& q = tensor.quantization;
  out->Put(static_cast<uint32_t>(tensor.dtype));
  out->Put(static_cast<uint8_t>(tensor.two_in_byte));
  out->Put(static_cast<uint8_t>(q.defined));
  out->Put(static_cast<uint32_t>(q.encoding));
  out->Put(q.axis);
  out->Put(q.bitwidth);
  PutList(q.scales, out);
  PutList(q.offsets, out);
  PutList(q.block, out);
}

void PutShape(const Tensor& tensor, ByteWriter* out) { PutList(tensor.shape, out); }

void PutData(const Tensor& tensor, const Threads& threads, ByteWriter* out) {
  const Digest& digest = tensor.data->digest(threads);
  out->Bytes(digest.data(), sizeof(digest));
}

void PutOp(const Node& node, FunctionRef<void(const Tensor&)> put, ByteWriter* out) {
  out->Text(node.package);
  out->Text(node.type);
  out->Put(static_cast<uint32_t>(node.params.size()));
  for (const Param& param : node.params) {
    out->Text(param.name);
    out->Put(static_cast<uint8_t>(param.value.index()));
    std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, Tensor>) {
            put(value);
          } else if constexpr (std::is_same_v<T, std::string>) {
            out->Text(value);
          } else if constexpr (std::is_same_v<T, bool>) {
            out->Put(static_cast<uint8_t>(value));
          } else {
            out->Put(value);
          }
        },
        param.value);
  }
}

}  // namespace qnnrt
