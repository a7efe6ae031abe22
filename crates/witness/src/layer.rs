//! The layers, and the programs of each.

/// A program and the tracepoint it is for.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) tracepoint: &'static str,
    /// Without it the layer says something wrong, not just less.
    pub(crate) is_required: bool,
    /// The same for the tracepoint as older kernels have it.
    pub(crate) older: Option<&'static str>,
}

/// What is watched together, or not at all.
pub(crate) struct Layer {
    /// As `observation.py` calls what it gives.
    pub(crate) names: &'static [&'static str],
    pub(crate) programs: &'static [Program],
}

const fn program(name: &'static str, tracepoint: &'static str) -> Program {
    Program {
        name,
        tracepoint,
        is_required: true,
        older: None,
    }
}

const fn extra(name: &'static str, tracepoint: &'static str) -> Program {
    Program {
        name,
        tracepoint,
        is_required: false,
        older: None,
    }
}

pub(crate) const TREE: Program = program("tree_newtask", "task_newtask");

pub(crate) const BLOCK: Layer = Layer {
    names: &["block"],
    programs: &[
        program("block_complete", "block_rq_complete"),
        program("block_issue", "block_rq_issue"),
        program("block_merge", "block_rq_merge"),
        extra("block_backmerge", "block_bio_backmerge"),
        extra("block_frontmerge", "block_bio_frontmerge"),
        program("block_start", "block_io_start"),
    ],
};

pub(crate) const URING: Layer = Layer {
    names: &["uring"],
    programs: &[
        Program {
            older: Some("uring_complete_old"),
            ..program("uring_complete", "io_uring_complete")
        },
        program("uring_submit", "io_uring_submit_req"),
    ],
};

pub(crate) const SYSCALLS: Layer = Layer {
    names: &["syscalls", "aio"],
    programs: &[
        program("syscall_exit", "sys_exit"),
        program("syscall_killed", "sched_process_exit"),
        program("syscall_enter", "sys_enter"),
    ],
};

pub(crate) const SYNTHETIC: Layer = Layer {
    names: &["synthetic"],
    programs: &[program("synthetic_event", "sys_enter")],
};

pub(crate) const PAGE_CACHE: Layer = Layer {
    names: &["page-cache"],
    programs: &[program("page_cache_add", "mm_filemap_add_to_page_cache")],
};
