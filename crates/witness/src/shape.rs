//! The shapes that the programs and the loader agree on (`bpf/shapes.h`), read by position: a map's value is an array
//! of words here, which needs no unsafe code.

use crate::histogram::BUCKETS;
use crate::observation::Calls;

pub(crate) const SYSCALLS: usize = 512;
/// Calls of 32-bit programs, and those of numbers beyond the table that found no room, behind the table.
pub(crate) const CALLED_COMPAT: u32 = SYSCALLS as u32;
pub(crate) const CALLED_BEYOND: u32 = CALLED_COMPAT + 1;
pub(crate) const CALLED_WORDS: usize = 2;
pub(crate) const MAX_SESSIONS: u32 = 32768;
pub(crate) const MAX_FILES: u32 = 32768;
pub(crate) const KINDS: usize = 6;
pub(crate) const PATH_BYTES: usize = 256;
pub(crate) const WORDS_BYTES: usize = 2048;
/// Of a `struct program_event` without its words.
pub(crate) const PROGRAM_EVENT_BYTES: usize = 40;
pub(crate) const NONE: u32 = u32::MAX;
pub(crate) const EVENT_OWN: u32 = 1 << 31;

pub(crate) const CALLS_WORDS: usize = 11;
pub(crate) const OPERATION_WORDS: usize = CALLS_WORDS + BUCKETS;
pub(crate) const OUTER_WORDS: usize = 1 + BUCKETS;
pub(crate) const BLOCK_CLASS_WORDS: usize = CALLS_WORDS + 1;
pub(crate) const SESSION_CALLS: usize = 10;
pub(crate) const SESSION_SYNCS: usize = SESSION_CALLS + 4 * CALLS_WORDS;
pub(crate) const SESSION_WORDS: usize = SESSION_SYNCS + 3;
pub(crate) const PATH_WORDS: usize = PATH_BYTES / 8;
pub(crate) const FILE_WORDS: usize = 4 + 2 * PATH_WORDS;
pub(crate) const INFLIGHT_WORDS: usize = 8;
pub(crate) const TASK_WORDS: usize = 11;
/// The account's word of `struct task`.
pub(crate) const TASK_ACCOUNT: usize = 7;
pub(crate) const COARSE_BUCKETS: usize = 656;
pub(crate) const PART_WORDS: usize = 2 + COARSE_BUCKETS;
/// `struct account` of `bpf/waits.h`, and the one that no task of the command has.
pub(crate) const ACCOUNT_WORDS: usize = 40;
pub(crate) const OWN_ACCOUNT: u32 = 8191;
pub(crate) const ACCOUNT_RETURNED: usize = 13;
pub(crate) const ACCOUNT_EXIT: usize = 15;
pub(crate) const ACCOUNT_LAST_TOTAL: usize = 30;
/// `enum` of parts in `bpf/shapes.h`; behind them the whole, and what is in no sum.
pub(crate) const PARTS: [&str; 10] =
    ["processor", "submission", "file-system", "lock", "journal", "queue", "device", "completion", "whole", "observer"];

/// Index into the array `health`.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "the programs alone use some")]
pub(crate) enum Health {
    Lost,
    Missed,
    Unmatched,
    Dropped,
    UntrackedFiles,
    UntrackedSessions,
    Processes,
    NextSession,
    NextFile,
    NextDevice,
    AttachedNs,
    Threads,
    Alive,
    MostAlive,
    Before,
    Unlisted,
    NextPattern,
    NextGranuleWord,
    NextAccount,
    NextExplained,
    NextMoments,
    NextRing,
    Unexplained,
    Unnamed,
}

pub(crate) const KIND_NAMES: [&str; KINDS] = ["read", "write", "sync", "discard", "flush", "other"];

/// Low and high half of a word that holds two 32-bit numbers.
pub(crate) fn halves(word: u64) -> (u32, u32) {
    let (low, high) = (word as u32, (word >> 32) as u32);
    if cfg!(target_endian = "little") { (low, high) } else { (high, low) }
}

