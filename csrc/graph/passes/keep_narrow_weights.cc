// Weights of 4 and 8 bits that multiply floats stay as they are, in memory and where they are
// multiplied: a product whose weights are constants in fixed point, or a Dequantize of such,
// becomes a MatMulNBits (docs/decisions/0044-narrow-weights.md).
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "abi/qnn_errors.h"
#include "abi/qnn_op_names.h"
#include "graph/passes/fuse_dynamic.h"
#include "graph/passes/node_graph.h"
#include "ops/encoding.h"
#include "ops/matmul/nbits.h"
#include "ops/matmul/nbits_loops.h"

namespace qnnrt {
namespace {

// Of fewer the floats stay in a core's first cache, and other passes make more of them.
constexpr uint64_t kLeastWeights = 4096;

// A matrix [N, K] or, `k_first`, [K, N] in fixed point.
struct Matrix {
  const Tensor* tensor = nullptr;
  bool k_first = false;
  size_t n = 0, k = 0;
};

// Which blocks of a row have one scale.
struct Blocks {
  size_t size = 0, count = 0;       // as MatMulNBits has them
  size_t given_k = 0, given_n = 0;  // as the encoding has them: whole dims where it has no blocks
};

bool IsByte(const Tensor& t) { return (TypeBit(t.dtype) & types::kFixed8) != 0; }

size_t BitsOf(const Tensor& t) {
  const uint32_t bits = t.quantization.bitwidth;
  return bits != 0 && bits <= 4 ? 4 : 8;
}

// Blocks that kernels take and that the given ones are made of.
std::optional<Blocks> BlocksOf(const Matrix& m) {
  const Quantization& q = m.tensor->quantization;
  const size_t rank = m.tensor->shape.size();
  const size_t k_dim = rank - (m.k_first ? 2 : 1), n_dim = rank - (m.k_first ? 1 : 2);
  Blocks blocks;
  blocks.given_k = m.k;
  blocks.given_n = q.axis >= 0 ? 1 : m.n;
  if (q.in_blocks()) {
    blocks.given_k = q.block[k_dim];
    blocks.given_n = q.block[n_dim];
  } else if (q.axis >= 0 && static_cast<size_t>(q.axis) != n_dim) {
    return std::nullopt;
  }
  blocks.size = blocks.given_k == m.k ? (m.k + 127) / 128 * 128 : blocks.given_k;
  for (size_t size = 64; size >= 16 && !IsNBitsBlock(blocks.size); size /= 2) {
    if (blocks.given_k % size == 0) blocks.size = size;
  }
  if (!IsNBitsBlock(blocks.size)) return std::nullopt;
  blocks.count = (m.k + blocks.size - 1) / blocks.size;
  return blocks;
}

class Narrowing {
 public:
  Narrowing(NodeGraph* graph, const Threads& threads, bool byte_activations)
      : to_(graph), threads_(threads), activation_bits_(byte_activations ? 8 : 32) {}

  Status Run(int* changes) {
    for (size_t i = 0; i < to_.size(); ++i) {
      for (const Tensor* t : to_.node(i).inputs) readers_[t] = i;
    }
    int found = 0;
    for (size_t i = 0; i < to_.size(); ++i) {
      if (to_.dropped(i)) continue;
      QNNRT_ASSIGN_OR_RETURN(const bool made, Make(i));
      found += made ? 1 : 0;
    }
    to_.Apply();
    *changes += found;
    // Else what only wrote weights would be evaluated as a constant.
    int dead = 0;
    return found == 0 ? Status::Ok() : RemoveDeadNodes(to_.graph(), &dead);
  }

 private:
  struct Made {
    const Tensor *codes = nullptr, *scales = nullptr, *zeros = nullptr;
    size_t block = 0;
  };

