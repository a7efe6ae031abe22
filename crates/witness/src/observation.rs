//! What the witness saw, in the shape of `ioassay.records.observation.Observation` in Python, which says what each number
//! means. Times are nanoseconds of `CLOCK_MONOTONIC`. Counts that are zero are left out of the JSON, since a
//! command may have opened thousands of files that it hardly used.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::listing::Listed;

/// A struct of counts. Those that are zero are left out of the JSON.
macro_rules! counts {
    ($(#[$about:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
        pub struct $name {
            $(#[serde(skip_serializing_if = "is_zero")] pub $field: $type,)*
        }
    };
}

counts! {
    /// One class of calls, or of block requests.
    Calls {
        calls: u64, completed: u64, errors: u64, short: u64, requested_bytes: u64, bytes: u64,
        first_ns: u64, last_ns: u64, sum_ns: u64, min_ns: u64, max_ns: u64,
    }
}

counts! {
    /// The order and the extent of the calls of one direction of a session.
    Pattern {
        calls: u64, sequential: u64, rewinds: u64, reused: u64, fresh: u64, continued: u64,
        stride_bytes: i64, stride_calls: u64, unique_bytes: u64, error_bytes: u64,
        lowest_bytes: u64, highest_bytes: u64, switches: u64, unsure: u64,
    }
}

fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}

/// Latencies: the filled buckets, by their middles.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// Middle of each filled bucket, ascending.
    pub values_ns: Vec<u64>,
    /// How many latencies fell into it.
    pub counts: Vec<u64>,
}

/// All calls of one kind by one way into the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// Name of the system call, or `aio`, `uring`.
    pub entry: String,
    /// `read`, `write`, `sync` or `other`.
    pub kind: &'static str,
    /// How many, how much, when.
    pub calls: Calls,
    pub latency: Histogram,
}

/// One part of the time of operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// One of `records/observation.py`'s `PARTS`, or `whole`.
    pub name: &'static str,
    /// Operations in which it took any time.
    pub number: u64,
    pub sum_ns: u64,
    pub latency: Histogram,
}

/// Where the time of all operations of a kind on files went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained {
    pub entry: String,
    pub kind: &'static str,
    /// Those that took any time, and `whole`, the sum of them.
    pub parts: Vec<Part>,
}

/// A file that the process tree used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct File {
    pub id: u32,
    /// `major:minor`; of a block device its own.
    pub dev: String,
    pub inode: u64,
    /// As it was opened; empty when it was open before.
    pub path: String,
    /// The last other one by which it was opened, as through a symbolic link.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub other_path: String,
    /// `regular`, `block`, `directory`, `char`, `pipe`, `socket` or `other`.
    pub kind: &'static str,
    /// Added to the page cache by the process tree; none where that was not watched.
    pub page_cache_bytes: Option<u64>,
}

/// One open file from its open to its close.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Session {
    pub file: u32,
    /// Entry of the call that opened it; 0 when it was open before.
    pub opened_ns: u64,
    /// Exit of its last close; 0 when that was not seen.
    pub closed_ns: u64,
    pub flags: Vec<&'static str>,
    #[serde(skip_serializing_if = "is_zero")]
    pub read: Calls,
    #[serde(skip_serializing_if = "is_zero")]
    pub write: Calls,
    /// Where the reads went; none where no offset was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_pattern: Option<Pattern>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_pattern: Option<Pattern>,
    /// Calls that make it durable.
    #[serde(skip_serializing_if = "is_zero")]
    pub sync: Calls,
    /// The very first read or write alone.
    #[serde(skip_serializing_if = "is_zero")]
    pub first: Calls,
    /// Synchronisations before which something had been written since the last one.
    #[serde(skip_serializing_if = "is_zero")]
    pub dirty_syncs: u64,
    /// Writes that asked to be synchronised, each by its own flags.
    #[serde(skip_serializing_if = "is_zero")]
    pub synced_writes: u64,
    /// Entry of the second read or write.
    pub second_ns: u64,
    /// Exit of the last call on it before its close.
    pub ended_ns: u64,
    /// What of its file's `page_cache_bytes` was added before its first read or write.
    pub cached_bytes: u64,
}

