#include "gpu/device.h"

#include <dirent.h>
#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "abi/qnn_errors.h"
#include "gpu/ptx.h"
#include "opencl/error.h"
#include "support/fork.h"
#include "support/json.h"

namespace qnnrt::gpu {
namespace {

using opencl::DriverError;

constexpr const char* kDeviceVariable = "QNNRT_GPU_DEVICE";
constexpr uint64_t kCpu = 2, kGpu = 4, kAccelerator = 8, kAll = 0xFFFFFFFF;  // CL_DEVICE_TYPE_*
constexpr uint32_t kPlatformVersion = 0x0901, kPlatformName = 0x0902;
constexpr uint32_t kDeviceType = 0x1000, kMaxMemAllocSize = 0x1010, kMemBaseAddrAlign = 0x1019,
                   kSingleFpConfig = 0x101B, kGlobalMemSize = 0x101F, kDeviceName = 0x102B,
                   kDriverVersion = 0x102D, kDeviceVersion = 0x102F, kExtensions = 0x1030,
                   kDevicePlatform = 0x1031, kHostUnifiedMemory = 0x1035;
constexpr uint64_t kCorrectlyRounded = 1 << 7;  // CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
constexpr uint32_t kContextDevices = 0x1081;
constexpr uint32_t kBuildLog = 0x1183;
constexpr uint32_t kBinarySizes = 0x1165, kBinaries = 0x1166;

std::string Trimmed(std::string text) {
  text.resize(std::strlen(text.c_str()));
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text.substr(std::min(text.find_first_not_of(" \t\n"), text.size()));
}

// get(size, value, got), as OpenCL's functions that say something in text.
template <typename F>
std::string TextOf(F get) {
  size_t size = 0;
  if (get(size_t{0}, static_cast<void*>(nullptr), &size) != 0) return "";
  std::string text(size, '\0');
  if (size != 0 && get(size, static_cast<void*>(text.data()), static_cast<size_t*>(nullptr)) != 0)
    return "";
  return Trimmed(std::move(text));
}

std::string DeviceText(const OpenCl& cl, void* device, uint32_t what) {
  return TextOf([&](size_t size, void* to, size_t* got) {
    return cl.getDeviceInfo(device, what, size, to, got);
  });
}

std::string PlatformText(const OpenCl& cl, void* platform, uint32_t what) {
  return TextOf([&](size_t size, void* to, size_t* got) {
    return cl.getPlatformInfo(platform, what, size, to, got);
  });
}

// A number of 4 or 8 bytes; 0 where the driver does not say it.
uint64_t DeviceNumber(const OpenCl& cl, void* device, uint32_t what) {
  uint64_t value = 0;
  return cl.getDeviceInfo(device, what, sizeof value, &value, nullptr) == 0 ? value : 0;
}

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::vector<void*> DevicesOf(const OpenCl& cl, void* platform) {
  uint32_t count = 0;
  if (cl.getDeviceIDs(platform, kAll, 0, nullptr, &count) != 0) return {};
  std::vector<void*> found(count);
  if (count == 0 || cl.getDeviceIDs(platform, kAll, count, found.data(), nullptr) != 0) return {};
  return found;
}

std::vector<Device> AllDevices(const OpenCl& cl) {
  uint32_t count = 0;
  if (cl.getPlatformIDs(0, nullptr, &count) != 0 || count == 0) return {};
  std::vector<void*> platforms(count);
  if (cl.getPlatformIDs(count, platforms.data(), nullptr) != 0) return {};
  std::vector<Device> found;
  for (void* platform : platforms) {
    for (void* raw : DevicesOf(cl, platform)) {
      Result<Device> device = Describe(cl, raw);
      if (device.ok()) found.push_back(std::move(*device));
    }
  }
  return found;
}

bool IsPocl(const Device& d) { return Lower(d.version).find("pocl") != std::string::npos; }

// The numbers of "3.0-rc2" before the dash.
std::vector<uint64_t> PoclVersion(const Device& d) {
  std::vector<uint64_t> numbers;
  const std::string text = d.driver.substr(0, d.driver.find('-'));
  for (size_t i = 0; i < text.size();) {
    if (!std::isdigit(static_cast<unsigned char>(text[i]))) {
      ++i;
      continue;
    }
    uint64_t number = 0;
    for (; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])); ++i)
      number = number * 10 + static_cast<uint64_t>(text[i] - '0');
    numbers.push_back(number);
  }
  return numbers;
}

