#include "ops/package_op.h"

#include <memory>

namespace qnnrt {

std::string PackageOpType(const std::string& package, const std::string& type) {
  return package + kPackageSeparator + type;
}

const OpDef& PackageOpDef() {
  static const OpDef* const def = [] {
    auto d = std::make_unique<OpDef>();
    d->type = kPackageSeparator;
    // No floats of 16 bits but where the client has them: the package was asked about FLOAT_32.
    constexpr TypeSet kAsTheyAre = (types::kAny | types::kFixed) & ~(types::kF16 | types::kB16);
    d->inputs = {{"in", kAsTheyAre, PortSpec::kVariadic, -1, 0, 16}};
    d->outputs = {{"out", kAsTheyAre, PortSpec::kVariadic, -1, 0, 16}};
    d->infer = [](const Node&, std::vector<Shape>*) { return Status::Ok(); };
    d->sensitive_inputs = ~uint32_t{0};
    d->keeps_state = [](const Node&) { return true; };
    return d.release();  // never freed, as the table of ops
  }();
  return *def;
}

}  // namespace qnnrt
