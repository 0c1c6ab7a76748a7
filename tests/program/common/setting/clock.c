/* Preloaded into a daemon: its wall clock is ahead by as many seconds as a file says, and its boot was so many seconds later as that
   file says next, both of which a test writes. Where a second file is, it names the boot. The other clocks stay as they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead; /* and by how much the boot was later */

int open64(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    const char *boot = getenv("CLOCK_BOOT");
    va_list more;
    mode_t mode = 0;
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "open64");
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
    }
    if (boot && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0 && access(boot, F_OK) == 0) path = boot;
    return real(path, flags, mode);
}

__attribute__((constructor)) static void look(void) {
    const char *name = getenv("CLOCK_AHEAD");
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *found;
    if (fd < 0) return;
    found = mmap(NULL, 2 * sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
    if (found != MAP_FAILED) ahead = found;
    close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (result == 0 && ahead && clock == CLOCK_REALTIME) now->tv_sec += ahead[0];
    if (result == 0 && ahead && clock == CLOCK_BOOTTIME) now->tv_sec -= ahead[1];
    return result;
}
