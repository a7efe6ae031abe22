/* System calls from the two tracepoints that all calls of the machine pass: the task's storage says whether its task is
 * of interest. All calls are counted by number; a table by number says which are calls on files, and what they are about.
 */
#pragma once
#include "aio.h"
#include "by_number.h"
#include "outer.h"

/* Where a call has its descriptor and its size. */
enum {
    IGNORED,
    SIZE_AT_2,   /* fd, buffer, size */
    VECTORS,     /* fd, vectors, number */
    NO_SIZE,     /* fd */
    NO_FILE,
    PATH_AT_1,   /* directory fd, path, flags (openat) */
    PATH_AT_0,   /* path, flags (open) */
    PATH_MADE,   /* path (creat) */
    PATH_HOW,    /* directory fd, path, struct open_how (openat2) */
    CLOSE,       /* fd */
    REPLACES,    /* old fd, new fd: what the new one was is closed (dup2, dup3) */
    IO_SUBMIT,   /* context, number, iocbs */
    IO_GETEVENTS,/* context, least, most, events */
    COPY_OUT_IN, /* out fd, in fd, offset, size (sendfile) */
    COPY_IN_OUT, /* in fd, offset, out fd, offset, size (copy_file_range, splice) */
    CLOSE_RANGE, /* first fd, last fd, flags */
    EXEC,        /* closes what is marked so */
    CONTROL,     /* fd, command, flags (fcntl) */
};

#define F_SETFL 4 /* include/uapi/asm-generic/fcntl.h; other commands say nothing about a file */

#define CLOSE_RANGE_CLOEXEC 4 /* include/uapi/linux/close_range.h */

/* Where a call that moves data has its offset. */
enum {
    NO_OFFSET,
    AT_POSITION, /* the file's own */
    OFFSET_AT_3,
    OFFSET_OR_POSITION, /* the same, -1 for the file's own (preadv2) */
};

struct entry {
    u8 shape, kind, operation, offset;
};
/* By number of the system call; the loader fills it for the machine's architecture. */
volatile const struct entry entries[SYSCALLS] __attribute__((aligned(4))) = {};

/* As the loader left it: a read that is not volatile is the compiler's to answer, and clang 19 answers with zeros. */
INLINE struct entry entry_by_number(u64 number) {
    union {
        u32 word;
        struct entry entry;
    } loaded = {.word = *(volatile const u32 *)&entries[number]};
    return loaded.entry;
}

INLINE void begin_one(struct task *task, u32 *slot, u32 *is_first, u32 fd, u32 kind) {
    *slot = session_of(task, file_of(fd));
    *is_first = session_begins(*slot, kind, task->entered_ns);
}

INLINE void begin(struct task *task, struct pt_regs *regs, u32 shape, u32 kind) {
    task->requested_bytes = 0;
    task->slot = task->other_slot = NONE;
    task->is_first = task->other_is_first = 0;
    if (shape == SIZE_AT_2 || shape == VECTORS || shape == NO_SIZE || shape == CONTROL)
        begin_one(task, &task->slot, &task->is_first, ARG0(regs), kind);
    if (shape == SIZE_AT_2)
        task->requested_bytes = ARG2(regs);
    else if (shape == VECTORS)
        task->requested_bytes = vectors_bytes(ARG1(regs), ARG2(regs));
    else if (shape == CLOSE)
        task->slot = session_closes(file_of(ARG0(regs)));
    else if (shape == REPLACES && ARG0(regs) != ARG1(regs))
        sessions_close(ARG1(regs), ARG1(regs), task->entered_ns);
    else if (shape == CLOSE_RANGE && !(ARG2(regs) & CLOSE_RANGE_CLOEXEC))
        sessions_close((u32)ARG0(regs), (u32)ARG1(regs), task->entered_ns);
    else if (shape == EXEC)
        task->last_file = 0; /* its address may be another file's when the next call comes */
    else if (shape == IO_SUBMIT)
        aio_submit(ARG2(regs), ARG1(regs), task->entered_ns);
    else if (shape == COPY_OUT_IN || shape == COPY_IN_OUT) {
        int out_first = shape == COPY_OUT_IN;
        begin_one(task, &task->slot, &task->is_first, out_first ? ARG1(regs) : ARG0(regs), READ);
        begin_one(task, &task->other_slot, &task->other_is_first, out_first ? ARG0(regs) : ARG2(regs), WRITE);
        task->requested_bytes = out_first ? ARG3(regs) : ARG4(regs);
    }
}

