// Ops of packages that a client registers: which nodes they take and how those run is the
// package's. Everything else that is asked of an op's record has one cautious answer for all.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ops/op.h"

namespace qnnrt {

class PackageOp {
 public:
  virtual ~PackageOp() = default;
  // Errors: 31xx as the package says.
  virtual Status Validate(const Node& node) const = 0;
  // Errors: 6022.
  virtual Result<KernelPtr> MakeKernel(const Node& node) const = 0;
};

// Errors: 4005 no such package, or no such op in it.
using FindPackageOp = std::function<Result<std::shared_ptr<const PackageOp>>(
    const std::string& package, const std::string& type)>;

// Node::type of such a node: no op of qti.aisw has it, so no pass takes the node for one of those.
inline constexpr char kPackageSeparator[] = "::";
std::string PackageOpType(const std::string& package, const std::string& type);
inline bool IsPackageOpType(const std::string& type) {
  return type.find(kPackageSeparator) != std::string::npos;
}

// Their one record: takes tensors of any kind as they are, and may keep state.
const OpDef& PackageOpDef();

}  // namespace qnnrt