/// A program that a process of the tree ran. (`Process` may run several, one after the other.)
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Program {
    pub process: u32,
    /// Its arguments, cut at 2048 bytes.
    pub words: Vec<String>,
    pub is_whole: bool,
    /// When its process began to run it.
    pub began_ns: u64,
    /// When the process ended or began another one; 0 when neither was seen.
    pub ended_ns: u64,
    /// What its standard output and its standard error were: `major:minor` and inode; empty for none.
    pub outputs: [String; 2],
}

/// Requests of one kind to one block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Requests {
    pub dev: String,
    pub name: String,
    /// Issued in the context of the process tree.
    pub own: bool,
    /// `read`, `write`, `discard`, `flush` or `other`.
    pub kind: &'static str,
    /// How many, how much, when.
    pub calls: Calls,
    /// How many others became a part of one of these.
    pub merges: u64,
    pub latency: Histogram,
}

/// What entering and leaving the kernel takes a call on a file with the programs attached, its caller's clock included:
/// medians, and the quartiles of the sum. The program at the exit is apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EntryExit {
    pub calls: u64,
    /// From the caller's clock to the program's.
    pub entry_ns: u64,
    /// From the end of the program to the caller's clock.
    pub exit_ns: u64,
    /// A quarter of the calls took less for both.
    pub p25_ns: u64,
    /// A quarter of the calls took more.
    pub p75_ns: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Seen {
    pub layers: Vec<&'static str>,
    /// Why less was watched than asked for; empty when nothing is missing.
    pub why: String,
    pub kernel: String,
    pub processes: u64,
    /// Of these, threads of a process that was there.
    pub threads: u64,
    /// Most of them that were alive at once; none where that was not seen.
    pub most_alive: Option<u64>,
    /// System calls by name; empty where they were not watched.
    pub calls: BTreeMap<String, u64>,
    /// Of these, those that failed.
    pub call_errors: BTreeMap<String, u64>,
    /// By way into the kernel.
    pub operations: Vec<Operation>,
    /// Intervals around calls on files that wait, by kind: from the return of the task's watched call before to the
    /// entry of its next call that reads no clock.
    pub outer_intervals: BTreeMap<&'static str, Histogram>,
    /// Parts of the times of operations; none where they were not watched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explained: Vec<Explained>,
    /// The files that the sessions speak of.
    pub files: Vec<File>,
    /// In the order in which they were opened or first used.
    pub sessions: Vec<Session>,
    /// Whether a change of an open file's flags began a session of its own.
    pub flags_followed: bool,
    /// Whether it was seen what synchronisations and writes of a session made durable.
    pub syncs_followed: bool,
    /// In the order in which they began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    /// By device, owner and kind.
    pub block: Vec<Requests>,
    /// What went wrong in watching.
    pub health: BTreeMap<&'static str, u64>,
    pub cost: BTreeMap<&'static str, f64>,
    /// Around calls whose parts are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_exit: Option<EntryExit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listing: Option<Listed>,
}

impl Seen {
    #[expect(clippy::missing_panics_doc, reason = "what is written cannot fail")]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers, texts and lists can always be written")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of an object, sorted.
    fn keys(value: &serde_json::Value) -> String {
        let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        keys.join(" ")
    }

    #[test]
    fn the_json_has_the_keys_of_an_observation() {
        let seen = Seen {
            sessions: vec![Session {
                flags: vec!["read"],
                read: Calls { calls: 3, ..Calls::default() },
                read_pattern: Some(Pattern { calls: 3, ..Pattern::default() }),
                ..Session::default()
            }],
            ..Seen::default()
        };
        let json: serde_json::Value = serde_json::from_str(&seen.to_json()).unwrap();
        let whole = "block call_errors calls cost files flags_followed health kernel layers most_alive operations \
                     outer_intervals processes sessions syncs_followed threads why";
        assert_eq!(keys(&json), whole);
        let session = &json["sessions"][0];
        assert_eq!(keys(session), "cached_bytes closed_ns ended_ns file flags opened_ns read read_pattern second_ns");
        assert_eq!(session["read"], serde_json::json!({"calls": 3}));
        assert_eq!(session["read_pattern"], serde_json::json!({"calls": 3}));
    }
}
