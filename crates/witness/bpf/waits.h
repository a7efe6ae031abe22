/* What keeps a task from running: an account, kept at each switch and wake-up of a task that reads or writes.
 *
 * Whoever wakes a task says what it waited for. The completion of a block request is a bracket on its processor, from
 * block_rq_complete to block_io_done; a thread that commits a journal is known by its commits.
 */
#pragma once
#include "parts.h"

#define MAX_ACCOUNTS 8192 /* the last one is the loader's own, src/entry_exit.rs */
#define RECENT_NS 50000  /* a bracket that was left open is over by then */
#define LEAVING_NS 10000 /* a switch this soon after a call is on the way out of the kernel */
#define RACE_NS 5000     /* a wake-up may come before the switch that it ends is seen */
#define AWAKE_NS 200000  /* a processor wakes within it; one that does not is throttled, or its host's machine is busy */

enum state { RUNNING, WAITING, BLOCKED };

struct account {
    u64 changed_ns;         /* since when it is in its state */
    u64 total[PARTS];       /* what it waited for, ever */
    u64 contended_ns;       /* since when it wants a lock */
    u64 woken_ns;           /* a wake-up that came while it ran */
    u64 resumed_ns;         /* when it got its processor, or entered the call */
    u64 entered_ns, returned_ns, left_ns;
    u64 exit_ns;            /* what the program at the exit took after `returned_ns`, of a call that ended operations */
    u64 done_started_ns, done_issued_ns, done_ns; /* its last request to complete */
    /* The call that it is in. */
    u64 begun[PARTS];       /* `total` at its entry */
    u64 running_ns;         /* on a processor, and not yet a part */
    /* The one that ended last: what happens on its way out of the kernel is put right. */
    u64 last_number, last_waited_ns, last_total_ns;
    u64 batch, batch_number, batch_next;
    u64 ring;
    u32 state, operation;   /* index and 1; of a worker not 0 */
    u32 last_class, completions;
    u32 is_served, ring_number;
    u32 current;            /* row of the request of libaio or io_uring that is submitted or worked on */
    u32 is_worker, is_idle; /* a thread of io_uring */
    u32 is_woken;
};

/* A request that was completed. */
struct completed {
    u64 started_ns, issued_ns, done_ns;
    u32 account, is_journal;
};

struct {
    MAP_FIELD_NUMBER(type, MAP_ARRAY);
    MAP_FIELD_NUMBER(max_entries, MAX_ACCOUNTS);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct account);
} accounts SEC(".maps");

/* Threads that commit journals. */
struct {
    MAP_FIELD_NUMBER(type, MAP_LRU_HASH);
    MAP_FIELD_NUMBER(max_entries, 256);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, u32);
} journal_threads SEC(".maps");

/* The request that this processor completes. */
struct {
    MAP_FIELD_NUMBER(type, MAP_PERCPU_ARRAY);
    MAP_FIELD_NUMBER(max_entries, 1);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct completed);
} completing SEC(".maps");

INLINE struct account *account_at(u32 slot) {
    return slot ? map_lookup(&accounts, &slot) : 0;
}

INLINE struct account *account_of(struct task *task) {
    return task ? account_at(task->account) : 0;
}

INLINE struct account *account_made(struct task *task) {
    if (!task->account) {
        u64 slot = count(NEXT_ACCOUNT) + 1;
        if (slot >= MAX_ACCOUNTS - 1) {
            count(UNEXPLAINED);
            return 0;
        }
        task->account = slot;
    }
    return account_at(task->account);
}

INLINE u64 later(u64 one, u64 other) {
    return one > other ? one : other;
}

INLINE u64 span(u64 from, u64 to) {
    return to > from ? to - from : 0;
}

INLINE void charge(struct account *account, u32 which, u64 took_ns) {
    account->total[which] += took_ns;
}

/* While its request was with the queue or the device the task still ran for a moment: that is no time of its own. */
INLINE u64 take_running(struct account *account, u64 from_ns, u64 to_ns) {
    u64 took_ns = span(later(from_ns, account->resumed_ns), to_ns);
    if (took_ns > account->running_ns)
        took_ns = account->running_ns;
    account->running_ns -= took_ns;
    return took_ns;
}

