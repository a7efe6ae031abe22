/* Sessions: what is done through one open file (the kernel's struct file, which descriptors made by dup and fork
 * share).
 *
 * Its address is the key. It is used again after the last close, so an entry ends at the close of the last reference,
 * when something is opened at the same address, or when the inode behind the address is another one. Slots are never
 * used again; the loader reads all of them at the end, so nothing has to be sent when a session ends (a wake-up at the
 * close lay inside the interval of a benchmark that times its close). Descriptors that are closed by exec or exit need
 * no care: such sessions just have no close.
 */
#pragma once
#include "files.h"

#define MAX_CLOSING (1 << 20) /* fs.nr_open, unless it was raised */

struct {
    MAP_FIELD_NUMBER(type, MAP_HASH);
    MAP_FIELD_NUMBER(max_entries, MAX_SESSIONS);
    MAP_FIELD_TYPE(key, u64);
    MAP_FIELD_TYPE(value, u32);
} open_files SEC(".maps");

struct {
    MAP_FIELD_NUMBER(type, MAP_ARRAY);
    MAP_FIELD_NUMBER(max_entries, MAX_SESSIONS);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct session);
} sessions SEC(".maps");

/* The open file behind a descriptor of the current task, 0 where there is none. */
INLINE u64 file_of(u32 fd) {
    u64 file = 0;
    struct fdtable *table = current_task()->files->fdt;
    if (fd < table->max_fds)
        read_kernel(&file, sizeof(file), (void *)((u64)table->fd + fd * 8ULL));
    return file;
}

INLINE struct session *session_at(u32 slot) {
    return map_lookup(&sessions, &slot);
}

/* The kernel forgets that a file was to be made or emptied once that is done; these flags are the caller's. */
#define MAKING_FLAGS (0100 | 01000) /* O_CREAT, O_TRUNC */

#define FMODE_CREATED (1 << 20) /* include/linux/fs.h */

/* A global function, verified once: opening is rare. Slot of a new session; `path` as in `file_id`. */
__attribute__((noinline)) u32 session_open(u64 address, u64 opened_ns, u64 path, u32 flags) {
    struct file *file = (struct file *)address;
    struct inode *inode = FIELD(file, f_inode);
    if (!inode)
        return NONE;
    u32 id = file_id(inode, (const void *)path, FIELD(file, f_mode) & FMODE_CREATED);
    u32 slot = id == NONE ? NONE : count(NEXT_SESSION);
    struct session *session = session_at(slot);
    if (session) {
        session->file = address;
        session->inode = (u64)inode;
        session->file_id = id;
        session->flags = FIELD(file, f_flags) | (flags & MAKING_FLAGS);
        session->read_pattern = session->write_pattern = has_offsets(FIELD(inode, i_mode)) ? 0 : NONE;
        session->opened_ns = opened_ns;
    } else {
        slot = NONE; /* known as not tracked, so that it is counted once */
        count(UNTRACKED_SESSIONS);
    }
    u32 *known = map_lookup(&open_files, &address);
    struct session *before = known ? session_at(*known) : 0;
    if (before)
        before->file = 0;
    map_update(&open_files, &address, &slot, UPDATE_ANY);
    return slot;
}

/* A global function: what the last call of a task did not use. */
__attribute__((noinline)) u32 session_find(u64 address) {
    u32 *known = map_lookup(&open_files, &address);
    if (!known)
        return session_open(address, 0, 0, 0);
    struct session *session = session_at(*known);
    struct file *file = (struct file *)address;
    if (session && session->inode != (u64)FIELD(file, f_inode))
        return session_open(address, 0, 0, 0);
    return *known;
}

/* Slot of the session of an open file; made where it was open before. NONE where it is not tracked. */
INLINE u32 session_of(struct task *task, u64 file) {
    if (!file)
        return NONE;
    if (file == task->last_file) {
        struct session *last = session_at(task->last_slot);
        if (last && last->file == file)
            return task->last_slot;
    }
    u32 slot = session_find(file);
    task->last_file = file;
    task->last_slot = slot;
    return slot;
}

INLINE struct calls *calls_of(struct session *session, u32 kind) {
    return kind == READ ? &session->read : kind == WRITE ? &session->write : kind == SYNC ? &session->sync : 0;
}

/* A read or write begins: whether it is the very first one. Ordered by entry, not by exit. */
INLINE u32 session_begins(u32 slot, u32 kind, u64 at_ns) {
    struct session *session = session_at(slot);
    if (!session || !moves_data(kind) || session->nth >= 2)
        return 0;
    u64 nth = __sync_fetch_and_add(&session->nth, 1);
    if (nth == 1)
        session->second_ns = at_ns;
    struct file_seen *seen = nth ? 0 : map_lookup(&files, &session->file_id);
    if (seen)
        session->cached_bytes = seen->page_cache_bytes;
    return nth == 0;
}

