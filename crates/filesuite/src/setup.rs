//! What is to be measured, and how: everything a run is told.

use std::path::PathBuf;

use crate::error::Error;
use crate::matrix::Matrix;
use crate::mt19937::USUAL_SEED;
use crate::suite::{RANDOM_MIX, TESTS, Test};

/// What the file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// One byte eight times at the head of each page of a record, zeros behind it: what IOzone writes.
    Iozone,
    /// Bytes that do not compress, with a word of its own at the head of each page of the file.
    Random,
    /// Zeros.
    Zeros,
    /// One byte everywhere; each byte read is checked.
    Fill(u8),
}

/// When what was read is compared with what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// In the interval, after each call: the head of each page, all bytes of a `Fill`. As IOzone does.
    Inside,
    /// After all passes over a file: the whole file, read once more through a descriptor of its own.
    After,
    /// Never.
    Off,
}

/// What is done to the page cache before each pass that reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Nothing.
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
    /// Numbers of the tests.
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
    /// What the file holds.
    pub content: Content,
    /// When it is checked.
    pub check: Check,
    /// What is done to the page cache.
    pub cache: Cache,
    /// Where a filesystem is mounted that is unmounted and mounted again before each pass.
    pub remount: Option<PathBuf>,
    /// Key of the shuffled order.
    pub order_key: Vec<u64>,
    /// Seed of the content.
    pub seed: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            tests: TESTS
                .iter()
                .filter(|test| test.auto)
                .map(|test| test.number)
                .collect(),
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
            content: Content::Random,
            check: Check::Inside,
            cache: Cache::Leave,
            remount: None,
            order_key: USUAL_SEED.to_vec(),
            seed: 1,
        }
    }
}

impl Setup {
    /// The tests in numeric order, each once; the random mix only where there are workers.
    ///
    /// # Errors
    /// `Error::Option` for a number that no test has, and where nothing is left.
    pub fn chosen(&self) -> Result<Vec<&'static Test>, Error> {
        let known = |number: &&u8| usize::from(**number) < TESTS.len();
        if let Some(number) = self.tests.iter().find(|number| !known(number)) {
            let wanted = format!("0 to {}", TESTS.len() - 1);
            return Err(Error::option("test", number.to_string(), wanted));
        }
        let mixes = self.workers > 0;
        let wanted = |test: &&Test| {
            self.tests.contains(&test.number) && (mixes || test.number != RANDOM_MIX)
        };
        let chosen: Vec<_> = TESTS.iter().filter(wanted).collect();
        if chosen.is_empty() {
            let wanted = "also another one, or workers (-t): alone it does nothing";
            return Err(Error::option("test", format!("{:?}", self.tests), wanted));
        }
        Ok(chosen)
    }

    /// Whether all that is asked for can be, as far as that can be said before anything is touched.
    ///
    /// # Errors
    /// `Error::Option` with what was wanted.
    pub fn check(&self) -> Result<(), Error> {
        self.chosen()?;
        self.matrix.cells()?;
        if self.repetitions == 0 {
            return Err(Error::option("repetitions", "0", "at least 1"));
        }
        if self.workers > 1024 {
            return Err(Error::option(
                "workers",
                self.workers.to_string(),
                "at most 1024",
            ));
        }
        if self.order_key.is_empty() {
            return Err(Error::option("order key", "empty", "at least one number"));
        }
        if self.cache == Cache::DropAll && !rustix::process::geteuid().is_root() {
            let wanted =
                "root, who may write /proc/sys/vm/drop_caches; or drop, which drops this file";
            return Err(Error::option("cache", "drop-all", wanted));
        }
        Ok(())
    }
}