int Rank(const Device& d) {
  return (d.type & kGpu) != 0 ? 0 : (d.type & kAccelerator) != 0 ? 1 : (d.type & kCpu) != 0 ? 2 : 3;
}

// As qnnrt.gpu.devices: GPUs, accelerators, CPUs; of several PoCL the newest is first.
void Sort(std::vector<Device>* devices) {
  std::vector<Device> pocl;
  for (const Device& d : *devices)
    if (IsPocl(d)) pocl.push_back(d);
  std::stable_sort(pocl.begin(), pocl.end(), [](const Device& a, const Device& b) {
    return PoclVersion(a) > PoclVersion(b);
  });
  auto next = pocl.begin();
  for (Device& d : *devices)
    if (IsPocl(d)) d = *next++;
  std::stable_sort(devices->begin(), devices->end(),
                   [](const Device& a, const Device& b) { return Rank(a) < Rank(b); });
}

std::string FirstLine(const std::string& path) {
  char line[512] = "";
  if (std::FILE* file = std::fopen(path.c_str(), "re")) {
    if (std::fgets(line, sizeof line, file) == nullptr) line[0] = '\0';
    std::fclose(file);
  }
  return Trimmed(line);
}

// What a loader reads, and what is wrong with each file there.
std::string WhyNoDriver() {
  const char* given = std::getenv("OCL_ICD_VENDORS");
  const std::string folder = given != nullptr && *given != '\0' ? given : "/etc/OpenCL/vendors";
  std::string text, separator;
  DIR* entries = opendir(folder.c_str());
  while (const dirent* entry = entries == nullptr ? nullptr : readdir(entries)) {
    const std::string name = entry->d_name;
    if (name.size() < 5 || name.compare(name.size() - 4, 4, ".icd") != 0) continue;
    const std::string driver = FirstLine(folder + "/" + name);
    void* library = driver.empty() ? nullptr : dlopen(driver.c_str(), RTLD_LAZY | RTLD_LOCAL);
    const char* why = library == nullptr ? dlerror() : nullptr;
    text +=
        separator + name + " names '" + driver + "', which " +
        (library != nullptr ? "loads but has no device"
                            : std::string("does not load (") + (why ? why : "an empty name") + ")");
    separator = "; ";
    if (library != nullptr) dlclose(library);
  }
  if (entries == nullptr) return folder + " does not exist: a driver puts its .icd file there";
  closedir(entries);
  return text.empty() ? folder + " has no .icd file: a driver puts one there"
                      : folder + ": " + text;
}

}  // namespace

std::string Device::Identity() const {
  return platform_name + "\n" + name + "\n" + version + "\n" + driver;
}

Result<Device> Describe(const OpenCl& cl, void* raw) {
  Device d;
  d.raw = raw;
  const int32_t code =
      cl.getDeviceInfo(raw, kDevicePlatform, sizeof d.platform, &d.platform, nullptr);
  if (code != 0) return DriverError(code, "an OpenCL device has no platform");
  d.platform_name = PlatformText(cl, d.platform, kPlatformName);
  d.name = DeviceText(cl, raw, kDeviceName);
  d.version = DeviceText(cl, raw, kDeviceVersion);
  d.driver = DeviceText(cl, raw, kDriverVersion);
  d.type = DeviceNumber(cl, raw, kDeviceType);
  d.cpu = Rank(d) == 2;
  d.shared = DeviceNumber(cl, raw, kHostUnifiedMemory) != 0;
  d.rounds = (DeviceNumber(cl, raw, kSingleFpConfig) & kCorrectlyRounded) != 0;
  d.most_bytes = DeviceNumber(cl, raw, kMaxMemAllocSize);
  d.memory_bytes = DeviceNumber(cl, raw, kGlobalMemSize);
  d.alignment = std::max<uint64_t>(DeviceNumber(cl, raw, kMemBaseAddrAlign) / 8, 128);
  return d;
}

