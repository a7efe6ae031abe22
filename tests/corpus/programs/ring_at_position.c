#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    struct io_uring_params p = {0};
    static char buffer[4096];
    int ring = syscall(SYS_io_uring_setup, 8, &p), file = open("data", O_RDONLY);
    if (ring < 0 || file < 0) return 1;
    char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, 3, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    char *cq = mmap(0, p.cq_off.cqes + p.cq_entries * 16, 3, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    struct io_uring_sqe *sqes = mmap(0, p.sq_entries * sizeof(*sqes), 3, MAP_SHARED, ring, IORING_OFF_SQES);
    unsigned *tail = (unsigned *)(sq + p.sq_off.tail), *array = (unsigned *)(sq + p.sq_off.array);
    for (int i = 0; i < 40; i++) {
        if (i == 20) lseek(file, 1 << 20, SEEK_SET);
        unsigned at = *tail & (p.sq_entries - 1);
        sqes[at] = (struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = file, .off = -1ULL,
                                         .addr = (unsigned long)buffer, .len = 4096};
        array[at] = at;
        __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
        if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) != 1) return 2;
        unsigned *head = (unsigned *)(cq + p.cq_off.head);
        struct io_uring_cqe *cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
        if (cqes[*head & (p.cq_entries - 1)].res != 4096) return 3;
        __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    }
    return 0;
}
