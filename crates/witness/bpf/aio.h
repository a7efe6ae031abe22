/* io_submit and io_getevents: requests matched by the address of their iocb (include/uapi/linux/aio_abi.h).
 *
 * Batches may be of any size: bpf_loop verifies its body once (an unrolled loop of 64 cost half a second at the start).
 * Entries are made before the call, because another thread may reap them before it returns; what the kernel did not
 * take is withdrawn after it.
 */
#pragma once
#include "listing.h"
#include "moments.h"
#include "vectors.h"

#define MAX_AIO 65536
#define MAX_BATCH 65536

struct aio_key {
    u64 iocb;
    u64 process;
};

struct submitted {
    u64 at_ns, requested_bytes;
    u32 slot, kind;
    u16 is_first, is_synced;
    u32 row; /* of the layer that explains */
};

struct {
    MAP_FIELD_NUMBER(type, MAP_HASH);
    MAP_FIELD_NUMBER(max_entries, MAX_AIO);
    MAP_FIELD_TYPE(key, struct aio_key);
    MAP_FIELD_TYPE(value, struct submitted);
} aio_requests SEC(".maps");

/* Operations of aio and of io_uring stand behind those of the system calls: one each of READ, WRITE, SYNC and OTHER. */
volatile const u32 aio_operation = 0;

struct iocb {
    u64 data;
    u32 key, flags;
    u16 opcode, priority;
    u32 fd;
    u64 buffer, bytes, offset;
};

struct batch {
    u64 array, at_ns;
    u32 account, padding; /* of who reaps */
};

INLINE u32 short_kind(u32 kind) {
    return kind == OTHER ? 3 : kind;
}

INLINE u32 aio_kind(u32 opcode) {
    /* IOCB_CMD_PREAD 0, PWRITE 1, FSYNC 2, FDSYNC 3, POLL 5, PREADV 7, PWRITEV 8 */
    if (opcode == 0 || opcode == 7)
        return READ;
    if (opcode == 1 || opcode == 8)
        return WRITE;
    return opcode == 2 || opcode == 3 ? SYNC : OTHER;
}

INLINE u64 iocb_address(const struct batch *batch, u32 index) {
    u64 address = 0;
    read_user(&address, sizeof(address), (void *)(batch->array + index * 8ULL));
    return address;
}

static long aio_submit_one(u32 index, struct batch *batch) {
    struct task *task = followed();
    struct aio_key key = {iocb_address(batch, index), pid_and_tgid() >> 32};
    struct iocb iocb = {};
    if (!task || read_user(&iocb, sizeof(iocb), (void *)key.iocb))
        return 1;
    struct submitted request = {.at_ns = batch->at_ns, .kind = aio_kind(iocb.opcode), .slot = NONE};
    request.is_synced = is_synced(request.kind, iocb.flags);
    if (moves_data(request.kind))
        request.requested_bytes = iocb.opcode >= 7 ? vectors_bytes(iocb.buffer, iocb.bytes) : iocb.bytes;
    request.slot = session_of(task, file_of(iocb.fd));
    request.is_first = session_begins(request.slot, request.kind, batch->at_ns);
    operation_issued(aio_operation + short_kind(request.kind), request.at_ns, request.requested_bytes);
    session_issued(request.slot, request.kind, request.is_first, request.at_ns, request.requested_bytes);
    pattern_submitted(request.slot, request.kind, iocb.offset, request.requested_bytes);
    if (listing)
        list_request(batch->at_ns, LISTED_AIO + iocb.opcode, request.slot, iocb.fd, request.requested_bytes, iocb.offset);
    /* An entry stays when its request is over (at_ns 0): a program uses its iocbs again, and writing over an entry
     * takes a third of a microsecond less than inserting and deleting it. */
    struct submitted *old = map_lookup(&aio_requests, &key);
    if (old)
        request.row = old->row;
    struct account *account = explaining ? account_made(task) : 0;
    if (account)
        request.row = moments_begin(account, task->account, request.row, aio_operation + short_kind(request.kind),
                                    batch->at_ns);
    if (old)
        *old = request;
    else if (map_update(&aio_requests, &key, &request, UPDATE_ANY))
        count(LOST);
    return 0;
}

static long aio_withdraw_one(u32 index, struct batch *batch) {
    struct aio_key key = {iocb_address(batch, index), pid_and_tgid() >> 32};
    struct submitted *request = map_lookup(&aio_requests, &key);
    if (!request || !request->at_ns)
        return 0;
    u32 operation = aio_operation + short_kind(request->kind);
    struct operation *counts = map_lookup(&operations, &operation);
    if (counts) {
        counts->calls.calls--;
        counts->calls.requested_bytes -= request->requested_bytes;
    }
    struct session *session = session_at(request->slot);
    struct calls *calls = session ? calls_of(session, request->kind) : 0;
    if (calls) {
        __sync_fetch_and_add(&calls->calls, -1ULL);
        __sync_fetch_and_add(&calls->requested_bytes, -request->requested_bytes);
    }
    pattern_unsure(request->slot, request->kind);
    if (session && request->is_first) {
        session->first = (struct calls){};
        session->nth = 0;
    }
    request->at_ns = 0;
    return 0;
}

struct io_event {
    u64 data, iocb;
    s64 result, result2;
};

static long aio_reap_one(u32 index, struct batch *batch) {
    struct io_event event = {};
    if (read_user(&event, sizeof(event), (void *)(batch->array + index * sizeof(event))))
        return 1;
    struct aio_key key = {event.iocb, pid_and_tgid() >> 32};
    struct submitted *found = map_lookup(&aio_requests, &key);
    if (!found)
        count(BEFORE);
    if (!found || !found->at_ns)
        return 0; /* submitted before the trace, or where the table had no room: that was counted then */
    struct submitted request = *found;
    found->at_ns = 0;
    if (explaining)
        moments_reaped(moments_at(request.row), batch->account, batch->at_ns);
    struct ended call = {
        request.at_ns, batch->at_ns, request.requested_bytes, event.result, request.kind, request.is_synced,
    };
    operation_ended(aio_operation + short_kind(request.kind), &call);
    session_ended(request.slot, request.is_first, &call);
    pattern_completed(request.slot, &call);
    return 0;
}

/* Global functions: verified on their own. */
__attribute__((noinline)) int aio_submit(u64 array, u64 number, u64 at_ns) {
    struct batch batch = {array, at_ns, 0, 0};
    loop(number < MAX_BATCH ? number : MAX_BATCH, aio_submit_one, &batch, 0);
    return 0;
}

__attribute__((noinline)) int aio_withdraw(u64 array, u64 from, u64 number) {
    struct batch batch = {array + from * 8, 0, 0, 0};
    if (from < number && number <= MAX_BATCH)
        loop(number - from, aio_withdraw_one, &batch, 0);
    return 0;
}

__attribute__((noinline)) int aio_reap(u32 account, u64 array, u64 number, u64 at_ns) {
    struct batch batch = {array, at_ns, account, 0};
    loop(number < MAX_BATCH ? number : MAX_BATCH, aio_reap_one, &batch, 0);
    return 0;
}
