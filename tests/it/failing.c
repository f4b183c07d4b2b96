/* Loaded into ralph before libc: lets one call of a kind fail, and the clock jump. What is wanted
 * comes in the environment and is taken out of it, so that children are spared:
 *
 *   FAILING_KIND    open, entry (what changes a directory), write, sync or read (of files, not of pipes)
 *   FAILING_AT      which call of that kind fails, from 1; 0 for none
 *   FAILING_ERRNO   with which error
 *   FAILING_EVER    whether all after it fail, too, but for stdin, stdout and stderr
 *   FAILING_CLOCK   by how many seconds the clock jumps forth and back
 *   FAILING_LOOKS   after how many looks it does so; 0 if it is as wrong from the start, and stays so
 *   FAILING_REPORT  the file that is told how many calls there were of each kind, and which one failed
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { OPEN, ENTRY, WRITE, SYNC, READ, KINDS };
static const char *const names[KINDS] = {"open", "entry", "write", "sync", "read"};

static int wanted = KINDS, error_number, ever;
static long at, jump, patience;
static char report[4096];
static atomic_long counts[KINDS], looks;
static atomic_int fired_fd = -2;

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

__attribute__((constructor)) static void begin(void) {
    const char *kind = getenv("FAILING_KIND"), *path = getenv("FAILING_REPORT");
    for (int each = 0; kind && each < KINDS; each++)
        if (!strcmp(kind, names[each])) wanted = each;
    at = number("FAILING_AT");
    error_number = number("FAILING_ERRNO");
    ever = number("FAILING_EVER");
    jump = number("FAILING_CLOCK");
    patience = number("FAILING_LOOKS");
    if (path) snprintf(report, sizeof report, "%s", path);
    const char *const ours[] = {"LD_PRELOAD",   "FAILING_KIND",  "FAILING_AT",    "FAILING_ERRNO",
                                "FAILING_EVER", "FAILING_CLOCK", "FAILING_LOOKS", "FAILING_REPORT"};
    for (unsigned each = 0; each < sizeof ours / sizeof *ours; each++) unsetenv(ours[each]);
}

__attribute__((destructor)) static void end(void) {
    char text[256];
    int length = snprintf(text, sizeof text, "open %ld entry %ld write %ld sync %ld read %ld fired %d\n",
                          counts[OPEN], counts[ENTRY], counts[WRITE], counts[SYNC], counts[READ], fired_fd);
    /* By no call that is counted. */
    int file = report[0] ? syscall(SYS_openat, AT_FDCWD, report, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    if (file >= 0) {
        syscall(SYS_write, file, text, length);
        syscall(SYS_close, file);
    }
}

/* Whether this call fails. The descriptor is -1 for what has none. */
static int fails(enum kind kind, int fd) {
    struct stat file;
    if (kind == READ && (fstat(fd, &file) || !S_ISREG(file.st_mode))) return 0;
    long count = ++counts[kind];
    if ((int)kind != wanted || at == 0) return 0;
    if (count != at && !(ever && count > at && (fd < 0 || fd > 2))) return 0;
    if (fired_fd == -2) fired_fd = fd;
    errno = error_number;
    return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define WRAP(kind, fd, type, name, parameters, ...)          \
    type name parameters {                                   \
        static __typeof__(&name) real;                       \
        if (!real) real = NEXT(name);                        \
        if (fails(kind, fd)) return (type) - 1;              \
        return real(__VA_ARGS__);                            \
    }

#define WRAP_OPEN(name, parameters, ...)                     \
    int name parameters {                                    \
        static __typeof__(&name) real;                       \
        if (!real) real = NEXT(name);                        \
        va_list rest;                                        \
        va_start(rest, flags);                               \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                        \
        if (fails(OPEN, -1)) return -1;                      \
        return real(__VA_ARGS__, flags, mode);               \
    }

WRAP_OPEN(open, (const char *path, int flags, ...), path)
WRAP_OPEN(open64, (const char *path, int flags, ...), path)
WRAP_OPEN(openat, (int base, const char *path, int flags, ...), base, path)
WRAP_OPEN(openat64, (int base, const char *path, int flags, ...), base, path)
WRAP(OPEN, -1, int, creat, (const char *path, mode_t mode), path, mode)

WRAP(ENTRY, -1, int, mkdir, (const char *path, mode_t mode), path, mode)
WRAP(ENTRY, -1, int, rename, (const char *from, const char *to), from, to)
WRAP(ENTRY, -1, int, link, (const char *from, const char *to), from, to)
WRAP(ENTRY, -1, int, unlink, (const char *path), path)
WRAP(ENTRY, -1, int, rmdir, (const char *path), path)
WRAP(ENTRY, -1, int, unlinkat, (int base, const char *path, int flags), base, path, flags)

WRAP(WRITE, fd, ssize_t, write, (int fd, const void *from, size_t size), fd, from, size)
WRAP(WRITE, fd, ssize_t, pwrite, (int fd, const void *from, size_t size, off_t place), fd, from, size, place)
WRAP(WRITE, fd, ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t place), fd, from, size, place)
WRAP(WRITE, fd, ssize_t, writev, (int fd, const struct iovec *from, int count), fd, from, count)
WRAP(WRITE, fd, int, ftruncate, (int fd, off_t size), fd, size)
WRAP(WRITE, fd, int, ftruncate64, (int fd, off64_t size), fd, size)

WRAP(SYNC, fd, int, fsync, (int fd), fd)
WRAP(SYNC, fd, int, fdatasync, (int fd), fd)

WRAP(READ, fd, ssize_t, read, (int fd, void *to, size_t size), fd, to, size)
WRAP(READ, fd, ssize_t, pread, (int fd, void *to, size_t size, off_t place), fd, to, size, place)
WRAP(READ, fd, ssize_t, pread64, (int fd, void *to, size_t size, off64_t place), fd, to, size, place)

/* By how much the clock is wrong at this look. */
static long wrong(void) {
    static const int turns[] = {0, 1, -1};
    return patience ? jump * turns[looks++ / patience % 3] : jump;
}

int clock_gettime(clockid_t which, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, which, time);
    if (result == 0 && which == CLOCK_REALTIME) time->tv_sec += wrong();
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    int result = syscall(SYS_gettimeofday, time, zone);
    if (result == 0) time->tv_sec += wrong();
    return result;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place) *place = now.tv_sec;
    return now.tv_sec;
}