/* Blocked since `changed_ns` until a request was completed at `now`. */
INLINE void charge_request(struct account *account, u64 started_ns, u64 issued_ns, u64 now) {
    u64 from_ns = account->changed_ns;
    if (!issued_ns)
        issued_ns = started_ns;
    charge(account, DEVICE, take_running(account, issued_ns, from_ns));
    charge(account, QUEUE, take_running(account, started_ns, issued_ns < from_ns ? issued_ns : from_ns));
    u64 in_device_ns = span(later(from_ns, issued_ns), now);
    u64 in_queue_ns = span(later(from_ns, started_ns), now) - in_device_ns;
    charge(account, DEVICE, in_device_ns);
    charge(account, QUEUE, in_queue_ns);
    charge(account, FILE_SYSTEM, span(from_ns, now) - in_device_ns - in_queue_ns);
    account->completions++;
    account->done_ns = 0;
}

/* What a call or a work was made of until `now`. */
INLINE void parts_until(struct account *account, struct parts *parts, u64 now) {
    account->running_ns += span(account->changed_ns, now);
    account->changed_ns = now;
    if (account->done_ns > account->resumed_ns) /* it completed before the task was blocked, or while it polled */
        charge_request(account, account->done_started_ns, account->done_issued_ns, now);
    for (u32 which = 0; which < PARTS; which++)
        parts->ns[which] = account->total[which] - account->begun[which];
    parts->ns[account->completions ? COMPLETION : FILE_SYSTEM] += account->running_ns;
}

INLINE void account_begins(struct account *account, u64 now) {
    for (u32 which = 0; which < PARTS; which++)
        account->begun[which] = account->total[which];
    account->changed_ns = account->resumed_ns = now;
    account->running_ns = account->done_ns = account->contended_ns = 0;
    account->completions = account->is_served = 0;
}

INLINE int is_journal_thread(void) {
    u32 task = pid_and_tgid();
    return map_lookup(&journal_threads, &task) != 0;
}

/* What a task was blocked for, as who wakes it knows. A static function: verified where it is called. */
static __attribute__((noinline)) int charge_blocked(struct account *account, u32 slot, u64 now) {
    u32 zero = 0;
    struct completed *request = map_lookup(&completing, &zero);
    int completes = request && request->done_ns && now - request->done_ns < RECENT_NS;
    if (account->contended_ns)
        return 0; /* is charged as a whole at its end */
    if (completes && request->account == slot)
        charge_request(account, request->started_ns, request->issued_ns, now);
    else if (completes ? request->is_journal : is_journal_thread())
        charge(account, JOURNAL, span(account->changed_ns, now));
    else if (completes)
        charge_request(account, request->started_ns, request->issued_ns, now);
    else if (account->is_served)
        charge(account, DEVICE, span(account->changed_ns, now));
    else if (account->done_ns >= account->changed_ns && account->done_ns) {
        charge(account, COMPLETION, span(account->done_ns, now));
        charge_request(account, account->done_started_ns, account->done_issued_ns, account->done_ns);
    } else
        charge(account, FILE_SYSTEM, span(account->changed_ns, now));
    account->is_served = 0;
    return 0;
}

/* Threads of io_uring */

#define IO_WORKER 0x10 /* PF_IO_WORKER, include/linux/sched.h */

struct io_wq_work {
    u32 flags;
} CORE;
struct io_worker {
    struct io_wq_work *cur_work;
} CORE;
struct task_struct___worker {
    u32 flags;
    void *worker_private;
} CORE;
struct io_kiocb___work {
    struct io_wq_work work;
} CORE;

/* The request that the running worker is at; 0 where it is idle, and of a thread that polls for requests. */
INLINE u64 worked_on(void) {
    struct io_worker *worker = FIELD((struct task_struct___worker *)current_task(), worker_private);
    u64 work = worker ? (u64)FIELD(worker, cur_work) : 0;
    struct io_kiocb___work *none = 0;
    return work ? work - __builtin_preserve_field_info(none->work, 0) : 0;
}

INLINE void work_begins(struct account *account, u64 now) {
    account_begins(account, now);
    account->entered_ns = now;
    account->operation = 1;
    account->current = 0;
}

SEC("tp_btf/task_newtask")
int explain_worker(u64 *ctx) {
    if (!(((struct task_struct___worker *)ctx[0])->flags & IO_WORKER))
        return 0;
    struct task *task = task_storage_get(&tasks, (struct task_struct *)ctx[0], 0, 0);
    struct account *account = task ? account_made(task) : 0;
    if (!account)
        return 0;
    account->is_worker = 1;
    account->state = WAITING;
    work_begins(account, now_ns());
    return 0;
}

