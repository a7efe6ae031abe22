/* Log-linear buckets, the layout of crates/stats with five bits below the leading one instead of ten: every value
 * below 64 has a bucket of its own, above each power of two is cut into 32. 1280 buckets reach to 2^44 ns (4.8 h).
 */
#pragma once
#include "shapes.h"

#define SUB_BITS 5

/* A global function: inlined, all that comes behind it would be verified for each of its 32 ways. */
__attribute__((noinline)) u32 log2_of(u64 value) {
    u32 log = 0;
    if (value >> 32) { value >>= 32; log += 32; }
    if (value >> 16) { value >>= 16; log += 16; }
    if (value >> 8) { value >>= 8; log += 8; }
    if (value >> 4) { value >>= 4; log += 4; }
    if (value >> 2) { value >>= 2; log += 2; }
    return log + (u32)(value >> 1);
}

INLINE u32 bucket_of(u64 value) {
    u32 shift = log2_of(value | (1 << SUB_BITS)) - SUB_BITS;
    u64 index = ((u64)shift << SUB_BITS) + (value >> shift);
    return index < BUCKETS ? index : BUCKETS - 1;
}
