/* Makes allocations and system calls fail, for tests that preload it (LD_PRELOAD).
 *
 * A program opens a window with faults_arm and closes it with faults_disarm. Inside, calls of the
 * chosen kinds are counted, and those that the mode names fail as the kernel or the C library lets
 * them fail. Only calls by the libraries of faults_scope count: the first frame above the C and C++
 * libraries decides whose a call is. Everything else goes through untouched: also what the dynamic
 * loader takes for a thread's variables, since it ends the process when it gets none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#define EXPORT __attribute__((visibility("default")))
#define LOCAL_TLS __attribute__((tls_model("initial-exec"))) static __thread

enum { kAllocations = 1, kCalls = 2 };
enum { kOnce = 0, kFromThere = 1, kTwice = 2 }; /* the nth; all from it on; it and the next */

static atomic_int armed; /* the kinds */
static atomic_int mode;
static atomic_long nth, seen, failed, others;
static _Atomic(const char*) first; /* the name of the first call that failed */
LOCAL_TLS int inside;              /* a call out of this file */

/* ---- Whose call it is -------------------------------------------------------------------- */

enum { kForeign, kTransparent, kOurs, kHost };
enum { kMostModules = 512, kMostText = 1024 };
static struct Module {
  uintptr_t begin, end;
  int kind;
} modules[kMostModules];
static atomic_int module_count;
static char scope[kMostText];
static pthread_mutex_t module_lock = PTHREAD_MUTEX_INITIALIZER;

static int kind_of(const char* path) {
  static const char* const through[] = {"libc.so",      "libstdc++",  "libgcc_s",  "libm.so",
                                        "libfaults.so", "libpthread", "linux-vdso"};
  const char* name = strrchr(path, '/');
  name = name == NULL ? path : name + 1;
  for (size_t i = 0; i < sizeof through / sizeof *through; ++i)
    if (strncmp(name, through[i], strlen(through[i])) == 0) return kTransparent;
  for (const char* at = scope; *at != '\0';) {
    const size_t length = strcspn(at, ":");
    const int host = *at == '+';
    if (length > 1 && strncmp(name, at + host, length - (size_t)host) == 0)
      return host ? kHost : kOurs;
    at += length + (at[length] == ':');
  }
  return kForeign;
}

static int add_module(struct dl_phdr_info* info, size_t size, void* program) {
  (void)size;
  const char* path = info->dlpi_name;
  if (path == NULL || *path == '\0') path = program;
  const int at = atomic_load(&module_count);
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* h = &info->dlpi_phdr[i];
    if (h->p_type != PT_LOAD || (h->p_flags & PF_X) == 0) continue;
    const uintptr_t from = info->dlpi_addr + h->p_vaddr;
    if (from < begin) begin = from;
    if (from + h->p_memsz > end) end = from + h->p_memsz;
  }
  if (end == 0 || at == kMostModules) return 0;
  for (int i = 0; i < at; ++i)
    if (modules[i].begin == begin) return 0;
  modules[at] = (struct Module){begin, end, kind_of(path)};
  atomic_store(&module_count, at + 1);
  return 0;
}

static void list_modules(void) {
  char program[256];
  const ssize_t n =
      syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", program, sizeof program - 1);
  program[n < 0 ? 0 : n] = '\0';
  pthread_mutex_lock(&module_lock);
  dl_iterate_phdr(add_module, program);
  pthread_mutex_unlock(&module_lock);
}

static int find_kind(uintptr_t address) {
  const int count = atomic_load(&module_count);
  for (int i = 0; i < count; ++i)
    if (address >= modules[i].begin && address < modules[i].end) return modules[i].kind;
  return -1;
}

static _Unwind_Reason_Code decide(struct _Unwind_Context* context, void* verdict) {
  const uintptr_t address = _Unwind_GetIP(context);
  int kind = find_kind(address);
  if (kind == kTransparent) return _URC_NO_REASON;
  *(int*)verdict = kind < 0 ? kForeign : kind;
  return _URC_END_OF_STACK;
}

static int owner(void* caller) {
  int kind = find_kind((uintptr_t)caller);
  if (kind < 0) { /* a library that was loaded since, or code made at run time */
    list_modules();
    kind = find_kind((uintptr_t)caller);
  }
  if (kind != kTransparent) return kind;
  int verdict = kForeign;
  _Unwind_Backtrace(decide, &verdict);
  return verdict;
}

