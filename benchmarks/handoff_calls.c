// The system calls of a hand-off of new memory, and nothing else: what of its time is the kernel's.
//
//     cc -O2 handoff_calls.c -o handoff_calls && ./handoff_calls NBYTES COUNT
//
// Prints the mean time in nanoseconds from before the sender writes both ends of a memfd until the
// receiver, which waits at a socket, has opened and mapped it and read them.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { kBlocks = 8 };

struct message {
  int fd;
  float value;
};

static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int failed(const char* what) {
  perror(what);
  return 1;
}

static int receive(int in, int out, pid_t sender, size_t nbytes) {
  struct message message;
  while (read(in, &message, sizeof message) == sizeof message) {
    char path[48];
    struct stat file;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)sender, message.fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &file) != 0 || fcntl(fd, F_GET_SEALS) < 0) return failed(path);
    volatile float* array = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (array == MAP_FAILED) return failed("mmap");
    const float first = array[0], last = array[nbytes / sizeof(float) - 1];
    const long long arrived = first == message.value && last == message.value ? now() : 0;
    munmap((void*)array, nbytes);
    close(fd);
    if (write(out, &arrived, sizeof arrived) != sizeof arrived) return failed("write");
  }
  return 0;
}

int main(int argc, char** argv) {
  const size_t nbytes = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
  const long count = argc == 3 ? atol(argv[2]) : 0;
  if (nbytes < sizeof(float) || count < 1) {
    fprintf(stderr, "usage: %s NBYTES COUNT\n", argv[0]);
    return 2;
  }
  int messages[2], answers[2], fds[kBlocks];
  float* arrays[kBlocks];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, messages) != 0) return failed("socketpair");
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, answers) != 0) return failed("socketpair");
  const pid_t sender = getpid();
  switch (fork()) {  // before there is any memory
    case -1:
      return failed("fork");
    case 0:
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(messages[0]);
      return receive(messages[1], answers[1], sender, nbytes);
  }
  close(messages[1]);
  close(answers[1]);
  for (int i = 0; i < kBlocks; ++i) {
    fds[i] = memfd_create("handoff", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fds[i] < 0 || ftruncate(fds[i], (off_t)nbytes) != 0) return failed("memfd");
    arrays[i] = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fds[i], 0);
    if (arrays[i] == MAP_FAILED) return failed("mmap");
  }
  long long total = 0;
  for (long i = 0; i <= count; ++i) {
    struct message message = {fds[i % kBlocks], (float)i};
    float* array = arrays[i % kBlocks];
    long long arrived;
    const long long start = now();
    array[0] = array[nbytes / sizeof(float) - 1] = message.value;
    if (write(messages[0], &message, sizeof message) != sizeof message) return failed("write");
    if (read(answers[0], &arrived, sizeof arrived) != sizeof arrived) return failed("read");
    if (arrived == 0) {
      fprintf(stderr, "other numbers arrived\n");
      return 1;
    }
    if (i > 0) total += arrived - start;  // not the first, which finds everything cold
  }
  printf("%lld\n", total / count);
  return 0;
}
