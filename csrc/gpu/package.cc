#include "gpu/package.h"

#include <dlfcn.h>
#include <stdlib.h>

namespace qnnrt::gpu {
namespace {

std::string Find() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&PackageRoot), &info) == 0 || info.dli_fname == nullptr)
    return "";
  char* resolved = realpath(info.dli_fname, nullptr);  // an SDK's folder has links to it
  if (resolved == nullptr) return "";
  const std::string path = resolved;
  free(resolved);
  const std::string inside = "/qnnrt/lib/";
  const size_t at = path.rfind(inside);
  if (at == std::string::npos || path.find('/', at + inside.size()) != std::string::npos) return "";
  return path.substr(0, at);
}

}  // namespace

const std::string& PackageRoot() {
  static const auto* root = new std::string(Find());
  return *root;
}

}  // namespace qnnrt::gpu