/* Whether this call is to fail. */
static int fails(int kind, const char* name, void* caller) {
  if ((atomic_load_explicit(&armed, memory_order_relaxed) & kind) == 0 || inside) return 0;
  inside = 1;
  int result = 0;
  const int whose = owner(caller);
  if (whose != kOurs && (whose != kHost || strcmp(name, "munmap") == 0)) {
    atomic_fetch_add(&others, 1);
  } else {
    const long at = atomic_fetch_add(&seen, 1) + 1, from = atomic_load(&nth);
    const int how = atomic_load(&mode);
    result = at == from || (how == kFromThere && at > from && from > 0) ||
             (how == kTwice && at == from + 1 && from > 0);
    if (result && atomic_fetch_add(&failed, 1) == 0) {
      atomic_store(&first, name);
      if (getenv("FAULTS_TRAP") != NULL) __builtin_trap();
    }
  }
  inside = 0;
  return result;
}

/* ---- For the program --------------------------------------------------------------------- */

/* Names with which our libraries' and programs' begin, separated by colons; with a plus those of a
 * host that pays no attention when munmap fails. */
EXPORT void faults_scope(const char* names) {
  snprintf(scope, sizeof scope, "%s", names);
  atomic_store(&module_count, 0);
  list_modules();
}

EXPORT void faults_arm(int kinds, long n, int how) {
  atomic_store(&seen, 0);
  atomic_store(&failed, 0);
  atomic_store(&others, 0);
  atomic_store(&first, NULL);
  atomic_store(&nth, n);
  atomic_store(&mode, how);
  atomic_store(&armed, kinds);
}

/* How many calls counted. */
EXPORT long faults_disarm(void) {
  atomic_store(&armed, 0);
  return atomic_load(&seen);
}
EXPORT long faults_failed(void) { return atomic_load(&failed); }
EXPORT long faults_others(void) { return atomic_load(&others); }
EXPORT const char* faults_first(void) {
  const char* name = atomic_load(&first);
  return name == NULL ? "" : name;
}

/* ---- Allocations ------------------------------------------------------------------------- */

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

#define CALLER __builtin_return_address(0)
#define NO_MEMORY(name) \
  if (fails(kAllocations, name, CALLER)) return errno = ENOMEM, NULL

EXPORT void* malloc(size_t size) {
  NO_MEMORY("malloc");
  return __libc_malloc(size);
}
EXPORT void* calloc(size_t count, size_t size) {
  NO_MEMORY("calloc");
  return __libc_calloc(count, size);
}
EXPORT void* realloc(void* old, size_t size) {
  if (size != 0) NO_MEMORY("realloc");
  return __libc_realloc(old, size);
}
EXPORT void* memalign(size_t alignment, size_t size) {
  NO_MEMORY("memalign");
  return __libc_memalign(alignment, size);
}
EXPORT void* aligned_alloc(size_t alignment, size_t size) {
  NO_MEMORY("aligned_alloc");
  return __libc_memalign(alignment, size);
}
EXPORT int posix_memalign(void** out, size_t alignment, size_t size) {
  if (fails(kAllocations, "posix_memalign", CALLER)) return ENOMEM;
  void* made = __libc_memalign(alignment, size);
  if (made == NULL) return ENOMEM;
  *out = made;
  return 0;
}

/* ---- System calls ------------------------------------------------------------------------ */

#define FAIL(name, error, result) \
  if (fails(kCalls, name, CALLER)) return errno = (error), (result)

