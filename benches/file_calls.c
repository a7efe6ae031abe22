/* The peer of the file tests: the same calls in the plainest loop, timed in the same way.
 *
 *     file_calls FILE RECORD COUNT PASSES
 *
 * For write, read, pwrite and pread, in this order: the least nanoseconds a call of so many passes over a file of
 * COUNT records, each pass through a descriptor of its own. The first line is of a file that is there already. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static ssize_t call(int way, int file, char *buffer, size_t record, off_t place)
{
    switch (way) {
    case 0: return write(file, buffer, record);
    case 1: return read(file, buffer, record);
    case 2: return pwrite(file, buffer, record, place);
    default: return pread(file, buffer, record, place);
    }
}

static double pass(int way, const char *path, char *buffer, size_t record, long count)
{
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || fsync(file) != 0) {
        perror(path);
        exit(1);
    }
    long long start = now_ns();
    for (long number = 0; number < count; number++) {
        if (call(way, file, buffer, record, (off_t)number * (off_t)record) != (ssize_t)record) {
            perror(path);
            exit(1);
        }
    }
    long long took = now_ns() - start;
    close(file);
    return (double)took / (double)count;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    size_t record = strtoul(argv[2], NULL, 10);
    long count = atol(argv[3]), passes = atol(argv[4]);
    char *buffer;
    if (posix_memalign((void **)&buffer, 4096, record) != 0)
        return 1;
    memset(buffer, 7, record);
    pass(0, argv[1], buffer, record, count);
    for (int way = 0; way < 4; way++) {
        double least = 0;
        for (long number = 0; number < passes; number++) {
            double took = pass(way, argv[1], buffer, record, count);
            if (number == 0 || took < least)
                least = took;
        }
        printf("%.1f\n", least);
    }
    unlink(argv[1]);
    return 0;
}
