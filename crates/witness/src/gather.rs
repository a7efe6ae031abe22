//! From the maps to what was seen: reads, merges the processors' parts, names things. Counts nothing itself.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use aya::maps::{Array, HashMap, Map, MapData, PerCpuArray};

use crate::entries::Entries;
use crate::histogram::{BUCKETS, COARSE_SUB_BITS, filled, filled_by};
use crate::names;
use crate::observation::{Calls, Explained, File, Histogram, Operation, Part, Pattern, Requests, Session};
use crate::pattern::{self, PATTERN_WORDS};
use crate::program_set::ProgramSet;
use crate::record::Event;
use crate::shape::{
    self, BLOCK_CLASS_WORDS, CALLED_BEYOND, CALLED_COMPAT, CALLED_WORDS, FILE_WORDS, Health, KIND_NAMES, KINDS, NONE,
    OPERATION_WORDS, OUTER_WORDS, PART_WORDS, PARTS, SESSION_WORDS,
};

/// A map by its name. All of them are in the object, and are what `bpf/` says they are.
macro_rules! map {
    ($loaded:expr, $kind:ident<$($item:ty),+>, $name:literal) => {
        $kind::<_, $($item),+>::try_from(named($loaded, $name)).expect(concat!("map ", $name))
    };
}

fn named<'a>(loaded: &'a ProgramSet, name: &str) -> &'a Map {
    loaded.ebpf.map(name).expect("a map of the object")
}

/// One of the counters of `health`.
pub(crate) fn health(loaded: &ProgramSet, which: Health) -> u64 {
    map!(loaded, Array<u64>, "health").get(&(which as u32), 0).unwrap_or(0)
}

/// The operations that were made at all.
pub(crate) fn operations(loaded: &ProgramSet) -> Vec<Operation> {
    let map = map!(loaded, PerCpuArray<[u64; OPERATION_WORDS]>, "operations");
    let classes = Entries::new().classes;
    let made = classes.iter().zip(0..).filter_map(|(&(entry, kind), index)| {
        let words = merged(&map, index);
        let calls = shape::calls(&words);
        (calls.calls > 0).then(|| Operation {
            entry: entry.to_owned(),
            kind,
            calls,
            latency: filled(&words[shape::CALLS_WORDS..]),
        })
    });
    made.collect()
}

/// By kind, the intervals around calls on files that a tool's own times of them lie within.
pub(crate) fn outer_intervals(loaded: &ProgramSet) -> BTreeMap<&'static str, Histogram> {
    if !loaded.layers.contains(&"syscalls") {
        return BTreeMap::new();
    }
    let map = map!(loaded, PerCpuArray<[u64; OUTER_WORDS]>, "outer_intervals");
    let kinds = KIND_NAMES.iter().zip(0..map.len());
    kinds
        .map(|(&kind, index)| (kind, sums(&map, index)))
        .filter(|(_, words)| words[0] > 0)
        .map(|(kind, words)| (kind, filled(&words[1..])))
        .collect()
}

/// Where the time of operations went.
pub(crate) fn explained(loaded: &ProgramSet) -> Vec<Explained> {
    if !loaded.layers.contains(&"explain") {
        return Vec::new();
    }
    let places = map!(loaded, Array<u32>, "explained_places");
    let counts = map!(loaded, PerCpuArray<[u64; PART_WORDS]>, "explained");
    let classes = Entries::new().classes;
    let mut found = Vec::new();
    for (&(entry, kind), index) in classes.iter().zip(0..) {
        let Some(place) = places.get(&index, 0).ok().and_then(|at| at.checked_sub(1)) else {
            continue;
        };
        let indices = place.saturating_mul(PARTS.len() as u32)..;
        let parts = PARTS.iter().zip(indices).map(|(&name, index)| {
            let words = sums(&counts, index);
            Part { name, number: words[0], sum_ns: words[1], latency: filled_by(COARSE_SUB_BITS, &words[2..]) }
        });
        let parts: Vec<Part> = parts.filter(|part| part.number > 0).collect();
        if !parts.is_empty() {
            found.push(Explained { entry: entry.to_owned(), kind, parts });
        }
    }
    found
}

