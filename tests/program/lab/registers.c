/* Lets user-mode Linux 6.1 run on processors whose registers are wider than it knows.
 *
 * It sets a process's registers from a buffer of 2,696 bytes. Since Linux 5.16 the host takes no less than all that the
 * processor has (xstateregs_set: EFAULT otherwise), which is 11,008 bytes where there is AMX. What is missing at the end is
 * unused inside, and zero stands for that: the bits at the beginning, which are the guest's, say that nothing is there. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

static long (*next)(int, ...);
/* As long as all registers, once that is known. The guest's kernel has one thread, and its stack is small. */
static char whole[1 << 16] __attribute__((aligned(64)));
static size_t length;

long ptrace(enum __ptrace_request request, ...)
{
    va_list rest;
    va_start(rest, request);
    int pid = va_arg(rest, int);
    void *address = va_arg(rest, void *);
    struct iovec *data = va_arg(rest, struct iovec *);
    va_end(rest);

    if (!next)
        next = dlsym(RTLD_NEXT, "ptrace");
    if (request != PTRACE_SETREGSET || (long)address != NT_X86_XSTATE)
        return next(request, pid, address, data);

    if (!length) {
        struct iovec all = { whole, sizeof whole };
        if (next(PTRACE_GETREGSET, pid, address, &all) < 0)
            return -1;
        memset(whole, 0, sizeof whole);
        length = all.iov_len;
    }
    if (data->iov_len >= length)
        return next(request, pid, address, data);
    memcpy(whole, data->iov_base, data->iov_len);
    struct iovec all = { whole, length };
    return next(request, pid, address, &all);
}
