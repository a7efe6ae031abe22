/* Which programs the tasks of the tree ran, in which processes: their arguments, and what standard output and standard
 * error were when they began. Read once at the end, through a ring that wakes nobody.
 */
#pragma once
#include "tree.h"

/* The open file behind a descriptor of the running task. */
INLINE struct file *descriptor(struct task_struct *task, u32 fd) {
    struct fdtable *table = task->files->fdt;
    u64 file = 0;
    if (fd < table->max_fds)
        read_kernel(&file, sizeof(file), (void *)((u64)table->fd + fd * 8ULL));
    return (struct file *)file;
}

INLINE void identify(struct task_struct *task, u32 fd, u64 *ino, u32 *dev) {
    struct file *file = descriptor(task, fd);
    struct inode *inode = file ? FIELD(file, f_inode) : 0;
    struct super_block *sb = inode ? FIELD(inode, i_sb) : 0;
    *ino = inode ? FIELD(inode, i_ino) : 0;
    *dev = sb ? FIELD(sb, s_dev) : 0;
}

SEC("tp_btf/sched_process_exec")
int program_begins(void *ctx __attribute__((unused))) {
    if (!followed())
        return 0;
    struct program_event *event = ring_reserve(&programs, sizeof(*event), 0);
    if (!event) {
        count(UNNAMED);
        return 0;
    }
    struct task_struct *task = current_task();
    struct mm_struct *mm = task->mm;
    u64 from = mm ? FIELD(mm, arg_start) : 0;
    u64 bytes = mm ? FIELD(mm, arg_end) - from : 0;
    event->at_ns = now_ns();
    event->process = task->tgid;
    identify(task, 1, &event->out_inode, &event->out_dev);
    identify(task, 2, &event->error_inode, &event->error_dev);
    event->words_bytes = bytes;
    if (bytes > WORDS_BYTES)
        bytes = WORDS_BYTES;
    BARRIER(bytes);
    if (bytes > WORDS_BYTES || read_user(event->words, bytes, (void *)from))
        event->words_bytes = 0;
    ring_submit(event, RING_NO_WAKEUP);
    return 0;
}
