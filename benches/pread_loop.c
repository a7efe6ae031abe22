/* The cheapest reader there is, for benches/witness.py: one call of pread64 after the other, from the page cache.
 *
 * pread_loop FILE RECORD_BYTES SECONDS [random] prints calls, nanoseconds from the first to the last, and microseconds of
 * processor time between them. Records are read in their order, or at random by a generator of a few instructions. With 0 for RECORD_BYTES it calls getppid instead, which is about no file. The clock is
 * read once in 1024 calls, and no call of it enters the kernel.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static long long cpu_us(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000LL + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

int main(int number, char **words) {
    struct stat status;
    if (number != 4 && number != 5)
        return 2;
    int file = open(words[1], O_RDONLY);
    size_t bytes = strtoul(words[2], 0, 10);
    void *buffer = malloc(bytes);
    if (file < 0 || fstat(file, &status) || !buffer || status.st_size < (off_t)bytes)
        return 1;
    long long calls = 0, cpu_before_us = cpu_us(), began_ns = now_ns(), ended_ns;
    long long until_ns = began_ns + (long long)(atof(words[3]) * 1e9);
    off_t at = 0;
    unsigned long long chance = 1, records = bytes ? status.st_size / bytes : 1;
    do {
        for (int i = 0; i < 1024; i++, at += bytes) {
            if (at + (off_t)bytes > status.st_size)
                at = 0;
            if (number == 5) {
                chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17; /* xorshift64 */
                at = (chance >> 11) % records * bytes;
            }
            if (!bytes)
                syscall(SYS_getppid);
            else if (pread(file, buffer, bytes, at) != (ssize_t)bytes)
                return 1;
        }
        calls += 1024;
        ended_ns = now_ns();
    } while (ended_ns < until_ns);
    printf("%lld %lld %lld\n", calls, ended_ns - began_ns, cpu_us() - cpu_before_us);
    return 0;
}