std::string FactsOf(const OpenCl& cl, const Device& device) {
  static const struct {
    const char* name;
    uint32_t what;
  } kNumbers[] = {{"type", kDeviceType},
                  {"max_compute_units", 0x1002},
                  {"max_work_group_size", 0x1004},
                  {"max_mem_alloc_size", kMaxMemAllocSize},
                  {"mem_base_addr_align", kMemBaseAddrAlign},
                  {"single_fp_config", kSingleFpConfig},
                  {"global_mem_size", kGlobalMemSize},
                  {"local_mem_size", 0x1023},
                  {"double_fp_config", 0x1032},
                  {"host_unified_memory", kHostUnifiedMemory},
                  {"native_vector_width_float", 0x103A},
                  {"compute_capability_major_nv", 0x4000}};  // of cl_nv_device_attribute_query
  JsonWriter json;
  json.Object();
  for (const auto& each : kNumbers)
    json.Key(each.name).Number(DeviceNumber(cl, device.raw, each.what));
  json.Key("name").String(device.name).Key("version").String(device.version);
  json.Key("driver_version").String(device.driver);
  json.Key("extensions").String(DeviceText(cl, device.raw, kExtensions));
  json.Key("platform").Object().Key("name").String(device.platform_name);
  json.Key("version").String(PlatformText(cl, device.platform, kPlatformVersion)).End();
  return json.End().Take();
}

Result<Device> Choose(const OpenCl& cl) {
  std::vector<Device> devices = AllDevices(cl);
  if (devices.empty()) {
    return Error(
        QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE,
        "%s finds no OpenCL device: %s; pip install 'pyopencl[pocl]' brings one for the CPU",
        OpenCl::Name().c_str(), WhyNoDriver().c_str());
  }
  Sort(&devices);
  const char* given = std::getenv(kDeviceVariable);
  const std::string wanted = Lower(given == nullptr ? "" : given);
  std::string all, separator;
  for (const Device& device : devices) {
    if (Lower(device.Text()).find(wanted) != std::string::npos) return device;
    all += separator + device.Text();
    separator = ", ";
  }
  return Error(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE,
               "no OpenCL device has '%s' (%s) in its name; there are %s", given, kDeviceVariable,
               all.c_str());
}

// ---- contexts

uint32_t ClContext::ForkNow() { return ForkGeneration(); }

Status ClContext::MakeQueue() {
  int32_t code = 0;
  queue_ = cl_.createCommandQueue(raw_, device_.raw, 0, &code);
  return queue_ != nullptr ? Status::Ok() : DriverError(code, device_.Text() + " has no queue");
}

Result<std::shared_ptr<ClContext>> ClContext::Make(const OpenCl& cl, const Device& device) {
  int32_t code = 0;
  void* raw = cl.createContext(nullptr, 1, &device.raw, nullptr, nullptr, &code);
  if (raw == nullptr) return DriverError(code, device.Text() + " has no context");
  std::shared_ptr<ClContext> made(new ClContext(cl, device, raw));
  QNNRT_RETURN_IF_ERROR(made->MakeQueue());
  return made;
}

