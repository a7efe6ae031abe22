//! Replays on small files: what is issued and counted, what is on the disk afterwards, and what is refused.

mod model;
mod pace;
mod refusals;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use ioassay_block::{Kind, Request, Source};
use ioassay_replay::{Error, Outcome, Pace, Progress, SECTOR, Setup, replay, survey};
use tempfile::TempDir;

const BLOCK: u64 = 4096;

/// A file of so many blocks, in the target folder: temporary folders may be in memory, where nothing is direct.
struct Target {
    folder: TempDir,
    bytes: u64,
}

impl Target {
    fn new(blocks: u64) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let bytes = blocks * BLOCK;
        File::create(folder.path().join("file")).unwrap().write_all_at(&vec![0; bytes as usize], 0).unwrap();
        Self { folder, bytes }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("file")
    }

    fn setup(&self, pace: Pace) -> Setup {
        Setup { path: Some(self.path()), pace, buffer_bytes: 4 << 20, seed: 7, ..Setup::default() }
    }

    /// The first bytes of a sector.
    fn mark(&self, sector: u64) -> [u8; 16] {
        let mut mark = [0; 16];
        File::open(self.path()).unwrap().read_exact_at(&mut mark, sector * SECTOR as u64).unwrap();
        mark
    }
}

fn request(kind: Kind, at_ns: u64, block: u64, blocks: u64) -> Request {
    Request { at_ns, offset_bytes: block * BLOCK, length_bytes: blocks * BLOCK, device: 0, kind }
}

/// Requests that are owned, for another thread.
struct Given(std::vec::IntoIter<Request>);

impl Source for Given {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), ioassay_block::Error> {
        batch.clear();
        batch.extend(self.0.by_ref().take(7));
        Ok(())
    }
}

fn source(requests: &[Request]) -> Box<dyn Source + Send> {
    let owned: Vec<_> = requests.into();
    Box::new(Given(owned.into_iter()))
}

/// The replay of a trace that was surveyed, as it is in use.
fn replayed(requests: &[Request], setup: &Setup) -> Result<Outcome, Error> {
    let known = survey(&mut *source(requests), setup, || true)?;
    replay(source(requests), Some(&known), setup, &Progress::default(), &AtomicBool::new(false))
}
