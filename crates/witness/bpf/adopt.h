/* Processes that run already. The loader gives storage to each task that it can name; these programs find the others,
 * so that a fork during the attachment is not missed: a task that makes another one is adopted before (`tree_adopt` is
 * attached before `tree_newtask`) where an ancestor is followed, or where it is in the cgroup that is watched.
 *
 * Nothing here is loaded for a command that is held before its first instruction.
 */
#pragma once
#include "tree.h"

#define MAX_DEPTH 32

/* Of the unified hierarchy, by the inode of its folder; 0 where no cgroup is watched. */
volatile const u64 watched_cgroup = 0;

INLINE void adopt(struct task_struct *task) {
    if (!task_storage_get(&tasks, task, 0, STORAGE_CREATE)) {
        count(LOST);
        return;
    }
    count(PROCESSES);
    if (task->pid != task->tgid)
        count(THREADS);
}

INLINE int is_process_followed(struct task_struct *task) {
    struct task_struct *leader = task->group_leader;
    return leader && task_storage_get(&tasks, leader, 0, 0);
}

INLINE int is_descendant(struct task_struct *task) {
    for (int i = 0; i < MAX_DEPTH && task; i++) {
        if (is_process_followed(task))
            return 1;
        task = task->real_parent;
    }
    return 0;
}

INLINE int is_in_watched_cgroup(struct task_struct *task) {
    if (!watched_cgroup)
        return 0;
    struct css_set *set = FIELD(task, cgroups);
    struct cgroup *cgroup = set ? FIELD(set, dfl_cgrp) : 0;
    for (int i = 0; i < MAX_DEPTH && cgroup; i++) {
        struct kernfs_node *node = FIELD(cgroup, kn);
        if (node && FIELD(node, id) == watched_cgroup)
            return 1;
        struct cgroup_subsys_state *parent = FIELD(cgroup, self.parent);
        cgroup = parent ? FIELD(parent, cgroup) : 0;
    }
    return 0;
}

SEC("tp_btf/task_newtask")
int tree_adopt(void *ctx __attribute__((unused))) {
    struct task_struct *task = current_task();
    if (!followed() && (is_descendant(task) || is_in_watched_cgroup(task)))
        adopt(task);
    return 0;
}

/* Before Linux 6.9 a descriptor of a process cannot name its other threads: each is adopted when it makes a call. */
SEC("tp_btf/sys_enter")
int tree_adopt_caller(void *ctx __attribute__((unused))) {
    struct task_struct *task = current_task();
    if (!followed() && is_process_followed(task))
        adopt(task);
    return 0;
}