/// System calls by name, and those of them that failed.
pub(crate) fn calls(loaded: &ProgramSet) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let (mut calls, mut errors) = (BTreeMap::new(), BTreeMap::new());
    if !loaded.layers.contains(&"syscalls") {
        return (calls, errors);
    }
    let by_number = map!(loaded, PerCpuArray<[u64; CALLED_WORDS]>, "called");
    let odd = map!(loaded, HashMap<u32, [u64; CALLED_WORDS]>, "odd_calls");
    let usual = (0..=CALLED_BEYOND).map(|place| (name_at(place), sums(&by_number, place)));
    let odd = odd.iter().filter_map(Result::ok);
    for (name, [made, failed]) in usual.chain(odd.map(|(number, sums)| (names::of(number), sums))) {
        if made > 0 {
            calls.insert(name.clone(), made);
        }
        if failed > 0 {
            errors.insert(name, failed);
        }
    }
    (calls, errors)
}

fn name_at(place: u32) -> String {
    match place {
        CALLED_COMPAT => "compat".to_owned(),
        CALLED_BEYOND => "syscall_others".to_owned(),
        number => names::of(number),
    }
}

/// A map's words, added up over the processors.
fn sums<const N: usize>(map: &PerCpuArray<impl Borrow<MapData>, [u64; N]>, index: u32) -> [u64; N] {
    let mut whole = [0_u64; N];
    for part in map.get(&index, 0).iter().flat_map(|parts| parts.iter()) {
        for (sum, word) in whole.iter_mut().zip(part) {
            *sum = sum.wrapping_add(*word);
        }
    }
    whole
}

fn merged<const N: usize>(map: &PerCpuArray<impl Borrow<MapData>, [u64; N]>, index: u32) -> [u64; N] {
    match map.get(&index, 0) {
        Ok(parts) => shape::merge(&parts),
        Err(_) => [0; N],
    }
}

/// The sessions, in the order in which they began.
pub(crate) fn sessions(loaded: &ProgramSet) -> Vec<Session> {
    let map = map!(loaded, Array<[u64; SESSION_WORDS]>, "sessions");
    let number = health(loaded, Health::NextSession).min(u64::from(shape::MAX_SESSIONS));
    (0..number as u32)
        .filter_map(|slot| map.get(&slot, 0).ok())
        .filter(|words| words[1] != 0)
        .map(|words| session(&words, loaded))
        .collect()
}

fn session(words: &[u64; SESSION_WORDS], loaded: &ProgramSet) -> Session {
    let (read_pattern, write_pattern) = shape::halves(words[9]);
    let (file, flags) = shape::halves(words[2]);
    let calls = |nth: usize| -> Calls {
        let from = shape::SESSION_CALLS + nth * shape::CALLS_WORDS;
        shape::calls(&words[from..from + shape::CALLS_WORDS])
    };
    let (closed_ns, ended_ns) = (words[4], words[6]);
    Session {
        file,
        opened_ns: words[3],
        // What was closed before the last call was another descriptor of the same file.
        closed_ns: if closed_ns < ended_ns { 0 } else { closed_ns },
        flags: flag_names(i32::from_ne_bytes(flags.to_ne_bytes())),
        read: calls(0),
        write: calls(1),
        read_pattern: pattern_at(loaded, read_pattern),
        write_pattern: pattern_at(loaded, write_pattern),
        sync: calls(2),
        first: calls(3),
        dirty_syncs: words[shape::SESSION_SYNCS + 1],
        synced_writes: words[shape::SESSION_SYNCS + 2],
        second_ns: words[5],
        ended_ns,
        cached_bytes: words[8],
    }
}

