/* Where the time of calls on files goes: each is cut into parts that sum to it.
 *
 * A call that waits for its data is the difference of its task's account between its entry and its exit. A request of
 * libaio or io_uring is a row of moments (submitted, first block request queued, issued, completed, posted, reaped) with
 * the account of who submitted it. When a completion was taken from the ring of an io_uring is seen at the next call: it
 * was after the call before, and after the last of those taken was posted.
 */
#pragma once
#include "syscalls.h"
#include "uring.h"
#include "waits.h"

#define MAX_TRACED 65536
#define MAX_RING_PLACES 4096
#define URING_ENTER 426 /* on all architectures */
#define IO_WORKER 0x10  /* PF_IO_WORKER, include/linux/sched.h */

struct io_wq_work;
struct io_worker {
    struct io_wq_work *cur_work;
} CORE;
struct task_struct___worker {
    u32 flags;
    void *worker_private;
} CORE;
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
struct io_wq_work {
    u32 flags;
} CORE;
struct io_kiocb___work {
    struct io_wq_work work;
} CORE;
struct aio_result {
    u64 obj;
} CORE;
struct aio_kiocb {
    struct aio_result ki_res;
} CORE;

struct moments {
    u64 submitted_ns, queued_ns, issued_ns, done_ns, posted_ns;
    u64 waited_ns;        /* of the account, at `done_ns` or else at `posted_ns` */
    u64 begun[PARTS];     /* what the account had when it was submitted */
    u64 parts[PARTS];     /* until `queued_ns`, or else until `posted_ns` */
    u32 account, operation;
};

/* Of a completion, in the ring of an io_uring. */
struct place {
    u64 ring, index;
};

struct posted_by {
    u64 next; /* the first place of the ring that was not seen reaped */
    u32 account, padding;
};

struct {
    MAP_FIELD_NUMBER(type, MAP_HASH);
    MAP_FIELD_NUMBER(max_entries, MAX_TRACED);
    MAP_FIELD_TYPE(key, u64);
    MAP_FIELD_TYPE(value, struct moments);
} moments SEC(".maps");

struct {
    MAP_FIELD_NUMBER(type, MAP_HASH);
    MAP_FIELD_NUMBER(max_entries, MAX_TRACED);
    MAP_FIELD_TYPE(key, struct place);
    MAP_FIELD_TYPE(value, struct moments);
} posted SEC(".maps");

struct {
    MAP_FIELD_NUMBER(type, MAP_HASH);
    MAP_FIELD_NUMBER(max_entries, MAX_TRACED);
    MAP_FIELD_TYPE(key, u64);
    MAP_FIELD_TYPE(value, struct traced);
} traced_requests SEC(".maps");

struct {
    MAP_FIELD_NUMBER(type, MAP_HASH);
    MAP_FIELD_NUMBER(max_entries, 1024);
    MAP_FIELD_TYPE(key, u64);
    MAP_FIELD_TYPE(value, struct posted_by);
} reaped_rings SEC(".maps");

/* Block requests */

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

INLINE u64 batch_key(struct account *account, u64 index) {
    struct batch batch = {account->batch, 0};
    return iocb_address(&batch, index) ^ (pid_and_tgid() >> 32) << 42;
}

/* The first block request of a request of libaio or io_uring: what was before is submission. */
INLINE void moments_queued(struct moments *row, u64 now) {
    struct account *account = account_at(row->account);
    if (!account || row->queued_ns)
        return;
    u64 rest_ns = span(row->submitted_ns, now);
    for (u32 which = 0; which < PARTS; which++) {
        u64 took_ns = account->total[which] - row->begun[which];
        if (took_ns > rest_ns)
            took_ns = rest_ns;
        row->parts[which] = took_ns;
        rest_ns -= took_ns;
    }
    row->parts[SUBMISSION] += rest_ns;
    row->queued_ns = now;
}

SEC("tp_btf/block_bio_queue")
int explain_queue(void *ctx __attribute__((unused))) {
    struct account *account = account_of(followed());
    if (!account)
        return 0;
    u64 now = now_ns();
    account->queued_ns = now;
    account->queueing = 1;
    if (account->operation && !account->contended_ns) {
        charge(account, SUBMISSION, account->running_ns + span(account->changed_ns, now));
        account->running_ns = 0;
        account->changed_ns = account->resumed_ns = now;
    }
    return 0;
}

