/* Requests of libaio and io_uring as rows of moments, and what block requests add to these and to accounts. */
#pragma once
#include "waits.h"

#define MAX_MOMENTS 16384
#define IO_WORKER 0x10 /* PF_IO_WORKER, include/linux/sched.h */

/* Whether the layer is loaded: the programs of block requests then keep its accounts as well. */
volatile const u32 explaining = 0;

struct io_wq_work;
struct io_worker {
    struct io_wq_work *cur_work;
} CORE;
struct task_struct___worker {
    u32 flags;
    void *worker_private;
} CORE;
struct io_wq_work {
    u32 flags;
} CORE;
struct io_kiocb___work {
    struct io_wq_work work;
} CORE;
struct moments {
    u64 submitted_ns, started_ns, issued_ns, done_ns, posted_ns;
    u64 waited_ns;    /* of the account, at `done_ns` or else at `posted_ns` */
    u64 parts[PARTS]; /* until `started_ns`, or else until `posted_ns` */
    u32 account, operation;
};

struct {
    MAP_FIELD_NUMBER(type, MAP_HASH);
    MAP_FIELD_NUMBER(max_entries, MAX_MOMENTS);
    MAP_FIELD_TYPE(key, u64);
    MAP_FIELD_TYPE(value, struct moments);
} moments SEC(".maps");

/* The request of io_uring that one of its workers is at. */
INLINE u64 worked_on(void) {
    struct task_struct___worker *task = (struct task_struct___worker *)current_task();
    if (!(FIELD(task, flags) & IO_WORKER))
        return 0;
    struct io_worker *worker = FIELD(task, worker_private);
    u64 work = worker ? (u64)FIELD(worker, cur_work) : 0;
    struct io_kiocb___work *none = 0;
    return work ? work - __builtin_preserve_field_info(none->work, 0) : 0;
}

/* An iocb of a process: its address, which has 47 bits. */
INLINE u64 iocb_key(u64 address) {
    return address ^ (pid_and_tgid() >> 32) << 42;
}

INLINE u64 batch_key(struct account *account, u64 index) {
    u64 address = 0;
    read_user(&address, sizeof(address), (void *)(account->batch + index * 8));
    return iocb_key(address);
}

/* What kept the submitter from it in the call in which it was submitted; the rest is `rest`. */
INLINE void moments_until(struct moments *row, u32 rest, u64 now) {
    struct account *account = account_at(row->account);
    u64 rest_ns = span(row->submitted_ns, now);
    if (!account)
        return;
    for (u32 which = 0; which < PARTS; which++) {
        u64 took_ns = row->submitted_ns == account->entered_ns ? account->total[which] - account->begun[which] : 0;
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

/* A block request is made. */
INLINE void request_started(struct inflight *entry) {
    struct task *task = followed();
    struct account *account = account_of(task);
    if (!account) {
        entry->is_journal = is_journal_thread();
        return;
    }
    u64 now = entry->start_ns;
    entry->account = task->account;
    if (account->operation) {
        if (!account->contended_ns) {
            charge(account, SUBMISSION, account->running_ns + span(account->changed_ns, now));
            account->running_ns = 0;
            account->changed_ns = account->resumed_ns = now;
        }
        return;
    }
    entry->key = account->current;
    if (!entry->key && account->batch_next < account->batch_number)
        entry->key = batch_key(account, account->batch_next++);
    if (!entry->key)
        entry->key = worked_on();
    struct moments *row = entry->key ? map_lookup(&moments, &entry->key) : 0;
    if (row && !row->started_ns) {
        moments_until(row, SUBMISSION, now);
        row->started_ns = now;
    }
}

INLINE void request_completed(struct inflight *entry, u64 now) {
    u32 zero = 0;
    struct completed *here = map_lookup(&completing, &zero);
    if (here) {
        here->started_ns = entry->start_ns;
        here->issued_ns = entry->dispatched_ns;
        here->account = entry->account;
        here->is_journal = entry->is_journal;
        here->done_ns = now;
    }
    struct account *account = account_at(entry->account);
    if (!account)
        return;
    account->done_started_ns = entry->start_ns;
    account->done_issued_ns = entry->dispatched_ns;
    account->done_ns = now;
    struct moments *row = entry->key ? map_lookup(&moments, &entry->key) : 0;
    if (row && row->started_ns) {
        row->issued_ns = entry->dispatched_ns;
        row->done_ns = now;
        struct account *owner = account_at(row->account);
        row->waited_ns = owner ? waited_until(owner, now) : 0;
    }
}
