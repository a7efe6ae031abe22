/* A listing of calls on files, in the order in which they end: what strace shows of each, without its data. Through a
 * ring of its own that wakes nobody; what finds no room is counted, and nothing else suffers.
 */
#pragma once
#include "sessions.h"

volatile const u32 listing = 0;

/* Requests that are no calls of their own, behind all numbers of calls: aio and io_uring by their opcodes. */
#define LISTED_AIO 0x10000
#define LISTED_URING 0x20000

struct listed {
    u64 entered_ns, took_ns;
    s64 result;
    u64 arguments[5];
    u64 requested_bytes;
    u32 task, number;
    u32 slot, other_slot;
};

/* A call that names a file by its path. */
struct listed_path {
    struct listed call;
    char path[PATH_BYTES];
};

struct {
    MAP_FIELD_NUMBER(type, MAP_RINGBUF);
    MAP_FIELD_NUMBER(max_entries, 33554432);
} listing_ring SEC(".maps");

INLINE void *listing_reserve(u64 bytes) {
    void *event = ring_reserve(&listing_ring, bytes, 0);
    if (!event)
        count(UNLISTED);
    return event;
}

INLINE void list_fill(struct listed *event, struct pt_regs *regs, u64 number, const struct ended *call) {
    event->entered_ns = call->entered_ns;
    event->took_ns = call->left_ns - call->entered_ns;
    event->result = call->result;
    event->arguments[0] = ARG0(regs);
    event->arguments[1] = ARG1(regs);
    event->arguments[2] = ARG2(regs);
    event->arguments[3] = ARG3(regs);
    event->arguments[4] = ARG4(regs);
    event->requested_bytes = call->requested_bytes;
    event->task = (u32)pid_and_tgid();
    event->number = number;
}

INLINE void list_call(struct task *task, struct pt_regs *regs, u64 number, const struct ended *call) {
    struct listed *event = listing_reserve(sizeof(*event));
    if (!event)
        return;
    list_fill(event, regs, number, call);
    event->slot = task->slot;
    event->other_slot = task->other_slot;
    ring_submit(event, RING_NO_WAKEUP);
}

INLINE void list_opening(struct task *task, struct pt_regs *regs, u64 number, u64 path, const struct ended *call) {
    struct listed_path *event = listing_reserve(sizeof(*event));
    if (!event)
        return;
    list_fill(&event->call, regs, number, call);
    event->call.slot = call->result < 0 ? NONE : task->last_slot;
    event->call.other_slot = NONE;
    event->path[0] = 0;
    read_user_text(event->path, PATH_BYTES, (void *)path);
    ring_submit(event, RING_NO_WAKEUP);
}

/* A request that is submitted; how it ends is in the counts. */
INLINE void list_request(u64 at_ns, u32 number, u32 slot, u32 fd, u64 bytes, u64 offset) {
    struct listed *event = listing_reserve(sizeof(*event));
    if (!event)
        return;
    event->entered_ns = at_ns;
    event->took_ns = 0;
    event->result = 0;
    event->arguments[0] = fd;
    event->arguments[1] = 0;
    event->arguments[2] = bytes;
    event->arguments[3] = offset;
    event->arguments[4] = 0;
    event->requested_bytes = bytes;
    event->task = (u32)pid_and_tgid();
    event->number = number;
    event->slot = slot;
    event->other_slot = NONE;
    ring_submit(event, RING_NO_WAKEUP);
}
