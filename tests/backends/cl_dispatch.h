// The functions of an OpenCL driver. Each of its objects begins with a pointer to a table of them
// (cl_khr_icd), through which every loader calls: an entry that is replaced there is seen by every
// caller in the process, whatever loader it uses.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum {  // places in the table
  kGetDeviceInfo = 3,
  kCreateBuffer = 14,
  kReadBuffer = 48,
  kWriteBuffer = 49,
  kCopyBuffer = 50,
  kMapBuffer = 56,
  kUnmap = 58,
  kNdRange = 59,
  kReadRect = 86,
  kWriteRect = 87,
  kCopyRect = 88,
  kFillBuffer = 102,
  kMigrate = 104,
  kExtensionFunction = 107,
  kCreateBufferWithProperties = 146,
};

static void* Replace(void* platform, int place, void* by) {
  void** table = *(void***)platform;
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  mprotect((void*)((uintptr_t)(table + place) & ~(page - 1)), page, PROT_READ | PROT_WRITE);
  void* old = table[place];
  table[place] = by;
  return old;
}
