//! The programs in the kernel: loaded for the layers that are asked for, attached together, detached when dropped. After
//! a detachment they can be attached again.
//!
//! Programs are loaded before any is attached, so that a layer which this kernel lacks is left out as a whole. Within
//! a layer those that end something are attached before those that begin it: nothing begins unseen and ends seen.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, ScopedJoinHandle};

use aya::maps::{Map, MapData, RingBuf};
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader, VerifierLogLevel};

use crate::entries::Entries;
use crate::error::{Unavailable, in_one_line};
use crate::layer::{
    ADOPT, ADOPT_CALLER, BLOCK, EXPLAIN, Layer, PAGE_CACHE, PROGRAMS, Program, SYNTHETIC, SYSCALLS, TREE, TREE_END,
    URING,
};
use crate::options::Options;
use crate::shape::TASK_WORDS;
use crate::sys;

/// The compiled programs, as build.rs left them; empty where they could not be compiled.
pub(crate) static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/witness.bpf.o"));

/// Why they could not; empty where they are there.
pub(crate) const NOT_BUILT: &str = env!("WITNESS_NOT_BUILT");

/// Maps that only a layer needs: made small where it is not asked for.
const SYSCALL_MAPS: &[&str] = &[
    "file_ids",
    "files",
    "open_files",
    "sessions",
    "patterns",
    "granules",
    "aio_requests",
    "called",
    "odd_calls",
    "outer_intervals",
];
const BLOCK_MAPS: &[&str] = &["inflight", "bios", "block_classes", "block_latencies"];
const EXPLAIN_MAPS: &[&str] = &["accounts", "moments", "posted", "explained"];
const PAGE_BYTES: u32 = 4096;

pub(crate) struct ProgramSet {
    pub(crate) ebpf: Ebpf,
    /// What began; kept, since a new reader of a ring begins at its first byte.
    pub(crate) began: RingBuf<MapData>,
    pub(crate) layers: Vec<&'static str>,
    pub(crate) why: Vec<String>,
    /// Processor time that loading took.
    pub(crate) cpu_s: f64,
    names: Vec<&'static str>,
    links: Vec<(&'static str, BtfTracePointLinkId)>,
}

impl ProgramSet {
    /// Loads the tree's program, and what there is of the layers asked for.
    pub(crate) fn load(options: &Options) -> Result<Self, Unavailable> {
        let cpu_before_s = sys::thread_cpu_s();
        let btf = Btf::from_sys_fs()?;
        let mut ebpf = open(options)?;
        let began = ebpf.take_map("programs").expect("a map of the object");
        let mut loaded = Self {
            began: RingBuf::try_from(began).expect("a ring"),
            ebpf,
            layers: Vec::new(),
            why: Vec::new(),
            cpu_s: 0.0,
            names: Vec::new(),
            links: Vec::new(),
        };
        loaded.cpu_s = loaded.load_together(options, &btf);
        // Without it the most that were alive at once are not known, which is no reason to watch nothing.
        let _ = loaded.load_program(&TREE_END, &btf);
        if !options.running {
            let _ = loaded.load_program(&PROGRAMS, &btf); // nor is what ran a reason
        }
        for program in tree(options) {
            loaded.load_program(program, &btf).map_err(|what| Unavailable::Unsupported { what, errno: None })?;
        }
        for (layer, is_wanted) in wanted(options) {
            let is_there = layer.names.iter().all(|name| loaded.layers.contains(name));
            if is_wanted && layer.names == EXPLAIN.names && !loaded.can_explain() {
                let why = "explain cannot be watched on this kernel: it wants the other layers, and block_io_start";
                loaded.why.push(why.to_owned());
            } else if is_wanted && !is_there {
                loaded.load_layer(layer, &btf, options.oldest);
            }
        }
        if options.record.is_some() && loaded.layers.contains(&"block") {
            loaded.layers.push("record");
        }
        loaded.cpu_s += sys::thread_cpu_s() - cpu_before_s;
        Ok(loaded)
    }

