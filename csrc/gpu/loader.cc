#include "gpu/loader.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "abi/qnn_errors.h"
#include "gpu/package.h"
#include "support/fork.h"

namespace qnnrt::gpu {
namespace {

constexpr const char* kLoaderVariable = "QNNRT_OPENCL_LIBRARY";

struct Loaded {
  Status status;
  OpenCl cl = {};
  std::string name;
  uint32_t forks = ForkGeneration();
};

bool IsLoader(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return std::strncmp(slash == nullptr ? path : slash + 1, "libOpenCL", 9) == 0;
}

// The first loader that the process has mapped: whose objects the client's are.
std::string AlreadyLoaded() {
  std::string found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* user) {
        if (info->dlpi_name == nullptr || !IsLoader(info->dlpi_name)) return 0;
        *static_cast<std::string*>(user) = info->dlpi_name;
        return 1;
      },
      &found);
  return found;
}

// pyopencl's wheel brings a loader that knows the drivers in wheels.
std::string OfPyopencl() {
  const std::string folder = PackageRoot() + "/pyopencl/.libs";
  DIR* entries = opendir(folder.c_str());
  if (entries == nullptr) return "";
  std::string found;
  while (const dirent* entry = readdir(entries))
    if (IsLoader(entry->d_name)) found = folder + "/" + entry->d_name;
  closedir(entries);
  return found;
}

std::string FirstLineOf(const std::string& path) {
  char line[512] = "";
  if (std::FILE* file = std::fopen(path.c_str(), "re")) {
    if (std::fgets(line, sizeof line, file) == nullptr) line[0] = '\0';
    std::fclose(file);
  }
  line[std::strcspn(line, "\r\n")] = '\0';
  return line;
}

// What pyopencl does for the loader in its wheel, which crashes without: it says where the wheel
// is, and has loaded the drivers in it, which the loader knows by names without a folder.
void PrepareFor(const std::string& path) {
  const std::string inside = "/pyopencl/.libs/";
  const size_t at = path.rfind(inside);
  if (at == std::string::npos) return;
  const std::string folder = path.substr(0, at + inside.size());
  (void)setenv("PYOPENCL_HOME", path.substr(0, at + inside.find("/.libs/")).c_str(), 0);
  DIR* entries = opendir(folder.c_str());
  while (const dirent* entry = entries == nullptr ? nullptr : readdir(entries)) {
    const std::string name = entry->d_name;
    if (name.size() < 5 || name.compare(name.size() - 4, 4, ".icd") != 0) continue;
    (void)dlopen((folder + FirstLineOf(folder + name)).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (entries != nullptr) closedir(entries);
}

void* Open(std::string* name, std::string* why) {
  const char* given = std::getenv(kLoaderVariable);
  if (given != nullptr && *given != '\0') {
    *name = given;
    PrepareFor(*name);
    void* library = dlopen(given, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) *why = std::string(kLoaderVariable) + ": " + dlerror();
    return library;
  }
  for (const std::string& path : {AlreadyLoaded(), std::string("libOpenCL.so.1"),
                                  std::string("libOpenCL.so"), OfPyopencl()}) {
    if (path.empty()) continue;
    *name = path;
    PrepareFor(path);
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    if (why->empty()) *why = dlerror();
  }
  return nullptr;
}

Loaded Load() {
  Loaded loaded;
  std::string why;
  void* library = Open(&loaded.name, &why);
  if (library == nullptr) {
    loaded.status = Error(
        QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE,
        "there is no OpenCL loader (%s): install libOpenCL.so.1 (Debian: ocl-icd-libopencl1), "
        "or name one in %s",
        why.c_str(), kLoaderVariable);
    return loaded;
  }
  const auto find = [&](const char* name, auto* function) {
    void* address = dlsym(library, name);
    if (address == nullptr && loaded.status.ok()) {
      loaded.status = Error(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE,
                            "%s is no OpenCL 1.2 loader: it has no %s", loaded.name.c_str(), name);
    }
    std::memcpy(function, &address, sizeof address);
  };
  OpenCl& cl = loaded.cl;
  find("clEnqueueNDRangeKernel", &cl.enqueueNDRangeKernel);
  find("clEnqueueWriteBuffer", &cl.enqueueWriteBuffer);
  find("clEnqueueReadBuffer", &cl.enqueueReadBuffer);
  find("clEnqueueBarrierWithWaitList", &cl.enqueueBarrierWithWaitList);
  find("clSetKernelArg", &cl.setKernelArg);
  find("clFinish", &cl.finish);
  find("clFlush", &cl.flush);
  find("clCreateBuffer", &cl.createBuffer);
  find("clCreateCommandQueue", &cl.createCommandQueue);
  find("clGetEventProfilingInfo", &cl.getEventProfilingInfo);
  find("clReleaseMemObject", &cl.releaseMemObject);
  find("clReleaseEvent", &cl.releaseEvent);
  find("clReleaseCommandQueue", &cl.releaseCommandQueue);
  find("clCreateSubBuffer", &cl.createSubBuffer);
  find("clGetEventInfo", &cl.getEventInfo);
  find("clWaitForEvents", &cl.waitForEvents);
  find("clGetPlatformIDs", &cl.getPlatformIDs);
  find("clGetPlatformInfo", &cl.getPlatformInfo);
  find("clGetDeviceIDs", &cl.getDeviceIDs);
  find("clGetDeviceInfo", &cl.getDeviceInfo);
  find("clCreateContext", &cl.createContext);
  find("clRetainContext", &cl.retainContext);
  find("clReleaseContext", &cl.releaseContext);
  find("clGetContextInfo", &cl.getContextInfo);
  find("clCreateProgramWithSource", &cl.createProgramWithSource);
  find("clCreateProgramWithBinary", &cl.createProgramWithBinary);
  find("clBuildProgram", &cl.buildProgram);
  find("clGetProgramBuildInfo", &cl.getProgramBuildInfo);
  find("clGetProgramInfo", &cl.getProgramInfo);
  find("clReleaseProgram", &cl.releaseProgram);
  find("clCreateKernel", &cl.createKernel);
  find("clReleaseKernel", &cl.releaseKernel);
  find("clGetMemObjectInfo", &cl.getMemObjectInfo);
  find("clRetainMemObject", &cl.retainMemObject);
  return loaded;
}

std::mutex& LoadMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

// Never unloaded: drivers have threads. What failed is tried again: a client may load one later.
Loaded*& TheOne() {
  static Loaded* loaded = nullptr;
  return loaded;
}

}  // namespace

Result<const OpenCl*> OpenCl::Get() {
  std::lock_guard<std::mutex> lock(LoadMutex());
  Loaded*& one = TheOne();
  if (one == nullptr) {
    Loaded loaded = Load();
    if (!loaded.status.ok()) return std::move(loaded.status);
    one = new Loaded(std::move(loaded));
  }
  if (one->forks != ForkGeneration()) return InForkedChild();
  return static_cast<const OpenCl*>(&one->cl);
}

Status InForkedChild() {
  return Status(
      QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
      "a forked child cannot use the OpenCL driver of its parent: load the library in the "
      "child first, or start another program");
}

std::string OpenCl::Name() {
  std::lock_guard<std::mutex> lock(LoadMutex());
  return TheOne() == nullptr ? "" : TheOne()->name;
}

}  // namespace qnnrt::gpu
