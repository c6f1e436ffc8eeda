/* Makes one allocation of the interpreter fail, as _testcapi.set_nomemory() does, except the allocation of a function
 * object: CPython 3.12 and 3.13 crash if that fails.  They release the code object twice (seen in 3.12.1 and 3.13.0,
 * without an event loop: fail each allocation of `def outer(): def inner(): pass`, and call outer() again).  The crash
 * comes later, often in the garbage collector.
 *
 * Compiled and loaded by test_failing_allocations.py. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <stddef.h>
#include <string.h>

/* From Python.h, which may not be installed; part of the API since Python 3.5. */
typedef struct {
    void *ctx;
    void *(*malloc)(void *, size_t);
    void *(*calloc)(void *, size_t, size_t);
    void *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *);
} PyMemAllocatorEx;

void PyMem_GetAllocator(int, PyMemAllocatorEx *);
void PyMem_SetAllocator(int, PyMemAllocatorEx *);

enum { DOMAINS = 3, FRAMES = 8 };

static PyMemAllocatorEx original[DOMAINS];
static long countdown;

/* Whether the allocation is that of a function object, according to the stack. */
static int makes_function(void)
{
    void *frames[FRAMES];
    int count = backtrace(frames, FRAMES);
    for (int i = 0; i < count; i++) {
        Dl_info info;
        /* The frame holds a return address; the call is before it. */
        if (!dladdr((char *)frames[i] - 1, &info) || !info.dli_sname)
            continue;
        if (!strcmp(info.dli_sname, "PyFunction_NewWithQualName"))
            return 1;
    }
    return 0;
}

static int fails(void)
{
    return countdown-- == 0 && !makes_function();
}

static void *hooked_malloc(void *ctx, size_t size)
{
    PyMemAllocatorEx *wrapped = ctx;
    return fails() ? NULL : wrapped->malloc(wrapped->ctx, size);
}

static void *hooked_calloc(void *ctx, size_t count, size_t size)
{
    PyMemAllocatorEx *wrapped = ctx;
    return fails() ? NULL : wrapped->calloc(wrapped->ctx, count, size);
}

static void *hooked_realloc(void *ctx, void *block, size_t size)
{
    PyMemAllocatorEx *wrapped = ctx;
    return fails() ? NULL : wrapped->realloc(wrapped->ctx, block, size);
}

static void hooked_free(void *ctx, void *block)
{
    PyMemAllocatorEx *wrapped = ctx;
    wrapped->free(wrapped->ctx, block);
}

/* Makes the allocation after the next `number` ones fail. */
void fail_allocation(long number)
{
    void *frame;
    backtrace(&frame, 1); /* the first call loads a library */
    countdown = number;
    for (int domain = 0; domain < DOMAINS; domain++) {
        PyMemAllocatorEx hooked = {&original[domain], hooked_malloc, hooked_calloc, hooked_realloc, hooked_free};
        PyMem_GetAllocator(domain, &original[domain]);
        PyMem_SetAllocator(domain, &hooked);
    }
}

void fail_no_allocation(void)
{
    for (int domain = 0; domain < DOMAINS; domain++)
        PyMem_SetAllocator(domain, &original[domain]);
}
