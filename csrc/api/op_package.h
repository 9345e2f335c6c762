// Op packages of clients: libraries that are opened and initialized, and their ops on this
// runtime's nodes. abi/qnnrt_op_package.h has how they are called.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "abi/qnn_objects.h"
#include "abi/qnnrt_op_package.h"
#include "ops/package_op.h"
#include "support/status.h"

namespace qnnrt {

class Log;

// One for a library and provider in the process, whichever backends register it: kept by these and
// by the kernels of its nodes, and terminated with the last of them.
class OpPackage : public std::enable_shared_from_this<OpPackage> {
 public:
  // Errors: 4005 no such library, 4006 no such provider, 4007 what the package says, 4008 not
  // compiled for this runtime, or another version of the interface.
  static Result<std::shared_ptr<OpPackage>> Open(const char* path, const char* provider, Log* log);
  // Of the program itself. Errors: 4007, 4008.
  static Result<std::shared_ptr<OpPackage>> Of(const QnnOpPackage_Interface_t& interface, Log* log);
  ~OpPackage();
  OpPackage(const OpPackage&) = delete;
  OpPackage& operator=(const OpPackage&) = delete;

  const std::string& name() const { return name_; }
  std::vector<std::string> types() const;
  // Asks the package for its ops again where it had none of this type. Errors: 4007.
  Result<bool> Has(const std::string& type);
  void SetLogLevel(QnnLog_Level_t level) const;

  // Errors: 31xx and 3200 as the package says, else 3110.
  Status Validate(const Node& node) const;
  // Errors: 6022.
  Status CreateImpl(const Node& node, Qnnrt_OpImpl_t* impl) const;
  void FreeImpl(Qnnrt_OpImpl_t* impl) const;

 private:
  OpPackage(void* owner, std::string provider, const QnnOpPackage_Interface_t* interface);
  // The one of this owner and provider; a new one has `taken` its owner.
  static Result<std::shared_ptr<OpPackage>> Share(void* owner, const std::string& provider,
                                                  const QnnOpPackage_Interface_t* interface,
                                                  Log* log, FunctionRef<void()> taken);
  Status EnsureReady(Log* log);
  Status Initialize(Log* log);
  Status ReadInfo();
  template <typename Function, typename Slot, typename... Args>
  Qnn_ErrorHandle_t Call(Slot slot, Args... args) const;
  const char* Who() const {
    return !name_.empty() ? name_.c_str() : provider_.empty() ? "the program" : provider_.c_str();
  }
  Status Failed(const char* call, Qnn_ErrorHandle_t code) const;

  void* const owner_;           // its library; of the program's own, what tells it from others
  const std::string provider_;  // empty: the program's own
  std::mutex ready_mutex_;
  bool tried_ = false;
  Status ready_;
  QnnOpPackage_Interface_t interface_ = {};
  bool has_handle_ = false;  // interface 2: calls take handle_
  Qnn_OpPackageHandle_t handle_ = nullptr;
  bool initialized_ = false, logs_ = false;
  std::string name_;
  mutable std::mutex types_mutex_;
  std::vector<std::string> types_;
};

// Those that a backend has.
class OpPackages {
 public:
  // Errors: 4009 a package of that name is registered.
  Status Add(std::shared_ptr<OpPackage> package);
  // For a node in the context of that id, 0: in none. Errors: 4005 no such package, or no such op.
  Result<std::shared_ptr<const PackageOp>> Find(const std::string& package, const std::string& type,
                                                uint64_t context) const;
  void SetLogLevel(QnnLog_Level_t level) const;
  // `own`, then the packages' ops. What is returned stays until the packages are gone.
  const std::vector<QnnBackend_OperationName_t>& List(
      const std::vector<QnnBackend_OperationName_t>& own);

 private:
  std::vector<std::shared_ptr<OpPackage>> All() const;

  mutable std::mutex mutex_;  // not held while a package is called
  std::vector<std::shared_ptr<OpPackage>> all_;
  struct Listed {
    std::vector<std::string> texts;  // package, type, package, ...
    std::vector<QnnBackend_OperationName_t> operations;
  };
  std::vector<std::unique_ptr<Listed>> lists_;  // the last is the current one
};

// An op of a package is being executed on this thread: it may execute no graph, for which it could
// wait for ever.
bool InPackageOp();
// The context of the node for which a function of a package is called on this thread; 0: none.
uint64_t ServedContext();

}  // namespace qnnrt
