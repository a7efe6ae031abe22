/* What the process tree's reads and writes added to the page cache, by file: what was not added was a hit.
 * Folios are counted with their size: one of them may hold hundreds of pages.
 */
#pragma once
#include "files.h"

volatile const u64 page_bytes = 4096;

#define ORDER_MASK 0xff /* the low byte of _flags_1 is the order (include/linux/mm_types.h) */

enum pageflags { PG_head = 6 };

INLINE u64 order_of(struct folio *folio) {
    struct folio___ordered *older = (struct folio___ordered *)folio;
    if (FIELD_EXISTS(older, _folio_order))
        return FIELD(older, _folio_order);
    return FIELD(folio, _flags_1) & ORDER_MASK;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int page_cache_add(u64 *ctx) {
    if (!followed())
        return 0;
    struct folio *folio = (struct folio *)ctx[0];
    u64 flags = 0;
    read_kernel(&flags, sizeof(flags), folio);
    u64 order = 0;
    if (flags >> __builtin_preserve_enum_value(*(enum pageflags *)PG_head, 1) & 1)
        order = order_of(folio);
    struct file_key key = key_of(folio->mapping->host);
    u32 *id = map_lookup(&file_ids, &key);
    struct file_seen *seen = id ? map_lookup(&files, id) : 0;
    if (seen)
        __sync_fetch_and_add(&seen->page_cache_bytes, page_bytes << order);
    return 0;
}