    /// Loads what will most likely be used, each program by a thread of its own, since the kernel verifies some of them
    /// for tens of milliseconds. What fails here fails again, with a reason, where it is needed. Gives the
    /// threads' processor time.
    fn load_together(&mut self, options: &Options, btf: &Btf) -> f64 {
        let form = |layer: &'static Layer| {
            if options.oldest { layer.forms().last() } else { Some(layer) }
        };
        let layers = wanted(options).into_iter().filter(|&(_, is_wanted)| is_wanted);
        let programs = layers.filter_map(|(layer, _)| form(layer)).flat_map(|layer| layer.programs);
        let tracepoints: HashMap<_, _> = programs.chain(tree(options)).map(|one| (one.name, one.tracepoint)).collect();
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for (name, program) in self.ebpf.programs_mut() {
                if let (Some(tracepoint), aya::programs::Program::BtfTracePoint(program)) =
                    (tracepoints.get(name), program)
                {
                    let load = move || {
                        let _ = program.load(tracepoint, btf);
                        sys::thread_cpu_s()
                    };
                    threads.extend(thread::Builder::new().spawn_scoped(scope, load));
                }
            }
            let spent_s = threads.into_iter().map(ScopedJoinHandle::join);
            spent_s.map(Result::unwrap_or_default).sum()
        })
    }

    /// Whether the programs are there that keep what the layer adds to.
    fn can_explain(&self) -> bool {
        let has = |name| self.layers.contains(&name);
        has("block") && !has("bios") && has("uring")
    }

    /// Loads a layer or what serves for it on older kernels (with `oldest`, the oldest that can be); says why neither.
    fn load_layer(&mut self, layer: &Layer, btf: &Btf, oldest: bool) {
        let mut forms: Vec<&Layer> = layer.forms().collect();
        if oldest {
            forms.reverse();
        }
        let mut whys = Vec::new();
        for form in forms {
            match self.load_programs(form, btf) {
                Ok(()) => return,
                Err(why) => whys.push(why),
            }
        }
        whys.dedup();
        self.why.push(format!("{} cannot be watched on this kernel: {}", layer.names[0], whys.join(", ")));
    }

    /// All required programs of a layer, or none of them counts as loaded.
    fn load_programs(&mut self, layer: &Layer, btf: &Btf) -> Result<(), String> {
        let before = self.names.len();
        for program in layer.programs {
            let loaded = self.load_program(program, btf);
            if program.is_required && loaded.is_err() {
                self.names.truncate(before);
                return loaded;
            }
        }
        self.layers.extend(layer.names);
        Ok(())
    }

    fn load_program(&mut self, program: &Program, btf: &Btf) -> Result<(), String> {
        let loaded = self.tracepoint(program.name)?.load(program.tracepoint, btf);
        match loaded {
            // A layer that was given up for an older one has some programs of it.
            Ok(()) | Err(ProgramError::AlreadyLoaded) => self.names.push(program.name),
            Err(error) => return Err(format!("{}: {}", program.tracepoint, in_one_line(&error))),
        }
        Ok(())
    }

    fn tracepoint(&mut self, name: &str) -> Result<&mut BtfTracePoint, String> {
        let found = self.ebpf.program_mut(name).ok_or_else(|| format!("no program {name}"))?;
        found.try_into().map_err(|error| in_one_line(&error))
    }

    /// Whether tasks are seen to end.
    pub(crate) fn counts_alive(&self) -> bool {
        self.names.contains(&TREE_END.name)
    }

    /// Attaches all that was loaded.
    pub(crate) fn attach(&mut self) -> Result<(), Unavailable> {
        self.attach_some(|_| true)
    }

    /// Attaches programs of these names.
    pub(crate) fn attach_some(&mut self, wanted: impl Fn(&str) -> bool) -> Result<(), Unavailable> {
        for name in self.names.clone().into_iter().filter(|name| wanted(name)) {
            let found = self.tracepoint(name).map_err(|what| Unavailable::Unsupported { what, errno: None })?;
            let link = found.attach()?;
            self.links.push((name, link));
        }
        Ok(())
    }

    /// Has the programs follow the task behind `pidfd`, from this state on.
    pub(crate) fn store_for_task(&self, pidfd: &OwnedFd, state: &[u64; TASK_WORDS]) -> io::Result<()> {
        let Some(Map::Unsupported(tasks)) = self.ebpf.map("tasks") else {
            unreachable!("the object has a map of task storage, which aya does not know");
        };
        sys::store_for_task(tasks.fd().as_fd(), pidfd, state)
    }

    /// Detaches everything; the programs and the maps stay.
    pub(crate) fn detach(&mut self) {
        for (name, link) in std::mem::take(&mut self.links) {
            if let Ok(found) = self.tracepoint(name) {
                let _ = found.detach(link); // it was attached, which is the only way this could fail
            }
        }
    }
}

/// What finds the tasks to watch, in the order in which it has to run.
fn tree(options: &Options) -> &'static [Program] {
    if !options.running {
        &[TREE]
    } else if options.oldest || !sys::can_name_threads() {
        &[ADOPT_CALLER, ADOPT, TREE]
    } else {
        &[ADOPT, TREE]
    }
}