  // A product of a float tensor and such a matrix: rows of K times all of it.
  std::optional<Matrix> Find(const Node& node) const {
    const bool dense = node.type == QNN_OP_FULLY_CONNECTED, conv = node.type == QNN_OP_CONV_2D;
    if ((!dense && !conv && node.type != QNN_OP_MAT_MUL) || node.package_op != nullptr ||
        !node.post_ops.empty() || node.inputs[0]->is_static() || !IsFloat(node.inputs[0]->dtype))
      return std::nullopt;
    if (node.HasInput(2) && node.inputs[2]->dtype != QNN_DATATYPE_FLOAT_32) return std::nullopt;
    Matrix m;
    m.tensor = node.inputs[1];
    if (const Node* real = to_.Maker(m.tensor, QNN_OP_DEQUANTIZE)) m.tensor = real->inputs[0];
    if (!m.tensor->is_static() || !IsByte(*m.tensor) || m.tensor->elements() < kLeastWeights)
      return std::nullopt;
    const Shape& shape = m.tensor->shape;
    for (size_t d = 0; d + 2 < shape.size(); ++d) {
      if (shape[d] != 1) return std::nullopt;
    }
    if (conv && !IsPointwise(node)) return std::nullopt;
    if (node.type == QNN_OP_MAT_MUL && node.Bool("transpose_in0")) return std::nullopt;
    m.k_first = conv || (!dense && !node.Bool("transpose_in1"));
    m.n = shape.end()[m.k_first ? -1 : -2];
    m.k = shape.end()[m.k_first ? -2 : -1];
    const Tensor &in = *node.inputs[0], &out = *node.outputs[0];
    if (in.shape.back() != m.k || out.shape.back() != m.n ||
        in.elements() / m.k * m.n != out.elements() || out.elements() == 0)
      return std::nullopt;
    return m;
  }

  static bool IsPointwise(const Node& node) {
    const auto all = [&](const char* name, int64_t value) {
      const std::vector<int64_t> values = node.Ints(name);
      return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
    };
    return node.inputs[1]->shape.size() == 4 && all("stride", 1) && all("pad_amount", 0) &&
           node.Int("group") == 1;
  }

  Result<bool> Make(size_t i) {
    const std::optional<Matrix> matrix = Find(to_.node(i));
    if (!matrix) return false;
    const auto key = std::make_pair(matrix->tensor, matrix->k_first);
    auto found = made_.find(key);
    if (found == made_.end()) {
      QNNRT_ASSIGN_OR_RETURN(const Made made, Convert(*matrix));
      found = made_.emplace(key, made).first;
    }
    const Made& made = found->second;
    if (made.codes == nullptr) return false;
    const Node from = to_.node(i);
    Node node;
    node.name = from.name;
    node.package = from.package;
    node.type = kMatMulNBits;
    node.params = {{"bits", static_cast<int64_t>(BitsOf(*matrix->tensor))},
                   {"block_size", static_cast<int64_t>(made.block)},
                   {"activation_bits", activation_bits_}};
    node.inputs = {from.inputs[0], made.codes, made.scales, made.zeros,
                   from.HasInput(2) ? from.inputs[2] : nullptr};
    node.outputs = from.outputs;
    to_.graph()->Replaced(from.inputs[1]);
    size_t at = i;
    if (!from.HasInput(2)) at = TakeBias(i, &node);
    to_.node(at) = std::move(node);
    return true;
  }

  // A constant row that is added to the product.
  size_t TakeBias(size_t i, Node* node) {
    const Tensor* out = node->outputs[0];
    if (!to_.graph()->IsPrivate(out) || out->dtype != QNN_DATATYPE_FLOAT_32) return i;
    const auto reader = readers_.find(out);
    if (reader == readers_.end()) return i;
    const Node& add = to_.node(reader->second);
    if (add.type != QNN_OP_ELEMENT_WISE_ADD || !add.post_ops.empty() ||
        add.outputs[0]->shape != out->shape)
      return i;
    const Tensor* row = add.inputs[add.inputs[0] == out ? 1 : 0];
    const uint32_t n = out->shape.back();
    if (!row->is_static() || row->dtype != QNN_DATATYPE_FLOAT_32 || row->elements() != n ||
        row->shape.empty() || row->shape.back() != n)
      return i;
    node->inputs[kNBitsBias] = row->shape.size() == 1
                                   ? row
                                   : to_.graph()->NewStatic(row->name, row->dtype, {n}, row->data);
    node->outputs = add.outputs;
    to_.Drop(i);
    return reader->second;
  }

