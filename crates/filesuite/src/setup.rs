//! What is to be measured, and how: everything a run is told.

use std::path::PathBuf;

use crate::error::Error;
use crate::matrix::{Cell, Matrix};
use crate::mt19937::USUAL_SEED;
use crate::order::{STRIDE, Shuffle};
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

/// Everything a run is told. `Default` is one cell with all tests of `-a`, as IOzone does them.
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
            order_key: USUAL_SEED.to_vec(),
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
        self.matrix.cells()?;
        if self.repetitions == 0 {
            return Err(Error::option("repetitions", "0", "at least 1"));
        }
        if self.workers > 1024 {
            return Err(Error::option("workers", self.workers.to_string(), "at most 1024"));
        }
        self.check_workers()?;
        self.check_mapping()?;
        if self.stride == 0 {
            return Err(Error::option("stride", "0", "at least 1 record"));
        }
        if self.jitter && (self.direct || self.mapped.is_some()) {
            let (value, why) = if self.direct {
                ("given with direct (-I)", "single bytes cannot be read with O_DIRECT")
            } else {
                ("given with mmap (-B)", "a mapping is not read by calls")
            };
            return Err(Error::option("jitter (-K)", value, format!("one of them: {why}")));
        }
        if self.order_key.is_empty() {
            return Err(Error::option("order key", "empty", "at least one number"));
        }
        if self.cache == Cache::DropAll && !rustix::process::geteuid().is_root() {
            let wanted = "root, who may write /proc/sys/vm/drop_caches; or drop, which drops this file";
            return Err(Error::option("cache", "drop-all", wanted));
        }
        Ok(())
    }

    fn check_workers(&self) -> Result<(), Error> {
        if let Some(from) = self.workers_from {
            if from == 0 || from > self.workers {
                let wanted = format!("1 to the most workers, {}", self.workers);
                return Err(Error::option("fewest workers (-l)", from.to_string(), wanted));
            }
        }
        if self.paths.is_empty() {
            return Ok(());
        }
        let mut names: Vec<_> = self.paths.iter().collect();
        names.sort_unstable();
        names.dedup();
        if names.len() < self.paths.len() {
            let wanted = "another file for each worker";
            return Err(Error::option("files (-F)", "one name twice", wanted));
        }
        if self.paths.len() != self.workers as usize {
            let wanted = format!("as many as workers (-t, -u): {}", self.workers);
            let value = format!("{} names", self.paths.len());
            return Err(Error::option("files (-F)", value, wanted));
        }
        Ok(())
    }

    fn check_mapping(&self) -> Result<(), Error> {
        let Some(msync) = self.mapped else {
            return Ok(());
        };
        if self.direct || self.sync {
            let (value, why) = if self.direct {
                ("given with direct (-I)", "goes through the page cache")
            } else {
                ("given with sync (-o)", "is synced by msync: see -G")
            };
            let wanted = format!("one of them: a mapping {why}");
            return Err(Error::option("mmap (-B)", value, wanted));
        }
        let page = rustix::param::page_size() as u64;
        let odd = |cell: &Cell| cell.record_bytes % page != 0;
        match self.matrix.cells()?.into_iter().find(odd) {
            Some(cell) if msync != Msync::Never => {
                let wanted = format!("a multiple of the page, {page} bytes, which msync takes");
                let value = format!("{} bytes", cell.record_bytes);
                Err(Error::option("record", value, wanted))
            }
            _ => Ok(()),
        }
    }

    /// Whether a chosen test writes into the file.
    pub fn writes(&self) -> bool {
        let of = |test: &&Test| test.number == RANDOM_MIX || test.passes.iter().any(|pass| pass.kind == Kind::Write);
        let chosen = TESTS.iter().filter(|test| self.tests.contains(&test.number));
        chosen.filter(of).count() > 0
    }
}
