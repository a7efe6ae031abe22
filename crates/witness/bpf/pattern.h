/* Where the calls of a session go: one pattern for its reads and one for its writes, of regular files and block
 * devices only.
 *
 * What was touched is kept in bitmaps of granules: 4 KiB, or 512 bytes where the first call is no multiple of that. A
 * bitmap is made of segments, each twice as far into the file as the one before, taken from one pool of words when
 * they are first used: nothing is ever moved, so that no call waits for another one. Segments have at most 2^18 bits:
 * granules are twice as large in each one beyond that (from 2 GiB on, or 256 MiB with granules of 512 bytes).
 *
 * Calls count when they return, by what they moved; requests of libaio and io_uring when they are submitted, by what
 * they ask for, since that is the order that the program chose. Whatever makes an offset doubtful is counted.
 */
#pragma once
#include "sessions.h"

struct {
    MAP_FIELD_NUMBER(type, MAP_ARRAY);
    MAP_FIELD_NUMBER(max_entries, MAX_PATTERNS);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct pattern);
} patterns SEC(".maps");

struct {
    MAP_FIELD_NUMBER(type, MAP_ARRAY);
    MAP_FIELD_NUMBER(max_entries, MAX_GRANULE_WORDS);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, u64);
} granules SEC(".maps");

#define FIRST_BITS_LOG 9   /* of the first two segments */
#define MOST_BITS_LOG 18
#define LARGEST_SEGMENT_AT (MOST_BITS_LOG - FIRST_BITS_LOG + 1)
#define O_APPEND 02000

INLINE u64 reserve(u32 what, u64 number) {
    u64 *next = map_lookup(&health, &what);
    return next ? __sync_fetch_and_add(next, number) : ~0ULL;
}

/* A global function, called once for each segment: the place of its first word and 1, NONE where there is no room. */
__attribute__((noinline)) u32 segment_made(u32 place, u32 segment) {
    struct pattern *pattern = map_lookup(&patterns, &place);
    if (!pattern || segment >= SEGMENTS)
        return NONE;
    u32 log = segment ? FIRST_BITS_LOG - 1 + segment : FIRST_BITS_LOG;
    u64 words = 1ULL << ((log < MOST_BITS_LOG ? log : MOST_BITS_LOG) - 6);
    u64 first = reserve(NEXT_GRANULE_WORD, words);
    u32 fresh = first + words <= MAX_GRANULE_WORDS ? first + 1 : NONE;
    u32 before = __sync_val_compare_and_swap(&pattern->segments[segment], 0, fresh);
    return before ? before : fresh;
}

/* What is left to be marked of a call, and what of it was marked. */
struct extent {
    u64 at, end; /* in granules of the first segments */
    u64 fresh_bytes;
    u32 place, granule_log;
    u32 is_lost, last_log;
};

/* Where the bit of a granule is: in which segment, how much coarser that is, and the place of its word. */
struct spot {
    u64 first, bit;
    u32 segment, coarser;
};

INLINE struct spot spot_of(u64 at) {
    struct spot spot = {};
    spot.segment = log2_of(at | 1 << (FIRST_BITS_LOG - 1)) - (FIRST_BITS_LOG - 1);
    spot.first = spot.segment ? 1ULL << (FIRST_BITS_LOG - 1 + spot.segment) : 0;
    spot.coarser = spot.segment > LARGEST_SEGMENT_AT ? spot.segment - LARGEST_SEGMENT_AT : 0;
    spot.bit = (at - spot.first) >> spot.coarser;
    return spot;
}

/* A global function: whether a granule was touched. */
__attribute__((noinline)) int is_marked(u32 place, u64 at) {
    struct pattern *pattern = map_lookup(&patterns, &place);
    struct spot spot = spot_of(at);
    if (!pattern || spot.segment >= SEGMENTS)
        return 0;
    u32 base = pattern->segments[spot.segment];
    u32 index = base - 1 + (u32)(spot.bit >> 6);
    u64 *word = !base || base == NONE ? 0 : map_lookup(&granules, &index);
    return word && *word >> (spot.bit & 63) & 1;
}

