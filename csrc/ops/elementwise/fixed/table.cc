// Table: a function of one fixed-point number of 8 or 16 bits, as what it gives for all of them.
// Passes make it of nodes that together are such a function (passes/fuse_tables.cc).
#include <cstring>

#include "ops/elementwise/elementwise.h"
#include "ops/lookup.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

Status Infer(const Node& node, std::vector<Shape>* outputs) {
  const size_t in = ElementSize(node.inputs[0]->dtype), out = ElementSize(node.outputs[0]->dtype);
  if (in > 2 || out > 2) return Invalid("it is for elements of one byte and of two");
  const Tensor& table = *node.inputs[1];
  if (!table.is_static() || table.shape != Shape{in == 1 ? 256u : uint32_t{kWords}})
    return Invalid("the table is expected to be static, with an entry for each value of the input");
  if (ElementSize(table.dtype) != out)
    return Invalid("the table's entries are expected to be elements of the output");
  (*outputs)[0] = node.inputs[0]->shape;
  return {};
}

class Bytes final : public Kernel {
 public:
  Bytes(const void* entries, size_t entry_size, size_t count) : count_(count), table_(entry_size) {
    std::memcpy(table_.entries(), entries, 256 * entry_size);
  }
  Status Run(const ExecArgs& args) override {
    table_.Run(args.threads, args.in[0], args.out[0], count_);
    return {};
  }
  const char* Name() const override { return "table"; }

 private:
  const size_t count_;
  ByteTable table_;
};

class Words final : public Kernel {
 public:
  Words(size_t entry_size, size_t count) : entry_size_(entry_size), count_(count) {}
  Status Run(const ExecArgs& args) override {
    LookUpWords(args.threads, args.in[1], entry_size_, args.in[0], args.out[0], count_);
    return {};
  }
  const char* Name() const override { return "table"; }

 private:
  const size_t entry_size_, count_;
};

Result<KernelPtr> Make(const Node& node, const KernelOptions&) {
  const Tensor& table = *node.inputs[1];
  const size_t entry_size = ElementSize(table.dtype), count = node.inputs[0]->elements();
  if (table.shape[0] == kWords) return KernelPtr(std::make_unique<Words>(entry_size, count));
  return KernelPtr(std::make_unique<Bytes>(table.data->data(), entry_size, count));
}

}  // namespace

OpDef TableOp() {
  OpDef def;
  def.type = kTable;
  def.inputs = {{"in[0]", types::kF32}, {"table", types::kU8 | types::kU16}};
  def.outputs = {{"out[0]", types::kF32}};
  def.infer = Infer;
  def.portable = [](const Node&, const KernelOptions&) { return Result<KernelPtr>(KernelPtr()); };
  def.fixed = Make;
  def.flags = OpDef::kInternal | OpDef::kInPlace | OpDef::kLpai;
  return def;
}

}  // namespace qnnrt
