//! The settings of a run, and which of them exclude each other.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::error::Error;
use crate::matrix::Matrix;
use crate::order::{STRIDE, Shuffle, USUAL_KEY};
use crate::suite::{Kind, RANDOM_MIX, TESTS, Test};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// One byte eight times at the head of each page of a record, zeros behind it: what IOzone writes.
    Iozone,
    /// Bytes that do not compress, with a word of its own at the head of each page of the file.
    Random,
    Zeros,
    /// One byte everywhere; each byte read is checked.
    Fill(u8),
}

/// When what was read is compared with what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// In the interval, after each call: the head of each page, all bytes of a `Fill`. As IOzone does.
    Inside,
    /// In the interval, after each call: every byte.
    Whole,
    /// After all passes over a file: the whole file, read once more through a descriptor of its own.
    After,
    Off,
}

/// What follows each write into a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Msync {
    Never,
    /// `msync` of the record, which does not wait (`MS_ASYNC`).
    Async,
    /// `msync` of the record, which waits for the disk (`MS_SYNC`).
    Sync,
}

/// What is done to the page cache before each pass that reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    Leave,
    /// The file is synced, and its pages are dropped (`posix_fadvise`).
    Drop,
    /// The pages of all files are dropped (`/proc/sys/vm/drop_caches`); needs root.
    DropAll,
    /// The file is read once.
    Warm,
}

/// The settings of a run. `Default` is one cell with all tests of `-a`, as IOzone does them.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Setup {
    pub tests: Vec<u8>,
    /// Sizes of files and records.
    pub matrix: Matrix,
    /// The file, which must not be there yet.
    pub path: PathBuf,
    /// A file that is there is deleted first.
    pub overwrite: bool,
    /// `O_DIRECT`, but for the stdio tests.
    pub direct: bool,
    /// `O_SYNC` on what writes, but for the stdio tests.
    pub sync: bool,
    /// `fsync` belongs to the interval.
    pub fsync: bool,
    /// `close` belongs to the interval.
    pub close: bool,
    /// Neither priming reads nor passes that nobody sees, `sync` or a second `fsync`.
    pub plain: bool,
    /// How often everything is measured.
    pub repetitions: u32,
    /// Workers at once, each on a file of its own; 0: one, without waiting for others.
    pub workers: u32,
    /// From how many workers on each number up to `workers` is measured; `None`: only `workers`.
    pub workers_from: Option<u32>,
    /// The file of each worker; empty: `path` with the worker's number.
    pub paths: Vec<PathBuf>,
    /// The first worker runs on this processor, the others on those after it, and round again.
    pub processor: Option<u32>,
    /// Records from one to the next of the strided pass.
    pub stride: u64,
    /// Single bytes are read elsewhere between sequential reads.
    pub jitter: bool,
    /// Files are mapped, but for the stdio tests, with what follows each write.
    pub mapped: Option<Msync>,
    /// Each call is timed on its own.
    pub latencies: bool,
    /// The files stay; those that are there are used, if nothing writes.
    pub keep: bool,
    pub content: Content,
    pub check: Check,
    /// What is done to the page cache.
    pub cache: Cache,
    /// Where a filesystem is mounted that is unmounted and mounted again before each pass.
    pub remount: Option<PathBuf>,
    /// How the shuffled order is drawn.
    pub shuffle: Shuffle,
    /// Key of the shuffled order.
    pub order_key: Vec<u64>,
    pub seed: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            tests: TESTS.iter().filter(|test| test.auto).map(|test| test.number).collect(),
            matrix: Matrix::default(),
            path: PathBuf::from("ioassay-filesuite.tmp"),
            overwrite: false,
            direct: false,
            sync: false,
            fsync: false,
            close: false,
            plain: false,
            repetitions: 1,
            workers: 0,
            workers_from: None,
            paths: Vec::new(),
            processor: None,
            stride: STRIDE,
            jitter: false,
            mapped: None,
            latencies: false,
            keep: false,
            content: Content::Random,
            check: Check::Inside,
            cache: Cache::Leave,
            remount: None,
            shuffle: Shuffle::Swap,
            order_key: USUAL_KEY.to_vec(),
            seed: 1,
        }
    }
}

