/* Adding a call to the counts of its class.
 *
 * Classes of operations and of block requests are per CPU, so plain additions are right: a program is not preempted,
 * and one that interrupts it writes other fields (issue and completion have disjoint ones). Sessions are shared by
 * threads: sums are atomic, and extremes are raised by compare-and-exchange. A lost race means that another CPU
 * changed the word, so eight tries fail only where eight others raised it meanwhile; that is counted as lost.
 */
#pragma once
#include "histogram.h"

struct {
    MAP_FIELD_NUMBER(type, MAP_ARRAY);
    MAP_FIELD_NUMBER(max_entries, HEALTH);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, u64);
} health SEC(".maps");

INLINE u64 count(u32 what) {
    u64 *word = map_lookup(&health, &what);
    return word ? __sync_fetch_and_add(word, 1) : 0;
}

INLINE void raise(u64 *word, u64 value) {
    if (value > *word)
        *word = value;
}

INLINE void raise_shared(u64 *word, u64 value) {
    for (int i = 0; i < 8; i++) {
        u64 seen = *(volatile u64 *)word;
        if (seen >= value || __sync_val_compare_and_swap(word, seen, value) == seen)
            return;
    }
    count(LOST);
}

/* One call as it ended; `result` is negative for an error, bytes where data are moved. */
struct ended {
    u64 entered_ns, left_ns, requested_bytes;
    s64 result;
    u32 kind, is_synced;
};

/* Whether the flags of one call or request ask for what O_DSYNC or O_SYNC ask of all (include/uapi/linux/fs.h). */
#define RWF_DSYNC 2
#define RWF_SYNC 4
INLINE u32 is_synced(u32 kind, u64 flags) {
    return kind == WRITE && flags & (RWF_DSYNC | RWF_SYNC);
}

INLINE int moves_data(u32 kind) {
    return kind == READ || kind == WRITE;
}

INLINE void add_issued(struct calls *to, u64 at_ns, u64 requested_bytes) {
    to->calls++;
    to->requested_bytes += requested_bytes;
    raise(&to->not_first_ns, ~at_ns);
}

INLINE void add_ended(struct calls *to, const struct ended *call) {
    u64 took_ns = call->left_ns - call->entered_ns;
    to->completed++;
    to->sum_ns += took_ns;
    raise(&to->last_ns, call->left_ns);
    raise(&to->not_min_ns, ~took_ns);
    raise(&to->max_ns, took_ns);
    if (call->result < 0)
        to->errors++;
    else if (moves_data(call->kind)) {
        to->bytes += call->result;
        if ((u64)call->result < call->requested_bytes)
            to->fewer++;
    }
}

INLINE void add_issued_shared(struct calls *to, u64 at_ns, u64 requested_bytes) {
    __sync_fetch_and_add(&to->calls, 1);
    if (requested_bytes)
        __sync_fetch_and_add(&to->requested_bytes, requested_bytes);
    raise_shared(&to->not_first_ns, ~at_ns);
}

INLINE void add_ended_shared(struct calls *to, const struct ended *call) {
    u64 took_ns = call->left_ns - call->entered_ns;
    __sync_fetch_and_add(&to->completed, 1);
    __sync_fetch_and_add(&to->sum_ns, took_ns);
    raise_shared(&to->last_ns, call->left_ns);
    raise_shared(&to->not_min_ns, ~took_ns);
    raise_shared(&to->max_ns, took_ns);
    if (call->result < 0)
        __sync_fetch_and_add(&to->errors, 1);
    else if (moves_data(call->kind)) {
        __sync_fetch_and_add(&to->bytes, call->result);
        if ((u64)call->result < call->requested_bytes)
            __sync_fetch_and_add(&to->fewer, 1);
    }
}