/// `place` is that of the map and 1; 0 and what is behind the map's end are none.
fn pattern_at(loaded: &ProgramSet, place: u32) -> Option<Pattern> {
    let place = place.checked_sub(1).filter(|&place| place < pattern::MAX_PATTERNS)?;
    let words = map!(loaded, Array<[u64; PATTERN_WORDS]>, "patterns").get(&place, 0);
    pattern::pattern(&words.ok()?)
}

/// Flags of `open(2)` as names. `O_SYNC` holds the bit of `O_DSYNC`.
fn flag_names(flags: i32) -> Vec<&'static str> {
    let mode = flags & libc::O_ACCMODE;
    let has = |bits: i32| flags & bits == bits;
    let named = [
        ("read", mode == libc::O_RDONLY || mode == libc::O_RDWR),
        ("write", mode == libc::O_WRONLY || mode == libc::O_RDWR),
        ("direct", has(libc::O_DIRECT)),
        ("sync", has(libc::O_SYNC)),
        ("dsync", has(libc::O_DSYNC) && !has(libc::O_SYNC)),
        ("append", has(libc::O_APPEND)),
        ("create", has(libc::O_CREAT)),
        ("truncate", has(libc::O_TRUNC)),
    ];
    named.iter().filter(|(_, is_set)| *is_set).map(|&(name, _)| name).collect()
}

pub(crate) fn files(loaded: &ProgramSet) -> Vec<File> {
    let map = map!(loaded, Array<[u64; FILE_WORDS]>, "files");
    let number = health(loaded, Health::NextFile).min(u64::from(shape::MAX_FILES));
    let has_cache = loaded.layers.contains(&"page-cache");
    (0..number as u32)
        .filter_map(|id| map.get(&id, 0).ok().map(|words| (id, words)))
        .filter(|(_, words)| words[0] != 0 || words[2] != 0)
        .map(|(id, words)| file(id, &words, has_cache))
        .collect()
}

fn file(id: u32, words: &[u64; FILE_WORDS], has_cache: bool) -> File {
    let (dev, _generation) = shape::halves(words[1]);
    let (mode, rdev) = shape::halves(words[2]);
    let kind = kind_of_mode(mode);
    File {
        id,
        dev: dev_name(if kind == "block" { rdev } else { dev }),
        inode: words[0],
        path: shape::path(&words[4..4 + shape::PATH_WORDS]),
        other_path: shape::path(&words[4 + shape::PATH_WORDS..]),
        kind,
        page_cache_bytes: has_cache.then_some(words[3]),
    }
}

fn kind_of_mode(mode: u32) -> &'static str {
    match mode & libc::S_IFMT {
        libc::S_IFREG => "regular",
        libc::S_IFBLK => "block",
        libc::S_IFDIR => "directory",
        libc::S_IFCHR => "char",
        libc::S_IFIFO => "pipe",
        libc::S_IFSOCK => "socket",
        _ => "other",
    }
}

/// `major:minor` of the kernel's number (`include/linux/kdev_t.h`).
pub(crate) fn dev_name(dev: u32) -> String {
    format!("{}:{}", dev >> 20, dev & 0xf_ffff)
}

/// The classes of block requests that there were.
pub(crate) fn block(loaded: &ProgramSet) -> Vec<Requests> {
    if !loaded.layers.contains(&"block") {
        return Vec::new();
    }
    let classes = map!(loaded, PerCpuArray<[u64; BLOCK_CLASS_WORDS]>, "block_classes");
    let latencies = map!(loaded, Array<[u64; BUCKETS]>, "block_latencies");
    let mut found = Vec::new();
    for (dev, index) in devices(loaded) {
        let name = device_name(dev);
        for class in 0..2 * KINDS as u32 {
            let index = index * 2 * KINDS as u32 + class;
            let words = merged(&classes, index);
            let mut calls = shape::calls(&words);
            calls.requested_bytes = calls.bytes;
            if calls.calls == 0 && calls.completed == 0 {
                continue;
            }
            let latency = latencies.get(&index, 0).unwrap_or([0; BUCKETS]);
            found.push(Requests {
                dev: dev_name(dev),
                name: name.clone(),
                own: class >= KINDS as u32,
                kind: KIND_NAMES[class as usize % KINDS],
                calls,
                merges: words[shape::CALLS_WORDS],
                latency: filled(&latency),
            });
        }
    }
    found
}

