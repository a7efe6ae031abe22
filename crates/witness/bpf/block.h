/* Requests of the block layer, by device, by who issued them, and by kind.
 *
 * Counts are taken when a request is started (block_io_start: in the context of who submits it, once a request) and
 * its bytes are corrected when it is first dispatched, because requests grow by merging until then. Completions run in
 * interrupts, and the kernel skips programs there when another one is interrupted, saying nothing: they give
 * latencies only. An entry of `inflight` stays with its request's address, which the kernel uses again: the usual
 * request costs look-ups and neither an insertion nor a deletion, and one that is started again without having been
 * completed shows that its completion was skipped.
 */
#pragma once
#include "record.h"
#include "requests.h"

/* include/linux/blk_types.h: the low 8 bits are the operation */
#define OP_OF(flags) ((flags) & 0xff)
#define REQ_OP_READ 0
#define REQ_OP_WRITE 1
#define REQ_OP_FLUSH 2
#define REQ_OP_DISCARD 3
#define REQ_OP_SECURE_ERASE 5
#define REQ_OP_ZONE_APPEND 7
#define REQ_OP_WRITE_ZEROES 9
#define REQ_PREFLUSH_BIT 18

struct {
    MAP_FIELD_NUMBER(type, MAP_HASH);
    MAP_FIELD_NUMBER(max_entries, MAX_INFLIGHT);
    MAP_FIELD_TYPE(key, u64);
    MAP_FIELD_TYPE(value, struct inflight);
} inflight SEC(".maps");

struct {
    MAP_FIELD_NUMBER(type, MAP_HASH);
    MAP_FIELD_NUMBER(max_entries, MAX_DEVICES);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, u32);
} devices SEC(".maps");

struct {
    MAP_FIELD_NUMBER(type, MAP_PERCPU_ARRAY);
    MAP_FIELD_NUMBER(max_entries, CLASSES);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct block_class);
} block_classes SEC(".maps");

struct buckets {
    u64 counts[BUCKETS];
};

/* Not per CPU: 320 classes of 10 KiB, and a device is slow beside an atomic addition. */
struct {
    MAP_FIELD_NUMBER(type, MAP_ARRAY);
    MAP_FIELD_NUMBER(max_entries, CLASSES);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct buckets);
} block_latencies SEC(".maps");

INLINE u32 kind_of(u32 flags, u32 bytes) {
    u32 op = OP_OF(flags);
    if (op == REQ_OP_READ)
        return READ;
    if (op == REQ_OP_FLUSH || (op == REQ_OP_WRITE && !bytes))
        return FLUSH; /* an empty write is what asks for a flush (blkdev_issue_flush) */
    if (op == REQ_OP_WRITE || op == REQ_OP_ZONE_APPEND)
        return WRITE;
    if (op == REQ_OP_DISCARD || op == REQ_OP_SECURE_ERASE)
        return DISCARD;
    return OTHER;
}

INLINE u32 dev_of(struct gendisk *disk) {
    return (u32)disk->major << 20 | (u32)disk->first_minor;
}

INLINE u32 device_index(u32 dev) {
    u32 *known = map_lookup(&devices, &dev);
    if (known)
        return *known;
    u32 fresh = count(NEXT_DEVICE);
    if (fresh >= MAX_DEVICES)
        return NONE;
    if (map_update(&devices, &dev, &fresh, UPDATE_NEW)) {
        known = map_lookup(&devices, &dev); /* another CPU was first */
        return known ? *known : NONE;
    }
    return fresh;
}

INLINE u32 class_on(u32 index, u32 own, u32 kind) {
    return index >= MAX_DEVICES ? NONE : (index * 2 + own) * KINDS + kind;
}

INLINE u32 class_of(u32 dev, u32 own, u32 kind) {
    return class_on(device_index(dev), own, kind);
}

INLINE void record_unended(struct inflight *entry) {
    if (!recording)
        return;
    struct event event = {entry->start_ns, entry->sector, ~0ULL, 0, entry->bytes, entry->cmd_flags, entry->dev};
    record(&event);
}

/* Makes the entry of a request that starts, in the place of `old`, what its address stood for before. */
INLINE void enter(u64 key, struct inflight *old, const struct inflight *entry) {
    if (!old) {
        if (map_update(&inflight, &key, entry, UPDATE_ANY))
            count(LOST);
        return;
    }
    if (old->busy) {
        if (old->cmd_flags & EVENT_OWN)
            count(MISSED);
        record_unended(old);
    }
    *old = *entry;
}

/* Counts a request in its class, and makes its entry from the one that is given. */
INLINE void start(u64 key, struct inflight *entry, u32 own) {
    entry->busy = 1;
    struct inflight *old = map_lookup(&inflight, &key);
    /* A request's struct belongs to one device: what its last use found need not be looked up again. */
    u32 index = old && old->dev == entry->dev ? old->class / (2 * KINDS) : device_index(entry->dev);
    entry->class = class_on(index, own, kind_of(entry->cmd_flags, entry->bytes));
    struct block_class *class = map_lookup(&block_classes, &entry->class);
    if (!class) {
        count(LOST);
        return;
    }
    if (own)
        entry->cmd_flags |= EVENT_OWN;
    /* Atomic although per CPU: an interrupt may start a request as well. */
    __sync_fetch_and_add(&class->calls.calls, 1);
    __sync_fetch_and_add(&class->calls.bytes, entry->bytes);
    raise(&class->calls.not_first_ns, ~entry->start_ns);
    enter(key, old, entry);
}