/// The first words of bytes that a program left, which are at least so many.
pub(crate) fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    std::array::from_fn(|place| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[8 * place..8 * place + 8]);
        u64::from_ne_bytes(word)
    })
}

/// Text as the programs left it: bytes up to the first zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// `struct calls`: first and minimum stand there as complements, so that zeroed memory begins right.
pub(crate) fn calls(words: &[u64]) -> Calls {
    let completed = words[1] > 0;
    let issued = words[0] > 0;
    Calls {
        calls: words[0],
        completed: words[1],
        errors: words[2],
        short: words[3],
        requested_bytes: words[4],
        bytes: words[5],
        first_ns: if issued { !words[6] } else { 0 },
        last_ns: words[7],
        sum_ns: words[8],
        min_ns: if completed { !words[9] } else { 0 },
        max_ns: words[10],
    }
}

/// The counts of all processors as one, in the same form: sums added, extremes raised.
pub(crate) fn merge<const N: usize>(parts: &[[u64; N]]) -> [u64; N] {
    let mut whole = [0; N];
    for part in parts {
        for (index, (sum, &word)) in whole.iter_mut().zip(part).enumerate() {
            let is_extreme = matches!(index, 6 | 7 | 9 | 10);
            *sum = if is_extreme { word.max(*sum) } else { sum.wrapping_add(word) };
        }
    }
    whole
}

pub(crate) fn path(words: &[u64]) -> String {
    text(&words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_programs() {
        let shapes = include_str!("../bpf/shapes.h");
        for (name, value) in [
            ("SYSCALLS", SYSCALLS),
            ("MAX_SESSIONS", MAX_SESSIONS as usize),
            ("MAX_FILES", MAX_FILES as usize),
            ("PATH_BYTES", PATH_BYTES),
            ("COARSE_BUCKETS", COARSE_BUCKETS),
            ("COARSE_SUB_BITS", crate::histogram::COARSE_SUB_BITS as usize),
        ] {
            assert!(shapes.contains(&format!("#define {name} {value}\n")), "{name}");
        }
        let accounts = format!("#define MAX_ACCOUNTS {} ", OWN_ACCOUNT + 1);
        assert!(include_str!("../bpf/waits.h").contains(&accounts));
    }

    #[test]
    fn parts_are_in_the_order_of_the_programs() {
        let shapes = include_str!("../bpf/shapes.h");
        let names = PARTS[..PARTS.len() - 2].iter(); // the whole and the observer are no parts of it
        let names: Vec<String> = names.map(|name| name.to_uppercase().replace('-', "_")).collect();
        assert!(shapes.contains(&format!("enum {{ {}, PARTS }};", names.join(", "))));
    }

    #[test]
    fn complements_come_back_as_times_and_absent_ones_as_zero() {
        let mut words = [0; CALLS_WORDS];
        assert_eq!(calls(&words), Calls::default());
        (words[0], words[1], words[6], words[9]) = (2, 1, !100, !7);
        let found = calls(&words);
        assert_eq!((found.first_ns, found.min_ns), (100, 7));
    }

    #[test]
    fn processors_merge_by_sums_and_extremes() {
        let mut one = [0; CALLS_WORDS];
        (one[0], one[6], one[7], one[9]) = (1, !100, 110, !10);
        let mut other = [0; CALLS_WORDS];
        (other[0], other[6], other[7], other[9]) = (2, !90, 95, !5);
        let found = calls(&merge(&[one, other, [0; CALLS_WORDS]]));
        assert_eq!((found.calls, found.first_ns, found.last_ns), (3, 90, 110));
    }

    #[test]
    fn a_path_ends_at_its_first_zero() {
        assert_eq!(path(&[u64::from_ne_bytes(*b"/a/b\0zzz")]), "/a/b");
    }
}
