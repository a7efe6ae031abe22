//! Programs that are loaded before a witness wants them, since the verifier and zeroed maps are nine tenths of an
//! attachment: by a thread of their own while the caller does something else, or by a finished witness of this process
//! that watched the same.
//!
//! The latter are used again only where nothing of the past can be counted again. No task may be alive that was followed, every
//! map is emptied before, and a program that still ran when it was detached has ended. Otherwise, and for recordings,
//! listings, explanations and running processes, programs are loaded anew. A child of this process shares the maps, so it takes none.

use std::mem;
use std::process;
use std::sync::Mutex;
use std::thread::{self, JoinHandle};

use aya::Pod;
use aya::maps::{Array, HashMap, Map, MapError, PerCpuArray, PerCpuValues};

use crate::error::Unavailable;
use crate::gather;
use crate::histogram::BUCKETS;
use crate::options::Options;
use crate::pattern::PATTERN_WORDS;
use crate::program_set::ProgramSet;
use crate::programs;
use crate::shape::{
    BLOCK_CLASS_WORDS, CALLED_WORDS, FILE_WORDS, Health, INFLIGHT_WORDS, KINDS, OPERATION_WORDS, OUTER_WORDS,
    SESSION_WORDS,
};
use crate::sys;

/// To empty more places takes longer than new programs do.
const MOST_PLACES: u64 = 50_000;
const MAX_DEVICES: u64 = 32;

struct Spare {
    options: Options,
    programs: Programs,
    process: u32,
}

enum Programs {
    Loading(JoinHandle<Result<ProgramSet, Unavailable>>),
    New(ProgramSet),
    Used(ProgramSet),
}

static SPARE: Mutex<Option<Spare>> = Mutex::new(None);

/// Begins to load programs in a thread, unless there are some already. Whoever takes them, or asks whether the kernel
/// takes programs, waits for the thread.
pub(crate) fn prepare(options: &Options) {
    if let Some(spare) = taken() {
        put(spare.options, spare.programs);
        return;
    }
    let wanted = options.clone();
    if let Ok(thread) = thread::Builder::new().spawn(move || ProgramSet::load(&wanted)) {
        put(options.clone(), Programs::Loading(thread));
    }
}

/// Whether there are programs; those that are being loaded are waited for.
pub(crate) fn is_there() -> bool {
    let Some(spare) = taken() else { return false };
    let programs = match spare.programs {
        Programs::Loading(thread) => match thread.join() {
            Ok(Ok(loaded)) => Programs::New(loaded),
            _ => return false, // whoever needs them loads them again, and says why that fails
        },
        loaded => loaded,
    };
    put(spare.options, programs);
    true
}

/// Leaves detached programs for the next witness.
pub(crate) fn keep(options: Options, loaded: ProgramSet) {
    if options.record.is_some() || options.listing.is_some() || options.explain || options.running {
        return;
    }
    put(options, Programs::Used(loaded));
}

fn put(options: Options, programs: Programs) {
    if let Ok(mut spare) = SPARE.lock() {
        *spare = Some(Spare { options, programs, process: process::id() });
    }
}

/// Programs for `options` with empty maps; None where there are none, or where new ones are quicker.
pub(crate) fn take(options: &Options) -> Option<ProgramSet> {
    let spare = taken().filter(|spare| spare.options == *options)?;
    match spare.programs {
        Programs::Loading(thread) => thread.join().ok()?.ok(),
        Programs::New(loaded) => Some(loaded),
        Programs::Used(mut loaded) => {
            sys::wait_for_running_programs().ok()?;
            empty(&mut loaded).ok()?.then_some(loaded)
        }
    }
}

/// The spare programs of this process.
fn taken() -> Option<Spare> {
    let spare = SPARE.lock().ok()?.take()?;
    if spare.process == process::id() {
        return Some(spare);
    }
    if let Programs::Loading(thread) = spare.programs {
        mem::forget(thread); // this child does not have it
    }
    None
}

