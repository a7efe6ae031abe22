/* Outer intervals: bounds of what a tool may measure of one call by its own clock.
 *
 * They cost the call itself nothing: one is added when the next call has returned, or at the entry of a call that is not
 * watched.
 */
#pragma once
#include "operations.h"

/* By number, the calls that read a clock where the vDSO cannot: what they return is later than their entry. */
volatile const u32 clock_gettime_call = 0, gettimeofday_call = 0;

struct {
    MAP_FIELD_NUMBER(type, MAP_PERCPU_ARRAY);
    MAP_FIELD_NUMBER(max_entries, SYNC + 1);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct outer);
} outer_intervals SEC(".maps");

/* A global function, verified once. */
__attribute__((noinline)) int outer_add(u32 kind, u64 took_ns) {
    struct outer *counts = map_lookup(&outer_intervals, &kind);
    u32 bucket = bucket_of(took_ns);
    if (!counts || bucket >= BUCKETS)
        return 0;
    counts->number++;
    counts->buckets[bucket]++;
    return 0;
}

INLINE void outer_ends(struct task *task, u64 at_ns) {
    if (!task->outer_ns)
        return;
    outer_add(task->outer_kind, at_ns - task->outer_ns);
    task->outer_ns = 0;
}

/* A call begins that is not watched. */
INLINE void outer_passes(struct task *task, u64 number) {
    if (number == clock_gettime_call || number == gettimeofday_call)
        return;
    if (task->outer_ns)
        outer_ends(task, now_ns());
    else if (!task->returned_ns)
        task->returned_ns = now_ns();
}

/* A watched call has returned; `waits` where the outer interval is one of those that count. */
INLINE void outer_begins(struct task *task, const struct ended *call, int waits) {
    outer_ends(task, call->entered_ns);
    if (waits) {
        task->outer_ns = task->returned_ns;
        task->outer_kind = call->kind;
    }
    task->returned_ns = call->left_ns;
}