/// The devices seen, in the order in which they were, by the kernel's number.
pub(crate) fn devices(loaded: &ProgramSet) -> Vec<(u32, u32)> {
    let map = map!(loaded, HashMap<u32, u32>, "devices");
    let mut found: Vec<(u32, u32)> = map.iter().filter_map(Result::ok).collect();
    found.sort_by_key(|&(_, index)| index);
    found
}

/// The kernel's name of a device, or its number where sysfs has none.
pub(crate) fn device_name(dev: u32) -> String {
    let number = dev_name(dev);
    let link = fs::read_link(format!("/sys/dev/block/{number}"));
    let name = link.ok().and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    name.unwrap_or(number)
}

/// Requests that were started and whose completion was not seen, as they are recorded.
pub(crate) fn unended(loaded: &ProgramSet) -> Vec<Event> {
    let map = map!(loaded, HashMap<u64, [u64; shape::INFLIGHT_WORDS]>, "inflight");
    map.iter()
        .filter_map(Result::ok)
        .filter(|(_, words)| words[5] != 0)
        .map(|(_, words)| Event {
            start_ns: words[0],
            sector: words[2],
            d2c_ns: u64::MAX,
            q2d_ns: 0,
            bytes: shape::halves(words[3]).0,
            cmd_flags: shape::halves(words[3]).1,
            dev: shape::halves(words[4]).1,
        })
        .collect()
}

/// Reads, writes and syncs of libaio and `io_uring` that did not end. Others may wait for ever, and rightly.
pub(crate) fn unended_calls(loaded: &ProgramSet) -> u64 {
    let aio = map!(loaded, HashMap<[u64; 2], [u64; 4]>, "aio_requests");
    let uring = map!(loaded, HashMap<u64, [u64; 4]>, "uring_requests");
    let moves = |words: &[u64; 4]| words[0] != 0 && shape::halves(words[2]).1 < 3;
    let aio = aio.iter().filter_map(Result::ok).filter(|(_, words)| moves(words)).count();
    let uring = uring.iter().filter_map(Result::ok).filter(|(_, words)| moves(words)).count();
    (aio + uring) as u64
}

/// The file of each session, by its slot.
pub(crate) fn files_by_slot(loaded: &ProgramSet) -> Vec<u32> {
    let map = map!(loaded, Array<[u64; SESSION_WORDS]>, "sessions");
    let number = health(loaded, Health::NextSession).min(u64::from(shape::MAX_SESSIONS));
    (0..number as u32).map(|slot| map.get(&slot, 0).map_or(NONE, |words| shape::halves(words[2]).0)).collect()
}

/// Only files that sessions speak of.
pub(crate) fn used_files(files: Vec<File>, sessions: &[Session]) -> Vec<File> {
    let used: BTreeSet<u32> = sessions.iter().map(|session| session.file).collect();
    files.into_iter().filter(|file| file.id != NONE && used.contains(&file.id)).collect()
}

/// How many requests a device works on, by its own account (Documentation/ABI/stable/sysfs-block, inflight).
pub(crate) fn device_in_flight(dev: u32) -> u64 {
    let text = fs::read_to_string(format!("/sys/dev/block/{}/inflight", dev_name(dev)));
    text.unwrap_or_default().split_whitespace().filter_map(|number| number.parse::<u64>().ok()).sum()
}
