#include "ops/onednn/loader.h"

#include <mutex>

#include "ops/onednn_state.h"
#include "ops/op.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace qnnrt::onednn {
namespace {

// How long idle OpenMP workers spin, in loop turns, before they sleep, where they are not replaced
// by our pool. libgomp's own choice spins for milliseconds, which on a loaded machine takes the
// core that the other thread needs; docs/decisions/0002-onednn-threading.md has the numbers.
constexpr const char* kSpinCount = "1000";

constexpr const char* kLibraryName = "libdnnl.so.3";

struct Library {
  Api api{};
  std::string version;  // empty: not loaded
  std::string why;      // what was tried, when it was not
  std::string ignored;  // a library that is there, or that the user names, and why it does not load
};

std::atomic<bool> g_forked{false};
std::atomic<int> g_state{0};

// Where libqnnrt.so (or whatever this code was linked into) lies, however it was linked to; empty
// when unknown.
std::string OwnDirectory() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&g_state), &info) == 0 || info.dli_fname == nullptr) return {};
  char* real = realpath(info.dli_fname, nullptr);
  std::string path = real != nullptr ? real : info.dli_fname;
  std::free(real);
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

// The user's word: a path, or "none"; null: nothing was said.
const char* Chosen() {
  const char* chosen = std::getenv("QNNRT_ONEDNN");
  return chosen != nullptr && *chosen != '\0' ? chosen : nullptr;
}

// In order: the user's word, the package environment, the system.
std::vector<std::string> Candidates() {
  if (Chosen() != nullptr) return {Chosen()};
  std::vector<std::string> paths;
  const char* hint = std::getenv("QNNRT_PACKAGE_LIBS");
  if (hint != nullptr && *hint != '\0') paths.push_back(std::string(hint) + "/" + kLibraryName);
  // <prefix>/lib/pythonX.Y/site-packages/qnnrt/lib -> <prefix>/lib, where the wheel puts it
  std::string own = OwnDirectory();
  if (!own.empty()) paths.push_back(own + "/../../../../" + kLibraryName);
  paths.push_back(kLibraryName);
  return paths;
}

// `fresh`: nobody in this process had it, so nobody is at work in it.
// libgomp reads its variables when it is loaded, which happens here if no one else needed it yet.
// They are put back at once: child processes are none of our business.
void* OpenLibrary(const std::string& path, bool* fresh) {
  void* present = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  *fresh = present == nullptr;
  if (present != nullptr) return present;
  bool ours = std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr;
  if (ours) setenv("GOMP_SPINCOUNT", kSpinCount, 0);
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (ours) unsetenv("GOMP_SPINCOUNT");
  return handle;
}

// Whether the loader's words mean that there is no such file. Where the file is there they are of
// something else: of a library that it needs, or of the thread-local storage that is left.
bool IsAbsent(const std::string& path, const std::string& error) {
  if (path.find('/') != std::string::npos) return access(path.c_str(), F_OK) != 0;
  return error.find(path + ": cannot open shared object file") != std::string::npos ||
         error.find("Error loading shared library " + path + ":") != std::string::npos;  // musl
}

// The symbol that the library itself is bound to: the global scope comes before its dependencies.
void* BoundSymbol(void* library, const char* name) {
  void* global = dlsym(RTLD_DEFAULT, name);
  return global != nullptr ? global : dlsym(library, name);
}

const char* OpenMpName(void* symbol) {
  Dl_info info;
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return "OpenMP";
  if (std::strstr(info.dli_fname, "libgomp") != nullptr) return "gomp";
  if (std::strstr(info.dli_fname, "libiomp") != nullptr) return "iomp";
  return "OpenMP";
}

// Fills the function pointers; false and the reason when the library is not one we can use.
bool Bind(void* handle, bool fresh, Library* library, std::string* why) {
  Api& api = library->api;
#define QNNRT_DNNL_BIND(name)                                                    \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(handle, "dnnl_" #name)); \
  if (api.name == nullptr) {                                                     \
    *why = "has no function dnnl_" #name;                                        \
    return false;                                                                \
  }
  QNNRT_DNNL_FUNCTIONS(QNNRT_DNNL_BIND)
#undef QNNRT_DNNL_BIND
  const dnnl_version_t* version = api.version();
  std::string number = std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
                       std::to_string(version->patch);
  if (version->major != 3) {
    *why = "is version " + number + ", but 3.x is needed";
    return false;
  }
  const char* threading = "one thread";
  switch (version->cpu_runtime) {
    case DNNL_RUNTIME_OMP: {
      api.on_pool = fresh && BindToPool(handle);
      if (api.on_pool) {
        threading = "qnnrt";
        break;
      }
      void* get = BoundSymbol(handle, "omp_get_max_threads");
      void* set = BoundSymbol(handle, "omp_set_num_threads");
      if (get == nullptr || set == nullptr) {
        *why = "uses OpenMP, but its runtime library was not found";
        return false;
      }
      api.omp_get_max_threads = reinterpret_cast<int (*)()>(get);
      api.omp_set_num_threads = reinterpret_cast<void (*)(int)>(set);
      threading = OpenMpName(get);
      break;
    }
    case DNNL_RUNTIME_TBB:
      threading = "TBB";
      break;
    case DNNL_RUNTIME_SEQ:
    case DNNL_RUNTIME_THREADPOOL:
      break;
    default:
      *why = "is built for SYCL; install onednn-cpu-gomp instead";
      return false;
  }
  dnnl_status_t status = api.engine_create(&api.engine, dnnl_cpu, 0);
  if (status != dnnl_success) {
    *why = std::string("could not make a CPU engine (") + StatusName(status) + ")";
    return false;
  }
  library->version = "oneDNN " + number + " (" + threading + ")";
  return true;
}

