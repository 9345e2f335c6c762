#include "api/op_package.h"

#include <dlfcn.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <utility>

#include "abi/qnn_op_names.h"
#include "api/error_table.h"
#include "api/op_package_call.h"
#include "api/runtime.h"

namespace qnnrt {
namespace {

// A package that is going still has its entry: whoever opens it again waits until it is gone.
struct Loaded {
  std::mutex mutex;
  std::condition_variable gone;
  std::map<std::pair<void*, std::string>, std::weak_ptr<OpPackage>> packages;

  static Loaded& Get() {
    static auto* const loaded = new Loaded;  // never freed: packages may go while the process exits
    return *loaded;
  }
};

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};

Status NotForUs(const char* path) {
  return Error(
      QNN_BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION,
      "op package %s does not export %s: compile it with qnnrt_op_package.h, which says how "
      "this runtime calls a package, and write QNNRT_OP_PACKAGE in one of its files",
      path, QNNRT_OP_PACKAGE_ABI_SYMBOL);
}

}  // namespace

OpPackage::OpPackage(void* owner, std::string provider, const QnnOpPackage_Interface_t* interface)
    : owner_(owner), provider_(std::move(provider)) {
  if (interface != nullptr) interface_ = *interface;
}

template <typename Function, typename Slot, typename... Args>
Qnn_ErrorHandle_t OpPackage::Call(Slot slot, Args... args) const {
  if (slot == nullptr) return QNN_SUCCESS;
  ForgetReason();
  return reinterpret_cast<Function>(slot)(args...);
}

Status OpPackage::Failed(const char* call, Qnn_ErrorHandle_t code) const {
  const ErrorCode low = QNN_GET_ERROR_CODE(code);
  const ErrorCode number = low == 0 ? ErrorCode{QNN_OP_PACKAGE_ERROR_GENERAL} : low;
  std::string reason = TakeReason();
  if (reason.empty()) {
    const char* plain = ErrorMessage(number);
    reason = std::to_string(number) + (plain == nullptr ? "" : std::string(", ") + plain);
  }
  return Error(number, "op package '%s': %s failed: %s", Who(), call, reason.c_str());
}

