/* One kind of system call after the other, for benches/confinement.py.
 *
 * call_loop KIND FILE SECONDS prints the calls and the nanoseconds of processor time that they took. KIND is `read` or `write` (512 bytes
 * at offset 0, in the page cache), `open-read` or `open-write` (open and close), `truncate` (to the size that the file
 * has), or `create` (open a new file beside FILE, close and unlink it). The clock is read once in 256 rounds.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int opened(const char *path, int flags) {
    int file = open(path, flags, 0600);
    return file >= 0 && !close(file);
}

int main(int number, char **words) {
    static char buffer[512], beside[4096];
    if (number != 4)
        return 2;
    const char *kind = words[1], *path = words[2];
    int is_read = !strcmp(kind, "read"), is_write = !strcmp(kind, "write");
    int file = is_read || is_write ? open(path, is_write ? O_RDWR : O_RDONLY) : -1;
    snprintf(beside, sizeof beside, "%s.new", path);
    long long rounds = 0, used_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    long long until_ns = now_ns(CLOCK_MONOTONIC) + (long long)(atof(words[3]) * 1e9);
    do {
        for (int i = 0; i < 256; i++) {
            int done = is_read                        ? pread(file, buffer, sizeof buffer, 0) > 0
                       : is_write                     ? pwrite(file, buffer, sizeof buffer, 0) > 0
                       : !strcmp(kind, "open-read")   ? opened(path, O_RDONLY)
                       : !strcmp(kind, "open-write")  ? opened(path, O_WRONLY)
                       : !strcmp(kind, "truncate")    ? !truncate(path, sizeof buffer)
                       : !strcmp(kind, "create")      ? opened(beside, O_WRONLY | O_CREAT) && !unlink(beside)
                                                      : 0;
            if (!done) {
                perror(kind);
                return 1;
            }
        }
        rounds += 256;
    } while (now_ns(CLOCK_MONOTONIC) < until_ns);
    printf("%lld %lld\n", rounds, now_ns(CLOCK_PROCESS_CPUTIME_ID) - used_ns);
    return 0;
}
