// qnnrt_opencl.h.
#include <cstdio>
#include <memory>

#include "abi/qnn_errors.h"
#include "abi/qnnrt_opencl.h"
#include "opencl/arena_pool.h"
#include "opencl/command_list.h"
#include "opencl/memory.h"
#include "support/guard.h"

using qnnrt::Contained;
using qnnrt::Result;
using qnnrt::Status;
using qnnrt::opencl::ArenaPool;
using qnnrt::opencl::Binding;
using qnnrt::opencl::CommandList;
using qnnrt::opencl::MemoryTable;

namespace {

CommandList* List(void* list) { return static_cast<CommandList*>(list); }
std::shared_ptr<ArenaPool>* Pool(void* pool) {
  return static_cast<std::shared_ptr<ArenaPool>*>(pool);
}

// The code of what `call` gives, with its reason where somebody wants it.
template <typename F>
uint64_t CodeOf(F call, Qnnrt_ExecutorText_t* why = nullptr) {
  const auto code = [why](const Status& status) -> uint64_t {
    if (why != nullptr && !status.ok())
      std::snprintf(why->text, sizeof(why->text), "%s", status.message().c_str());
    return status.code();
  };
  return Contained([&] { return code(call()); }, code);
}

uint64_t Bind(void* self, const Qnnrt_Tensors_t* given, void** binding, Qnnrt_ExecutorText_t* why) {
  return CodeOf(
      [&]() -> Status {
        QNNRT_ASSIGN_OR_RETURN(*binding, List(self)->Bind(*given));
        return Status::Ok();
      },
      why);
}

uint64_t Run(void* self, void* binding, const Qnnrt_ExecutorRun_t* options,
             Qnnrt_ExecutorText_t* why) {
  return CodeOf([&] { return List(self)->Run(static_cast<Binding*>(binding), *options); }, why);
}

void Release(void* self, void* binding) {
  Contained([&] { List(self)->Release(static_cast<Binding*>(binding)); });
}

}  // namespace

extern "C" {

uint64_t qnnrt_opencl_pool_create(const Qnnrt_OpenClFunctions_t* functions, void* context,
                                  Qnnrt_OpenClPoolHandle_t* pool) {
  if (functions == nullptr || pool == nullptr) return QNN_COMMON_ERROR_INVALID_ARGUMENT;
  return CodeOf([&]() -> Status {
    *pool = new std::shared_ptr<ArenaPool>(std::make_shared<ArenaPool>(*functions, context));
    return Status::Ok();
  });
}

void qnnrt_opencl_pool_counts(Qnnrt_OpenClPoolHandle_t pool, Qnnrt_OpenClPoolCounts_t* counts) {
  *counts = {};
  Contained([&] { *counts = (*Pool(pool))->counts(); });
}

void qnnrt_opencl_pool_free(Qnnrt_OpenClPoolHandle_t pool) {
  Contained([&] { delete Pool(pool); });
}

uint64_t qnnrt_opencl_list_create(const Qnnrt_OpenClListInfo_t* info,
                                  Qnnrt_OpenClListHandle_t* list, Qnnrt_ExecutorText_t* why) {
  if (info == nullptr || list == nullptr || info->functions == nullptr)
    return QNN_COMMON_ERROR_INVALID_ARGUMENT;
  return CodeOf(
      [&]() -> Status {
        QNNRT_ASSIGN_OR_RETURN(std::unique_ptr<CommandList> made, CommandList::Make(*info));
        *list = made.release();
        return Status::Ok();
      },
      why);
}

void qnnrt_opencl_list_executor(Qnnrt_OpenClListHandle_t list, Qnn_ContextHandle_t context,
                                uint64_t started, Qnnrt_Executor_t* executor) {
  List(list)->set_context(reinterpret_cast<uintptr_t>(context));
  *executor = {list, started, Bind, Run, Release};
}

void qnnrt_opencl_list_forget(Qnnrt_OpenClListHandle_t list, void* mem) {
  Contained([&] { List(list)->Unbind(mem); });
}

void qnnrt_opencl_list_counts(Qnnrt_OpenClListHandle_t list, Qnnrt_OpenClCounts_t* counts,
                              uint64_t* copied) {
  Contained([&] { List(list)->Counts(counts, copied); });
}

void qnnrt_opencl_list_reset(Qnnrt_OpenClListHandle_t list) {
  Contained([&] { List(list)->Reset(); });
}

void qnnrt_opencl_list_free(Qnnrt_OpenClListHandle_t list) {
  Contained([&] { delete List(list); });
}

uint64_t qnnrt_opencl_register(const Qnnrt_OpenClMemory_t* memory, Qnn_MemHandle_t* handle) {
  if (memory == nullptr || handle == nullptr || memory->mem == nullptr)
    return QNN_COMMON_ERROR_INVALID_ARGUMENT;
  return CodeOf([&]() -> Status {
    QNNRT_ASSIGN_OR_RETURN(*handle, MemoryTable::Get().Register(*memory));
    return Status::Ok();
  });
}

uint64_t qnnrt_opencl_deregister(Qnn_MemHandle_t handle, uint32_t force) {
  return CodeOf([&] { return MemoryTable::Get().Deregister(handle, force != 0); });
}

uint64_t qnnrt_opencl_map(Qnn_MemHandle_t handle, uint32_t write) {
  return CodeOf([&] { return MemoryTable::Get().Map(handle, write != 0); });
}

void qnnrt_opencl_unmap(Qnn_MemHandle_t handle, uint32_t write) {
  Contained([&] { MemoryTable::Get().Unmap(handle, write != 0); });
}

void qnnrt_opencl_usage(Qnn_MemHandle_t handle, uint32_t* executions, uint32_t* mapped) {
  *executions = *mapped = 0;
  Contained([&] { MemoryTable::Get().Usage(handle, executions, mapped); });
}

void qnnrt_opencl_live(uint32_t* handles, uint32_t* lists) {
  *handles = *lists = 0;
  Contained([&] {
    *handles = MemoryTable::Get().live();
    *lists = CommandList::live();
  });
}

}  // extern "C"
