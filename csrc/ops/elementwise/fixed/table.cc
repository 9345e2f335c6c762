// ByteTable: a function of one 8-bit fixed-point number, as the table of its 256 values. Passes
// make it of nodes that together are such a function (passes/fuse_tables.cc).
#include <cstring>

#include "ops/elementwise/elementwise.h"
#include "ops/lookup.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

Status Infer(const Node& node, std::vector<Shape>* outputs) {
  const Tensor& table = *node.inputs[1];
  if (ElementSize(node.inputs[0]->dtype) != 1 || ElementSize(node.outputs[0]->dtype) != 1)
    return Invalid("it is for elements of one byte");
  if (!table.is_static() || table.shape != Shape{256})
    return Invalid("the table is expected to be static, with 256 entries");
  (*outputs)[0] = node.inputs[0]->shape;
  return {};
}

class TableKernel final : public Kernel {
 public:
  TableKernel(const void* entries, size_t count) : count_(count) {
    std::memcpy(table_.entries(), entries, 256);
  }
  Status Run(const ExecArgs& args) override {
    table_.Run(args.threads, args.in[0], args.out[0], count_);
    return {};
  }
  const char* Name() const override { return "table"; }

 private:
  const size_t count_;
  ByteTable table_{1};
};

Result<KernelPtr> Make(const Node& node, const KernelOptions&) {
  const Tensor& table = *node.inputs[1];
  return KernelPtr(std::make_unique<TableKernel>(table.data->data(), node.inputs[0]->elements()));
}

}  // namespace

OpDef ByteTableOp() {
  OpDef def;
  def.type = kByteTable;
  def.inputs = {{"in[0]", types::kF32}, {"table", types::kU8}};
  def.outputs = {{"out[0]", types::kF32}};
  def.infer = Infer;
  def.portable = [](const Node&, const KernelOptions&) { return Result<KernelPtr>(KernelPtr()); };
  def.fixed = Make;
  def.flags = OpDef::kInternal | OpDef::kInPlace | OpDef::kLpai;
  return def;
}

}  // namespace qnnrt