SEC("tp_btf/sched_waking")
int explain_waking(u64 *ctx) {
    struct task *task = task_storage_get(&tasks, (struct task_struct *)ctx[0], 0, 0);
    struct account *account = account_of(task);
    if (!account)
        return 0;
    u64 now = now_ns();
    if (account->state == BLOCKED) {
        if (account->is_idle)
            work_begins(account, now);
        else
            charge_blocked(account, task->account, now);
        account->state = WAITING;
        account->is_woken = 1;
        account->changed_ns = now;
    } else if (account->state == RUNNING)
        account->woken_ns = now;
    return 0;
}

INLINE void switched_out(struct account *account, u32 is_blocked, u64 now) {
    if (account->operation && !account->contended_ns)
        account->running_ns += span(account->changed_ns, now);
    account->state = is_blocked && now - account->woken_ns > RACE_NS ? BLOCKED : WAITING;
    account->changed_ns = now;
    account->is_woken = 0;
    account->is_idle = account->is_worker && !worked_on();
}

/* Who is woken on a processor that had nothing to do waits until that has woken as well: for no other task. */
INLINE u32 waits_for(struct account *account, struct task_struct *before, u64 waited_ns) {
    if (account->state != WAITING)
        return FILE_SYSTEM;
    if (!account->is_woken || before->pid || waited_ns > AWAKE_NS)
        return PROCESSOR;
    return account->is_idle ? SUBMISSION : account->completions ? COMPLETION : FILE_SYSTEM;
}

INLINE void switched_in(struct account *account, struct task_struct *before, u64 now) {
    if (account->state == RUNNING)
        return;
    u64 waited_ns = span(account->changed_ns, now);
    if (!account->contended_ns)
        charge(account, waits_for(account, before, waited_ns), waited_ns);
    if (account->left_ns && account->state == WAITING && span(account->left_ns, account->changed_ns) < LEAVING_NS) {
        if (account->last_number) {
            part_raise(account->last_class, PROCESSOR, account->last_number, account->last_waited_ns, waited_ns);
            part_raise(account->last_class, PARTS, account->last_number, account->last_total_ns, waited_ns);
            account->last_waited_ns += waited_ns;
            account->last_total_ns += waited_ns;
        }
        account->left_ns = account->returned_ns = now;
    }
    account->state = RUNNING;
    account->woken_ns = 0;
    account->changed_ns = account->resumed_ns = now;
}

SEC("tp_btf/sched_switch")
int explain_switch(u64 *ctx) {
    struct account *before = account_of(task_storage_get(&tasks, (struct task_struct *)ctx[1], 0, 0));
    struct account *after = account_of(task_storage_get(&tasks, (struct task_struct *)ctx[2], 0, 0));
    if (before)
        switched_out(before, !ctx[0] && (u32)ctx[3], now_ns());
    if (after)
        switched_in(after, (struct task_struct *)ctx[1], now_ns());
    return 0;
}

/* Locks of the kernel that somebody else holds: from the wish to the possession, whatever the task does meanwhile. */
SEC("tp_btf/contention_begin")
int explain_contention(void *ctx __attribute__((unused))) {
    struct account *account = account_of(followed());
    if (!account || account->contended_ns || account->state != RUNNING)
        return 0;
    u64 now = now_ns();
    if (account->operation)
        account->running_ns += span(account->changed_ns, now);
    account->contended_ns = account->changed_ns = now;
    return 0;
}

SEC("tp_btf/contention_end")
int explain_possession(void *ctx __attribute__((unused))) {
    struct account *account = account_of(followed());
    if (!account || !account->contended_ns)
        return 0;
    u64 now = now_ns();
    charge(account, LOCK, span(account->contended_ns, now));
    account->contended_ns = 0;
    account->changed_ns = account->resumed_ns = now;
    return 0;
}

SEC("tp_btf/jbd2_start_commit")
int explain_commit(void *ctx __attribute__((unused))) {
    u32 task = pid_and_tgid(), yes = 1;
    map_update(&journal_threads, &task, &yes, UPDATE_ANY);
    return 0;
}

/* A request to the server of a filesystem: that is its device. */
SEC("tp_btf/fuse_request_send")
int explain_served(void *ctx __attribute__((unused))) {
    struct account *account = account_of(followed());
    if (account)
        account->is_served = 1;
    return 0;
}
