/* Sizes of vectored calls: the caller's array of struct iovec. */
#pragma once
#include "kernel.h"

#define MAX_VECTORS 1024 /* UIO_MAXIOV; longer ones are refused by the kernel */

struct vectors {
    u64 address, bytes;
};

static long vector_size(u32 index, struct vectors *vectors) {
    u64 bytes = 0; /* struct iovec: address, length */
    if (read_user(&bytes, sizeof(bytes), (void *)(vectors->address + index * 16ULL + 8)))
        return 1;
    vectors->bytes += bytes;
    return 0;
}

/* A global function, verified once. */
__attribute__((noinline)) u64 vectors_bytes(u64 address, u64 number) {
    struct vectors vectors = {address, 0};
    loop(number < MAX_VECTORS ? number : MAX_VECTORS, vector_size, &vectors, 0);
    return vectors.bytes;
}
