/* Rows of moments of io_uring: what was posted to a ring waits until the program took it, which is seen at the next call.
 * That was after the call before, and after the last of those taken was posted.
 */
#pragma once
#include "moments.h"

#define MAX_RINGS 16
#define MAX_PLACES 2048 /* of a ring; what is posted to another round of it was reaped */

/* The head of `cq` is written by the program that reaps. */
struct io_uring {
    u32 head, tail;
} CORE;
struct io_rings {
    struct io_uring sq, cq;
} CORE;
struct io_ring_ctx___rings {
    struct io_rings *rings;
    u32 cached_cq_tail;
} CORE;

struct {
    MAP_FIELD_NUMBER(type, MAP_ARRAY);
    MAP_FIELD_NUMBER(max_entries, MAX_RINGS * MAX_PLACES);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct moments);
} posted SEC(".maps");

/* Numbers from 1 on, by address. */
struct {
    MAP_FIELD_NUMBER(type, MAP_HASH);
    MAP_FIELD_NUMBER(max_entries, MAX_RINGS);
    MAP_FIELD_TYPE(key, u64);
    MAP_FIELD_TYPE(value, u32);
} ring_numbers SEC(".maps");

/* By number, the first completion that was not seen reaped. */
struct {
    MAP_FIELD_NUMBER(type, MAP_ARRAY);
    MAP_FIELD_NUMBER(max_entries, MAX_RINGS + 1);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, u32);
} ring_next SEC(".maps");

INLINE u32 ring_number(u64 address) {
    u32 *known = map_lookup(&ring_numbers, &address);
    if (known)
        return *known;
    u32 fresh = count(NEXT_RING) + 1;
    map_update(&ring_numbers, &address, &fresh, UPDATE_NEW);
    known = map_lookup(&ring_numbers, &address); /* another processor may have been first */
    return known ? *known : 0;
}

/* Where the completion `index` of a ring is kept. */
INLINE struct moments *posted_at(u32 number, u32 index) {
    u32 place = (number - 1) * MAX_PLACES + index % MAX_PLACES;
    return map_lookup(&posted, &place);
}

/* A thread that polls for requests is in no call. */
INLINE u32 ring_submitted(struct task *task, struct io_kiocb *req, u32 row, u32 operation, u64 now) {
    struct account *account = account_made(task);
    if (!account)
        return 0;
    u64 ring = (u64)req->ctx;
    if (account->ring != ring) {
        account->ring_number = ring_number(ring);
        account->ring = ring;
    }
    u64 submitted_ns = account->is_worker || !account->entered_ns ? now : account->entered_ns;
    row = moments_begin(account, task->account, row, operation, submitted_ns);
    struct moments *fresh = moments_at(row);
    if (fresh)
        fresh->ring = account->ring_number;
    return row;
}

INLINE void ring_completed(struct moments *row, u64 ring, u64 request, u64 now) {
    struct account *owner = row && row->submitted_ns ? account_at(row->account) : 0;
    if (!owner)
        return;
    struct account *worker = account_of(followed());
    if (worker && worker->is_worker && worked_on() == request) {
        struct parts parts;
        parts_until(worker, &parts, now);
        for (u32 which = 0; which < PARTS; which++)
            row->parts[which] = parts.ns[which];
        row->parts[SUBMISSION] += span(row->submitted_ns, worker->entered_ns);
        row->started_ns = 0;
        work_begins(worker, now);
    } else if (!row->started_ns)
        moments_until(row, owner, row->submitted_ns == owner->entered_ns, FILE_SYSTEM, now);
    if (!row->started_ns)
        row->waited_ns = waited_until(owner, now);
    row->posted_ns = now;
    u32 tail = FIELD((struct io_ring_ctx___rings *)ring, cached_cq_tail);
    struct moments *copy = row->ring ? posted_at(row->ring, tail - 1) : 0;
    if (copy)
        *copy = *row;
    else
        count(UNEXPLAINED);
    row->submitted_ns = 0;
}