/// Zeroes what was used of the arrays, and removes all keys of the others. False, with nothing changed, where that is much.
fn empty(loaded: &mut ProgramSet) -> Result<bool, MapError> {
    let used = [Health::NextSession, Health::NextFile, Health::NextPattern, Health::NextGranuleWord]
        .map(|which| gather::health(loaded, which));
    if used.iter().sum::<u64>() > MOST_PLACES {
        return Ok(false);
    }
    let [sessions, files, patterns, granules] = used;
    let devices = gather::health(loaded, Health::NextDevice).min(MAX_DEVICES);
    let classes = devices * 2 * KINDS as u64;
    zero::<SESSION_WORDS>(loaded, "sessions", sessions)?;
    zero::<FILE_WORDS>(loaded, "files", files)?;
    zero::<PATTERN_WORDS>(loaded, "patterns", patterns)?;
    zero::<1>(loaded, "granules", granules)?;
    zero::<BUCKETS>(loaded, "block_latencies", classes)?;
    zero::<1>(loaded, "health", u64::MAX)?;
    zero_parts::<BLOCK_CLASS_WORDS>(loaded, "block_classes", classes)?;
    zero_parts::<OPERATION_WORDS>(loaded, "operations", u64::MAX)?;
    zero_parts::<OUTER_WORDS>(loaded, "outer_intervals", u64::MAX)?;
    zero_parts::<CALLED_WORDS>(loaded, "called", u64::MAX)?;
    remove::<u32, u32>(loaded, "devices")?;
    remove::<u32, [u64; CALLED_WORDS]>(loaded, "odd_calls")?;
    remove::<u64, u32>(loaded, "open_files")?;
    remove::<[u64; 2], u32>(loaded, "file_ids")?;
    remove::<u64, [u64; INFLIGHT_WORDS]>(loaded, "inflight")?;
    remove::<u64, [u64; 2]>(loaded, "bios")?;
    remove::<u64, [u64; 4]>(loaded, "uring_requests")?;
    remove::<[u64; 2], [u64; 4]>(loaded, "aio_requests")?;
    programs::taken_from(loaded); // what began since the last look is no program of the next command
    Ok(true)
}

/// Zeroes the first places of an array, whose values are `N` words.
fn zero<const N: usize>(loaded: &mut ProgramSet, name: &str, places: u64) -> Result<(), MapError> {
    let mut map = Array::<_, [u64; N]>::try_from(named(loaded, name))?;
    for place in first(places, map.len()) {
        map.set(place, [0; N], 0)?;
    }
    Ok(())
}

/// The same of an array that each processor has its own of.
fn zero_parts<const N: usize>(loaded: &mut ProgramSet, name: &str, places: u64) -> Result<(), MapError> {
    let mut map = PerCpuArray::<_, [u64; N]>::try_from(named(loaded, name))?;
    for place in first(places, map.len()) {
        let processors = map.get(&place, 0)?.len();
        let zeros = PerCpuValues::try_from(vec![[0; N]; processors])?;
        map.set(place, zeros, 0)?;
    }
    Ok(())
}

fn remove<K: Pod, V: Pod>(loaded: &mut ProgramSet, name: &str) -> Result<(), MapError> {
    let mut map = HashMap::<_, K, V>::try_from(named(loaded, name))?;
    let keys: Vec<K> = map.keys().collect::<Result<_, _>>()?;
    keys.iter().try_for_each(|key| map.remove(key))
}

fn first(places: u64, length: u32) -> std::ops::Range<u32> {
    0..u32::try_from(places).unwrap_or(u32::MAX).min(length)
}

fn named<'a>(loaded: &'a mut ProgramSet, name: &str) -> &'a mut Map {
    loaded.ebpf.map_mut(name).expect("a map of the object")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What holds no counts: constants, task storage, rings that are small and unused or read out, room to read a path into.
    const KEPT: [&str; 6] = [".rodata", "tasks", "ring", "listing_ring", "programs", "read_path"];
    /// Of the layer that explains, which is loaded anew each time.
    const NEVER_KEPT: [&str; 9] = [
        "accounts",
        "moments",
        "posted",
        "ring_numbers",
        "ring_next",
        "journal_threads",
        "completing",
        "explained_places",
        "explained",
    ];

    #[test]
    fn every_map_that_holds_counts_is_emptied() {
        let Ok(mut loaded) = ProgramSet::load(&Options::default()) else {
            return;
        };
        assert!(empty(&mut loaded).unwrap());
        let source = include_str!("spare.rs");
        let names: BTreeSet<&str> = loaded.ebpf.maps().map(|(name, _)| name).collect();
        let forgotten: Vec<_> = names
            .iter()
            .filter(|name| {
                !KEPT.contains(name) && !NEVER_KEPT.contains(name) && !source.contains(&format!("(loaded, \"{name}\""))
            })
            .collect();
        assert!(forgotten.is_empty(), "{forgotten:?}");
    }
}
