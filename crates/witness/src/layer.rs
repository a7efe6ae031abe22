//! The layers, and the programs of each.

/// A program and the tracepoint it is for.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) tracepoint: &'static str,
    /// Without it the layer says something wrong, not just less.
    pub(crate) is_required: bool,
}

/// What is watched together, or not at all.
pub(crate) struct Layer {
    /// As `observation.py` calls what it gives.
    pub(crate) names: &'static [&'static str],
    pub(crate) programs: &'static [Program],
    /// The same by programs for older kernels.
    pub(crate) older: Option<&'static Layer>,
}

impl Layer {
    /// The layer and what serves for it on older kernels, newest first.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &Layer> {
        std::iter::successors(Some(self), |layer| layer.older)
    }
}

const fn program(name: &'static str, tracepoint: &'static str) -> Program {
    Program { name, tracepoint, is_required: true }
}

const fn extra(name: &'static str, tracepoint: &'static str) -> Program {
    Program { name, tracepoint, is_required: false }
}

pub(crate) const TREE: Program = program("tree_newtask", "task_newtask");

/// For processes that run already: follows tasks that were made before their parent was followed.
pub(crate) const ADOPT: Program = program("tree_adopt", "task_newtask");

/// Follows threads that no descriptor can name (before Linux 6.9).
pub(crate) const ADOPT_CALLER: Program = program("tree_adopt_caller", "sys_enter");

/// Counts the tasks of the tree that are alive, and tells when processes end.
pub(crate) const TREE_END: Program = extra("tree_exit", "sched_process_exit");

/// Tells which programs ran in which processes.
pub(crate) const PROGRAMS: Program = extra("program_begins", "sched_process_exec");

pub(crate) static BLOCK: Layer = Layer {
    names: &["block"],
    programs: &[
        program("block_complete", "block_rq_complete"),
        program("block_issue", "block_rq_issue"),
        program("block_merge", "block_rq_merge"),
        extra("block_backmerge", "block_bio_backmerge"),
        extra("block_frontmerge", "block_bio_frontmerge"),
        program("block_start", "block_io_start"),
    ],
    older: Some(&BLOCK_BY_BIOS),
};

static BLOCK_BY_BIOS: Layer = Layer {
    names: &["block", "bios"],
    programs: &[
        program("bio_complete", "block_rq_complete"),
        program("bio_issue", "block_rq_issue"),
        extra("bio_request_merged", "block_rq_merge"),
        extra("block_backmerge", "block_bio_backmerge"),
        extra("block_frontmerge", "block_bio_frontmerge"),
        program("bio_split", "block_split"),
        program("bio_remap", "block_bio_remap"),
        program("bio_queue", "block_bio_queue"),
    ],
    older: None,
};

pub(crate) static URING: Layer = Layer {
    names: &["uring"],
    programs: &[program("uring_complete", "io_uring_complete"), program("uring_submit", "io_uring_submit_req")],
    older: Some(&URING_OLD),
};

static URING_OLD: Layer = Layer {
    names: &["uring"],
    programs: &[program("uring_complete_old", "io_uring_complete"), program("uring_submit", "io_uring_submit_req")],
    older: Some(&URING_OLDER),
};

/// Before Linux 6.3; since 6.0.
static URING_OLDER: Layer = Layer {
    names: &["uring"],
    programs: &[program("uring_complete_old", "io_uring_complete"), program("uring_submit", "io_uring_submit_sqe")],
    older: None,
};

pub(crate) static SYSCALLS: Layer = Layer {
    names: &["syscalls", "aio"],
    programs: &[
        program("syscall_exit", "sys_exit"),
        program("syscall_killed", "sched_process_exit"),
        program("syscall_enter", "sys_enter"),
    ],
    older: None,
};

pub(crate) static SYNTHETIC: Layer =
    Layer { names: &["synthetic"], programs: &[program("synthetic_event", "sys_enter")], older: None };

pub(crate) static PAGE_CACHE: Layer = Layer {
    names: &["page-cache"],
    programs: &[program("page_cache_add", "mm_filemap_add_to_page_cache")],
    older: None,
};

/// Replaces [`SYSCALLS`], and needs `io_uring` and [`BLOCK`] in its newest form. As everywhere, programs that end
/// something come first.
pub(crate) static EXPLAIN: Layer = Layer {
    names: &["explain", "syscalls", "aio"],
    programs: &[
        program("explain_exit", "sys_exit"),
        program("syscall_killed", "sched_process_exit"),
        program("explain_done", "block_io_done"),
        program("explain_waking", "sched_waking"),
        program("explain_switch", "sched_switch"),
        extra("explain_possession", "contention_end"),
        extra("explain_contention", "contention_begin"),
        extra("explain_commit", "jbd2_start_commit"),
        extra("explain_served", "fuse_request_send"),
        extra("explain_direct", "iomap_dio_rw_begin"),
        program("explain_worker", "task_newtask"),
        program("explain_enter", "sys_enter"),
    ],
    older: None,
};
