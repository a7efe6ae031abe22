/* Where the time of calls on files goes: each is cut into parts that sum to it.
 *
 * A call that waits for its data is the difference of its task's account between its entry and its exit. A request of
 * libaio or io_uring is a row of moments (submitted, first block request made, issued, completed, posted, reaped) with
 * the account of who submitted it. When a completion was taken from the ring of an io_uring is seen at the next call: it
 * was after the call before, and after the last of those taken was posted.
 */
#pragma once
#include "block.h"
#include "syscalls.h"
#include "uring.h"

#define MAX_RINGS 16
#define MAX_PLACES 2048 /* of a ring; what is posted to another round of it was reaped */
#define URING_ENTER 426 /* on all architectures */

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
struct aio_result {
    u64 obj;
} CORE;
struct aio_kiocb {
    struct aio_result ki_res;
} CORE;

struct ring_seen {
    u32 number; /* its place and 1 */
    u32 next;   /* the first completion that was not seen reaped */
};

struct {
    MAP_FIELD_NUMBER(type, MAP_ARRAY);
    MAP_FIELD_NUMBER(max_entries, MAX_RINGS * MAX_PLACES);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct moments);
} posted SEC(".maps");

struct {
    MAP_FIELD_NUMBER(type, MAP_HASH);
    MAP_FIELD_NUMBER(max_entries, MAX_RINGS);
    MAP_FIELD_TYPE(key, u64);
    MAP_FIELD_TYPE(value, struct ring_seen);
} rings_seen SEC(".maps");

/* Whoever is woken from here on is not woken by the request. */
SEC("tp_btf/block_io_done")
int explain_done(void *ctx __attribute__((unused))) {
    u32 zero = 0;
    struct completed *here = map_lookup(&completing, &zero);
    if (here)
        here->done_ns = 0;
    return 0;
}

/* Requests of libaio and io_uring */

INLINE void moments_begin(u64 key, u32 account, u32 operation, u64 submitted_ns) {
    struct moments fresh = {.submitted_ns = submitted_ns, .account = account, .operation = operation};
    struct moments *old = map_lookup(&moments, &key);
    if (old)
        *old = fresh;
    else if (map_update(&moments, &key, &fresh, UPDATE_ANY))
        count(UNEXPLAINED);
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
    for (u32 which = 0; which < PARTS; which++)
        row->parts[which] = parts.ns[which];
    return parts_add(row->operation, &parts);
}

static long explain_submit_one(u32 index, u32 *slot) {
    struct account *account = account_at(*slot);
    u64 address = 0;
    struct iocb iocb = {};
    if (!account || read_user(&address, sizeof(address), (void *)(account->batch + index * 8ULL)) ||
        read_user(&iocb, 24, (void *)address))
        return 1;
    u32 operation = aio_operation + short_kind(aio_kind(iocb.opcode));
    moments_begin(iocb_key(address), *slot, operation, account->entered_ns);
    return 0;
}

struct reaping {
    u64 array, at_ns, number, waited_ns, total_ns;
    u32 slot, class;
};

static long explain_reap_one(u32 index, struct reaping *reaping) {
    struct io_event event = {};
    struct account *account = account_at(reaping->slot);
    if (!account || read_user(&event, sizeof(event), (void *)(reaping->array + index * sizeof(event))))
        return 1;
    u64 key = iocb_key(event.iocb);
    struct moments *row = map_lookup(&moments, &key);
    if (!row || !row->submitted_ns)
        return 0;
    if (!row->started_ns)
        moments_until(row, FILE_SYSTEM, reaping->at_ns);
    reaping->total_ns = reaping->at_ns - row->submitted_ns;
    reaping->class = moments_end(row, reaping->at_ns, account->total[PROCESSOR]);
    reaping->waited_ns = row->parts[PROCESSOR];
    reaping->number++;
    return 0;
}

/* Global functions, verified once. */
__attribute__((noinline)) int explain_submit(u32 slot, u64 number) {
    loop(number < MAX_BATCH ? number : MAX_BATCH, explain_submit_one, &slot, 0);
    return 0;
}

