/* What the time of operations is made of: the counts of each part, by class of operations. */
#pragma once
#include "operations.h"

/* Place and 1 of the operations that are explained. */
struct {
    MAP_FIELD_NUMBER(type, MAP_ARRAY);
    MAP_FIELD_NUMBER(max_entries, OPS);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, u32);
} explained_places SEC(".maps");

struct {
    MAP_FIELD_NUMBER(type, MAP_PERCPU_ARRAY);
    MAP_FIELD_NUMBER(max_entries, MAX_EXPLAINED * (OBSERVER + 1));
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct part);
} explained SEC(".maps");

INLINE u32 coarse_bucket_of(u64 value) {
    u32 shift = log2_of(value | (1 << COARSE_SUB_BITS)) - COARSE_SUB_BITS;
    u64 index = ((u64)shift << COARSE_SUB_BITS) + (value >> shift);
    return index < COARSE_BUCKETS ? index : COARSE_BUCKETS - 1;
}

INLINE u32 explained_place(u32 operation) {
    u32 *place = map_lookup(&explained_places, &operation);
    if (!place)
        return NONE;
    if (!*place) {
        u64 fresh = count(NEXT_EXPLAINED) + 1;
        __sync_val_compare_and_swap(place, 0, fresh <= MAX_EXPLAINED ? fresh : NONE);
    }
    return *place == NONE ? NONE : *place - 1;
}

INLINE struct part *part_at(u32 place, u32 which) {
    u32 index = place * (OBSERVER + 1) + which;
    return map_lookup(&explained, &index);
}

/* `took_ns` of each of `number` operations. */
INLINE void part_add(u32 place, u32 which, u64 number, u64 took_ns) {
    struct part *part = part_at(place, which);
    if (!part)
        return;
    part->number += number;
    part->sum_ns += number * took_ns;
    u32 bucket = coarse_bucket_of(took_ns);
    if (bucket < COARSE_BUCKETS)
        part->buckets[bucket] += number;
}

struct parts {
    u64 ns[PARTS];
};

/* A global function, verified once: counts one operation; parts of nothing are not counted. */
__attribute__((noinline)) u32 parts_add(u32 operation, const struct parts *parts) {
    u32 place = explained_place(operation);
    if (place >= MAX_EXPLAINED || !parts)
        return NONE;
    u64 total_ns = 0;
    for (u32 which = 0; which < PARTS; which++) {
        u64 took_ns = parts->ns[which];
        total_ns += took_ns;
        if (took_ns)
            part_add(place, which, 1, took_ns);
    }
    part_add(place, PARTS, 1, total_ns);
    return place;
}

/* Another `more_ns` of `number` operations: of the last one, the buckets follow. */
INLINE void part_raise(u32 place, u32 which, u64 number, u64 had_ns, u64 more_ns) {
    struct part *part = part_at(place, which);
    if (!part)
        return;
    part->sum_ns += number * more_ns;
    u32 before = coarse_bucket_of(had_ns), after = coarse_bucket_of(had_ns + more_ns);
    if (before < COARSE_BUCKETS && had_ns)
        part->buckets[before]--;
    else
        part->number++;
    if (after < COARSE_BUCKETS)
        part->buckets[after]++;
}