static mode_t mode_of(int flags, va_list args) {
  return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(args, mode_t) : 0;
}
#define OPEN(name, parameters, directory)                                        \
  EXPORT int name parameters {                                                   \
    FAIL(#name, EMFILE, -1);                                                     \
    va_list args;                                                                \
    va_start(args, flags);                                                       \
    const mode_t bits = mode_of(flags, args);                                    \
    va_end(args);                                                                \
    return (int)syscall(SYS_openat, directory, path, flags | O_LARGEFILE, bits); \
  }
OPEN(open, (const char* path, int flags, ...), AT_FDCWD)
OPEN(open64, (const char* path, int flags, ...), AT_FDCWD)
OPEN(openat, (int at, const char* path, int flags, ...), at)
OPEN(openat64, (int at, const char* path, int flags, ...), at)

static void* real(const char* name, void** cache) {
  if (*cache == NULL) {
    const int before = inside;
    inside = 1;
    *cache = dlsym(RTLD_NEXT, name);
    inside = before;
  }
  return *cache;
}
#define FOPEN(name)                                                                \
  EXPORT FILE* name(const char* path, const char* how) {                           \
    static void* next;                                                             \
    FAIL(#name, EMFILE, NULL);                                                     \
    return ((FILE * (*)(const char*, const char*)) real(#name, &next))(path, how); \
  }
FOPEN(fopen)
FOPEN(fopen64)

#define MMAP(name)                                                                      \
  EXPORT void* name(void* at, size_t size, int prot, int flags, int fd, off_t offset) { \
    FAIL(#name, ENOMEM, MAP_FAILED);                                                    \
    return (void*)syscall(SYS_mmap, at, size, prot, flags, fd, offset);                 \
  }
MMAP(mmap)
MMAP(mmap64)
EXPORT int munmap(void* at, size_t size) {
  FAIL("munmap", ENOMEM, -1);
  return (int)syscall(SYS_munmap, at, size);
}
EXPORT int madvise(void* at, size_t size, int advice) {
  FAIL("madvise", ENOMEM, -1);
  return (int)syscall(SYS_madvise, at, size, advice);
}
EXPORT int memfd_create(const char* name, unsigned flags) {
  FAIL("memfd_create", EMFILE, -1);
  return (int)syscall(SYS_memfd_create, name, flags);
}
EXPORT int ftruncate(int fd, off_t size) {
  FAIL("ftruncate", ENOSPC, -1);
  return (int)syscall(SYS_ftruncate, fd, size);
}
EXPORT int ftruncate64(int fd, off_t size) {
  FAIL("ftruncate", ENOSPC, -1);
  return (int)syscall(SYS_ftruncate, fd, size);
}
EXPORT int fallocate(int fd, int how, off_t from, off_t size) {
  FAIL("fallocate", ENOSPC, -1);
  return (int)syscall(SYS_fallocate, fd, how, from, size);
}
#define FCNTL(name)                                               \
  EXPORT int name(int fd, int command, ...) {                     \
    va_list args;                                                 \
    va_start(args, command);                                      \
    void* argument = va_arg(args, void*);                         \
    va_end(args);                                                 \
    FAIL(#name, command == F_DUPFD_CLOEXEC ? EMFILE : EPERM, -1); \
    return (int)syscall(SYS_fcntl, fd, command, argument);        \
  }
FCNTL(fcntl)
FCNTL(fcntl64)
EXPORT int close(int fd) { /* Linux closes it all the same */
  const int bad = fails(kCalls, "close", CALLER);
  const int result = (int)syscall(SYS_close, fd);
  return bad ? (errno = EIO, -1) : result;
}
EXPORT int dup(int fd) {
  FAIL("dup", EMFILE, -1);
  return (int)syscall(SYS_dup, fd);
}
EXPORT int eventfd(unsigned value, int flags) {
  FAIL("eventfd", EMFILE, -1);
  return (int)syscall(SYS_eventfd2, value, flags);
}
EXPORT ssize_t read(int fd, void* to, size_t size) {
  FAIL("read", EIO, -1);
  return syscall(SYS_read, fd, to, size);
}
EXPORT ssize_t pread(int fd, void* to, size_t size, off_t at) {
  FAIL("pread", EIO, -1);
  return syscall(SYS_pread64, fd, to, size, at);
}
EXPORT ssize_t write(int fd, const void* from, size_t size) {
  FAIL("write", ENOSPC, -1);
  return syscall(SYS_write, fd, from, size);
}
EXPORT ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
  FAIL("sendmsg", ENOBUFS, -1);
  return syscall(SYS_sendmsg, fd, message, flags);
}
EXPORT ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  FAIL("recvmsg", ENOMEM, -1);
  return syscall(SYS_recvmsg, fd, message, flags);
}
EXPORT int socketpair(int domain, int type, int protocol, int pair[2]) {
  FAIL("socketpair", EMFILE, -1);
  return (int)syscall(SYS_socketpair, domain, type, protocol, pair);
}
EXPORT int ioctl(int fd, unsigned long request, ...) {
  va_list args;
  va_start(args, request);
  void* argument = va_arg(args, void*);
  va_end(args);
  FAIL("ioctl", ENOMEM, -1);
  return (int)syscall(SYS_ioctl, fd, request, argument);
}
EXPORT int fstat(int fd, struct stat* out) {
  FAIL("fstat", ENOMEM, -1);
  return (int)syscall(SYS_newfstatat, fd, "", out, AT_EMPTY_PATH);
}
EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*start)(void*),
                          void* argument) {
  static void* next;
  if (fails(kCalls, "pthread_create", CALLER)) return EAGAIN;
  const int before = inside;
  inside = 1; /* what the C library takes for it has no way out but the end of the process */
  const int result = ((int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*))real(
      "pthread_create", &next))(thread, how, start, argument);
  inside = before;
  return result;
}