/* Marks what the next word of the bitmap has of it. */
INLINE int mark(struct extent *extent) {
    struct pattern *pattern = map_lookup(&patterns, &extent->place);
    u64 at = extent->at;
    if (!pattern || at >= extent->end)
        return 1;
    struct spot spot = spot_of(at);
    u32 segment = spot.segment, coarser = spot.coarser;
    if (segment >= SEGMENTS) {
        extent->is_lost = 1;
        return 1;
    }
    u64 first = spot.first, bit = spot.bit, last = (extent->end - 1 - first) >> coarser;
    u64 mask = ~0ULL << (bit & 63);
    if (last >> 6 == bit >> 6)
        mask &= ~0ULL >> (63 - (last & 63));
    u32 base = pattern->segments[segment];
    if (!base)
        base = segment_made(extent->place, segment);
    u32 index = base - 1 + (u32)(bit >> 6);
    u64 *word = base == NONE ? 0 : map_lookup(&granules, &index);
    extent->last_log = extent->granule_log + coarser;
    if (!word)
        extent->is_lost = 1;
    else if (mask & ~*word) {
        u64 fresh = mask & ~__sync_fetch_and_or(word, mask);
        extent->fresh_bytes += (u64)__builtin_popcountll(fresh) << extent->last_log;
    }
    extent->at = first + (((bit | 63) + 1) << coarser);
    return extent->at >= extent->end;
}

static long mark_more(u32 index __attribute__((unused)), struct extent *extent) {
    return mark(extent);
}

INLINE u32 pattern_made(u32 *place, u64 start, u64 bytes) {
    u64 fresh = reserve(NEXT_PATTERN, 1);
    u32 fresh_place = fresh < MAX_PATTERNS ? fresh : NONE - 1;
    struct pattern *pattern = map_lookup(&patterns, &fresh_place);
    if (pattern)
        pattern->granule_log = ((start | bytes) & 4095) ? 9 : 12;
    u32 before = __sync_val_compare_and_swap(place, 0, fresh_place + 1);
    return (before ? before : fresh_place + 1) - 1;
}

/* The pattern's place of a session and direction; one that no map has where there is none. */
INLINE u32 pattern_of(struct session *session, u32 kind, u64 start, u64 bytes) {
    u32 *place = kind == READ ? &session->read_pattern : &session->write_pattern;
    return *place ? *place - 1 : pattern_made(place, start, bytes);
}

/* Order: where a call begins beside the one before, whoever made it. Plain stores, as in every vote by majority. */
INLINE void pattern_ordered(struct pattern *pattern, u64 start, u64 end) {
    u32 task = pid_and_tgid();
    if (pattern->task != task) {
        if (pattern->task)
            __sync_fetch_and_add(&pattern->switches, 1);
        pattern->task = task;
    }
    if (__sync_fetch_and_add(&pattern->calls, 1)) {
        if (start == pattern->last_end)
            __sync_fetch_and_add(&pattern->sequential, 1);
        else if (start == ~pattern->not_lowest)
            __sync_fetch_and_add(&pattern->rewinds, 1);
        u64 stride = start - pattern->last_start;
        if (stride == pattern->stride) {
            pattern->stride_lead++;
            pattern->stride_calls++;
        } else if (pattern->stride_lead)
            pattern->stride_lead--;
        else {
            pattern->stride = stride;
            pattern->stride_lead = pattern->stride_calls = 1;
        }
    }
    pattern->last_start = start;
    pattern->last_end = end;
    raise_shared(&pattern->not_lowest, ~start);
    raise_shared(&pattern->highest, end);
}

