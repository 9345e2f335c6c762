// What the tests of TCM share: pieces of a pool, and an allocator with its log.
#pragma once

#include "memory/tcm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "abi/qnn_enums.h"
#include "abi/qnn_errors.h"
#include "check.h"
#include "memory/memory_api.h"
#include "memory_client.h"

namespace tcm_test {

using qnnrt::kTcmBytes;
using qnnrt::kTcmMaxPieces;
using qnnrt::LpaiAllocator;
using qnnrt::Memory;
using qnnrt::SlotHandle;
using qnnrt::TcmPool;
using Fault = qnnrt::TcmPool::Fault;

inline uint64_t Taken(TcmPool* pool, uint64_t nbytes) {
  uint64_t offset = UINT64_MAX;
  CHECK_EQ(pool->Take(nbytes, &offset), Fault::kNone);
  return offset;
}

struct Line {
  QnnLog_Level_t level;
  std::string text;
  bool operator==(const Line& o) const { return level == o.level && text == o.text; }
};
inline std::ostream& operator<<(std::ostream& out, const std::vector<Line>& lines) {
  for (const Line& line : lines) out << "\n    " << line.level << " " << line.text;
  return out;
}

constexpr QnnLog_Level_t kError = QNN_LOG_LEVEL_ERROR;
constexpr QnnLog_Level_t kInfo = QNN_LOG_LEVEL_INFO;
const Line kPoolLine{kInfo, "TCM pool current size: 2035712 max_size: 2035712"};

struct Fixture {
  std::vector<Line> lines;
  std::unique_ptr<LpaiAllocator> allocator;
  uint32_t code = 0;
  std::string message;

  explicit Fixture(const char* mem_type, bool direct_mode = true, uint64_t alignment = 64) {
    auto made = LpaiAllocator::Make({mem_type, direct_mode, alignment},
                                    [this](QnnLog_Level_t level, const std::string& text) {
                                      lines.push_back({level, text});
                                    });
    code = made.status().code();
    message = made.status().message();
    if (made.ok()) allocator = std::move(made).value();
  }
  ~Fixture() {
    if (allocator) CHECK_OK(allocator->Close());
  }
  SlotHandle Alloc(uint64_t nbytes) {
    auto piece = allocator->Allocate(nbytes);
    CHECK_OK(piece.status());
    return piece.ok() ? *piece : 0;
  }
  uint32_t Fails(uint64_t nbytes) {
    auto piece = allocator->Allocate(nbytes);
    CHECK(!piece.ok());
    message = piece.status().message();
    return piece.status().code();
  }
  bool Says(const char* words) const { return message.find(words) != std::string::npos; }
  LpaiAllocator::Info Info() { return allocator->info().value(); }
};

inline qnnrt_buffer_info_t InfoOf(SlotHandle piece) {
  qnnrt_buffer_info_t info = {};
  CHECK_EQ(qnnrt_buffer_info(piece, &info), 0u);
  return info;
}

using memory_test::Counts;

inline SlotHandle Register(SlotHandle piece, uint64_t context, uint32_t bytes) {
  const qnnrt_buffer_info_t info = InfoOf(piece);
  qnnrt::MemDescriptor d;
  d.kind = qnnrt::MemKind::kLpaiCustom;
  CHECK_EQ(qnnrt_buffer_borrow_fd(piece, &d.fd), 0u);
  d.offset = info.fd_offset;
  d.rank = 1;
  d.dims = &bytes;
  d.data_type = QNN_DATATYPE_UINT_8;
  SlotHandle handle = 0;
  CHECK_OK(Memory::Get().registry().Register(context, &d, 1,
                                             qnnrt::KindBit(qnnrt::MemKind::kLpaiCustom), &handle));
  return handle;
}

}  // namespace tcm_test
