/* Requests of libaio and io_uring as rows of moments: submitted, first block request made, issued, completed, posted, reaped.
 * A row belongs to the place of the request (its iocb, the kernel's struct of it), which is used again.
 */
#pragma once
#include "waits.h"

#define MAX_MOMENTS 16384

/* Whether the layer is loaded: the programs of requests then keep its rows as well. */
volatile const u32 explaining = 0;

struct moments {
    u64 submitted_ns, started_ns, issued_ns, done_ns, posted_ns;
    u64 waited_ns;    /* of the account, at `done_ns` or else at `posted_ns`; before, at the submission */
    u64 parts[PARTS]; /* until `started_ns`, or else until `posted_ns` */
    u32 account, operation;
    u64 ring; /* of io_uring, its number */
};

struct {
    MAP_FIELD_NUMBER(type, MAP_ARRAY);
    MAP_FIELD_NUMBER(max_entries, MAX_MOMENTS);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct moments);
} moments SEC(".maps");

INLINE struct moments *moments_at(u32 row) {
    return row ? map_lookup(&moments, &row) : 0;
}

/* The row of a request that the running task submits, in place of what it last was about; 0 where there is no room. */
INLINE u32 moments_begin(struct account *account, u32 slot, u32 row, u32 operation, u64 submitted_ns) {
    if (!row)
        row = count(NEXT_MOMENTS) + 1;
    struct moments *fresh = moments_at(row);
    if (!fresh) {
        count(UNEXPLAINED);
        return 0;
    }
    *fresh = (struct moments){
        .submitted_ns = submitted_ns, .waited_ns = account->total[PROCESSOR], .account = slot, .operation = operation,
    };
    account->current = row;
    return row;
}

/* Until `now`: what kept `account` from it in its call or work, if that is the one, and the rest as `rest`. */
INLINE void moments_until(struct moments *row, struct account *account, u32 is_within, u32 rest, u64 now) {
    u64 rest_ns = span(row->submitted_ns, now);
    for (u32 which = 0; which < PARTS; which++) {
        u64 took_ns = is_within ? account->total[which] - account->begun[which] : 0;
        if (took_ns > rest_ns)
            took_ns = rest_ns;
        row->parts[which] = took_ns;
        rest_ns -= took_ns;
    }
    row->parts[rest] += rest_ns;
}

INLINE u64 waited_until(struct account *account, u64 now) {
    return account->total[PROCESSOR] + (account->state == WAITING ? span(account->changed_ns, now) : 0);
}

/* A global function: counts a request that was reaped at `reaped_ns`. Class, NONE where it has none. */
__attribute__((noinline)) u32 moments_end(struct moments *row, u64 reaped_ns, u64 waited_ns) {
    if (!row || !row->submitted_ns)
        return NONE;
    struct parts parts = {};
    for (u32 which = 0; which < PARTS; which++)
        parts.ns[which] = row->parts[which];
    u64 known_ns = row->posted_ns ? row->posted_ns : reaped_ns;
    if (row->started_ns) {
        u64 issued_ns = later(row->issued_ns, row->started_ns);
        known_ns = row->done_ns ? row->done_ns : known_ns; /* where the completion was not seen it is the device's */
        parts.ns[QUEUE] += issued_ns - row->started_ns;
        parts.ns[DEVICE] += span(issued_ns, known_ns);
    }
    u64 rest_ns = span(known_ns, reaped_ns);
    u64 processor_ns = row->waited_ns ? span(row->waited_ns, waited_ns) : 0;
    if (processor_ns > rest_ns)
        processor_ns = rest_ns;
    parts.ns[PROCESSOR] += processor_ns;
    parts.ns[COMPLETION] += rest_ns - processor_ns;
    row->submitted_ns = 0;
    row->parts[PROCESSOR] = parts.ns[PROCESSOR];
    return parts_add(row->operation, &parts);
}

/* A completion of libaio is given to its program. */
INLINE void moments_reaped(struct moments *row, u32 slot, u64 now) {
    struct account *owner = row && row->submitted_ns ? account_at(row->account) : 0;
    if (!owner)
        return;
    if (!row->started_ns) {
        /* Served by memory while it was submitted, in a call that is over. */
        u64 waited_ns = slot == row->account ? span(row->waited_ns, owner->total[PROCESSOR]) : 0;
        moments_until(row, owner, 0, FILE_SYSTEM, now);
        if (waited_ns > row->parts[FILE_SYSTEM])
            waited_ns = row->parts[FILE_SYSTEM];
        row->parts[FILE_SYSTEM] -= waited_ns;
        row->parts[PROCESSOR] += waited_ns;
    }
    struct account *reaper = account_at(slot);
    u64 total_ns = now - row->submitted_ns;
    u32 class = moments_end(row, now, slot == row->account ? owner->total[PROCESSOR] : 0);
    if (!reaper || class >= MAX_EXPLAINED)
        return;
    reaper->last_class = class;
    reaper->last_number++;
    reaper->last_waited_ns = row->parts[PROCESSOR];
    reaper->last_total_ns = total_ns;
}