INLINE struct inflight entry_of(struct request *rq, u64 start_ns, u64 dispatched_ns) {
    struct inflight entry = {.start_ns = start_ns, .dispatched_ns = dispatched_ns};
    entry.sector = rq->__sector;
    entry.bytes = rq->__data_len;
    entry.cmd_flags = rq->cmd_flags;
    entry.dev = dev_of(rq->q->disk);
    return entry;
}

SEC("tp_btf/block_io_start")
int block_start(u64 *ctx) {
    struct inflight entry = entry_of((struct request *)ctx[0], now_ns(), 0);
    if (explaining)
        request_started(&entry);
    start(ctx[0], &entry, followed() ? 1 : 0);
    return 0;
}

/* The entry of a request that is under way, or nothing. */
INLINE struct inflight *busy(u64 key) {
    struct inflight *entry = map_lookup(&inflight, &key);
    return entry && entry->busy ? entry : 0;
}

SEC("tp_btf/block_rq_issue")
int block_issue(u64 *ctx) {
    struct inflight *entry = busy(ctx[0]);
    if (!entry || entry->dispatched_ns)
        return 0; /* dispatched again, after the driver had no room for it */
    struct request *rq = (struct request *)ctx[0];
    u64 bytes = rq->__data_len;
    entry->dispatched_ns = now_ns();
    entry->sector = rq->__sector; /* merging in front moves it */
    if (bytes != entry->bytes) {
        struct block_class *class = map_lookup(&block_classes, &entry->class);
        if (class)
            __sync_fetch_and_add(&class->calls.bytes, bytes - entry->bytes);
        entry->bytes = bytes;
    }
    return 0;
}

/* Whether the request has completed before: one that flushes first or last does so after its data, and again at its
 * end, and then its flags do not tell any more. Its entry is as old as it is; a new request's would be older. */
INLINE int again(struct request *rq) {
    u64 key = (u64)rq;
    struct inflight *entry = map_lookup(&inflight, &key);
    return entry && rq->start_time_ns <= (entry->dispatched_ns ? entry->dispatched_ns : entry->start_ns);
}

/* A completion without an entry is that of a request which began before the trace, or whose start was not seen. */
INLINE void unmatched(struct request *rq) {
    /* The kernel's own flushes are never started, and one that flushes before or after its data completes twice. */
    u32 flushes = OP_OF(rq->cmd_flags) == REQ_OP_FLUSH || rq->cmd_flags >> (REQ_PREFLUSH_BIT - 1) & 3;
    u32 when = ATTACHED_NS;
    u64 *attached_ns = map_lookup(&health, &when);
    if (!flushes && attached_ns && *attached_ns && rq->start_time_ns > *attached_ns && !again(rq))
        count(UNMATCHED);
}

INLINE void complete(struct inflight *entry, u32 error) {
    struct ended call = {.entered_ns = entry->dispatched_ns, .left_ns = now_ns(), .result = error ? -1 : 0};
    if (!call.entered_ns)
        call.entered_ns = entry->start_ns;
    call.kind = OTHER; /* bytes were counted when it was issued */
    u32 index = entry->class;
    struct block_class *class = map_lookup(&block_classes, &index);
    if (class)
        add_ended(&class->calls, &call);
    if (explaining)
        request_completed(entry, call.left_ns);
    u64 took_ns = call.left_ns - call.entered_ns;
    struct buckets *buckets = map_lookup(&block_latencies, &index);
    u32 bucket = bucket_of(took_ns);
    if (buckets && bucket < BUCKETS)
        __sync_fetch_and_add(&buckets->counts[bucket], 1);
    if (recording) {
        u64 q2d_ns = call.entered_ns - entry->start_ns;
        struct event event = {entry->start_ns, entry->sector,    took_ns,   q2d_ns < NONE ? (u32)q2d_ns : NONE,
                              entry->bytes,    entry->cmd_flags, entry->dev};
        record(&event);
    }
    entry->busy = 0;
}

SEC("tp_btf/block_rq_complete")
int block_complete(u64 *ctx) {
    struct request *rq = (struct request *)ctx[0];
    struct inflight *entry = busy(ctx[0]);
    u32 error = ctx[1], bytes = ctx[2];
    if (!entry)
        unmatched(rq);
    else if (bytes >= rq->__data_len || error)
        complete(entry, error); /* the whole of it */
    return 0;
}

/* A request that became a part of the one before it. */
SEC("tp_btf/block_rq_merge")
int block_merge(u64 *ctx) {
    struct inflight *entry = busy(ctx[0]);
    if (!entry)
        return 0;
    struct block_class *class = map_lookup(&block_classes, &entry->class);
    if (class) {
        __sync_fetch_and_add(&class->calls.calls, -1ULL);
        __sync_fetch_and_add(&class->calls.bytes, -(u64)entry->bytes);
        __sync_fetch_and_add(&class->merges, 1);
    }
    entry->busy = 0;
    return 0;
}

INLINE int bio_merged(struct bio *bio) {
    u32 class = class_of(dev_of(bio->bi_bdev->bd_disk), followed() ? 1 : 0, kind_of(bio->bi_opf, 1));
    struct block_class *counts = map_lookup(&block_classes, &class);
    if (counts)
        __sync_fetch_and_add(&counts->merges, 1);
    return 0;
}

SEC("tp_btf/block_bio_backmerge")
int block_backmerge(u64 *ctx) {
    return bio_merged((struct bio *)ctx[0]);
}

SEC("tp_btf/block_bio_frontmerge")
int block_frontmerge(u64 *ctx) {
    return bio_merged((struct bio *)ctx[0]);
}
