/*
 * Preloaded into a process under test, so that its disk can misbehave while it runs.
 * Only files below FAULTS_ROOT are concerned.
 *
 *   FAULTS_CONTROL  a file of 64-bit numbers that is read at every call (struct control)
 *   FAULTS_TRACE    a line for everything that bears on what a power cut would leave:
 *                     C <inode> <path>               created
 *                     S <inode> <size> <path>        synced, having grown
 *                     I <inode> <number> <path>      synced, having been written in place; its
 *                                                    bytes are kept as <inode>.<number>
 *                     D <path>                       a directory was synced
 *                     R <inode> <gone> <from>\t<to>  renamed; <gone> is what it replaced, or 0
 *                     U <inode> <path>               deleted; kept as <inode>.u
 *                     M <path>, X <path>             directory made, directory removed
 *   FAULTS_KEPT     the directory for what is kept
 *
 * LevelDB writes through stdio, whose own system calls cannot be seen from here; so space is counted
 * at fwrite_unlocked, which only LevelDB uses.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_BYTES 8192
#define PATH_BYTES 4096
#define KEEP_BYTES 4096

struct control {
  _Atomic int64_t syncs;
  _Atomic int64_t fail_from, fail_until; /* numbers of syncs: the first that fails, and the next */
  _Atomic int64_t forget_syncs;
  _Atomic int64_t room; /* bytes that can still be written; -1: no limit */
};

static struct control *control;
static const char *root, *kept;
static int trace = -1;

#define REAL(name) \
  static __typeof__(&name) real; \
  if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, #name)

static int open_plainly(const char *path, int flags, mode_t mode) {
  static int (*real)(const char *, int, ...);
  if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "open64");
  return real(path, flags, mode);
}

__attribute__((constructor)) static void set_up(void) {
  const char *file = getenv("FAULTS_CONTROL");
  const char *trace_file = getenv("FAULTS_TRACE");
  root = getenv("FAULTS_ROOT");
  kept = getenv("FAULTS_KEPT");
  if (file == NULL || trace_file == NULL || kept == NULL) root = NULL;
  if (root == NULL) return;
  int fd = open_plainly(file, O_RDWR | O_CLOEXEC, 0);
  void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  trace = open_plainly(trace_file, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
  if (fd < 0 || mapped == MAP_FAILED || trace < 0) abort();
  close(fd);
  control = mapped;
}

static int concerned(const char *path) {
  return control != NULL && strncmp(path, root, strlen(root)) == 0;
}

static int concerned_file(int fd, char path[PATH_BYTES]) {
  char link[64];
  if (control == NULL) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_BYTES - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return concerned(path);
}

/* One write, so that lines of several threads do not mix, and survive a kill. */
__attribute__((format(printf, 1, 2))) static void record(const char *format, ...) {
  char line[LINE_BYTES];
  va_list values;
  va_start(values, format);
  int length = vsnprintf(line, sizeof line, format, values);
  va_end(values);
  int before = errno;
  if (length >= LINE_BYTES || write(trace, line, (size_t)length) != length) abort();
  errno = before;
}

static unsigned long long inode_of(const char *path) {
  struct stat found;
  return stat(path, &found) == 0 ? (unsigned long long)found.st_ino : 0;
}

/* Keeps a deleted file's bytes under its inode number. */
static void keep_deleted(const char *path, unsigned long long inode) {
  char name[PATH_BYTES];
  snprintf(name, sizeof name, "%s/%llu.u", kept, inode);
  if (link(path, name) != 0 && errno != EEXIST) abort();
}

static void keep_synced(int fd, unsigned long long inode, int64_t number, off_t size) {
  char name[PATH_BYTES], bytes[KEEP_BYTES];
  ssize_t length = pread(fd, bytes, (size_t)size, 0);
  snprintf(name, sizeof name, "%s/%llu.%lld", kept, inode, (long long)number);
  int copy = open_plainly(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (length < 0 || copy < 0 || write(copy, bytes, (size_t)length) != length) abort();
  close(copy);
}

static void free_room(off_t bytes) {
  if (atomic_load(&control->room) >= 0) atomic_fetch_add(&control->room, bytes);
}

static int sync_file(int fd, int (*real)(int)) {
  char path[PATH_BYTES];
  struct stat found;
  if (!concerned_file(fd, path) || fstat(fd, &found) != 0) return real(fd);
  int is_file = S_ISREG(found.st_mode);
  int64_t number = is_file ? atomic_fetch_add(&control->syncs, 1) + 1 : 0;
  if (is_file && number >= atomic_load(&control->fail_from) &&
      number < atomic_load(&control->fail_until)) {
    errno = EIO;
    return -1;
  }
  if (atomic_load(&control->forget_syncs) != 0) return 0;
  if (!is_file) {
    record("D %s\n", path);
    return 0;
  }
  unsigned long long inode = found.st_ino;
  /* A file that can also be read is small and written in place; the others only grow. */
  int in_place = found.st_size <= KEEP_BYTES && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
  if (in_place) {
    keep_synced(fd, inode, number, found.st_size);
    record("I %llu %lld %s\n", inode, (long long)number, path);
  } else {
    record("S %llu %lld %s\n", inode, (long long)found.st_size, path);
  }
  return 0;
}

int fsync(int fd) {
  REAL(fsync);
  return sync_file(fd, real);
}

int fdatasync(int fd) {
  REAL(fdatasync);
  return sync_file(fd, real);
}

int rename(const char *from, const char *to) {
  REAL(rename);
  if (!concerned(from)) return real(from, to);
  unsigned long long inode = inode_of(from), gone = inode_of(to);
  struct stat found;
  if (gone != 0 && stat(to, &found) == 0 && S_ISREG(found.st_mode)) {
    keep_deleted(to, gone);
    free_room(found.st_size);
  }
  int result = real(from, to);
  if (result == 0) record("R %llu %llu %s\t%s\n", inode, gone, from, to);
  return result;
}

int unlink(const char *path) {
  REAL(unlink);
  struct stat found;
  if (!concerned(path) || stat(path, &found) != 0) return real(path);
  keep_deleted(path, found.st_ino);
  int result = real(path);
  if (result == 0) {
    free_room(found.st_size);
    record("U %llu %s\n", (unsigned long long)found.st_ino, path);
  }
  return result;
}

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  int result = real(path, mode);
  if (result == 0 && concerned(path)) record("M %s\n", path);
  return result;
}

int rmdir(const char *path) {
  REAL(rmdir);
  int result = real(path);
  if (result == 0 && concerned(path)) record("X %s\n", path);
  return result;
}

static void created(const char *path) {
  record("C %llu %s\n", inode_of(path), path);
}

static int open_file(const char *path, int flags, mode_t mode) {
  int creates = (flags & O_CREAT) != 0 && concerned(path) && access(path, F_OK) != 0;
  int fd = open_plainly(path, flags, mode);
  if (fd >= 0 && creates) created(path);
  return fd;
}

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    va_list values; \
    va_start(values, flags); \
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(values, mode_t) : 0; \
    va_end(values); \
    return open_file(path, flags, mode); \
  }

