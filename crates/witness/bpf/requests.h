/* What block requests add to accounts and to moments. */
#pragma once
#include "aio.h"
#include "uring.h"

INLINE u32 row_of_iocb(u64 address) {
    struct aio_key key = {address, pid_and_tgid() >> 32};
    struct submitted *request = map_lookup(&aio_requests, &key);
    return request ? request->row : 0;
}

/* The request that a block request of the running task is for. */
INLINE u32 row_in_use(struct account *account, u64 now) {
    u64 address = account->is_worker ? worked_on() : 0;
    struct uring_request *request = address ? map_lookup(&uring_requests, &address) : 0;
    if (request) {
        if (account->current && account->current != request->row)
            work_begins(account, now); /* the one before was left to the device */
        return account->current = request->row;
    }
    if (account->current || account->batch_next >= account->batch_number)
        return account->current;
    read_user(&address, sizeof(address), (void *)(account->batch + account->batch_next++ * 8));
    return row_of_iocb(address);
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
    if (account->operation && !account->contended_ns) {
        charge(account, SUBMISSION, account->running_ns + span(account->changed_ns, now));
        account->running_ns = 0;
        account->changed_ns = account->resumed_ns = now;
    }
    if (account->operation && !account->is_worker)
        return;
    entry->row = row_in_use(account, now);
    struct moments *row = moments_at(entry->row);
    struct account *owner = row && !row->started_ns ? account_at(row->account) : 0;
    if (!owner)
        return;
    if (account->is_worker)
        moments_until(row, account, row->submitted_ns <= account->entered_ns, SUBMISSION, now);
    else
        moments_until(row, owner, row->submitted_ns == owner->entered_ns, SUBMISSION, now);
    row->started_ns = now;
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
    struct moments *row = moments_at(entry->row);
    struct account *owner = row && row->started_ns ? account_at(row->account) : 0;
    if (!owner)
        return;
    row->issued_ns = entry->dispatched_ns;
    row->done_ns = now;
    row->waited_ns = waited_until(owner, now);
}