fn wanted(options: &Options) -> [(&'static Layer, bool); 6] {
    [
        (&BLOCK, options.block),
        (&URING, options.block || options.syscalls),
        (&EXPLAIN, options.explain && options.syscalls),
        (&SYSCALLS, options.syscalls),
        (&PAGE_CACHE, options.syscalls),
        (&SYNTHETIC, options.synthetic && options.record.is_some()),
    ]
}

fn open(options: &Options) -> Result<Ebpf, Unavailable> {
    let entries = Entries::new();
    let recording = u32::from(options.record.is_some());
    let listing = u32::from(options.listing.is_some());
    let with_sessions = u32::from(options.syscalls);
    let explaining = u32::from(options.explain);
    let page_bytes = u64::from(PAGE_BYTES);
    let synthetic_call = libc::SYS_pread64 as u32;
    let clock_calls = [libc::SYS_clock_gettime, libc::SYS_gettimeofday].map(|call| call as u32);
    let mut loader = EbpfLoader::new();
    loader
        .allow_unsupported_maps()
        .verifier_log_level(VerifierLogLevel::DISABLE)
        .set_global("entries", &entries.table, true)
        .set_global("aio_operation", &entries.aio, true)
        .set_global("uring_operation", &entries.uring, true)
        .set_global("with_sessions", &with_sessions, true)
        .set_global("page_bytes", &page_bytes, true)
        .set_global("recording", &recording, true)
        .set_global("synthetic_call", &synthetic_call, true)
        .set_global("clock_gettime_call", &clock_calls[0], true)
        .set_global("gettimeofday_call", &clock_calls[1], true)
        .set_global("listing", &listing, true)
        .set_global("explaining", &explaining, true)
        .set_global("watched_cgroup", &options.cgroup, true);
    if !options.syscalls {
        shrink(&mut loader, SYSCALL_MAPS, 1);
    }
    if !options.block {
        shrink(&mut loader, BLOCK_MAPS, 1);
    }
    if !options.explain {
        shrink(&mut loader, EXPLAIN_MAPS, 1);
    }
    if options.listing.is_none() {
        shrink(&mut loader, &["listing_ring"], PAGE_BYTES);
    }
    if options.record.is_none() {
        shrink(&mut loader, &["ring"], PAGE_BYTES);
    }
    Ok(loader.load(OBJECT)?)
}

fn shrink(loader: &mut EbpfLoader<'_>, maps: &[&'static str], entries: u32) {
    for map in maps {
        loader.set_max_entries(map, entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Layer;

    const ABSENT: Layer = Layer {
        names: &["absent"],
        programs: &[
            Program { name: "uring_submit", tracepoint: "io_uring_submit_req", is_required: true },
            Program { name: "uring_complete", tracepoint: "there_is_no_such_tracepoint", is_required: true },
        ],
        older: None,
    };

    /// A program that reads arguments which the tracepoint of this kernel does not have.
    const OTHER_SIGNATURE: Layer = Layer {
        names: &["other"],
        programs: &[Program { name: "uring_complete_old", tracepoint: "block_io_start", is_required: true }],
        older: None,
    };

    /// Nothing where this process may not load programs.
    fn loaded() -> Option<ProgramSet> {
        let options = Options { block: false, ..Options::default() };
        crate::capability::check().ok()?;
        ProgramSet::load(&options).ok()
    }

    #[test]
    fn a_layer_that_the_kernel_lacks_is_left_out_with_the_reason() {
        let Some(mut loaded) = loaded() else { return };
        let btf = Btf::from_sys_fs().unwrap();
        loaded.load_layer(&ABSENT, &btf, false);
        loaded.load_layer(&OTHER_SIGNATURE, &btf, false);
        assert!(loaded.layers.is_empty());
        assert_eq!(loaded.names, [TREE_END.name, PROGRAMS.name, TREE.name]);
        assert!(loaded.why[0].starts_with("absent cannot be watched on this kernel: there_is_no"));
        assert!(loaded.why[1].starts_with("other cannot be watched on this kernel: block_io_start"));
        loaded.attach().unwrap();
    }
    #[test]
    fn an_older_layer_serves_where_there_is_one() {
        static OLDER: Layer = Layer {
            names: &["absent"],
            programs: &[Program { name: "uring_submit", tracepoint: "io_uring_submit_req", is_required: true }],
            older: None,
        };
        let Some(mut loaded) = loaded() else { return };
        let btf = Btf::from_sys_fs().unwrap();
        let layer = Layer { older: Some(&OLDER), ..ABSENT };
        loaded.load_layer(&layer, &btf, false);
        assert_eq!(loaded.layers, ["absent"]);
        assert_eq!(loaded.names, [TREE_END.name, PROGRAMS.name, TREE.name, "uring_submit"]);
        assert!(loaded.why.is_empty());
    }

    #[test]
    fn the_oldest_form_is_taken_where_it_is_asked_for() {
        let Some(mut loaded) = loaded() else { return };
        let btf = Btf::from_sys_fs().unwrap();
        loaded.load_layer(&BLOCK, &btf, true);
        assert_eq!(loaded.layers, ["block", "bios"], "{:?}", loaded.why);
        loaded.attach().unwrap();
    }
}