SEC("tp_btf/block_io_start")
int explain_start(u64 *ctx) {
    u64 address = ctx[0];
    struct task *task = followed();
    struct account *account = account_of(task);
    struct traced fresh = {.queued_ns = now_ns()};
    if (account) {
        if (account->queueing)
            fresh.queued_ns = account->queued_ns;
        account->queueing = 0;
        account->requests++;
        fresh.account = task->account;
        u64 worked = worked_on();
        fresh.key = worked ? worked : account->current;
        if (!fresh.key && account->batch_next < account->batch_number)
            fresh.key = batch_key(account, account->batch_next++);
        struct moments *row = fresh.key ? map_lookup(&moments, &fresh.key) : 0;
        if (row)
            moments_queued(row, fresh.queued_ns);
    } else
        fresh.is_journal = is_journal_thread();
    struct traced *old = map_lookup(&traced_requests, &address);
    if (old)
        *old = fresh;
    else
        map_update(&traced_requests, &address, &fresh, UPDATE_ANY);
    return 0;
}

SEC("tp_btf/block_rq_issue")
int explain_issue(u64 *ctx) {
    u64 address = ctx[0];
    struct traced *request = map_lookup(&traced_requests, &address);
    if (request && !request->issued_ns)
        request->issued_ns = now_ns();
    return 0;
}

INLINE u64 waited_until(struct account *account, u64 now) {
    return account->total[PROCESSOR] + (account->state == WAITING ? span(account->changed_ns, now) : 0);
}

SEC("tp_btf/block_rq_complete")
int explain_complete(u64 *ctx) {
    u64 address = ctx[0];
    struct request *rq = (struct request *)ctx[0];
    struct traced *request = map_lookup(&traced_requests, &address);
    u32 zero = 0;
    struct traced *here = map_lookup(&completing, &zero);
    if (!request || !here || (!(u32)ctx[1] && (u32)ctx[2] < rq->__data_len))
        return 0;
    u64 now = now_ns();
    request->done_ns = now;
    *here = *request;
    struct account *account = account_at(request->account);
    if (!account)
        return 0;
    account->done_queued_ns = request->queued_ns;
    account->done_issued_ns = request->issued_ns;
    account->done_ns = now;
    struct moments *row = request->key ? map_lookup(&moments, &request->key) : 0;
    if (row && row->queued_ns) {
        row->issued_ns = request->issued_ns;
        row->done_ns = now;
        struct account *owner = account_at(row->account);
        row->waited_ns = owner ? waited_until(owner, now) : 0;
    }
    return 0;
}

SEC("tp_btf/block_io_done")
int explain_done(void *ctx __attribute__((unused))) {
    u32 zero = 0;
    struct traced *here = map_lookup(&completing, &zero);
    if (here)
        here->done_ns = 0;
    return 0;
}

/* Requests of libaio and io_uring */