/* The call that was the first one will be made again. */
INLINE void session_begins_again(u32 slot, u32 is_first) {
    struct session *session = session_at(slot);
    if (session && is_first)
        session->nth = 0;
}

/* The flags of an open file were set. One session has one set of flags, so what was done with the old ones stays apart:
 * else one direct read in a thousand would make all of them direct. */
__attribute__((noinline)) int session_flags_set(u64 address, u32 slot, u64 at_ns) {
    struct file *file = (struct file *)address;
    struct session *session = session_at(slot);
    if (!session || !file)
        return 0;
    u32 flags = FIELD(file, f_flags) | (session->flags & MAKING_FLAGS);
    if (flags != session->flags && session->nth && session->read_pattern != NONE)
        session_open(address, at_ns, 0, flags);
    else
        session->flags = flags;
    return 0;
}

/* A call was issued that ended, or never will. This and the next are global functions: the verifier goes through them
 * once, not at each call of them. */
__attribute__((noinline)) int session_issued(u32 slot, u32 kind, u32 is_first, u64 at_ns, u64 requested_bytes) {
    struct session *session = session_at(slot);
    struct calls *calls = session ? calls_of(session, kind) : 0;
    if (calls)
        add_issued_shared(calls, at_ns, requested_bytes);
    if (session && is_first)
        add_issued_shared(&session->first, at_ns, requested_bytes);
    return 0;
}

/* A synchronisation succeeded. Something was written before it by its session, and is under way or was after the last
 * one had begun; or by its task, where tasks that share an open file synchronise one after the other. */
INLINE void session_synced(struct session *session, u32 slot, const struct ended *call) {
    struct task *task = followed();
    int by_task = task && task->written == slot + 1;
    if (by_task || session->write.calls > session->write.completed || session->write.last_ns > session->synced_ns)
        __sync_fetch_and_add(&session->dirty_syncs, 1);
    if (by_task)
        task->written = 0;
    raise_shared(&session->synced_ns, call->entered_ns);
}

#define DSYNC 010000 /* O_DSYNC, which O_SYNC has as well (include/uapi/asm-generic/fcntl.h) */
#define SYNCHRONOUS_WRITES 0 /* the first class of operations */
int operation_done(u32 operation, const struct ended *call);

__attribute__((noinline)) int session_ended(u32 slot, u32 is_first, const struct ended *call) {
    struct session *session = session_at(slot);
    if (!session || !call)
        return 0;
    if (call->kind == SYNC && call->result >= 0)
        session_synced(session, slot, call);
    if (call->is_synced && call->result > 0)
        __sync_fetch_and_add(&session->synced_writes, 1);
    if (call->kind == WRITE && call->result > 0 && (call->is_synced || session->flags & DSYNC))
        operation_done(SYNCHRONOUS_WRITES, call);
    struct calls *calls = calls_of(session, call->kind);
    if (calls)
        add_ended_shared(calls, call);
    if (is_first)
        add_ended_shared(&session->first, call);
    raise_shared(&session->ended_ns, call->left_ns);
    return 0;
}

/* Whether nothing but the current descriptor refers to an open file. */
INLINE int is_last_reference(u64 address) {
    struct file *file = (struct file *)address;
    struct file___counted *counted = (struct file___counted *)address;
    if (FIELD_EXISTS(file, f_ref))
        return FIELD(file, f_ref.refcnt.counter) == 0;
    return FIELD(counted, f_count.counter) == 1;
}

/* A descriptor is about to be closed: slot of its session. */
INLINE u32 session_closes(u64 file) {
    u32 *known = file ? map_lookup(&open_files, &file) : 0;
    if (!known)
        return NONE;
    u32 slot = *known;
    if (!is_last_reference(file))
        return slot;
    struct session *session = session_at(slot);
    if (session)
        session->file = 0;
    map_delete(&open_files, &file);
    return slot;
}

/* A descriptor was closed, at least the last one that was known. */
INLINE void session_closed(u32 slot, u64 at_ns) {
    struct session *session = session_at(slot);
    if (session)
        raise_shared(&session->closed_ns, at_ns);
}

/* Descriptors from `first` on that are about to be closed together, by whoever may not be the only one to have them. */
struct closing {
    u64 first, at_ns;
};

static long session_close_one(u32 index, struct closing *closing) {
    u64 file = file_of(closing->first + index);
    if (file && is_last_reference(file))
        session_closed(session_closes(file), closing->at_ns);
    return 0;
}

__attribute__((noinline)) int sessions_close(u64 first, u64 last, u64 at_ns) {
    struct closing closing = {first, at_ns};
    u64 end = current_task()->files->fdt->max_fds;
    if (last + 1 < end)
        end = last + 1;
    if (first < end && end <= MAX_CLOSING)
        loop(end - first, session_close_one, &closing, 0);
    return 0;
}