__attribute__((noinline)) int explain_reap(u32 slot, u64 array, u64 number, u64 now) {
    struct account *account = account_at(slot);
    struct reaping reaping = {.array = array, .at_ns = now, .slot = slot};
    loop(number < MAX_BATCH ? number : MAX_BATCH, explain_reap_one, &reaping, 0);
    if (account && reaping.class < MAX_EXPLAINED) {
        account->last_class = reaping.class;
        account->last_number = reaping.number;
        account->last_waited_ns = reaping.waited_ns;
        account->last_total_ns = reaping.total_ns;
    }
    return 0;
}

/* Which request of the batch a direct transfer is for: the kernel's struct of it has the address of its iocb. */
SEC("tp_btf/iomap_dio_rw_begin")
int explain_direct(u64 *ctx) {
    struct account *account = account_of(followed());
    if (!account || account->batch_number < 2)
        return 0; /* one alone is known */
    struct aio_kiocb *request = (struct aio_kiocb *)ctx[0];
    account->current = iocb_key(FIELD(request, ki_res.obj));
    return 0;
}

SEC("tp_btf/io_uring_submit_req")
int explain_ring_submit(u64 *ctx) {
    struct task *task = followed();
    struct account *account = task ? account_made(task) : 0;
    if (!account)
        return 0;
    struct io_kiocb *req = (struct io_kiocb *)ctx[0];
    account->ring = (u64)req->ctx;
    account->current = ctx[0];
    u32 kind = uring_kind(req->opcode);
    if (kind < 3) /* a thread that polls for requests is in no call */
        moments_begin(ctx[0], task->account, uring_operation + kind,
                      account->entered_ns ? account->entered_ns : now_ns());
    return 0;
}

/* Where the completion `index` of a ring is kept; it is told by the ring's number and not by its address. */
INLINE struct moments *posted_at(u32 number, u32 index) {
    u32 place = (number - 1) * MAX_PLACES + index % MAX_PLACES;
    return map_lookup(&posted, &place);
}

INLINE struct ring_seen *ring_made(u64 address) {
    struct ring_seen *seen = map_lookup(&rings_seen, &address);
    if (seen)
        return seen;
    struct ring_seen fresh = {.number = count(NEXT_RING) + 1};
    map_update(&rings_seen, &address, &fresh, UPDATE_NEW);
    return map_lookup(&rings_seen, &address);
}

INLINE int ring_completed(u64 *ctx, u32 flags) {
    u64 address = ctx[1];
    struct moments *row = map_lookup(&moments, &address);
    if (!row || !row->submitted_ns || flags & CQE_MORE)
        return 0;
    u64 now = now_ns();
    struct account *account = account_at(row->account);
    if (!row->started_ns && account) {
        moments_until(row, FILE_SYSTEM, now);
        row->waited_ns = waited_until(account, now);
    }
    row->posted_ns = now;
    struct io_ring_ctx *ring = (struct io_ring_ctx *)ctx[0];
    struct ring_seen *seen = ring_made(ctx[0]);
    u32 tail = FIELD((struct io_ring_ctx___rings *)ring, cached_cq_tail);
    struct moments *copy = seen ? posted_at(seen->number, tail - 1) : 0;
    if (copy)
        *copy = *row;
    else
        count(UNEXPLAINED);
    row->submitted_ns = 0;
    return 0;
}

/* As uring_complete and uring_complete_old: each kernel takes one of them. */
SEC("tp_btf/io_uring_complete")
int explain_ring_complete(u64 *ctx) {
    return ring_completed(ctx, ((struct io_uring_cqe *)ctx[2])->flags);
}

SEC("tp_btf/io_uring_complete")
int explain_ring_complete_old(u64 *ctx) {
    return ring_completed(ctx, ctx[4]);
}

struct popping {
    u64 returned_ns, waited_ns;
    u32 number, first;
};

static long explain_latest(u32 index, struct popping *popping) {
    struct moments *row = posted_at(popping->number, popping->first + index);
    if (row && row->submitted_ns)
        popping->returned_ns = later(popping->returned_ns, row->posted_ns);
    return 0;
}

static long explain_pop(u32 index, struct popping *popping) {
    struct moments *row = posted_at(popping->number, popping->first + index);
    if (row)
        moments_end(row, popping->returned_ns, popping->waited_ns);
    return 0;
}

