// The op table as the one source of what ops take: its defaults fit its params, and nodes get them.
#include <variant>

#include "check.h"
#include "ops/elementwise/activation.h"
#include "ops/op.h"

using namespace qnnrt;

namespace {

bool Fits(const ParamSpec& spec, const ParamValue& value) {
  switch (spec.kind) {
    case ParamSpec::kInt:
      return std::holds_alternative<int64_t>(value);
    case ParamSpec::kFloat:
      return std::holds_alternative<double>(value);
    case ParamSpec::kBool:
      return std::holds_alternative<bool>(value);
    case ParamSpec::kNumber:
      return std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
    default:
      return std::holds_alternative<Tensor>(value) && std::get<Tensor>(value).is_static();
  }
}

}  // namespace

TEST(DefaultsFitTheirParams) {
  for (const OpDef* def : AllOps()) {
    for (const ParamSpec& spec : def->params) {
      const ParamDefault& fallback = spec.fallback;
      bool fits = fallback.kind != ParamDefault::kValue || Fits(spec, fallback.value);
      if (!spec.values.empty()) {
        fits &= spec.kind == ParamSpec::kInt;
        if (fallback.kind == ParamDefault::kValue)
          fits &= std::get<int64_t>(fallback.value) < static_cast<int64_t>(spec.values.size());
      }
      if (!CHECK(fits)) std::printf("%s.%s\n", def->type, spec.name);
    }
  }
}

TEST(AValidNodeHasAllItsParams) {
  Tensor x, y;
  x.shape = y.shape = {2, 3};
  Node node;
  node.name = "n";
  node.type = "ElementWiseNeuron";
  node.params = {{"operation", int64_t{2}}, {"alpha", 0.25}};
  node.inputs = {&x};
  node.outputs = {&y};
  CHECK_OK(ValidateNode(&node));
  CHECK_EQ(node.Float("alpha"), 0.25f);
  CHECK_EQ(node.Float("beta"), 0.5f);  // of hard_sigmoid
  CHECK(node.Find("alpha")->given);
  CHECK(!node.Find("beta")->given);
  const size_t count = node.params.size();
  CHECK_OK(ValidateNode(&node));
  CHECK_EQ(node.params.size(), count);

  node.params = {{"operation", int64_t{7}}};
  CompleteParams(&node);
  CHECK_EQ(node.Float("beta"), 1.0f);  // of softplus
}

TEST(OtherValuesThanThoseNamedAreRefused) {
  Tensor x, y;
  x.shape = y.shape = {2, 3};
  Node node;
  node.type = "ElementWiseUnary";
  node.params = {{"operation", int64_t{16}}};
  node.inputs = {&x};
  node.outputs = {&y};
  const Status status = ValidateNode(&node);
  CHECK(status.message().find("param 'operation' must be in [0, 15], got 16") != std::string::npos);
}

TEST(TraitsFitTogether) {
  for (const OpDef* def : AllOps()) {
    bool fits = def->moves == nullptr || (def->flags & OpDef::kMoves) != 0;
    fits &= (def->flags & OpDef::kFills) == 0 || (def->flags & OpDef::kMoves) != 0;
    fits &= def->clamps.empty() || def->activation != nullptr;
    fits &= !def->sums_products() || def->inputs.size() == 3;  // input, weights, bias
    if (!CHECK(fits)) std::printf("%s\n", def->type);
  }
}

TEST(AnActivationIsTheSameInEachOpThatHasIt) {
  for (size_t i = 0; i < kActivations; ++i) {
    const ActivationDef& row = DefOf(static_cast<Activation>(i));
    CHECK_EQ(static_cast<size_t>(row.id), i);
    for (const char* type : {row.op, row.neuron == nullptr ? nullptr : "ElementWiseNeuron"}) {
      if (type == nullptr) continue;
      Node node;
      node.type = type;
      if (type != row.op) node.params = {{"operation", int64_t{row.operation}}};
      CompleteParams(&node);
      const OpDef* def = FindOp(type);
      const bool lpai = (def->flags & OpDef::kLpai) != 0 &&
                        (def->lpai_operations >> node.Int("operation") & 1) != 0;
      CHECK_EQ(static_cast<size_t>(def->activation(node)->activation), i);
      CHECK_EQ(lpai, row.lpai);
    }
  }
}

TEST(NobodyButPassesAddsInternalOps) {
  Tensor x, codes, scale, zero;
  x.shape = codes.shape = {2, 3};
  codes.dtype = QNN_DATATYPE_UINT_8;
  scale.shape = zero.shape = {1};
  zero.dtype = QNN_DATATYPE_INT_32;
  Node node;
  node.type = "DynamicQuantize";
  node.inputs = {&x};
  node.outputs = {&codes, &scale, &zero};
  CHECK_OK(ValidateNode(&node));
  const Status status = ValidateClientNode(&node);
  CHECK(status.message().find("no op 'DynamicQuantize'") != std::string::npos);
  for (const OpDef* def : AllOps()) CHECK((def->flags & OpDef::kInternal) == 0);
  zero.shape = {2};
  CHECK(!ValidateNode(&node).ok());
}

CHECK_MAIN("op_table_test")
