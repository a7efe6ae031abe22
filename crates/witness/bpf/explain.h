/* Where the time of calls on files goes: each is cut into parts that sum to it.
 *
 * A call that waits for its data is the difference of its task's account between its entry and its exit. A request of
 * libaio or io_uring is a row of moments, and the account of who submits it or works on it.
 */
#pragma once
#include "block.h"
#include "syscalls.h"

#define URING_ENTER 426 /* on all architectures */

struct aio_result {
    u64 obj;
} CORE;
struct aio_kiocb {
    struct aio_result ki_res;
} CORE;

/* Whoever is woken from here on is not woken by the request. */
SEC("tp_btf/block_io_done")
int explain_done(void *ctx __attribute__((unused))) {
    u32 zero = 0;
    struct completed *here = map_lookup(&completing, &zero);
    if (here)
        here->done_ns = 0;
    return 0;
}

/* Which request of the batch a direct transfer is for: the kernel's struct of it has the address of its iocb. */
SEC("tp_btf/iomap_dio_rw_begin")
int explain_direct(u64 *ctx) {
    struct account *account = account_of(followed());
    if (!account || account->batch_number < 2)
        return 0; /* one alone is known */
    struct aio_kiocb *request = (struct aio_kiocb *)ctx[0];
    account->current = row_of_iocb(FIELD(request, ki_res.obj));
    return 0;
}

struct popping {
    u64 returned_ns, waited_ns;
    u32 number, first, account;
};

static long explain_pop(u32 index, struct popping *popping) {
    struct moments *row = posted_at(popping->number, popping->first + index);
    if (row)
        moments_end(row, popping->returned_ns, row->account == popping->account ? popping->waited_ns : 0);
    return 0;
}

/* What the program took from the ring since the last look. */
INLINE void explain_reaped(struct account *account, u32 slot) {
    u32 number = account->ring_number;
    u32 *next = map_lookup(&ring_next, &number);
    struct io_ring_ctx___rings *ring = (struct io_ring_ctx___rings *)account->ring;
    struct io_rings *rings = number && next ? FIELD(ring, rings) : 0;
    if (!rings)
        return;
    struct popping popping = {account->returned_ns, account->total[PROCESSOR], number, *next, slot};
    u32 head = FIELD(rings, cq.head), taken = head - *next;
    *next = head;
    if (!taken || taken > MAX_PLACES)
        return;
    struct moments *last = posted_at(number, head - 1);
    if (last && last->submitted_ns)
        popping.returned_ns = later(popping.returned_ns, last->posted_ns);
    loop(taken, explain_pop, &popping, 0);
}

SEC("tp_btf/sys_enter")
int explain_enter(u64 *ctx) {
    struct task *task = followed();
    if (!task)
        return 0;
    struct pt_regs *regs = (struct pt_regs *)ctx[0];
    struct entry entry = call_entered(task, regs, ctx[1]);
    int waits = waits_for_data(task, entry);
    struct account *account = waits ? account_made(task) : account_of(task);
    if (!account)
        return 0;
    account->left_ns = account->last_number = 0;
    if (waits) {
        account->operation = entry.operation + 1;
        account->entered_ns = task->entered_ns;
    } else if (entry.shape == IO_SUBMIT) {
        account->entered_ns = task->entered_ns;
        account->batch = ARG2(regs);
        account->batch_number = ARG1(regs);
        account->batch_next = 0;
        if (account->batch_number > 1)
            account->current = 0; /* which one is known when its transfer begins */
    } else if (ctx[1] == URING_ENTER) {
        account->entered_ns = now_ns();
        explain_reaped(account, task->account);
    } else
        return 0;
    account->state = RUNNING;
    account_begins(account, account->entered_ns);
    return 0;
}

INLINE void call_ends(struct account *account, u64 now) {
    struct parts parts;
    parts_until(account, &parts, now);
    account->last_total_ns = 0;
    for (u32 which = 0; which < PARTS; which++)
        account->last_total_ns += parts.ns[which];
    account->last_class = parts_add(account->operation - 1, &parts);
    account->last_number = account->last_class < MAX_EXPLAINED;
    account->last_waited_ns = parts.ns[PROCESSOR];
}

SEC("tp_btf/sys_exit")
int explain_exit(u64 *ctx) {
    struct task *task = followed();
    if (!task)
        return 0;
    u64 now = call_left(task, ctx);
    struct account *account = account_of(task);
    if (!account)
        return 0;
    if (!now)
        now = now_ns();
    if (account->operation && !is_restarted(ctx[1]))
        call_ends(account, now);
    account->left_ns = account->returned_ns = now;
    account->current = account->operation = 0;
    account->batch_number = account->entered_ns = 0;
    account->exit_ns = 0;
    if (account->last_number) {
        account->exit_ns = span(now, now_ns());
        part_add(account->last_class, OBSERVER, account->last_number, account->exit_ns);
    }
    return 0;
}