/* What the program took from the ring since the last look. */
__attribute__((noinline)) int explain_reaped(u32 slot) {
    struct account *account = account_at(slot);
    u64 address = account ? account->ring : 0;
    struct ring_seen *seen = address ? map_lookup(&rings_seen, &address) : 0;
    struct io_rings *rings = seen ? FIELD((struct io_ring_ctx___rings *)address, rings) : 0;
    if (!rings)
        return 0;
    u32 head = FIELD(rings, cq.head), number = head - seen->next;
    struct popping popping = {account->returned_ns, account->total[PROCESSOR], seen->number, seen->next};
    seen->next = head;
    if (!number || number > MAX_PLACES)
        return 0;
    loop(number, explain_latest, &popping, 0);
    loop(number, explain_pop, &popping, 0);
    return 0;
}

/* Calls */

INLINE int waits_for_data(struct task *task, struct entry entry) {
    if (entry.kind > SYNC || entry.shape == IGNORED || entry.shape == COPY_OUT_IN || entry.shape == COPY_IN_OUT)
        return 0;
    struct session *session = session_at(task->slot);
    return session && session->read_pattern != NONE;
}

INLINE void call_begins(struct account *account, struct entry entry, u64 now) {
    account->operation = entry.operation + 1;
    account->state = RUNNING;
    account->changed_ns = account->resumed_ns = now;
    account->running_ns = account->done_ns = account->contended_ns = 0;
    account->completions = account->is_served = 0;
}

SEC("tp_btf/sys_enter")
int explain_enter(u64 *ctx) {
    struct task *task = followed();
    if (!task || ctx[1] >= SYSCALLS)
        return 0;
    struct entry entry = entry_by_number(ctx[1]);
    struct pt_regs *regs = (struct pt_regs *)ctx[0];
    int waits = waits_for_data(task, entry);
    struct account *account =
        waits || entry.shape == IO_SUBMIT ? account_made(task) : account_at(task->account);
    if (!account)
        return 0;
    account->left_ns = account->last_number = 0;
    int submits = entry.shape == IO_SUBMIT || ctx[1] == URING_ENTER;
    if (!waits && !submits)
        return 0;
    account->entered_ns = ctx[1] == URING_ENTER ? now_ns() : task->entered_ns;
    for (u32 which = 0; which < PARTS; which++)
        account->begun[which] = account->total[which];
    if (waits)
        call_begins(account, entry, task->entered_ns);
    else if (entry.shape == IO_SUBMIT) {
        account->batch = ARG2(regs);
        account->batch_number = ARG1(regs);
        account->batch_next = 0;
        explain_submit(task->account, ARG1(regs));
    } else
        explain_reaped(task->account);
    return 0;
}

INLINE void call_ends(struct account *account, u64 now) {
    struct parts parts;
    account->running_ns += span(account->changed_ns, now);
    account->changed_ns = now;
    if (account->done_ns > account->resumed_ns) /* it completed before the task was blocked, or while it polled */
        charge_request(account, account->done_started_ns, account->done_issued_ns, now);
    u64 waited_ns = 0;
    for (u32 which = 0; which < PARTS; which++) {
        parts.ns[which] = account->total[which] - account->begun[which];
        waited_ns += parts.ns[which];
    }
    parts.ns[account->completions ? COMPLETION : FILE_SYSTEM] += account->running_ns;
    account->last_class = parts_add(account->operation - 1, &parts);
    account->last_number = account->last_class < MAX_EXPLAINED;
    account->last_waited_ns = parts.ns[PROCESSOR];
    account->last_total_ns = waited_ns + account->running_ns;
    account->operation = 0;
}

SEC("tp_btf/sys_exit")
int explain_exit(u64 *ctx) {
    struct task *task = followed();
    struct account *account = account_of(task);
    if (!account)
        return 0;
    struct pt_regs *regs = (struct pt_regs *)ctx[0];
    u64 number = CALL_NUMBER(regs), now = now_ns();
    s64 result = ctx[1];
    if (account->operation && !is_restarted(result))
        call_ends(account, now);
    else if (number < SYSCALLS && result > 0 && entry_by_number(number).shape == IO_GETEVENTS)
        explain_reap(task->account, ARG3(regs), result, now);
    account->operation = 0;
    account->left_ns = account->returned_ns = now;
    account->current = account->batch_number = account->entered_ns = 0;
    return 0;
}
