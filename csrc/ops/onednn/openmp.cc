#include "ops/onednn/openmp.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/per_thread.h"
#include "support/threads.h"

namespace qnnrt::onednn {
namespace {

QNNRT_OWN_THREAD int tl_region_size = 0;  // 0: nobody has said

// Of the OpenMP runtime that the library was linked to. An application that calls the library
// itself says there how many threads its regions have.
int (*g_runtime_max_threads)() = nullptr;

// ---- The runtime's functions, as GCC's compiler calls them ----
// libgomp's manual, "Implementing ... construct", has what each has to do.

// The team of a region that is opened by one call and closed by another. Those within it are rare,
// and made when they come. A team is large: with one of each thread's own beside the C library's,
// the loader would find no place for them in a process that has loaded other libraries' before.
PerThread<Team> g_outermost;
QNNRT_OWN_THREAD bool tl_outermost_open = false;

// Static loops of the calling member: where its next chunk begins.
struct Loop {
  long begin, end, step, chunk, next;
  bool whole;  // one piece for each member
};
QNNRT_OWN_THREAD Loop tl_loop;

int MaxThreads() {
  if (tl_region_size != 0) return tl_region_size;
  const Team* team = Team::Current();
  if (team != nullptr) return team->members();
  return g_runtime_max_threads != nullptr ? g_runtime_max_threads() : Threads::DefaultLimit();
}

int NumThreads() {
  const Team* team = Team::Current();
  return team != nullptr ? team->members() : 1;
}

int ThreadNum() { return Team::Member(); }

int InParallel() { return NumThreads() > 1 ? 1 : 0; }

int MembersOf(unsigned count) { return count != 0 ? static_cast<int>(count) : MaxThreads(); }

void ParallelStart(void (*run)(void*), void* data, unsigned count) {
  Team* team = tl_outermost_open ? nullptr : g_outermost.Get();
  if (team != nullptr) {
    tl_outermost_open = true;
  } else if (Team::Current() != nullptr) {
    team = new Team;
  } else {
    return;  // no memory for a team: the caller runs the region alone
  }
  team->Open(MembersOf(count), run, data);
}

void ParallelEnd() {
  Team* team = Team::Current();
  if (team == nullptr) return;
  team->Close();
  if (team != g_outermost.Find()) {
    delete team;
  } else {
    tl_outermost_open = false;
  }
}

void Parallel(void (*run)(void*), void* data, unsigned count, unsigned /*flags*/) {
  Team team;
  team.Open(MembersOf(count), run, data);
  run(data);
  team.Close();
}

void Barrier() {
  if (Team* team = Team::Current(); team != nullptr) team->Wait();
}

bool LoopStaticNext(long* begin, long* end) {
  Loop& loop = tl_loop;
  const long turns = loop.step > 0 ? (loop.end - loop.begin + loop.step - 1) / loop.step
                                   : (loop.begin - loop.end - loop.step - 1) / -loop.step;
  if (loop.next >= turns || turns <= 0) return false;
  const long members = NumThreads();
  long last;
  if (loop.whole) {
    const long size = turns / members, larger = turns % members, member = ThreadNum();
    loop.next = member * size + std::min(member, larger);
    last = loop.next + size + (member < larger ? 1 : 0);
    if (last == loop.next) return false;
  } else {
    last = std::min(loop.next + loop.chunk, turns);
  }
  *begin = loop.begin + loop.next * loop.step;
  *end = loop.begin + last * loop.step;
  loop.next = loop.whole ? turns : loop.next + loop.chunk * members;
  return true;
}

bool LoopStaticStart(long begin, long end, long step, long chunk, long* first, long* last) {
  tl_loop = {begin, end, step, chunk, chunk > 0 ? ThreadNum() * chunk : 0, chunk <= 0};
  return LoopStaticNext(first, last);
}

void LoopEndNowait() {}

struct Function {
  const char* name;
  void* ours;
};
const Function kFunctions[] = {
    {"GOMP_parallel", reinterpret_cast<void*>(&Parallel)},
    {"GOMP_parallel_start", reinterpret_cast<void*>(&ParallelStart)},
    {"GOMP_parallel_end", reinterpret_cast<void*>(&ParallelEnd)},
    {"GOMP_barrier", reinterpret_cast<void*>(&Barrier)},
    {"GOMP_loop_static_start", reinterpret_cast<void*>(&LoopStaticStart)},
    {"GOMP_loop_static_next", reinterpret_cast<void*>(&LoopStaticNext)},
    {"GOMP_loop_end", reinterpret_cast<void*>(&Barrier)},
    {"GOMP_loop_end_nowait", reinterpret_cast<void*>(&LoopEndNowait)},
    {"omp_get_max_threads", reinterpret_cast<void*>(&MaxThreads)},
    {"omp_get_num_threads", reinterpret_cast<void*>(&NumThreads)},
    {"omp_get_thread_num", reinterpret_cast<void*>(&ThreadNum)},
    {"omp_in_parallel", reinterpret_cast<void*>(&InParallel)},
};

void* Ours(const char* name) {
  for (const Function& f : kFunctions) {
    if (std::strcmp(f.name, name) == 0) return f.ours;
  }
  return nullptr;
}

bool IsOpenMp(const char* name) {
  return std::strncmp(name, "GOMP_", 5) == 0 || std::strncmp(name, "omp_", 4) == 0 ||
         std::strncmp(name, "__kmpc_", 7) == 0;
}

// ---- The library's table of addresses ----

#if defined(__x86_64__)
constexpr uint32_t kJumpSlot = R_X86_64_JUMP_SLOT, kAddress = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
constexpr uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT, kAddress = R_AARCH64_GLOB_DAT;
#endif

struct Slot {
  void** at;
  void* value;
};

struct Pages {
  uintptr_t begin = 0, end = 0;
};

// What the loader made read-only once it had filled it in, of the object that lies at `base`.
Pages ReadOnlyAfterLoading(uintptr_t base) {
  struct Search {
    uintptr_t base;
    Pages found;
  } search{base, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* s = static_cast<Search*>(data);
        if (info->dlpi_addr != s->base) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_GNU_RELRO) continue;
          const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
          const uintptr_t begin = s->base + info->dlpi_phdr[i].p_vaddr;
          s->found.begin = begin & ~(page - 1);
          s->found.end = (begin + info->dlpi_phdr[i].p_memsz) & ~(page - 1);
        }
        return 1;
      },
      &search);
  return search.found;
}