impl Setup {
    /// The tests in numeric order, each once; the random mix only where there are workers.
    pub fn chosen(&self) -> Result<Vec<&'static Test>, Error> {
        let known = |number: &&u8| usize::from(**number) < TESTS.len();
        if let Some(number) = self.tests.iter().find(|number| !known(number)) {
            let wanted = format!("0 to {}", TESTS.len() - 1);
            return Err(Error::option("test", number.to_string(), wanted));
        }
        let mixes = self.workers > 0;
        let wanted = |test: &&Test| self.tests.contains(&test.number) && (mixes || test.number != RANDOM_MIX);
        let chosen: Vec<_> = TESTS.iter().filter(wanted).collect();
        if chosen.is_empty() {
            let wanted = "also another one, or workers (-t): alone it does nothing";
            return Err(Error::option("test", format!("{:?}", self.tests), wanted));
        }
        Ok(chosen)
    }

    /// Whether all that is asked for can be, as far as that can be said before anything is touched.
    pub fn check(&self) -> Result<(), Error> {
        self.chosen()?;
        let cells = self.matrix.cells()?;
        let (from, paths) = (self.workers_from.unwrap_or(self.workers), self.paths.len());
        let has_twins = self.paths.iter().collect::<BTreeSet<_>>().len() < paths;
        let page = rustix::param::page_size() as u64;
        let synced = self.mapped.is_some_and(|msync| msync != Msync::Never);
        let odd = cells.iter().find(|cell| synced && cell.record_bytes % page != 0).map_or(0, |cell| cell.record_bytes);
        let keys = self.order_key.len();
        let is_root = rustix::process::geteuid().is_root();
        let (mapped, direct) = (self.mapped.is_some(), self.direct);
        let (with_direct, with_sync, with_map) =
            ("given with direct (-I)", "given with sync (-o)", "given with mmap (-B)");
        let text = str::to_owned;
        let problems: [(bool, &'static str, String, String); 13] = [
            (self.repetitions == 0, "repetitions", text("0"), text("at least 1")),
            (self.workers > 1024, "workers", self.workers.to_string(), text("at most 1024")),
            (
                self.workers_from.is_some() && !(1..=self.workers).contains(&from),
                "fewest workers (-l)",
                from.to_string(),
                format!("1 to the most workers, {}", self.workers),
            ),
            (has_twins, "files (-F)", text("one name twice"), text("another file for each worker")),
            (
                paths > 0 && paths != self.workers as usize,
                "files (-F)",
                format!("{paths} names"),
                format!("as many as workers (-t, -u): {}", self.workers),
            ),
            (
                mapped && direct,
                "mmap (-B)",
                text(with_direct),
                text("one of them: a mapping goes through the page cache"),
            ),
            (
                mapped && self.sync,
                "mmap (-B)",
                text(with_sync),
                text("one of them: a mapping is synced by msync: see -G"),
            ),
            (
                odd > 0,
                "record",
                format!("{odd} bytes"),
                format!("a multiple of the page, {page} bytes, which msync takes"),
            ),
            (self.stride == 0, "stride", text("0"), text("at least 1 record")),
            (
                self.jitter && direct,
                "jitter (-K)",
                text(with_direct),
                text("one of them: single bytes cannot be read with O_DIRECT"),
            ),
            (self.jitter && mapped, "jitter (-K)", text(with_map), text("one of them: a mapping is not read by calls")),
            // The Mersenne Twister has 312 words of state, and takes no more of a key.
            (!(1..=312).contains(&keys), "order key", format!("{keys} numbers"), text("1 to 312")),
            (
                self.cache == Cache::DropAll && !is_root,
                "cache",
                text("drop-all"),
                text("root, who may write /proc/sys/vm/drop_caches; or drop, which drops this file"),
            ),
        ];
        match problems.into_iter().find(|problem| problem.0) {
            Some((_, name, value, wanted)) => Err(Error::Option { name, value, wanted }),
            None => Ok(()),
        }
    }

    /// Whether a chosen test writes into the file.
    pub fn writes(&self) -> bool {
        let of = |test: &&Test| test.number == RANDOM_MIX || test.passes.iter().any(|pass| pass.kind == Kind::Write);
        let chosen = TESTS.iter().filter(|test| self.tests.contains(&test.number));
        chosen.filter(of).count() > 0
    }
}
