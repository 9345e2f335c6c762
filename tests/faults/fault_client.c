/* The life of a C client under failing calls, at every point or at a sample of them:
 *
 *   LD_PRELOAD=libfaults.so fault_client BACKEND_LIBRARY RPC_LIBRARY SYSTEM_LIBRARY NAME
 *                           KINDS MODE FIRST STEP TEMPERATURE
 *
 * NAME cpu, htp or lpai; KINDS 1 allocations, 2 system calls; MODE 0 the nth, 1 from the nth on, 2
 * the nth and the next; points FIRST, FIRST + STEP, ...; TEMPERATURE cold: the library's first life
 * in the process has the fault, warm: a later one, three times over.
 *
 * Each point has a process of its own, which ends in whole lives that give right results. Prints
 * one line: points, what came of them by error code; exits 1 if a process died, hung or kept
 * anything. */
#define _GNU_SOURCE
#include <dirent.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault_life.h"

enum { kMostCodes = 64 };

void faults_scope(const char* names);
void faults_arm(int kinds, long n, int how);
long faults_disarm(void);
long faults_failed(void);
const char* faults_first(void);

/* ---- What a process holds */

typedef struct {
  long fds, maps, threads, live;
} Held;

static long entries(const char* path) {
  long n = 0;
  DIR* folder = opendir(path);
  if (folder == NULL) die(path);
  while (readdir(folder) != NULL) ++n;
  closedir(folder);
  return n;
}

static Held held(void) {
  Held h = {0, 0, 0, 0};
  char line[512];
  h.live = live_objects();
  h.fds = entries("/proc/self/fd");
  h.threads = entries("/proc/self/task");
  FILE* maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps) != NULL)
    h.maps += strstr(line, "rw-s ") != NULL && strstr(line, "/dev/zero") == NULL;
  fclose(maps);
  return h;
}

static int as_held(Held got, Held want) {
  return got.fds == want.fds && got.maps == want.maps && got.threads <= want.threads &&
         got.live == want.live;
}

static void expect_held(Held want, const char* when, long n) {
  Held got = held();
  /* A thread that was joined is listed until the kernel has taken it down. */
  for (int i = 0; !as_held(got, want) && i < 10000; ++i) {
    usleep(1000);
    got = held();
  }
  if (as_held(got, want)) return;
  fprintf(
      stderr,
      "point %ld (%s), %s: fds %ld -> %ld, maps %ld -> %ld, threads %ld -> %ld, live %ld -> %ld\n",
      n, faults_first(), when, want.fds, got.fds, want.maps, got.maps, want.threads, got.threads,
      want.live, got.live);
  _exit(6);
}

static void good_life(const char* when, long n) {
  Life l;
  memset(&l, 0, sizeof l);
  if (live(&l) && end(&l)) return;
  fprintf(stderr, "point %ld (%s), %s: the next life fails with %u: %s\n", n, faults_first(), when,
          l.code, l.call == NULL ? "its end" : l.call);
  _exit(7);
}

/* ---- The campaign */

typedef struct {
  uint32_t codes[kMostCodes];
  long counts[kMostCodes];
  long points, tried, failures, fine, leaks;
} Totals;

static void note(Totals* totals, uint32_t code) {
  int i = 0;
  if (code == 0) {
    ++totals->fine;
    return;
  }
  while (i < kMostCodes - 1 && totals->codes[i] != 0 && totals->codes[i] != code) ++i;
  totals->codes[i] = code;
  ++totals->counts[i];
}

static uint32_t faulty_life(int kinds, long n, int mode) {
  Life l;
  memset(&l, 0, sizeof l);
  faults_arm(kinds, n, mode);
  live(&l);
  const int ended = end(&l);
  faults_disarm();
  for (int i = 0; !ended && i < 3; ++i)
    if (end(&l)) return l.code != 0 ? l.code : 1;
  if (!ended) {
    fprintf(stderr, "point %ld (%s): something is not given back\n", n, faults_first());
    _exit(8);
  }
  return l.code;
}

static void one_point(int kinds, long n, int mode, int warm, Held reference, Totals* totals) {
  if (warm) {
    good_life("before", n);
    const Held before = held();
    /* What grows by as much each time leaks; what the C library keeps for itself ends to grow. */
    size_t used = 0, growth = 0;
    for (int i = 0, same = 0; i < 3 || (same > 0 && i < 16); ++i) {
      const uint32_t code = faulty_life(kinds, n, mode);
      if (i == 0) note(totals, code), totals->failures += faults_failed();
      expect_held(before, "after the fault", n);
      const size_t now = mallinfo2().uordblks;
      same = i > 0 && now > used && (same == 0 || now - used == growth) ? same + 1 : 0;
      growth = now - used;
      used = now;
      if (same < 12) continue;
      fprintf(stderr, "point %ld (%s): %zu bytes leak\n", n, faults_first(), growth);
      _exit(9);
    }
    good_life("after", n);
    expect_held(before, "after the next life", n);
  } else {
    note(totals, faulty_life(kinds, n, mode));
    totals->failures += faults_failed();
    good_life("after", n);
    good_life("after that", n);
    expect_held(reference, "after two lives", n);
  }
}

int main(int argc, char** argv) {
  if (argc != 10) die("BACKEND RPC SYSTEM NAME KINDS MODE FIRST STEP cold|warm");
  const int kinds = atoi(argv[5]), mode = atoi(argv[6]), warm = strcmp(argv[9], "warm") == 0;
  const long first = atol(argv[7]), step = atol(argv[8]);
  open_libraries(argv[1], argv[2], argv[3], argv[4]);
  faults_scope("libqnnrt.so:libQnn:libcdsprpc");

  struct Shared {
    Totals totals;
    Held reference;
    long points;
  }* shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t child = fork();
  if (child == 0) { /* how many points there are, and what a process holds after two lives */
    alarm(600);
    if (warm) good_life("first", 0);
    faults_arm(kinds, 0, mode);
    good_life("counted", 0);
    shared->points = faults_disarm();
    if (!warm) good_life("second", 0), good_life("third", 0);
    shared->reference = held();
    _exit(0);
  }
  int status = 0, bad = 0;
  waitpid(child, &status, 0);
  if (status != 0) die("a life without faults fails");
  for (long n = first; n <= shared->points; n += step) {
    /* For a debugger: the first point in this process. */
    child = getenv("FAULTS_HERE") != NULL ? 0 : fork();
    if (child == 0) {
      alarm(300);
      one_point(kinds, n, mode, warm, shared->reference, &shared->totals);
      _exit(0);
    }
    waitpid(child, &status, 0);
    ++shared->totals.tried;
    if (status == 0) continue;
    ++bad;
    if (WIFSIGNALED(status))
      fprintf(stderr, "point %ld: killed by signal %d\n", n, WTERMSIG(status));
    else if (WEXITSTATUS(status) > 9 || WEXITSTATUS(status) < 3)
      fprintf(stderr, "point %ld: exit status %d\n", n, WEXITSTATUS(status));
  }
  const Totals* t = &shared->totals;
  printf("%s %s %s %s: %ld points, %ld tried, %ld calls failed, %ld lives unharmed, %d bad;",
         argv[4], argv[9],
         kinds == 1   ? "allocations"
         : kinds == 2 ? "system calls"
                      : "both",
         mode == 0   ? "once"
         : mode == 1 ? "from there on"
                     : "twice",
         shared->points, t->tried, t->failures, t->fine, bad);
  for (int i = 0; i < kMostCodes && t->codes[i] != 0; ++i)
    printf(" %ld x %u", t->counts[i], t->codes[i]);
  printf("\n");
  return bad != 0;
}