Result<std::shared_ptr<OpPackage>> OpPackage::Open(const char* path, const char* provider,
                                                   Log* log) {
  std::unique_ptr<void, CloseLibrary> library(dlopen(path, RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) {
    const char* why = dlerror();
    return Error(QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND, "cannot load the op package: %s",
                 why == nullptr ? path : why);
  }
  using AbiFn = uint32_t (*)();
  const auto abi = reinterpret_cast<AbiFn>(dlsym(library.get(), QNNRT_OP_PACKAGE_ABI_SYMBOL));
  if (abi == nullptr) return NotForUs(path);
  if (const uint32_t number = abi(); number != QNNRT_OP_PACKAGE_ABI) {
    return Error(QNN_BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION,
                 "op package %s is compiled for version %u of qnnrt_op_package.h; this runtime has "
                 "%u: compile it again",
                 path, number, QNNRT_OP_PACKAGE_ABI);
  }
  if (dlsym(library.get(), provider) == nullptr) {
    return Error(QNN_BACKEND_ERROR_OP_PACKAGE_IF_PROVIDER_NOT_FOUND,
                 "op package %s does not export the interface provider '%s'", path, provider);
  }
  return Share(library.get(), provider, nullptr, log, [&] { library.release(); });
}

Result<std::shared_ptr<OpPackage>> OpPackage::Of(const QnnOpPackage_Interface_t& interface,
                                                 Log* log) {
  // The program's own: one for a table of functions.
  const void* key = reinterpret_cast<const void*>(
      interface.interfaceVersion.major == 2 ? interface.v2_0.getInfo : interface.v1_4.getInfo);
  return Share(const_cast<void*>(key), "", &interface, log, [] {});
}

Result<std::shared_ptr<OpPackage>> OpPackage::Share(void* owner, const std::string& provider,
                                                    const QnnOpPackage_Interface_t* interface,
                                                    Log* log, FunctionRef<void()> taken) {
  Loaded& loaded = Loaded::Get();
  const std::pair<void*, std::string> key(owner, provider);
  std::shared_ptr<OpPackage> package;
  {
    std::unique_lock<std::mutex> lock(loaded.mutex);
    for (auto found = loaded.packages.find(key); found != loaded.packages.end();
         found = loaded.packages.find(key)) {
      package = found->second.lock();
      if (package != nullptr) break;
      loaded.gone.wait(lock);
    }
    if (package == nullptr) {
      package.reset(new OpPackage(owner, provider, interface));
      taken();
      loaded.packages[key] = package;
    }
  }
  QNNRT_RETURN_IF_ERROR(package->EnsureReady(log));
  return package;
}

OpPackage::~OpPackage() {
  if (initialized_ && has_handle_) {
    Call<Qnnrt_OpPackageFreeFn_t>(interface_.v2_0.free, handle_);
  } else if (initialized_) {
    Call<Qnnrt_OpPackageTerminateFn_t>(interface_.v1_4.terminate);
  }
  if (logs_) Call<Qnnrt_OpPackageLogTerminateFn_t>(interface_.v1_4.logTerminate);
  Loaded& loaded = Loaded::Get();
  {
    std::lock_guard<std::mutex> lock(loaded.mutex);
    loaded.packages.erase({owner_, provider_});
  }
  loaded.gone.notify_all();
  if (!provider_.empty()) dlclose(owner_);
}

// Whoever opens it while another thread does waits for that, and gets the same answer.
Status OpPackage::EnsureReady(Log* log) {
  std::lock_guard<std::mutex> lock(ready_mutex_);
  if (!tried_) ready_ = Initialize(log);
  tried_ = true;
  return ready_.ok() ? Status::Ok() : Status(ready_.code(), ready_.message());
}

Status OpPackage::Initialize(Log* log) {
  constexpr ErrorCode kFailed = QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED;
  Qnn_ErrorHandle_t code = QNN_SUCCESS;
  if (!provider_.empty()) {
    auto provide = reinterpret_cast<Qnnrt_OpPackageProviderFn_t>(dlsym(owner_, provider_.c_str()));
    ForgetReason();
    code = provide(&interface_);
    if (code != QNN_SUCCESS) return Failed("the interface provider", code).WithCode(kFailed);
  }
  const uint32_t major = interface_.interfaceVersion.major;
  if (major != 1 && major != 2) {
    return Error(QNN_BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION,
                 "op package of %s has version %u.%u of the op package interface; 1.x and 2.x are "
                 "supported",
                 Who(), major, interface_.interfaceVersion.minor);
  }
  has_handle_ = major == 2;
  const auto& v1 = interface_.v1_4;
  const auto& v2 = interface_.v2_0;
  const bool complete =
      has_handle_ ? v2.create != nullptr && v2.getInfo != nullptr && v2.createOpImpl != nullptr &&
                        v2.freeOpImpl != nullptr
                  : v1.getInfo != nullptr && v1.createOpImpl != nullptr && v1.freeOpImpl != nullptr;
  if (!complete) {
    return Error(kFailed, "op package of %s lacks one of %sgetInfo, createOpImpl and freeOpImpl",
                 Who(), has_handle_ ? "create, " : "");
  }
  const QnnLog_Callback_t callback = log == nullptr ? nullptr : log->callback();
  const QnnLog_Level_t level = log == nullptr ? QNN_LOG_LEVEL_ERROR : log->level();
  if (has_handle_) {
    code = Call<Qnnrt_OpPackageCreateFn_t>(v2.create, &PackageHost(), callback, level, &handle_);
    if (code != QNN_SUCCESS) return Failed("create", code).WithCode(kFailed);
  } else {
    if (callback != nullptr && v1.logInitialize != nullptr) {
      code = Call<Qnnrt_OpPackageLogInitializeFn_t>(v1.logInitialize, callback, level);
      if (code != QNN_SUCCESS) return Failed("logInitialize", code).WithCode(kFailed);
      logs_ = true;
    }
    code = Call<Qnnrt_OpPackageInitFn_t>(v1.init, &PackageHost());
    if (code != QNN_SUCCESS) return Failed("init", code).WithCode(kFailed);
  }
  initialized_ = true;
  return ReadInfo().WithCode(kFailed);
}

Status OpPackage::ReadInfo() {
  constexpr ErrorCode kBad = QNN_OP_PACKAGE_ERROR_INVALID_INFO;
  const QnnOpPackage_Info_t* info = nullptr;
  const Qnn_ErrorHandle_t code = Call<Qnnrt_OpPackageGetInfoFn_t>(
      has_handle_ ? interface_.v2_0.getInfo : interface_.v1_4.getInfo, &info);
  if (code != QNN_SUCCESS) return Failed("getInfo", code);
  if (info == nullptr || info->packageName == nullptr || *info->packageName == '\0' ||
      IsPackageOpType(info->packageName) || (!name_.empty() && name_ != info->packageName)) {
    return Error(kBad,
                 "op package of %s: getInfo gives no name, one with '%s', or "
                 "another one than before",
                 Who(), kPackageSeparator);
  }
  if (info->numOperations != 0 && info->operationNames == nullptr)
    return Error(kBad, "op package '%s': getInfo gives %u operations and no names",
                 info->packageName, info->numOperations);
  std::vector<std::string> types;
  for (uint32_t i = 0; i < info->numOperations; ++i) {
    const char* type = info->operationNames[i];
    if (type == nullptr || *type == '\0')
      return Error(kBad, "op package '%s': operation %u has no name", info->packageName, i);
    types.emplace_back(type);
  }
  std::lock_guard<std::mutex> lock(types_mutex_);
  name_ = info->packageName;
  types_ = std::move(types);
  return Status::Ok();
}

std::vector<std::string> OpPackage::types() const {
  std::lock_guard<std::mutex> lock(types_mutex_);
  return types_;
}

Result<bool> OpPackage::Has(const std::string& type) {
  const auto known = [&] {
    std::lock_guard<std::mutex> lock(types_mutex_);
    return std::find(types_.begin(), types_.end(), type) != types_.end();
  };
  if (known()) return true;
  QNNRT_RETURN_IF_ERROR(ReadInfo().WithCode(QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED));
  return known();
}

void OpPackage::SetLogLevel(QnnLog_Level_t level) const {
  if (has_handle_) {
    Call<Qnnrt_OpPackageLogSetLevelHandleFn_t>(interface_.v2_0.logSetLevel, handle_, level);
  } else if (logs_) {
    Call<Qnnrt_OpPackageLogSetLevelFn_t>(interface_.v1_4.logSetLevel, level);
  }
}

Status OpPackage::Validate(const Node& node) const {
  QNNRT_ASSIGN_OR_RETURN(const PackageConfig config, PackageConfig::Make(node));
  const Qnn_ErrorHandle_t code =
      has_handle_
          ? Call<Qnnrt_OpPackageValidateHandleFn_t>(interface_.v2_0.validateOpConfig, handle_,
                                                    config.get())
          : Call<Qnnrt_OpPackageValidateFn_t>(interface_.v1_4.validateOpConfig, config.get());
  if (code == QNN_SUCCESS) return Status::Ok();
  Status status = Failed("validateOpConfig", code);
  const bool own = status.code() >= QNN_ERROR_RANGE_OP_PACKAGE_MIN &&
                   status.code() <= QNN_ERROR_RANGE_OP_PACKAGE_MAX;
  if (!own) status = std::move(status).WithCode(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE);
  return std::move(status).Within(node.type + " '" + node.name + "'");
}

Status OpPackage::CreateImpl(const Node& node, Qnnrt_OpImpl_t* impl) const {
  QNNRT_ASSIGN_OR_RETURN(const PackageConfig config, PackageConfig::Make(node));
  const Qnn_ErrorHandle_t code =
      has_handle_
          ? Call<Qnnrt_OpPackageCreateOpImplHandleFn_t>(interface_.v2_0.createOpImpl, handle_,
                                                        config.get(), impl)
          : Call<Qnnrt_OpPackageCreateOpImplFn_t>(interface_.v1_4.createOpImpl, config.get(), impl);
  if (code != QNN_SUCCESS)
    return Failed("createOpImpl", code).WithCode(QNN_GRAPH_ERROR_FINALIZE_FAILED);
  if (impl->execute != nullptr) return Status::Ok();
  FreeImpl(impl);
  return Error(QNN_GRAPH_ERROR_FINALIZE_FAILED, "op package '%s': createOpImpl gives no execute",
               name_.c_str());
}

void OpPackage::FreeImpl(Qnnrt_OpImpl_t* impl) const {
  if (has_handle_) {
    Call<Qnnrt_OpPackageFreeOpImplHandleFn_t>(interface_.v2_0.freeOpImpl, handle_, impl);
  } else {
    Call<Qnnrt_OpPackageFreeOpImplFn_t>(interface_.v1_4.freeOpImpl, impl);
  }
}

// ---- those of a backend ----

std::vector<std::shared_ptr<OpPackage>> OpPackages::All() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return all_;
}

