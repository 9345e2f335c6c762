// TCM through the C API, in the order of the documentation's section: backend in direct mode, log
// lines at their levels, pieces as IO memory by the LPAI descriptor, and what is refused.
#include <cstdarg>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "abi/qnn_errors.h"
#include "abi/qnn_interface.h"
#include "abi/qnn_lpai.h"
#include "abi/qnnrt_ext.h"
#include "check.h"
#include "memory/memory_api.h"

extern "C" Qnn_ErrorHandle_t qnnrt_lpai_get_providers(const QnnInterface_t*** list, uint32_t* n);
extern "C" Qnn_ErrorHandle_t qnnrt_cpu_get_providers(const QnnInterface_t*** list, uint32_t* n);

namespace {

using Table = QnnInterface_ImplementationV2_32_t;
using Line = std::pair<int, std::string>;

std::vector<Line> g_lines;

void KeepLine(const char* format, QnnLog_Level_t level, uint64_t, va_list args) {
  char text[512];
  std::vsnprintf(text, sizeof text, format, args);
  g_lines.emplace_back(static_cast<int>(level), text);
}

const Table& TableOf(decltype(&qnnrt_lpai_get_providers) providers) {
  const QnnInterface_t** list = nullptr;
  uint32_t count = 0;
  providers(&list, &count);
  return list[0]->v2_32;
}
const Table& Lpai() { return TableOf(qnnrt_lpai_get_providers); }

// A backend with its log.
struct Client {
  Qnn_LogHandle_t log = nullptr;
  Qnn_BackendHandle_t backend = nullptr;
  explicit Client(const char* platform) {
    CHECK_EQ(Lpai().logCreate(KeepLine, QNN_LOG_LEVEL_DEBUG, &log), 0u);
    QnnBackend_Config_t config = {};
    config.option = QNN_BACKEND_CONFIG_OPTION_PLATFORM;
    config.platformOption = platform;
    const QnnBackend_Config_t* configs[] = {platform == nullptr ? nullptr : &config, nullptr};
    CHECK_EQ(Lpai().backendCreate(log, configs, &backend), 0u);
    g_lines.clear();
  }
  ~Client() {
    if (backend != nullptr) CHECK_EQ(Lpai().backendFree(backend), 0u);
    CHECK_EQ(Lpai().logFree(log), 0u);
  }
};

Qnnrt_LpaiAllocatorHandle_t Make(Qnn_BackendHandle_t backend, const char* mem_type) {
  Qnnrt_LpaiAllocatorHandle_t allocator = nullptr;
  CHECK_EQ(qnnrt_lpai_allocator_create(backend, mem_type, &allocator), 0u);
  return allocator;
}
uint64_t Alloc(Qnnrt_LpaiAllocatorHandle_t allocator, uint64_t nbytes) {
  uint64_t piece = 0;
  CHECK_EQ(qnnrt_lpai_allocator_alloc(allocator, nbytes, &piece), 0u);
  return piece;
}
bool Said(const char* words) {
  const bool said = std::strstr(qnnrt_error_message(), words) != nullptr;
  if (!said) std::fprintf(stderr, "  the message was: %s\n", qnnrt_error_message());
  return said;
}
std::string Text(const std::vector<Line>& lines) {
  std::string text;
  for (const Line& line : lines) text += std::to_string(line.first) + " " + line.second + "\n";
  return text;
}

TEST(LinesAndLimits) {
  Client client("direct_mode:adsp");
  Qnnrt_LpaiAllocatorHandle_t allocator = Make(client.backend, "tcm");
  const uint64_t piece = Alloc(allocator, 1000);
  uint64_t none = 5;
  CHECK_EQ(qnnrt_lpai_allocator_alloc(allocator, 2035712, &none), QNN_COMMON_ERROR_MEM_ALLOC);
  CHECK_EQ(none, 0u);
  CHECK(Said("TCM memory allocation failure: required size: 2035712: the TCM pool"));
  CHECK_EQ(qnnrt_lpai_allocator_free(allocator, piece), 0u);
  const uint64_t whole = Alloc(allocator, 2035712);
  Qnnrt_LpaiAllocatorInfo_t info;
  CHECK_EQ(qnnrt_lpai_allocator_info(allocator, &info), 0u);
  CHECK_EQ(info.mem_type, uint32_t{QNN_LPAI_MEM_TYPE_TCM});
  CHECK_EQ(info.pieces, 1u);
  CHECK_EQ(info.max_pieces, 32u);
  CHECK_EQ(info.used_bytes, 2035712u);
  CHECK_EQ(info.pool_bytes, 2035712u);
  CHECK_EQ(info.free_bytes, 0u);
  CHECK_EQ(info.fatal, 0u);
  // Levels: ERROR 1, INFO 3.
  CHECK_EQ(Text(g_lines),
           "3 TCM pool current size: 2035712 max_size: 2035712\n"
           "3 Allocate size 1000 from tcm pool 0\n"
           "1 TCM memory allocation failure: required size: 2035712\n"
           "3 Allocate size 2035712 from tcm pool 0\n");
  CHECK_EQ(qnnrt_lpai_allocator_destroy(allocator), 0u);  // and the piece with it
  qnnrt_buffer_info_t gone;
  CHECK_EQ(qnnrt_buffer_info(whole, &gone), QNN_MEM_ERROR_INVALID_HANDLE);
}

TEST(The33rdIsFatal) {
  Client client("direct_mode:adsp");
  Qnnrt_LpaiAllocatorHandle_t allocator = Make(client.backend, "tcm");
  uint64_t piece = 0, first = Alloc(allocator, 64);
  for (int i = 1; i < 32; ++i) Alloc(allocator, 64);
  g_lines.clear();
  const uint64_t fatal = QNN_COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL;
  CHECK_EQ(qnnrt_lpai_allocator_alloc(allocator, 64, &piece), fatal);
  CHECK(Said("more than 32 pieces of TCM were asked for, which is fatal"));
  CHECK_EQ(Text(g_lines), "1 TCM memory allocation failure: required size: 64\n");
  CHECK_EQ(qnnrt_lpai_allocator_free(allocator, first), fatal);
  CHECK_EQ(qnnrt_lpai_allocator_alloc(allocator, 64, &piece), fatal);
  Qnnrt_LpaiAllocatorInfo_t info;
  CHECK_EQ(qnnrt_lpai_allocator_info(allocator, &info), 0u);
  CHECK_EQ(info.fatal, 1u);
  CHECK_EQ(info.pieces, 32u);
  CHECK_EQ(qnnrt_lpai_allocator_destroy(allocator), 0u);
}

TEST(UnknownTypes) {
  Client client("direct_mode:adsp");
  Qnnrt_LpaiAllocatorHandle_t allocator = Make(client.backend, "psram");
  uint64_t piece = 0;
  CHECK_EQ(qnnrt_lpai_allocator_alloc(allocator, 64, &piece), QNN_COMMON_ERROR_INVALID_ARGUMENT);
  CHECK(Said("Memory type only supports DDR & TCM"));
  CHECK_EQ(Text(g_lines), "1 Invalid memory type\n1 Memory type only supports DDR & TCM\n");
  Qnnrt_LpaiAllocatorInfo_t info;
  CHECK_EQ(qnnrt_lpai_allocator_info(allocator, &info), 0u);
  CHECK_EQ(info.mem_type, uint32_t{QNN_LPAI_MEM_TYPE_UNDEFINED});
  CHECK_EQ(qnnrt_lpai_allocator_destroy(allocator), 0u);
}

TEST(WithoutDirectMode) {
  Client client(nullptr);
  Qnnrt_LpaiAllocatorHandle_t allocator = &client;
  CHECK_EQ(qnnrt_lpai_allocator_create(client.backend, "tcm", &allocator),
           QNN_COMMON_ERROR_PLATFORM_NOT_SUPPORTED);
  CHECK(allocator == nullptr);
  CHECK(Said("TCM is there in aDSP direct mode alone"));
  allocator = Make(client.backend, nullptr);
  Alloc(allocator, 3000000);
  CHECK_EQ(Text(g_lines), "");
  CHECK_EQ(qnnrt_lpai_allocator_destroy(allocator), 0u);
}

TEST(IoTensorsByTheLpaiDescriptor) {
  Client client("direct_mode:adsp");
  Qnn_ContextHandle_t context = nullptr;
  CHECK_EQ(Lpai().contextCreate(client.backend, nullptr, nullptr, &context), 0u);
  Qnnrt_LpaiAllocatorHandle_t allocator = Make(client.backend, "tcm");
  Qnn_MemHandle_t handles[2] = {};
  uint64_t pieces[2];
  for (int i = 0; i < 2; ++i) {
    pieces[i] = Alloc(allocator, 100);
    qnnrt_buffer_info_t info;
    CHECK_EQ(qnnrt_buffer_info(pieces[i], &info), 0u);
    CHECK_EQ(reinterpret_cast<uintptr_t>(info.address) % 64, 0u);
    QnnLpaiMem_MemInfoCustom_t custom = {};
    CHECK_EQ(qnnrt_buffer_borrow_fd(pieces[i], &custom.fd), 0u);
    custom.offset = static_cast<uint32_t>(info.fd_offset);
    CHECK_EQ(custom.offset, 128u * static_cast<uint32_t>(i));
    uint32_t dims[] = {100};
    Qnn_MemDescriptor_t descriptor = {};
    descriptor.memShape.numDim = 1;
    descriptor.memShape.dimSize = dims;
    descriptor.dataType = QNN_DATATYPE_UFIXED_POINT_8;
    descriptor.memType = QNN_MEM_TYPE_CUSTOM;
    descriptor.customInfo = &custom;
    CHECK_EQ(Lpai().memRegister(context, &descriptor, 1, &handles[i]), 0u);
  }
  // Neither a piece nor the allocator goes while the memory is registered.
  const uint64_t busy = QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  CHECK_EQ(qnnrt_lpai_allocator_free(allocator, pieces[0]), busy);
  CHECK(Said("1 registered memory handle"));
  CHECK_EQ(qnnrt_lpai_allocator_destroy(allocator), busy);
  CHECK(Said("a piece of the LPAI allocator: "));
  CHECK_EQ(Lpai().memDeRegister(handles, 2), 0u);
  CHECK_EQ(qnnrt_lpai_allocator_free(allocator, pieces[0]), 0u);
  CHECK_EQ(qnnrt_lpai_allocator_destroy(allocator), 0u);
  CHECK_EQ(Lpai().contextFree(context, nullptr), 0u);
}

TEST(HandlesThatAreNone) {
  Client client("direct_mode:adsp");
  Qnnrt_LpaiAllocatorHandle_t allocator = Make(client.backend, "tcm");
  const uint64_t bad = QNN_COMMON_ERROR_INVALID_ARGUMENT;
  CHECK_EQ(qnnrt_lpai_allocator_create(client.backend, "tcm", nullptr), bad);
  CHECK_EQ(qnnrt_lpai_allocator_alloc(allocator, 64, nullptr), bad);
  CHECK_EQ(qnnrt_lpai_allocator_info(allocator, nullptr), bad);
  uint64_t piece = 0;
  Qnnrt_LpaiAllocatorInfo_t info;
  Qnnrt_LpaiAllocatorHandle_t other = nullptr;
  CHECK_EQ(qnnrt_lpai_allocator_create(allocator, "tcm", &other), bad);
  CHECK_EQ(qnnrt_lpai_allocator_destroy(allocator), 0u);
  for (void* handle : {allocator, client.backend, static_cast<void*>(nullptr)}) {
    CHECK_EQ(qnnrt_lpai_allocator_alloc(handle, 64, &piece), bad);
    CHECK_EQ(qnnrt_lpai_allocator_free(handle, 1), bad);
    CHECK_EQ(qnnrt_lpai_allocator_info(handle, &info), bad);
    CHECK_EQ(qnnrt_lpai_allocator_destroy(handle), bad);
    CHECK(Said("no live LPAI allocator"));
  }
  const Table& cpu = TableOf(qnnrt_cpu_get_providers);
  Qnn_BackendHandle_t backend = nullptr;
  CHECK_EQ(cpu.backendCreate(nullptr, nullptr, &backend), 0u);
  CHECK_EQ(qnnrt_lpai_allocator_create(backend, "ddr", &other), bad);
  CHECK(Said("is no lpai backend"));
  CHECK_EQ(cpu.backendFree(backend), 0u);
}

TEST(AnAllocatorOutlivesItsBackend) {
  Qnnrt_LiveCounts_t before, after;
  qnnrt_live_counts(&before);
  Qnnrt_LpaiAllocatorHandle_t allocator = nullptr;
  {
    Client client("direct_mode:adsp");
    allocator = Make(client.backend, "tcm");
  }
  g_lines.clear();
  Alloc(allocator, 64);
  CHECK_EQ(g_lines.size(), 2u);
  qnnrt_live_counts(&after);
  CHECK_EQ(after.lpai_allocators, before.lpai_allocators + 1);
  CHECK_EQ(qnnrt_lpai_allocator_destroy(allocator), 0u);
  qnnrt_live_counts(&after);
  CHECK_EQ(std::memcmp(&before, &after, sizeof before), 0);
}

// Destroying while others allocate: each call sees an allocator or none, and nothing is lost.
TEST(DestroyRacesWithAllocate) {
  Client client("direct_mode:adsp");
  Qnnrt_LiveCounts_t before, after;
  qnnrt_live_counts(&before);
  // The lines are not for threads.
  CHECK_EQ(Lpai().logSetLogLevel(client.log, QNN_LOG_LEVEL_ERROR), 0u);
  for (int round = 0; round < 50; ++round) {
    Qnnrt_LpaiAllocatorHandle_t allocator = Make(client.backend, "tcm");
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([allocator] {
        uint64_t piece = 0;
        while (qnnrt_lpai_allocator_alloc(allocator, 64, &piece) == 0)
          qnnrt_lpai_allocator_free(allocator, piece);
      });
    }
    CHECK_EQ(qnnrt_lpai_allocator_destroy(allocator), 0u);
    for (std::thread& thread : threads) thread.join();
  }
  qnnrt_live_counts(&after);
  CHECK_EQ(std::memcmp(&before, &after, sizeof before), 0);
}

}  // namespace

CHECK_MAIN("tcm_api_test")
