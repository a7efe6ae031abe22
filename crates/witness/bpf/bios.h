/* The same requests where the kernel does not tell when one starts (block_io_start is missing before Linux 6.5).
 *
 * Requests are dispatched by anyone, so who issued one is known from the first of its bios, the parts that the block
 * layer makes requests of: they are submitted in the context of who wants them. A request is counted when it is first
 * dispatched, all its merges done. Where a bio becomes another one (a split, and a device on top of others that hands
 * it down), the context of that counts. One that only flushes is never dispatched and counts when it is submitted; its
 * entry stands under its bio.
 *
 * Of a kernel older than 5.12 the tracepoints have other arguments; there bios have no bi_bdev, so that the programs
 * are refused.
 */
#pragma once
#include "block.h"

#define REQ_OP_PASSTHROUGH 32 /* commands of drivers and of the SCSI layer, made without submitting a bio */

struct submission {
    u64 at_ns, own;
};

/* By address, which is used again: a bio that was forgotten was submitted 65536 bios ago. */
struct {
    MAP_FIELD_NUMBER(type, MAP_LRU_HASH);
    MAP_FIELD_NUMBER(max_entries, MAX_BIOS);
    MAP_FIELD_TYPE(key, u64);
    MAP_FIELD_TYPE(value, struct submission);
} bios SEC(".maps");

INLINE struct submission submitted(u64 bio) {
    struct submission submission = {now_ns(), followed() ? 1 : 0};
    struct submission *old = map_lookup(&bios, &bio);
    if (old)
        *old = submission;
    else if (map_update(&bios, &bio, &submission, UPDATE_ANY))
        count(LOST);
    return submission;
}

/* Devices with a submit_bio hand bios down, and make no requests. */
INLINE int only_flushes(struct bio *bio) {
    return OP_OF(bio->bi_opf) == REQ_OP_WRITE && !bio->bi_iter.bi_size && !bio->bi_bdev->bd_disk->fops->submit_bio;
}

SEC("tp_btf/block_bio_queue")
int bio_queue(u64 *ctx) {
    struct bio *bio = (struct bio *)ctx[0];
    struct submission submission = submitted(ctx[0]);
    if (only_flushes(bio)) {
        struct inflight entry = {.start_ns = submission.at_ns, .sector = bio->bi_iter.bi_sector};
        entry.cmd_flags = bio->bi_opf;
        entry.dev = dev_of(bio->bi_bdev->bd_disk);
        start(ctx[0], &entry, submission.own);
    }
    return 0;
}

SEC("tp_btf/block_split")
int bio_split(u64 *ctx) {
    submitted(ctx[0]);
    return 0;
}

SEC("tp_btf/block_bio_remap")
int bio_remap(u64 *ctx) {
    submitted(ctx[0]);
    return 0;
}

/* Of the first bio of a request; nothing where it was submitted before the trace. */
INLINE struct submission *submission_of(struct request *rq) {
    u64 first = (u64)rq->bio;
    return first && OP_OF(rq->cmd_flags) < REQ_OP_PASSTHROUGH ? map_lookup(&bios, &first) : 0;
}

SEC("tp_btf/block_rq_issue")
int bio_issue(u64 *ctx) {
    struct request *rq = (struct request *)ctx[0];
    struct submission *submission = submission_of(rq);
    if (!submission)
        return 0;
    struct inflight *entry = busy(ctx[0]);
    if (entry && entry->start_ns == submission->at_ns)
        return 0; /* dispatched again, after the driver had no room for it */
    struct inflight fresh = entry_of(rq, submission->at_ns, now_ns());
    start(ctx[0], &fresh, submission->own ? 1 : 0);
    return 0;
}

SEC("tp_btf/block_rq_complete")
int bio_complete(u64 *ctx) {
    struct request *rq = (struct request *)ctx[0];
    u32 error = ctx[1], bytes = ctx[2];
    struct inflight *entry = busy(ctx[0]);
    if (!entry && !rq->__data_len)
        entry = busy((u64)rq->bio); /* it only flushed */
    if (entry && (bytes >= rq->__data_len || error))
        complete(entry, error);
    else if (!entry && OP_OF(rq->cmd_flags) < REQ_OP_PASSTHROUGH)
        unmatched(rq);
    return 0;
}

/* A request that became a part of the one before it, and will not be dispatched. */
SEC("tp_btf/block_rq_merge")
int bio_request_merged(u64 *ctx) {
    struct request *rq = (struct request *)ctx[0];
    struct submission *submission = submission_of(rq);
    if (!submission)
        return 0;
    u32 class = class_of(dev_of(rq->q->disk), submission->own ? 1 : 0, kind_of(rq->cmd_flags, rq->__data_len));
    struct block_class *counts = map_lookup(&block_classes, &class);
    if (counts)
        __sync_fetch_and_add(&counts->merges, 1);
    return 0;
}