/* What the call is; nothing that is watched where its number is none of the table. */
INLINE struct entry call_entered(struct task *task, struct pt_regs *regs, u64 number) {
    struct entry entry = {};
    if (IS_COMPAT(current_task())) {
        call_counted(CALLED_COMPAT, 0);
        count(LOST); /* a 32-bit program: its numbers mean something else */
        return entry;
    }
    call_made(number);
    if (number < SYSCALLS)
        entry = entry_by_number(number);
    if (entry.shape == IGNORED || (entry.shape == CONTROL && ARG1(regs) != F_SETFL)) {
        outer_passes(task, number);
        return entry;
    }
    task->entered_ns = now_ns();
    task->shape = entry.shape;
    task->operation = number;
    begin(task, regs, entry.shape, entry.kind);
    return entry;
}

SEC("tp_btf/sys_enter")
int syscall_enter(u64 *ctx) {
    struct task *task = followed();
    if (task)
        call_entered(task, (struct pt_regs *)ctx[0], ctx[1]);
    return 0;
}

INLINE void end_opened(struct task *task, s64 fd, u64 path, u64 flags) {
    u64 file = fd >= 0 ? file_of(fd) : 0;
    if (!file)
        return;
    task->last_slot = session_open(file, task->entered_ns, path, flags);
    task->last_file = file;
}

INLINE void end_on(u32 slot, u32 is_first, const struct ended *call) {
    if (slot == NONE)
        return;
    session_issued(slot, call->kind, is_first, call->entered_ns, call->requested_bytes);
    session_ended(slot, is_first, call);
}

/* What a call on a file moved, and where. */
INLINE void touch(u32 slot, struct pt_regs *regs, u32 offset_at, const struct ended *call) {
    if (slot == NONE || call->result <= 0 || !offset_at)
        return;
    u64 offset = ARG3(regs);
    if (offset_at == AT_POSITION || (offset_at == OFFSET_OR_POSITION && offset == ~0ULL))
        pattern_at_position(slot, call->kind, call->result);
    else
        pattern_at_offset(slot, call->kind, offset, call->result);
}

/* One side of a copy: `pointer` is to its offset, which the kernel moved on, or 0 for the file's own. */
INLINE void touch_copied(u32 slot, u64 pointer, const struct ended *call) {
    u64 end = 0;
    if (slot == NONE || call->result <= 0)
        return;
    if (!pointer)
        pattern_at_position(slot, call->kind, call->result);
    else if (read_user(&end, sizeof(end), (void *)pointer))
        pattern_unsure(slot, call->kind);
    else
        pattern_at_offset(slot, call->kind, end - call->result, call->result);
}

/* Between -ERESTARTSYS and -ERESTART_RESTARTBLOCK (include/linux/errno.h): a signal came before anything was done, and
 * the call is made again or answered with EINTR. It is not counted, unless its task ends with it. */
INLINE int is_restarted(s64 result) {
    return result <= -512 && result >= -516;
}

INLINE void end(struct task *task, struct pt_regs *regs, struct entry entry, struct ended *call) {
    u32 shape = entry.shape;
    operation_done(entry.operation, call);
    if (shape == PATH_AT_1)
        end_opened(task, call->result, ARG1(regs), ARG2(regs));
    else if (shape == PATH_AT_0)
        end_opened(task, call->result, ARG0(regs), ARG1(regs));
    else if (shape == PATH_MADE)
        end_opened(task, call->result, ARG0(regs), MAKING_FLAGS);
    else if (shape == PATH_HOW) {
        u64 flags = 0; /* the first word of struct open_how (include/uapi/linux/openat2.h) */
        read_user(&flags, sizeof(flags), (void *)ARG2(regs));
        end_opened(task, call->result, ARG1(regs), flags);
    }
    else if (shape == CLOSE)
        session_closed(task->slot, call->left_ns);
    else if (shape == CONTROL && !call->result)
        session_flags_set(file_of(ARG0(regs)), task->slot, call->entered_ns);
    else if (shape == IO_SUBMIT)
        aio_withdraw(ARG2(regs), call->result < 0 ? 0 : call->result, ARG1(regs));
    else if (shape == IO_GETEVENTS && call->result > 0)
        aio_reap(task->account, ARG3(regs), call->result, call->left_ns);
    else if (shape == COPY_OUT_IN || shape == COPY_IN_OUT) {
        end_on(task->slot, task->is_first, call);
        touch_copied(task->slot, shape == COPY_OUT_IN ? ARG2(regs) : ARG1(regs), call);
        call->kind = WRITE;
        operation_done(entry.operation + 1, call);
        task->written = task->other_slot + 1;
        end_on(task->other_slot, task->other_is_first, call);
        touch_copied(task->other_slot, shape == COPY_OUT_IN ? 0 : ARG3(regs), call);
    } else {
        if (call->kind == WRITE)
            task->written = task->slot + 1;
        if (entry.offset == OFFSET_OR_POSITION)
            call->is_synced = is_synced(call->kind, ARG5(regs));
        end_on(task->slot, task->is_first, call);
        touch(task->slot, regs, entry.offset, call);
    }
}