Status OpPackages::Add(std::shared_ptr<OpPackage> package) {
  std::lock_guard<std::mutex> lock(mutex_);
  bool taken = package->name() == QNN_OP_PACKAGE_NAME_QTI_AISW;
  for (const auto& other : all_) taken = taken || other->name() == package->name();
  if (taken) {
    return Error(QNN_BACKEND_ERROR_OP_PACKAGE_DUPLICATE,
                 "the backend has an op package '%s' already: a package is registered once",
                 package->name().c_str());
  }
  all_.push_back(std::move(package));
  return Status::Ok();
}

Result<std::shared_ptr<const PackageOp>> OpPackages::Find(const std::string& package,
                                                          const std::string& type,
                                                          uint64_t context) const {
  std::string names = QNN_OP_PACKAGE_NAME_QTI_AISW;
  for (const auto& known : All()) {
    if (known->name() != package) {
      names += ", " + known->name();
      continue;
    }
    QNNRT_ASSIGN_OR_RETURN(const bool has, known->Has(type));
    if (has) return MakePackageOp(known, context);
    std::string types;
    for (const std::string& t : known->types()) types += (types.empty() ? "" : ", ") + t;
    return Error(QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND,
                 "op package '%s' has no op '%s'; it has %s", package.c_str(), type.c_str(),
                 types.empty() ? "none" : types.c_str());
  }
  return Error(QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND,
               "op package '%s' is not registered (backendRegisterOpPackage); there are %s",
               package.c_str(), names.c_str());
}

void OpPackages::SetLogLevel(QnnLog_Level_t level) const {
  for (const auto& package : All()) package->SetLogLevel(level);
}

const std::vector<QnnBackend_OperationName_t>& OpPackages::List(
    const std::vector<QnnBackend_OperationName_t>& own) {
  auto listed = std::make_unique<Listed>();
  for (const auto& package : All()) {
    for (std::string& type : package->types()) {
      listed->texts.push_back(package->name());
      listed->texts.push_back(std::move(type));
    }
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (lists_.empty() ? listed->texts.empty() : lists_.back()->texts == listed->texts)
    return lists_.empty() ? own : lists_.back()->operations;
  listed->operations = own;
  for (size_t i = 0; i < listed->texts.size(); i += 2) {
    listed->operations.push_back(
        {listed->texts[i].c_str(), listed->texts[i + 1].c_str(), QNNRT_OP_PACKAGE_TARGET_CPU});
  }
  lists_.push_back(std::move(listed));
  return lists_.back()->operations;
}

}  // namespace qnnrt
