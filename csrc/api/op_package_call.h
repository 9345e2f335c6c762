// What passes between a node and its package: the op config, the kernel, the reason of an error.
#pragma once

#include <memory>
#include <string>

#include "abi/qnnrt_op_package.h"
#include "api/client_structs.h"
#include "ops/package_op.h"

namespace qnnrt {

class OpPackage;

// A node as the client gave it, for as long as this lives; static tensors with their data.
class PackageConfig {
 public:
  // Errors: 3110 a tensor that a package does not get.
  static Result<PackageConfig> Make(const Node& node);
  const Qnn_OpConfig_t* get() const { return config_; }

 private:
  PackageConfig() = default;
  ClientStructs structs_;
  Qnn_OpConfig_t* config_ = nullptr;
};

// For nodes in the context of that id; 0: in none.
std::shared_ptr<const PackageOp> MakePackageOp(std::shared_ptr<OpPackage> package,
                                               uint64_t context);

const Qnnrt_OpHost_t& PackageHost();
// The reason that a package has set on this thread since it was forgotten.
void ForgetReason();
std::string TakeReason();

}  // namespace qnnrt
