/*
 * Preloaded into a process under test, so that its disk can misbehave (LD_PRELOAD).
 * Only files below FAULT_DIR are concerned.
 *
 *   FAULT_LOG         a line for every sync of a file, `S <size> <path>`, and for every rename,
 *                     `R <from>\t<to>`: what a power cut would leave, for the parent to act on
 *   FAULT_FORGETFUL   1: syncs are not logged, as if the program had never asked for them
 *   FAULT_SYNC_EIO    the number of the sync that fails with EIO, counted from 1
 *   FAULT_SYNC_DELAY  microseconds that every sync takes longer
 *   FAULT_FULL        while this file exists the disk is full: LevelDB's writes fail with ENOSPC
 *   FAULT_FULL_AFTER  bytes that can still be written then
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

/* Fills `path` with the path of an open file; 0 when it does not concern us. */
static int concerned_file(int fd, char *path, size_t bytes) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, bytes - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return concerned(path);
}

static int sync_file(int fd, int (*real)(int)) {
  char path[4096];
  struct stat found;
  if (!concerned_file(fd, path, sizeof path)) return real(fd);
  if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) return real(fd);

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

/* Whether so many bytes more do not fit; part of them may. */
static int disk_is_full(FILE *file, size_t bytes) {
  static atomic_long written;
  char path[4096];
  const char *flag = getenv("FAULT_FULL");
  if (flag == NULL || !concerned_file(fileno(file), path, sizeof path)) return 0;
  if (access(flag, F_OK) != 0) {
    atomic_store(&written, 0);
    return 0;
  }
  return atomic_fetch_add(&written, (long)bytes) + (long)bytes > number("FAULT_FULL_AFTER");
}

/* A macro where the compiler optimises. */
#undef fwrite_unlocked

size_t fwrite_unlocked(const void *data, size_t size, size_t count, FILE *file) {
  static size_t (*real)(const void *, size_t, size_t, FILE *);
  if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "fwrite_unlocked");
  if (!disk_is_full(file, size * count)) return real(data, size, count, file);
  size_t part = real(data, 1, size * count / 2, file);
  errno = ENOSPC;
  return part / (size == 0 ? 1 : size);
}