INLINE void moments_begin(u64 key, struct account *account, u32 slot, u32 operation, u64 submitted_ns) {
    struct moments fresh = {.submitted_ns = submitted_ns, .account = slot, .operation = operation};
    for (u32 which = 0; which < PARTS; which++)
        fresh.begun[which] = account->total[which];
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
    if (row->queued_ns) {
        u64 issued_ns = later(row->issued_ns, row->queued_ns);
        known_ns = row->done_ns ? row->done_ns : known_ns; /* where the completion was not seen it is the device's */
        parts.ns[QUEUE] += issued_ns - row->queued_ns;
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

/* All of it is over, and no block request was seen. */
INLINE void moments_without_request(struct moments *row, u64 now) {
    struct account *account = account_at(row->account);
    if (!account || row->queued_ns)
        return;
    moments_queued(row, now);
    row->parts[FILE_SYSTEM] += row->parts[SUBMISSION];
    row->parts[SUBMISSION] = 0;
    row->waited_ns = waited_until(account, now);
    row->queued_ns = 0;
}

static long explain_submit_one(u32 index, u32 *slot) {
    struct account *account = account_at(*slot);
    if (!account)
        return 1;
    struct batch batch = {account->batch, 0};
    u64 address = iocb_address(&batch, index);
    struct iocb iocb = {};
    if (read_user(&iocb, sizeof(iocb), (void *)address))
        return 1;
    u32 operation = aio_operation + short_kind(aio_kind(iocb.opcode));
    moments_begin(address ^ (pid_and_tgid() >> 32) << 42, account, *slot, operation, account->entered_ns);
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
    u64 key = event.iocb ^ (pid_and_tgid() >> 32) << 42;
    struct moments *row = map_lookup(&moments, &key);
    if (!row || !row->submitted_ns)
        return 0;
    struct moments copy = *row;
    row->submitted_ns = 0;
    reaping->total_ns = reaping->at_ns - copy.submitted_ns;
    reaping->class = moments_end(&copy, reaping->at_ns, account->total[PROCESSOR]);
    reaping->waited_ns = copy.parts[PROCESSOR];
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
    if (!account || !account->batch_number)
        return 0;
    struct aio_kiocb *request = (struct aio_kiocb *)ctx[0];
    u64 iocb = FIELD(request, ki_res.obj);
    account->current = iocb ^ (pid_and_tgid() >> 32) << 42;
    return 0;
}

SEC("tp_btf/io_uring_submit_req")
int explain_ring_submit(u64 *ctx) {
    struct task *task = followed();
    struct account *account = task ? account_made(task) : 0;
    if (!account)
        return 0;
    struct io_kiocb *req = (struct io_kiocb *)ctx[0];
    u64 ring = (u64)req->ctx;
    account->ring = ring;
    account->current = ctx[0];
    u32 kind = uring_kind(req->opcode);
    u64 submitted_ns = account->left_ns ? now_ns() : account->entered_ns;
    if (!submitted_ns)
        submitted_ns = now_ns();
    if (kind < 3)
        moments_begin(ctx[0], account, task->account, uring_operation + kind, submitted_ns);
    return 0;
}

INLINE struct place place_of(u64 ring, u32 index) {
    struct place place = {ring, index % MAX_RING_PLACES};
    return place;
}

SEC("tp_btf/io_uring_complete")
int explain_ring_complete(u64 *ctx) {
    u64 address = ctx[1], now = now_ns();
    struct io_uring_cqe *cqe = (struct io_uring_cqe *)ctx[2];
    struct moments *row = map_lookup(&moments, &address);
    if (!row || !row->submitted_ns || cqe->flags & CQE_MORE)
        return 0;
    moments_without_request(row, now);
    row->posted_ns = now;
    struct io_ring_ctx___rings *ring = (struct io_ring_ctx___rings *)ctx[0];
    struct place key = place_of(ctx[0], FIELD(ring, cached_cq_tail) - 1);
    if (map_update(&posted, &key, row, UPDATE_ANY))
        count(UNEXPLAINED);
    row->submitted_ns = 0;
    return 0;
}

struct popping {
    u64 ring, returned_ns, waited_ns;
    u32 first, padding;
};

static long explain_latest(u32 index, struct popping *popping) {
    struct place key = place_of(popping->ring, popping->first + index);
    struct moments *row = map_lookup(&posted, &key);
    if (row && row->submitted_ns)
        popping->returned_ns = later(popping->returned_ns, row->posted_ns);
    return 0;
}

static long explain_pop(u32 index, struct popping *popping) {
    struct place key = place_of(popping->ring, popping->first + index);
    struct moments *row = map_lookup(&posted, &key);
    if (!row || !row->submitted_ns)
        return 0;
    struct moments copy = *row;
    row->submitted_ns = 0;
    moments_end(&copy, popping->returned_ns, popping->waited_ns);
    return 0;
}

/* What the program took from the ring since the last look: after its last call, and after the last was posted. */
__attribute__((noinline)) int explain_reaped(u32 slot) {
    struct account *account = account_at(slot);
    if (!account || !account->ring)
        return 0;
    u64 address = account->ring;
    struct io_ring_ctx___rings *ring = (struct io_ring_ctx___rings *)address;
    struct io_rings *rings = FIELD(ring, rings);
    if (!rings)
        return 0;
    u32 head = FIELD(rings, cq.head);
    struct posted_by *seen = map_lookup(&reaped_rings, &address);
    if (!seen) {
        struct posted_by fresh = {.next = 0};
        map_update(&reaped_rings, &address, &fresh, UPDATE_ANY);
        seen = map_lookup(&reaped_rings, &address);
        if (!seen)
            return 0;
    }
    u32 number = head - (u32)seen->next;
    if (!number || number > MAX_RING_PLACES)
        number = 0;
    struct popping popping = {address, account->returned_ns, account->total[PROCESSOR], (u32)seen->next, 0};
    seen->next = head;
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
    account->requests = account->completions = account->is_served = 0;
    for (u32 which = 0; which < PARTS; which++)
        account->begun[which] = account->total[which];
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
    account->left_ns = account->last_number = account->queueing = 0;
    account->current = account->batch_number = 0;
    account->entered_ns = ctx[1] == URING_ENTER ? now_ns() : task->entered_ns;
    if (waits)
        call_begins(account, entry, task->entered_ns);
    else if (entry.shape == IO_SUBMIT) {
        account->batch = ARG2(regs);
        account->batch_number = ARG1(regs);
        account->batch_next = 0;
        explain_submit(task->account, ARG1(regs));
    } else if (ctx[1] == URING_ENTER)
        explain_reaped(task->account);
    return 0;
}

INLINE void call_ends(struct account *account, u64 now) {
    struct parts parts;
    account->running_ns += span(account->changed_ns, now);
    account->changed_ns = now;
    if (account->done_ns > account->resumed_ns) /* it completed before the task was blocked, or while it polled */
        charge_request(account, account->done_queued_ns, account->done_issued_ns, now);
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
    account->current = account->batch_number = 0;
    return 0;
}
