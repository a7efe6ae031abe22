/* Counts and latencies of each way into the kernel, over all files. */
#pragma once
#include "pattern.h"

struct {
    MAP_FIELD_NUMBER(type, MAP_PERCPU_ARRAY);
    MAP_FIELD_NUMBER(max_entries, OPS);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct operation);
} operations SEC(".maps");

/* Global functions, verified once. */
__attribute__((noinline)) int operation_issued(u32 operation, u64 at_ns, u64 requested_bytes) {
    struct operation *counts = map_lookup(&operations, &operation);
    if (counts)
        add_issued(&counts->calls, at_ns, requested_bytes);
    return 0;
}

INLINE void operation_latency(struct operation *counts, const struct ended *call) {
    add_ended(&counts->calls, call);
    u32 bucket = bucket_of(call->left_ns - call->entered_ns);
    if (bucket < BUCKETS)
        counts->buckets[bucket]++;
}

__attribute__((noinline)) int operation_ended(u32 operation, const struct ended *call) {
    struct operation *counts = map_lookup(&operations, &operation);
    if (counts && call)
        operation_latency(counts, call);
    return 0;
}

/* Issued and ended at once: a system call is both when it returns. */
__attribute__((noinline)) int operation_done(u32 operation, const struct ended *call) {
    struct operation *counts = map_lookup(&operations, &operation);
    if (!counts || !call)
        return 0;
    add_issued(&counts->calls, call->entered_ns, call->requested_bytes);
    operation_latency(counts, call);
    return 0;
}
