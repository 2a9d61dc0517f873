/* Steps the wall clock of one process: loaded before the C library (LD_PRELOAD), it adds a number of seconds, which a
   file holds, to each time of day. The monotonic clocks are left alone, and so are most waits: the kernel knows the true
   time, so absolute times of day that it is given are brought back to it. Those of C11, which librdkafka uses, last as
   with a clock of the kernel's that steps: if it is set back during one, the wait ends as much later. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t nothing = 0;
static volatile int64_t *offset_s = &nothing;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("STEPPED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(0, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) offset_s = mapped;
    close(file);
}

#define NEXT(name) static __typeof__(name) *next; if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* A time of day in our steps is decades after 1970; one on a monotonic clock is not. */
static const struct timespec *true_time(const struct timespec *given, struct timespec *changed) {
    if (!given || given->tv_sec < 1000000000) return given;
    *changed = *given;
    changed->tv_sec -= *offset_s;
    if (changed->tv_sec < 0) changed->tv_sec = 0;
    return changed;
}

static int is_before(const struct timespec *one, const struct timespec *other) {
    return one->tv_sec < other->tv_sec || (one->tv_sec == other->tv_sec && one->tv_nsec < other->tv_nsec);
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    NEXT(clock_gettime);
    int result = next(clock, out);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) out->tv_sec += *offset_s;
    return result;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    if (out) { out->tv_sec = now.tv_sec; out->tv_usec = now.tv_nsec / 1000; }
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    struct timespec changed;
    NEXT(sem_timedwait);
    return next(semaphore, true_time(until, &changed));
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    struct timespec changed;
    static __typeof__(pthread_cond_timedwait) *next;
    /* The default version of the symbol; dlsym could give the one of old programs. */
    if (!next) next = (__typeof__(pthread_cond_timedwait) *)dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!next) next = (__typeof__(pthread_cond_timedwait) *)dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    return next(condition, mutex, true_time(until, &changed));
}

#define SLICE_NS 50000000L

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict until) {
    struct timespec changed, slice;
    NEXT(cnd_timedwait);
    for (;;) {
        const struct timespec *end = true_time(until, &changed);
        syscall(SYS_clock_gettime, CLOCK_REALTIME, &slice);
        slice.tv_nsec += SLICE_NS;
        if (slice.tv_nsec >= 1000000000L) { slice.tv_nsec -= 1000000000L; slice.tv_sec++; }
        if (is_before(end, &slice)) return next(condition, mutex, end);
        int result = next(condition, mutex, &slice);
        if (result != thrd_timedout) return result;
    }
}

long syscall(long number, ...) {
    long given[6];
    struct timespec changed;
    va_list arguments;
    static long (*next)(long, ...);
    if (!next) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    va_start(arguments, number);
    for (int place = 0; place < 6; place++) given[place] = va_arg(arguments, long);
    va_end(arguments);
    if (number == SYS_futex && (given[1] & FUTEX_CLOCK_REALTIME))
        given[3] = (long)true_time((const struct timespec *)given[3], &changed);
    return next(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
