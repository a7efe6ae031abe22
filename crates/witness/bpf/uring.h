/* io_uring: requests by the address of the kernel's struct io_kiocb, whoever submits them (SQPOLL's thread included)
 * and whether or not a system call is made. The bytes asked for are exact; latency is until the completion is posted.
 */
#pragma once
#include "listing.h"
#include "rings.h"
#include "vectors.h"

/* Whether sessions are kept: only where opens and closes are seen as well. */
volatile const u32 with_sessions = 0;
volatile const u32 uring_operation = 0;

#define MAX_URING 65536
#define FIXED_FILE 1 /* REQ_F_FIXED_FILE is bit 0, as IOSQE_FIXED_FILE is */
#define FILE_FLAGS 7ULL /* low bits of a registered file's address say what it can (io_uring/filetable.h) */
#define CQE_MORE 2   /* IORING_CQE_F_MORE: the request goes on */

struct uring_request {
    u64 at_ns, requested_bytes;
    u32 slot, kind;
    u16 is_first;
    u8 has_session, is_synced;
    u32 row; /* of the layer that explains */
};

struct {
    MAP_FIELD_NUMBER(type, MAP_HASH);
    MAP_FIELD_NUMBER(max_entries, MAX_URING);
    MAP_FIELD_TYPE(key, u64);
    MAP_FIELD_TYPE(value, struct uring_request);
} uring_requests SEC(".maps");

INLINE u32 uring_kind(u32 opcode) {
    /* enum io_uring_op: READV 1, WRITEV 2, FSYNC 3, READ_FIXED 4, WRITE_FIXED 5, SYNC_FILE_RANGE 8, READ 22, WRITE 23,
     * READ_MULTISHOT 49, READV_FIXED 60, WRITEV_FIXED 61 */
    if (opcode == 1 || opcode == 4 || opcode == 22 || opcode == 49 || opcode == 60)
        return READ;
    if (opcode == 2 || opcode == 5 || opcode == 23 || opcode == 61)
        return WRITE;
    return opcode == 3 || opcode == 8 ? SYNC : 3;
}

INLINE u64 uring_bytes(struct io_kiocb *req, u32 opcode) {
    struct io_rw *rw = (struct io_rw *)req;
    u64 length = FIELD(rw, len);
    if (opcode == 1 || opcode == 2 || opcode >= 60)
        return vectors_bytes(FIELD(rw, addr), length);
    return length;
}

INLINE void uring_session(struct task *task, struct uring_request *request, struct io_kiocb *req, u64 file) {
    request->has_session = 1;
    request->slot = session_of(task, file);
    request->is_first = session_begins(request->slot, request->kind, request->at_ns);
    session_issued(request->slot, request->kind, request->is_first, request->at_ns, request->requested_bytes);
    pattern_submitted(request->slot, request->kind, FIELD((struct io_rw *)req, kiocb.ki_pos), request->requested_bytes);
}

/* The file that a request will use, 0 where this kernel tells it only later. */
INLINE u64 uring_file(struct io_kiocb *req) {
    u32 fd = req->cqe.fd;
    if (!(req->flags & FIXED_FILE))
        return file_of(fd);
    struct io_ring_ctx *ctx = req->ctx;
    if (!FIELD_EXISTS(ctx, file_table.data.nodes) || fd >= ctx->file_table.data.nr)
        return 0;
    struct io_rsrc_node *node = 0;
    read_kernel(&node, sizeof(node), (void *)((u64)ctx->file_table.data.nodes + fd * 8ULL));
    return node ? FIELD(node, file_ptr) & ~FILE_FLAGS : 0;
}

SEC("tp_btf/io_uring_submit_req")
int uring_submit(u64 *ctx) {
    struct task *task = followed();
    if (!task)
        return 0;
    struct io_kiocb *req = (struct io_kiocb *)ctx[0];
    u64 key = ctx[0];
    u32 opcode = req->opcode;
    struct uring_request request = {.at_ns = now_ns(), .kind = uring_kind(opcode), .slot = NONE};
    if (moves_data(request.kind)) {
        request.requested_bytes = uring_bytes(req, opcode);
        request.is_synced = is_synced(request.kind, FIELD((struct io_rw *)req, flags));
    }
    operation_issued(uring_operation + request.kind, request.at_ns, request.requested_bytes);
    u64 file = with_sessions && request.kind < 3 ? uring_file(req) : 0;
    if (file)
        uring_session(task, &request, req, file);
    if (listing && request.kind < 3) {
        u64 offset = moves_data(request.kind) ? FIELD((struct io_rw *)req, kiocb.ki_pos) : 0;
        list_request(request.at_ns, LISTED_URING + opcode, request.slot, req->cqe.fd, request.requested_bytes, offset);
    }
    /* As with aio, an entry stays when its request is over: the kernel uses the structs again. */
    struct uring_request *old = map_lookup(&uring_requests, &key);
    if (old)
        request.row = old->row;
    if (explaining && request.kind < 3)
        request.row = ring_submitted(task, req, request.row, uring_operation + request.kind, request.at_ns);
    if (old)
        *old = request;
    else if (map_update(&uring_requests, &key, &request, UPDATE_ANY))
        count(LOST);
    return 0;
}

INLINE int uring_completed(u64 ring, u64 key, s32 result, u32 flags) {
    struct uring_request *found = map_lookup(&uring_requests, &key);
    if (!found || !found->at_ns)
        return 0;
    if (flags & CQE_MORE)
        return 0;
    struct uring_request request = *found;
    found->at_ns = 0;
    struct ended call = {request.at_ns, now_ns(), request.requested_bytes, result, request.kind, request.is_synced};
    if (explaining)
        ring_completed(moments_at(request.row), ring, key, call.left_ns);
    operation_ended(uring_operation + request.kind, &call);
    if (with_sessions && request.kind < 3 && !request.has_session) {
        /* A registered file on a kernel that keeps them otherwise; the request has got it now. */
        struct io_kiocb *req = (struct io_kiocb *)key;
        u64 file = (u64)FIELD(req, file);
        request.slot = file ? session_find(file) : NONE;
        request.is_first = session_begins(request.slot, request.kind, request.at_ns);
        session_issued(request.slot, request.kind, request.is_first, request.at_ns, request.requested_bytes);
        pattern_unsure(request.slot, request.kind);
    }
    session_ended(request.slot, request.is_first, &call);
    pattern_completed(request.slot, &call);
    return 0;
}

SEC("tp_btf/io_uring_complete")
int uring_complete(u64 *ctx) {
    struct io_uring_cqe *cqe = (struct io_uring_cqe *)ctx[2];
    return uring_completed(ctx[0], ctx[1], cqe->res, cqe->flags);
}

/* Up to Linux 6.12 at least, the tracepoint has the numbers themselves. The verifier takes one of the two and refuses the
 * other. */
SEC("tp_btf/io_uring_complete")
int uring_complete_old(u64 *ctx) {
    return uring_completed(ctx[0], ctx[1], ctx[3], ctx[4]);
}