OPEN(open)
OPEN(open64)

static FILE *open_stream(const char *path, const char *mode,
                         FILE *(*real)(const char *, const char *)) {
  int creates = mode[0] != 'r' && concerned(path) && access(path, F_OK) != 0;
  FILE *file = real(path, mode);
  if (file != NULL && creates) created(path);
  return file;
}

FILE *fopen(const char *path, const char *mode) {
  REAL(fopen);
  return open_stream(path, mode, real);
}

FILE *fopen64(const char *path, const char *mode) {
  REAL(fopen64);
  return open_stream(path, mode, real);
}

/* Takes so many bytes of the room there is, and gives how many fit. */
static size_t take_room(size_t bytes) {
  int64_t room = atomic_load(&control->room);
  if (room < 0) return bytes;
  size_t fits = (size_t)room < bytes ? (size_t)room : bytes;
  atomic_fetch_sub(&control->room, (int64_t)fits);
  return fits;
}

#undef fwrite_unlocked
size_t fwrite_unlocked(const void *data, size_t size, size_t count, FILE *file) {
  REAL(fwrite_unlocked);
  char path[PATH_BYTES];
  size_t bytes = size * count;
  if (bytes == 0 || !concerned_file(fileno(file), path)) return real(data, size, count, file);
  size_t fits = take_room(bytes);
  size_t written = fits == 0 ? 0 : real(data, 1, fits, file);
  if (fits == bytes) return written / size;
  errno = ENOSPC;
  return written / size;
}

static ssize_t write_at(int fd, const void *data, size_t bytes, off_t offset,
                        ssize_t (*real)(int, const void *, size_t, off_t)) {
  char path[PATH_BYTES];
  struct stat found;
  if (!concerned_file(fd, path) || fstat(fd, &found) != 0) return real(fd, data, bytes, offset);
  off_t end = offset + (off_t)bytes;
  size_t grows = end > found.st_size ? (size_t)(end - found.st_size) : 0;
  size_t fits = take_room(grows);
  if (grows > 0 && fits == 0) {
    errno = ENOSPC;
    return -1;
  }
  return real(fd, data, bytes - (grows - fits), offset);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) {
  REAL(pwrite);
  return write_at(fd, data, bytes, offset, real);
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset) {
  REAL(pwrite64);
  return write_at(fd, data, bytes, offset, real);
}

ssize_t write(int fd, const void *data, size_t bytes) {
  REAL(write);
  char path[PATH_BYTES];
  if (control == NULL || fd == trace || !concerned_file(fd, path)) return real(fd, data, bytes);
  size_t fits = take_room(bytes);
  if (bytes > 0 && fits == 0) {
    errno = ENOSPC;
    return -1;
  }
  return real(fd, data, fits);
}
