//! The thirteen tests by number: what each of their passes does. A literal list; `pass.rs` does it.

/// Which way the data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// How the records are gone through, and with which calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// `read` or `write`, one record after the other.
    Sequential,
    /// `lseek` and `read` or `write`, in a shuffled order.
    Shuffled,
    /// `read` and `lseek` back, from the last record to the first.
    Backward,
    /// `write` and `lseek(0)`: always record 0.
    SameRecord,
    /// `read` and `lseek` on by a stride.
    Strided,
    /// `fwrite` or `fread` through a buffer of one record.
    Stdio,
    Positioned,
    /// `preadv` or `pwritev` of one vector.
    Vectored,
}

/// How a pass finds its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    Fresh,
    /// Emptied, if it is there.
    Truncated,
    /// Made, if it is not there; else left as it is.
    MadeIfAbsent,
    Existing,
}

/// One pass over the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    pub name: &'static str,
    /// The title of its matrix in IOzone's format.
    pub title: &'static str,
    /// Which way the data goes.
    pub kind: Kind,
    pub access: Access,
    pub opening: Opening,
    /// Minimal width of its column in IOzone's format.
    pub width: usize,
}

/// One test: one or two passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test {
    pub number: u8,
    /// In words, for lists of tests.
    pub about: &'static str,
    pub passes: &'static [Pass],
    /// Passes of the same kind after them, which are not reported.
    pub silent_passes: u32,
    /// A record is read before the clock starts.
    pub primed: bool,
    pub auto: bool,
}

const fn pass(
    name: &'static str,
    title: &'static str,
    kind: Kind,
    access: Access,
    opening: Opening,
    width: usize,
) -> Pass {
    Pass { name, title, kind, access, opening, width }
}

const fn test(number: u8, about: &'static str, passes: &'static [Pass]) -> Test {
    let (silent_passes, primed, auto) = (0, false, number < 8);
    Test { number, about, passes, silent_passes, primed, auto }
}

use Access::{Backward, Positioned, SameRecord, Sequential, Shuffled, Stdio, Strided, Vectored};
use Kind::{Read, Write};
use Opening::{Existing, Fresh, MadeIfAbsent, Truncated};

/// The number of the test that only several at once can do.
pub const RANDOM_MIX: u8 = 8;

#[rustfmt::skip]
pub const TESTS: [Test; 13] = [
    test(0, "sequential write of a new file, and again over it", &[
        pass("write", "Writer", Write, Sequential, Fresh, 9),
        pass("rewrite", "Re-writer", Write, Sequential, Existing, 9),
    ]),
    Test { primed: true, ..test(1, "sequential read, twice", &[
        pass("read", "Reader", Read, Sequential, Existing, 9),
        pass("reread", "Re-Reader", Read, Sequential, Existing, 9),
    ]) },
    test(2, "random read, then random write in the same order", &[
        pass("random_read", "Random read", Read, Shuffled, Existing, 9),
        pass("random_write", "Random write", Write, Shuffled, Existing, 9),
    ]),
    Test { silent_passes: 1, ..test(3, "read from the last record to the first", &[
        pass("backward_read", "Backward read", Read, Backward, Existing, 9),
    ]) },
    test(4, "write of the first record, again and again", &[
        pass("record_rewrite", "Record rewrite", Write, SameRecord, Existing, 10),
    ]),
    test(5, "read of every 17th record", &[
        pass("stride_read", "Stride read", Read, Strided, Existing, 10),
    ]),
    test(6, "fwrite of an emptied file, and again over it", &[
        pass("fwrite", "Fwrite", Write, Stdio, Truncated, 9),
        pass("frewrite", "Re-Fwrite", Write, Stdio, Existing, 9),
    ]),
    test(7, "fread, twice", &[
        pass("fread", "Fread", Read, Stdio, Existing, 8),
        pass("freread", "Re-Fread", Read, Stdio, Existing, 9),
    ]),
    test(RANDOM_MIX, "random reads of some beside random writes of others (only with -t)", &[
        pass("random_mix", "Mixed workload", Read, Shuffled, Existing, 9),
    ]),
    test(9, "pwrite, and again", &[
        pass("pwrite", "Pwrite", Write, Positioned, MadeIfAbsent, 9),
        pass("repwrite", "Re-Pwrite", Write, Positioned, MadeIfAbsent, 9),
    ]),
    test(10, "pread, twice", &[
        pass("pread", "Pread", Read, Positioned, Existing, 8),
        pass("repread", "Re-Pread", Read, Positioned, Existing, 9),
    ]),
    test(11, "pwritev, and again", &[
        pass("pwritev", "Pwritev", Write, Vectored, MadeIfAbsent, 9),
        pass("repwritev", "Re-Pwritev", Write, Vectored, MadeIfAbsent, 9),
    ]),
    test(12, "preadv, twice", &[
        pass("preadv", "Preadv", Read, Vectored, Existing, 8),
        pass("repreadv", "Re-Preadv", Read, Vectored, Existing, 9),
    ]),
];

#[cfg(test)]
mod tests {
    use super::{Opening, TESTS};

    #[test]
    fn each_test_stands_at_its_number_and_each_pass_has_a_name_of_its_own() {
        for (place, test) in TESTS.iter().enumerate() {
            assert_eq!(test.number as usize, place);
        }
        let mut names: Vec<_> = TESTS.iter().flat_map(|test| test.passes).map(|pass| pass.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), all), (22, 22));
    }

    #[test]
    fn only_the_first_write_needs_a_new_file() {
        let fresh = TESTS.iter().flat_map(|test| test.passes).filter(|pass| pass.opening == Opening::Fresh);
        assert_eq!(fresh.map(|pass| pass.name).collect::<Vec<_>>(), ["write"]);
    }
}