  // ---- constants ----

  // Without codes: kernels do not take this one.
  Result<Made> Convert(const Matrix& m) {
    Made made;
    const Tensor& t = *m.tensor;
    const std::optional<Blocks> blocks = BlocksOf(m);
    if (!blocks) return made;
    const Quantization& q = t.quantization;
    const size_t bits = BitsOf(t), grid_n = m.n / blocks->given_n, grid_k = m.k / blocks->given_k;
    const bool is_signed = t.dtype == QNN_DATATYPE_SFIXED_POINT_8;
    const int middle = is_signed ? 0 : bits == 4 ? 8 : 128;
    auto scales = AlignedBytes::Make(m.n * blocks->count * sizeof(float));
    auto zeros = AlignedBytes::Make(m.n * blocks->count);
    if (scales == nullptr || zeros == nullptr) return NoMemory(t);
    bool any = false, narrow = true;
    for (size_t n = 0; n < m.n; ++n) {
      for (size_t b = 0; b < blocks->count; ++b) {
        const size_t row = n / blocks->given_n, column = b * blocks->size / blocks->given_k;
        const size_t from = m.k_first ? column * grid_n + row : row * grid_k + column;
        const int64_t zero = -int64_t{q.offsets[from]} - middle;
        if (zero < INT8_MIN || zero > INT8_MAX) return made;
        static_cast<float*>(scales->data())[n * blocks->count + b] = q.scales[from];
        static_cast<int8_t*>(zeros->data())[n * blocks->count + b] = static_cast<int8_t>(zero);
        any = any || zero != 0;
        narrow = narrow && zero >= -8 && zero < 8;
      }
    }
    std::shared_ptr<AlignedBytes> codes = Codes(m, bits);
    if (codes == nullptr) return NoMemory(t);
    NodeGraph* graph = to_.graph();
    const Shape grid = {static_cast<uint32_t>(m.n), static_cast<uint32_t>(blocks->count)};
    made.codes = graph->NewStatic(t.name, is_signed ? QNN_DATATYPE_INT_8 : QNN_DATATYPE_UINT_8,
                                  {grid[0], static_cast<uint32_t>(NBitsRowBytes(m.k, bits))},
                                  std::move(codes));
    made.scales =
        graph->NewStatic(t.name + ".scales", QNN_DATATYPE_FLOAT_32, grid, std::move(scales));
    if (any) {
      const auto packed_bytes = static_cast<uint32_t>(PackedZeroBytes(blocks->count));
      const bool pack = bits == 4 && narrow && packed_bytes < grid[1];
      if (pack) zeros = Packed(static_cast<const int8_t*>(zeros->data()), m.n, blocks->count);
      if (zeros == nullptr) return NoMemory(t);
      made.zeros =
          graph->NewStatic(t.name + ".zeros", pack ? QNN_DATATYPE_UINT_8 : QNN_DATATYPE_INT_8,
                           {grid[0], pack ? packed_bytes : grid[1]}, std::move(zeros));
    }
    made.block = blocks->size;
    return made;
  }

