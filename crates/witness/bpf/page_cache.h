/* What the process tree's reads and writes added to the page cache, by file: what was not added was a hit. Pages of an
 * inode that was not opened, added within a call, are of the file that it is on: overlay's lie with the inode below, those
 * of a block device with its own.
 * Folios are counted with their size: one of them may hold hundreds of pages.
 */
#pragma once
#include "sessions.h"

volatile const u64 page_bytes = 4096;

#define ORDER_MASK 0xff /* the low byte of _flags_1 is the order (include/linux/mm_types.h) */

enum pageflags { PG_head = 6 };

INLINE u64 order_of(struct folio *folio) {
    struct folio___ordered *older = (struct folio___ordered *)folio;
    if (FIELD_EXISTS(older, _folio_order))
        return FIELD(older, _folio_order);
    return FIELD(folio, _flags_1) & ORDER_MASK;
}

/* Id of the file that the call of a task is on, or NONE. */
INLINE u32 file_in_use(struct task *task) {
    struct session *session = task->shape ? session_at(task->slot) : 0;
    return session ? session->file_id : NONE;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int page_cache_add(u64 *ctx) {
    struct task *task = followed();
    if (!task)
        return 0;
    struct folio *folio = (struct folio *)ctx[0];
    u64 flags = 0;
    read_kernel(&flags, sizeof(flags), folio);
    u64 order = 0;
    if (flags >> __builtin_preserve_enum_value(*(enum pageflags *)PG_head, 1) & 1)
        order = order_of(folio);
    struct file_key key = key_of(folio->mapping->host);
    u32 *known = map_lookup(&file_ids, &key);
    u32 id = known ? *known : file_in_use(task);
    struct file_seen *seen = map_lookup(&files, &id);
    if (seen)
        __sync_fetch_and_add(&seen->page_cache_bytes, page_bytes << order);
    return 0;
}
