/*
 * Preloaded into a process under test, so that its disk can misbehave (LD_PRELOAD).
 * Only files below FAULT_DIR are concerned.
 *
 *   FAULT_LOG         a line for every sync of a file, `S <size> <path>`, and for every rename,
 *                     `R <from>\t<to>`: what a power cut would leave, for the parent to act on
 *   FAULT_FORGETFUL   1: syncs are not logged, as if the program had never asked for them
 *   FAULT_SYNC_EIO    the number of the sync that fails with EIO, counted from 1
 *   FAULT_SYNC_DELAY  microseconds that every sync takes longer
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_BYTES 8192

static atomic_long syncs;

static long number(const char *name) {
  const char *text = getenv(name);
  return text == NULL ? 0 : strtol(text, NULL, 10);
}

static int concerned(const char *path) {
  const char *directory = getenv("FAULT_DIR");
  return directory != NULL && strncmp(path, directory, strlen(directory)) == 0;
}

/* One write with O_APPEND, so that lines of several threads do not mix and survive a kill. */
static void record(const char *line, int length) {
  const char *log = getenv("FAULT_LOG");
  if (log == NULL || length <= 0 || length >= LINE_BYTES) return;
  int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return;
  if (write(fd, line, (size_t)length) != length) abort();
  close(fd);
}

static int sync_file(int fd, int (*real)(int)) {
  char link[64];
  char path[4096];
  struct stat found;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return real(fd);
  path[length] = '\0';
  if (!concerned(path) || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) return real(fd);

  long delay = number("FAULT_SYNC_DELAY");
  if (delay > 0) usleep((useconds_t)delay);
  if (atomic_fetch_add(&syncs, 1) + 1 == number("FAULT_SYNC_EIO")) {
    errno = EIO;
    return -1;
  }
  int result = real(fd);
  if (result == 0 && number("FAULT_FORGETFUL") == 0) {
    char line[LINE_BYTES];
    record(line, snprintf(line, sizeof line, "S %lld %s\n", (long long)found.st_size, path));
  }
  return result;
}

int fsync(int fd) {
  static int (*real)(int);
  if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "fsync");
  return sync_file(fd, real);
}

int fdatasync(int fd) {
  static int (*real)(int);
  if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "fdatasync");
  return sync_file(fd, real);
}

int rename(const char *from, const char *to) {
  static int (*real)(const char *, const char *);
  if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "rename");
  int result = real(from, to);
  if (result == 0 && concerned(to)) {
    char line[LINE_BYTES];
    record(line, snprintf(line, sizeof line, "R %s\t%s\n", from, to));
  }
  return result;
}
