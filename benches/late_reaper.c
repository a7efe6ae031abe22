/* Eight direct reads of 4 KiB by libaio, a pause, and only then their completions: for benches/latency_delays.py.
 *
 * late_reaper FILE SECONDS PAUSE_US prints the operations and the mean nanoseconds from submission to reaping.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DEPTH 8
#define BLOCK 4096

static long long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char **argv) {
    int fd = argc == 4 ? open(argv[1], O_RDONLY | O_DIRECT) : -1;
    struct stat stat;
    aio_context_t context = 0;
    char *buffers = aligned_alloc(BLOCK, DEPTH * BLOCK);
    if (fd < 0 || fstat(fd, &stat) || !buffers || syscall(SYS_io_setup, DEPTH, &context))
        return 1;
    long long end_ns = now_ns() + atof(argv[2]) * 1e9, sum_ns = 0, reads = 0;
    while (now_ns() < end_ns) {
        struct iocb requests[DEPTH] = {}, *list[DEPTH];
        struct io_event events[DEPTH];
        for (int i = 0; i < DEPTH; i++) {
            list[i] = &requests[i];
            requests[i].aio_lio_opcode = IOCB_CMD_PREAD;
            requests[i].aio_fildes = fd;
            requests[i].aio_buf = (unsigned long)(buffers + i * BLOCK);
            requests[i].aio_nbytes = BLOCK;
            requests[i].aio_offset = random() % (stat.st_size / BLOCK) * BLOCK;
        }
        long long start_ns = now_ns();
        if (syscall(SYS_io_submit, context, DEPTH, list) != DEPTH)
            return 1;
        usleep(atoi(argv[3]));
        if (syscall(SYS_io_getevents, context, DEPTH, DEPTH, events, 0) != DEPTH)
            return 1;
        sum_ns += DEPTH * (now_ns() - start_ns);
        reads += DEPTH;
    }
    printf("%lld reads, mean %lld ns\n", reads, reads ? sum_ns / reads : 0);
    return 0;
}