  // As NBitsWeights has zero points of 4 bits.
  static std::shared_ptr<AlignedBytes> Packed(const int8_t* zeros, size_t rows, size_t blocks) {
    const size_t row_bytes = PackedZeroBytes(blocks);
    auto made = AlignedBytes::Make(rows * row_bytes);
    if (made == nullptr) return nullptr;
    auto* to = static_cast<uint8_t*>(made->data());
    std::memset(to, 0, rows * row_bytes);
    for (size_t n = 0; n < rows; ++n, to += row_bytes, zeros += blocks) {
      for (size_t b = 0; b < blocks; ++b) {
        const PackedZero at(b);
        to[at.byte] |= static_cast<uint8_t>((zeros[b] + 8) << at.shift);
      }
    }
    return made;
  }

  // [N, bytes of a row]: the client's own memory where it lies so.
  std::shared_ptr<AlignedBytes> Codes(const Matrix& m, size_t bits) const {
    const Tensor& t = *m.tensor;
    const bool rows_of_bytes = !t.two_in_byte || m.k % 2 == 0;
    if (!m.k_first && rows_of_bytes && t.two_in_byte == (bits == 4)) return t.data;
    const size_t row_bytes = NBitsRowBytes(m.k, bits);
    auto made = AlignedBytes::Make(m.n * row_bytes);
    if (made == nullptr) return nullptr;
    const uint8_t* from = t.data_as<uint8_t>();
    const auto code = [&](size_t n, size_t k) -> uint8_t {
      const size_t at = m.k_first ? k * m.n + n : n * m.k + k;
      if (!t.two_in_byte) return bits == 4 ? from[at] & 15 : from[at];
      return from[at / 2] >> (at % 2 * 4) & 15;
    };
    // A few rows at a time: a cache line of what lies across them is used up when it is visited.
    constexpr size_t kRows = 64;
    threads_.For((m.n + kRows - 1) / kRows, 1, [&](size_t begin, size_t end) {
      const size_t last = std::min(m.n, end * kRows);
      for (size_t n0 = begin * kRows; n0 < last; n0 += kRows) {
        const size_t n1 = std::min(last, n0 + kRows);
        uint8_t* to = static_cast<uint8_t*>(made->data());
        for (size_t byte = 0; byte < row_bytes; ++byte) {
          for (size_t n = n0; n < n1; ++n) {
            const size_t k = byte * 8 / bits;
            uint8_t value = code(n, k);
            if (bits == 4 && k + 1 < m.k) value |= static_cast<uint8_t>(code(n, k + 1) << 4);
            to[n * row_bytes + byte] = value;
          }
        }
      }
    });
    return made;
  }

  static Status NoMemory(const Tensor& t) {
    return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory for the weights '%s'", t.name.c_str());
  }

  Rewriter to_;
  const Threads threads_;
  const int64_t activation_bits_;
  std::unordered_map<const Tensor*, size_t> readers_;
  std::map<std::pair<const Tensor*, bool>, Made> made_;
};

}  // namespace

Status KeepNarrowWeights(NodeGraph* graph, const Threads& threads, bool byte_activations,
                         int* changes) {
  return Narrowing(graph, threads, byte_activations).Run(changes);
}

Status UnpackConstants(NodeGraph* graph, int* changes) {
  std::unordered_map<const Tensor*, const Tensor*> made;
  for (Node& node : graph->nodes) {
    for (const Tensor*& in : node.inputs) {
      if (in == nullptr || !in->two_in_byte) continue;
      const Tensor* packed = in;
      const Tensor*& bytes = made[packed];
      if (bytes == nullptr) {
        std::shared_ptr<AlignedBytes> data = Unpacked(*packed);
        if (data == nullptr) {
          return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory for the constant '%s' in bytes",
                       packed->name.c_str());
        }
        Tensor* tensor = graph->NewTensor(*packed);
        tensor->type = QNN_TENSOR_TYPE_STATIC;
        tensor->two_in_byte = false;
        tensor->data = std::move(data);
        bytes = tensor;
        ++*changes;
      }
      in = bytes;
      graph->Replaced(packed);
    }
  }
  return Status::Ok();
}

}  // namespace qnnrt
