/* Who is watched: a task has storage if it was started by one that has; the loader gives it to the root.
 *
 * task_newtask covers what sched_process_fork leaves out: the worker threads of io_uring (iou-wrk, iou-sqp), which the
 * kernel starts itself, in the context of the task that submits.
 */
#pragma once
#include "calls.h"

/* A task: the call it is in, and the file that it used last. */
struct task {
    u64 entered_ns, requested_bytes;
    u32 operation, shape;
    u32 slot, other_slot; /* the sessions of the call, NONE where there is none */
    u32 is_first, other_is_first;
    u64 last_file; /* what the last call used, and its session: the usual call needs no look-up */
    u32 last_slot, written; /* and the session that it wrote to since its last synchronisation, and 1 */
    u64 account; /* of the layer that explains, 0 for none */
    u64 returned_ns; /* from its last watched call, or when it was first seen */
    u64 outer_ns;    /* when the outer interval began that its next call ends, 0 where there is none */
    u64 outer_kind;
};

struct {
    MAP_FIELD_NUMBER(type, MAP_TASK_STORAGE);
    MAP_FIELD_NUMBER(map_flags, MAP_NO_PREALLOC);
    MAP_FIELD_TYPE(key, int);
    MAP_FIELD_TYPE(value, struct task);
} tasks SEC(".maps");

/* What programs.h tells of, and the ends of processes. */
struct {
    MAP_FIELD_NUMBER(type, MAP_RINGBUF);
    MAP_FIELD_NUMBER(max_entries, 2097152);
} programs SEC(".maps");

INLINE struct task *followed(void) {
    return task_storage_get(&tasks, current_task(), 0, 0);
}

#define CLONE_THREAD 0x10000 /* include/uapi/linux/sched.h */

SEC("tp_btf/task_newtask")
int tree_newtask(u64 *ctx) {
    if (!followed())
        return 0;
    if (!task_storage_get(&tasks, (struct task_struct *)ctx[0], 0, STORAGE_CREATE)) {
        count(LOST);
        return 0;
    }
    count(PROCESSES);
    if (ctx[1] & CLONE_THREAD)
        count(THREADS);
    u64 alive = count(ALIVE) + 1;
    u32 place = MOST_ALIVE;
    u64 *most = map_lookup(&health, &place);
    if (most)
        raise_shared(most, alive);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int tree_exit(void *ctx __attribute__((unused))) {
    struct task_struct *task = current_task();
    u32 place = ALIVE;
    u64 *alive = followed() ? map_lookup(&health, &place) : 0;
    if (!alive)
        return 0;
    __sync_fetch_and_add(alive, -1ULL);
    u64 end[PROGRAM_EVENT_BYTES / 8] = {now_ns(), task->tgid};
    if (task->pid == task->tgid && ring_output(&programs, end, sizeof(end), RING_NO_WAKEUP))
        count(UNNAMED);
    return 0;
}