bool Write(const std::vector<Slot>& slots, const Pages& protected_pages) {
  void* const begin = reinterpret_cast<void*>(protected_pages.begin);
  const size_t size = protected_pages.end - protected_pages.begin;
  if (size != 0 && mprotect(begin, size, PROT_READ | PROT_WRITE) != 0) return false;
  for (const Slot& slot : slots) *slot.at = slot.value;
  if (size != 0) mprotect(begin, size, PROT_READ);
  return true;
}

}  // namespace

bool BindToPool(void* library) {
#if defined(__x86_64__) || defined(__aarch64__)
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return false;
  // Some loaders leave the addresses in the dynamic section relative to the object.
  const auto address = [&](const ElfW(Dyn) & entry) {
    return entry.d_un.d_ptr < map->l_addr ? entry.d_un.d_ptr + map->l_addr : entry.d_un.d_ptr;
  };
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  struct Table {
    const ElfW(Rela) * entries = nullptr;
    size_t size = 0;
  } tables[2];
  for (const ElfW(Dyn)* d = map->l_ld; d->d_tag != DT_NULL; ++d) {
    switch (d->d_tag) {
      case DT_SYMTAB:
        symbols = reinterpret_cast<const ElfW(Sym)*>(address(*d));
        break;
      case DT_STRTAB:
        names = reinterpret_cast<const char*>(address(*d));
        break;
      case DT_JMPREL:
        tables[0].entries = reinterpret_cast<const ElfW(Rela)*>(address(*d));
        break;
      case DT_PLTRELSZ:
        tables[0].size = d->d_un.d_val / sizeof(ElfW(Rela));
        break;
      case DT_RELA:
        tables[1].entries = reinterpret_cast<const ElfW(Rela)*>(address(*d));
        break;
      case DT_RELASZ:
        tables[1].size = d->d_un.d_val / sizeof(ElfW(Rela));
        break;
      default:
        break;
    }
  }
  if (symbols == nullptr || names == nullptr) return false;
  std::vector<Slot> slots;
  for (const Table& table : tables) {
    for (size_t i = 0; table.entries != nullptr && i < table.size; ++i) {
      const ElfW(Rela)& r = table.entries[i];
      const ElfW(Sym)& symbol = symbols[ELF64_R_SYM(r.r_info)];
      const char* name = names + symbol.st_name;
      if (symbol.st_shndx != SHN_UNDEF || !IsOpenMp(name)) continue;
      void* ours = Ours(name);
      const uint32_t type = static_cast<uint32_t>(ELF64_R_TYPE(r.r_info));
      if (ours == nullptr || (type != kJumpSlot && type != kAddress)) return false;
      slots.push_back({reinterpret_cast<void**>(map->l_addr + r.r_offset), ours});
    }
  }
  g_runtime_max_threads = reinterpret_cast<int (*)()>(dlsym(library, "omp_get_max_threads"));
  return !slots.empty() && Write(slots, ReadOnlyAfterLoading(map->l_addr));
#else
  (void)library;
  return false;
#endif
}

RegionSize::RegionSize(int count) : before_(tl_region_size) { tl_region_size = count; }
RegionSize::~RegionSize() { tl_region_size = before_; }

}  // namespace qnnrt::onednn
