// What a C++ library that was built for a newer glibc calls and an older one has not: linked into
// the release wheels (tools/wheels.py), where a compiler's own library is newer than the target's.
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define HIDDEN __attribute__((visibility("hidden")))

// 2.32: whether reference counts may do without atomics. They never do.
HIDDEN char __libc_single_threaded = 0;

// 2.30. By the clock that pthread_cond_timedwait knows; where that was set meanwhile, the caller
// wakes up early, as it may at any time.
HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const struct timespec* until) {
  struct timespec now, real;
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &real) != 0) return EINVAL;
  int64_t left = (until->tv_sec - now.tv_sec) * INT64_C(1000000000) + until->tv_nsec - now.tv_nsec;
  if (left < 0) left = 0;
  left += real.tv_nsec;
  real.tv_sec += left / 1000000000;
  real.tv_nsec = left % 1000000000;
  const int error = pthread_cond_timedwait(condition, mutex, &real);
  if (error != ETIMEDOUT) return error;
  clock_gettime(clock, &now);
  const int early =
      now.tv_sec < until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec < until->tv_nsec);
  return early ? 0 : ETIMEDOUT;
}

// 2.36: of std::random_device.
HIDDEN uint32_t arc4random(void) {
  uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value && errno == EINTR) {
  }
  return value;
}