INLINE void list(struct task *task, struct pt_regs *regs, u64 number, u32 shape, const struct ended *call) {
    if (shape == PATH_AT_1 || shape == PATH_HOW)
        list_opening(task, regs, number, ARG1(regs), call);
    else if (shape == PATH_AT_0 || shape == PATH_MADE)
        list_opening(task, regs, number, ARG0(regs), call);
    else {
        if (shape == REPLACES)
            task->slot = session_of(task, file_of(ARG0(regs)));
        list_call(task, regs, number, call);
    }
}

/* A call that began before its task was followed: in no count, but what it reaps may have begun since. Reads of pipes
 * and sockets that waited for a word of somebody are not worth a mention. */
INLINE void ended_from_before(struct pt_regs *regs, struct entry entry, s64 result) {
    if (entry.shape == IO_GETEVENTS && result > 0)
        aio_reap(0, ARG3(regs), result, now_ns());
    else if (entry.kind <= SYNC && !is_restarted(result) && is_on_disk(file_of(ARG0(regs))))
        count(BEFORE);
}

INLINE struct entry entry_left(struct pt_regs *regs) {
    struct entry entry = {};
    u64 number = CALL_NUMBER(regs);
    if (number < SYSCALLS)
        entry = entry_by_number(number);
    return entry;
}

/* Whether a call waits for the data of a file or a block device. */
INLINE int waits_for_data(struct task *task, struct entry entry) {
    if (entry.kind > SYNC || entry.shape == IGNORED || entry.shape == COPY_OUT_IN || entry.shape == COPY_IN_OUT)
        return 0;
    struct session *session = session_at(task->slot);
    return session && session->read_pattern != NONE;
}

INLINE int has_failed(s64 result) {
    return result < 0 && result >= -MAX_ERRNO && !is_restarted(result);
}

/* When the call ended, if it is one that is watched. */
INLINE u64 call_left(struct task *task, u64 *ctx) {
    struct pt_regs *regs = (struct pt_regs *)ctx[0];
    struct entry entry = entry_left(regs);
    u64 number = CALL_NUMBER(regs);
    s64 result = ctx[1];
    if (has_failed(result))
        call_failed(number);
    if (entry.shape == IGNORED)
        return 0;
    if (task->shape != entry.shape) {
        ended_from_before(regs, entry, result);
        return 0;
    }
    struct ended call = {task->entered_ns, now_ns(), task->requested_bytes, result, entry.kind, 0};
    if (is_restarted(call.result) && entry.shape != IO_SUBMIT) {
        session_begins_again(task->slot, task->is_first);
        return call.left_ns;
    }
    task->shape = IGNORED;
    outer_begins(task, &call, waits_for_data(task, entry));
    end(task, regs, entry, &call);
    if (listing)
        list(task, regs, number, entry.shape, &call);
    return call.left_ns;
}

SEC("tp_btf/sys_exit")
int syscall_exit(u64 *ctx) {
    if (entry_left((struct pt_regs *)ctx[0]).shape == IGNORED && !has_failed(ctx[1]))
        return 0; /* the usual call of everybody ends here, without a look at its task */
    struct task *task = followed();
    if (task)
        call_left(task, ctx);
    return 0;
}

/* A task that ends within a call (by a signal): it was issued and never ended. */
SEC("tp_btf/sched_process_exit")
int syscall_killed(void *ctx __attribute__((unused))) {
    struct task *task = followed();
    if (!task || task->shape == IGNORED || task->operation >= SYSCALLS)
        return 0;
    struct entry entry = entry_by_number(task->operation);
    task->shape = IGNORED;
    operation_issued(entry.operation, task->entered_ns, task->requested_bytes);
    if (task->slot != NONE && entry.shape != CLOSE)
        session_issued(task->slot, entry.kind, task->is_first, task->entered_ns, task->requested_bytes);
    return 0;
}