/* A global function, verified once: a call or a request on `bytes` from `start`. */
__attribute__((noinline)) int pattern_touched(u32 slot, u32 kind, u64 start, u64 bytes) {
    struct session *session = session_at(slot);
    if (!session || !moves_data(kind) || !bytes)
        return 0;
    u32 place = pattern_of(session, kind, start, bytes);
    struct pattern *pattern = map_lookup(&patterns, &place);
    if (!pattern)
        return 0;
    u64 end = start + bytes;
    pattern_ordered(pattern, start, end);
    u32 log = pattern->granule_log & 15;
    int follows = start >> log && is_marked(place, (start >> log) - 1);
    struct extent extent = {.at = start >> log, .end = ((end - 1) >> log) + 1, .place = place, .granule_log = log};
    if (!mark(&extent))
        loop((bytes >> 14) + SEGMENTS, mark_more, &extent, 0);
    if (extent.fresh_bytes == bytes) {
        __sync_fetch_and_add(&pattern->fresh, 1);
        if (follows)
            __sync_fetch_and_add(&pattern->continued, 1);
    }
    if (extent.is_lost)
        __sync_fetch_and_add(&pattern->unsure, 1);
    if (extent.fresh_bytes)
        __sync_fetch_and_add(&pattern->unique_bytes, extent.fresh_bytes);
    else
        __sync_fetch_and_add(&pattern->reused, 1);
    if ((start | end) & ((1ULL << (extent.last_log & 63)) - 1))
        __sync_fetch_and_add(&pattern->unaligned, 1);
    return 0;
}

/* A global function: the offset of a call is not known, or another one than was counted. */
__attribute__((noinline)) int pattern_unsure(u32 slot, u32 kind) {
    struct session *session = session_at(slot);
    if (!session || !moves_data(kind))
        return 0;
    u32 place = pattern_of(session, kind, 0, 0);
    struct pattern *pattern = map_lookup(&patterns, &place);
    if (pattern)
        __sync_fetch_and_add(&pattern->unsure, 1);
    return 0;
}

/* Where the file's own position is. */
INLINE u64 position_of(struct session *session) {
    struct file *file = (struct file *)session->file;
    return FIELD(file, f_pos);
}

/* A global function: a call moved `bytes` and left the file's own position behind them. */
__attribute__((noinline)) int pattern_at_position(u32 slot, u32 kind, u64 bytes) {
    struct session *session = session_at(slot);
    if (session && session->file && session->read_pattern != NONE)
        pattern_touched(slot, kind, position_of(session) - bytes, bytes);
    return 0;
}

/* A global function: a call moved `bytes` at an offset of its own, which a file that is appended to ignores. */
__attribute__((noinline)) int pattern_at_offset(u32 slot, u32 kind, u64 offset, u64 bytes) {
    struct session *session = session_at(slot);
    if (!session)
        return 0;
    if (kind == WRITE && session->flags & O_APPEND) {
        struct inode *inode = (struct inode *)session->inode;
        offset = FIELD(inode, i_size) - bytes;
    }
    pattern_touched(slot, kind, offset, bytes);
    return 0;
}

/* A global function: a request was submitted. */
__attribute__((noinline)) int pattern_submitted(u32 slot, u32 kind, u64 offset, u64 bytes) {
    struct session *session = session_at(slot);
    struct calls *calls = session ? calls_of(session, kind) : 0;
    if (!session || !calls)
        return 0;
    int at_position = offset == ~0ULL;
    if (at_position)
        offset = position_of(session);
    /* Where it will be appended, or where others leave the position before it is carried out. */
    if ((kind == WRITE && session->flags & O_APPEND) || (at_position && calls->calls > calls->completed + 1))
        pattern_unsure(slot, kind);
    pattern_touched(slot, kind, offset, bytes);
    return 0;
}

/* A request ended otherwise than it was counted. */
INLINE void pattern_completed(u32 slot, const struct ended *call) {
    if (moves_data(call->kind) && slot != NONE && call->result != (s64)call->requested_bytes)
        pattern_unsure(slot, call->kind);
}
