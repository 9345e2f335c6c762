// libFuzzer target: see tests/fuzz/README.md.
#include <cstdlib>

#include "binary_harness.h"

// The library's operator new takes its memory from the next one, which is not the sanitizer's.
extern "C" const char* __asan_default_options() { return "alloc_dealloc_mismatch=0"; }

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  setenv("QNNRT_ISA", "base", 0);  // as the corpus was made
  setenv("QNNRT_ONEDNN", "none", 0);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> bytes(data, data + size);
  binary_harness::Repair(&bytes);
  (void)binary_harness::LoadAndRun(bytes.data(), bytes.size(), true).ok();
  (void)binary_harness::LoadAndRunInPools(bytes.data(), bytes.size(), true).ok();
  return 0;
}
