/* Preloaded into a writer: halts it just after a chosen one of the calls by which SQLite changes or syncs a store's files. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static long halt_at, steps;

void halt_arm(long at) { halt_at = at; steps = 0; }
void halt_disarm(void) { halt_at = 0; }

static void step(const char *call, const char *path) {
    int was = errno;
    const char *name = strstr(path, ".db");
    char go;
    if (halt_at == 0 || name == NULL || ++steps != halt_at) return;
    dprintf(1, "halted %s %s\n", call, name);
    while (read(0, &go, 1) < 0 && errno == EINTR) {}
    errno = was;
}

static void step_of(const char *call, int fd) {
    char link[64], path[PATH_MAX];
    ssize_t length;
    if (halt_at == 0) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    step(call, path);
}

#define AFTER(result, name, shown, types, args, fd)                     \
    result name types {                                                 \
        static result (*real) types;                                    \
        if (!real) real = dlsym(RTLD_NEXT, #name);                      \
        result done = real args;                                        \
        step_of(shown, fd);                                             \
        return done;                                                    \
    }

AFTER(ssize_t, pwrite, "write", (int fd, const void *from, size_t n, off_t at), (fd, from, n, at), fd)
AFTER(ssize_t, pwrite64, "write", (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at), fd)
AFTER(int, ftruncate, "truncate", (int fd, off_t size), (fd, size), fd)
AFTER(int, ftruncate64, "truncate", (int fd, off64_t size), (fd, size), fd)
AFTER(int, fsync, "sync", (int fd), (fd), fd)
AFTER(int, fdatasync, "sync", (int fd), (fd), fd)

int unlink(const char *path) {
    static int (*real)(const char *);
    if (!real) real = dlsym(RTLD_NEXT, "unlink");
    int done = real(path);
    step("unlink", path);
    return done;
}
