/* First process of the dma-buf guest (dmabuf_vm.py): the host's root read-only under a tmpfs overlay,
 * one command, its output and status into the shared folder, power off. Static; no shell needed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void stop(const char* what) {
  perror(what);
  sync();
  reboot(RB_POWER_OFF);
  _exit(1);
}

static void attach(const char* source, const char* target, const char* type, unsigned long flags,
                   const char* options) {
  mkdir(target, 0755);
  if (mount(source, target, type, flags, options) != 0) stop(target);
}

static void load_module(const char* path) {
  int fd = open(path, O_RDONLY);
  if (fd < 0 || syscall(SYS_finit_module, fd, "", 0) != 0) stop(path);
  close(fd);
}

static void loopback_up(void) {
  struct ifreq request = {0};
  int s = socket(AF_INET, SOCK_DGRAM, 0);
  strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  ioctl(s, SIOCSIFFLAGS, &request);
  close(s);
}

static void redirect(const char* path, int to, int flags) {
  int fd = open(path, flags, 0644);
  if (fd < 0 || dup2(fd, to) < 0) stop(path);
  close(fd);
}

int main(void) {
  attach("devtmpfs", "/dev", "devtmpfs", 0, NULL);
  redirect("/dev/console", 1, O_WRONLY);
  redirect("/dev/console", 2, O_WRONLY);
  load_module("/overlay.ko");
  attach("host", "/lower", "virtiofs", MS_RDONLY, NULL);
  attach("upper", "/upper", "tmpfs", 0, "size=75%");
  mkdir("/upper/files", 0755);
  mkdir("/upper/work", 0755);
  attach("root", "/new", "overlay", 0, "lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work");
  if (mount("/dev", "/new/dev", NULL, MS_MOVE, NULL) != 0) stop("moving /dev");
  attach("proc", "/new/proc", "proc", 0, NULL);
  attach("sysfs", "/new/sys", "sysfs", 0, NULL);
  attach("shm", "/new/dev/shm", "tmpfs", 0, NULL);
  attach("devpts", "/new/dev/pts", "devpts", 0, NULL);
  attach("run", "/new/run", "tmpfs", 0, NULL);
  attach("bed", "/new/run/bed", "virtiofs", 0, NULL);
  if (chroot("/new") != 0 || chdir("/") != 0) stop("chroot");
  loopback_up();

  pid_t child = fork();
  if (child == 0) {
    redirect("/dev/null", 0, O_RDONLY);
    redirect("/run/bed/stdout", 1, O_WRONLY | O_CREAT | O_APPEND);
    redirect("/run/bed/stderr", 2, O_WRONLY | O_CREAT | O_APPEND);
    execl("/bin/sh", "sh", "/run/bed/job", (char*)NULL);
    perror("/bin/sh");
    _exit(127);
  }
  int status = 0;
  pid_t gone;
  while ((gone = wait(&status)) != child && gone >= 0) {
  }
  FILE* result = fopen("/run/bed/status.new", "w");
  if (!result) stop("/run/bed/status.new");
  fprintf(result, "%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  fclose(result);
  rename("/run/bed/status.new", "/run/bed/status");
  sync();
  reboot(RB_POWER_OFF);
  return 0;
}