Result<std::shared_ptr<ClContext>> ClContext::Of(const OpenCl& cl, void* context,
                                                 const Device& preferred) {
  size_t size = 0;
  int32_t code = cl.getContextInfo(context, kContextDevices, 0, nullptr, &size);
  std::vector<void*> devices(size / sizeof(void*));
  if (code == 0 && !devices.empty())
    code = cl.getContextInfo(context, kContextDevices, size, devices.data(), nullptr);
  if (code != 0 || devices.empty())
    return DriverError(code, "the client's OpenCL context has no devices");
  Device device = preferred;
  if (std::find(devices.begin(), devices.end(), preferred.raw) == devices.end()) {
    QNNRT_ASSIGN_OR_RETURN(device, Describe(cl, devices[0]));
  }
  code = cl.retainContext(context);
  if (code != 0) return DriverError(code, "the client's OpenCL context is not to be had");
  std::shared_ptr<ClContext> made(new ClContext(cl, device, context));
  QNNRT_RETURN_IF_ERROR(made->MakeQueue());
  return made;
}

ClContext::~ClContext() {
  if (forks_ != ForkGeneration()) return;  // a forked child has no driver that knows them
  for (const auto& [source, program] : programs_) cl_.releaseProgram(program);
  arenas_ = nullptr;
  if (queue_ != nullptr) cl_.releaseCommandQueue(queue_);
  cl_.releaseContext(raw_);
}

Result<void*> ClContext::Build(void* program, const std::string& options) {
  const int32_t code =
      cl_.buildProgram(program, 1, &device_.raw, options.c_str(), nullptr, nullptr);
  if (code == 0) return program;
  const std::string log = TextOf([&](size_t size, void* to, size_t* got) {
    return cl_.getProgramBuildInfo(program, device_.raw, kBuildLog, size, to, got);
  });
  cl_.releaseProgram(program);
  return DriverError(code, device_.Text() + " does not build a kernel: " + log);
}

Result<void*> ClContext::OfBinary(const std::string& binary, const std::string& options) {
  const size_t size = binary.size();
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  int32_t each = 0, code = 0;
  void* program = cl_.createProgramWithBinary(raw_, 1, &device_.raw, &size, &bytes, &each, &code);
  if (program != nullptr && code == 0 && each == 0) return Build(program, options);
  if (program != nullptr) cl_.releaseProgram(program);
  return DriverError(code != 0 ? code : each, device_.Text() + " takes no such binary");
}

Result<void*> ClContext::Program(const std::string& source, const std::string& options,
                                 const std::string& binary) {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::string key = options + "\n" + source;
  if (auto found = programs_.find(key); found != programs_.end()) return found->second;
  void* program = nullptr;
  if (!binary.empty()) {
    Result<void*> built = OfBinary(binary, options);
    program = built.ok() ? *built : nullptr;
  }
  if (program == nullptr) {
    const char* text = source.c_str();
    int32_t code = 0;
    program = cl_.createProgramWithSource(raw_, 1, &text, nullptr, &code);
    if (program == nullptr) return DriverError(code, device_.Text() + " takes no programs");
    QNNRT_ASSIGN_OR_RETURN(program, Build(program, options));
    if (const std::string ptx = Rewritten(BinaryOf(program)); !ptx.empty()) {
      cl_.releaseProgram(program);
      QNNRT_ASSIGN_OR_RETURN(program, OfBinary(ptx, options));
    }
  }
  programs_.emplace(key, program);
  return program;
}

std::string ClContext::BinaryOf(void* program) const {
  std::vector<size_t> sizes(64);  // of each device of the program's context
  size_t got = 0;
  if (cl_.getProgramInfo(program, kBinarySizes, sizes.size() * sizeof(size_t), sizes.data(),
                         &got) != 0)
    return "";
  sizes.resize(got / sizeof(size_t));
  std::vector<std::string> binaries;
  std::vector<unsigned char*> pointers;
  for (size_t size : sizes) binaries.emplace_back(size, '\0');
  for (std::string& binary : binaries)
    pointers.push_back(reinterpret_cast<unsigned char*>(binary.data()));
  if (cl_.getProgramInfo(program, kBinaries, pointers.size() * sizeof(void*), pointers.data(),
                         nullptr) != 0)
    return "";
  for (std::string& binary : binaries)  // built for one device alone
    if (!binary.empty()) return std::move(binary);
  return "";
}

}  // namespace qnnrt::gpu