Library* LoadLibraryOnce() {
  auto library = std::make_unique<Library>();
  const bool named = Chosen() != nullptr;
  auto tried = [&library, named](const std::string& path, const std::string& reason, bool absent) {
    const std::string told = path + ": " + reason;
    for (std::string* text : {&library->why, &library->ignored}) {
      if (text == &library->ignored && absent && !named) continue;
      if (!text->empty()) *text += "; ";
      *text += told;
    }
  };
  for (const std::string& path : Candidates()) {
    if (path == "none") {
      library->why = "switched off by QNNRT_ONEDNN=none";
      break;
    }
    bool fresh = false;
    void* handle = OpenLibrary(path, &fresh);
    if (handle == nullptr) {
      const char* error = dlerror();  // "<path>: <reason>"
      std::string reason = error != nullptr ? error : "cannot be opened";
      const bool absent = IsAbsent(path, reason);
      if (reason.compare(0, path.size() + 2, path + ": ") == 0) reason.erase(0, path.size() + 2);
      tried(path, reason, absent);
      continue;
    }
    std::string why;
    if (Bind(handle, fresh, library.get(), &why)) {
      pthread_atfork(nullptr, nullptr, [] { g_forked.store(true, std::memory_order_relaxed); });
      break;
    }
    tried(path, why, false);
    dlclose(handle);
    library->api = Api{};
  }
  if (!library->version.empty()) library->ignored.clear();
  if (!library->ignored.empty()) {
    if (named) library->ignored.insert(0, "QNNRT_ONEDNN=");
    // As the dynamic loader does of LD_PRELOAD: many programs have no log to be told by.
    std::fprintf(stderr, "qnnrt: %s: ignored, the portable kernels are used\n",
                 library->ignored.c_str());
  }
  g_state.store(library->version.empty() ? -1 : 1, std::memory_order_release);
  return library.release();  // never freed: kernels of graphs that outlive everything use it
}

Library* TheLibrary() {
  static Library* const library = LoadLibraryOnce();
  return library;
}

}  // namespace

const Api* Load() {
  Library* library = TheLibrary();
  return library->version.empty() ? nullptr : &library->api;
}

const Api& TheApi() {
  static const Api& api = TheLibrary()->api;
  return api;
}

bool Forked() { return !TheApi().on_pool && g_forked.load(std::memory_order_relaxed); }

const char* StatusName(dnnl_status_t status) {
  switch (status) {
    case dnnl_success:
      return "success";
    case dnnl_out_of_memory:
      return "out of memory";
    case dnnl_invalid_arguments:
      return "invalid arguments";
    case dnnl_unimplemented:
      return "unimplemented";
    case dnnl_runtime_error:
      return "runtime error";
    case dnnl_not_required:
      return "not required";
    default:
      return "unknown status";
  }
}

}  // namespace qnnrt::onednn

namespace qnnrt {

const char* OneDnnVersion() {
  const onednn::Api* api = onednn::Load();
  return api != nullptr ? onednn::TheLibrary()->version.c_str() : nullptr;
}

bool OneDnnChosen() { return onednn::Chosen() != nullptr; }

std::string OneDnnIgnored() {
  const int state = onednn::g_state.load(std::memory_order_acquire);
  return state == -1 ? onednn::TheLibrary()->ignored : std::string();
}

bool OneDnnSwitchedOff() {
  return onednn::Chosen() != nullptr && std::strcmp(onednn::Chosen(), "none") == 0;
}

int OneDnnLoadState(std::string* why) {
  int state = onednn::g_state.load(std::memory_order_acquire);
  if (why != nullptr) *why = state == -1 ? onednn::TheLibrary()->why : std::string();
  return state;
}

}  // namespace qnnrt

#else  // no headers at build time

namespace qnnrt {

const char* OneDnnVersion() { return nullptr; }

bool OneDnnChosen() { return false; }

std::string OneDnnIgnored() { return std::string(); }

bool OneDnnSwitchedOff() { return true; }

int OneDnnLoadState(std::string* why) {
  if (why != nullptr) *why = "built without the oneDNN headers (package onednn-devel-cpu-gomp)";
  return -1;
}

}  // namespace qnnrt

#endif
