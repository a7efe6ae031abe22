//! Writes events from the ring to a file as they come.
//!
//! The programs wake nobody (`BPF_RB_NO_WAKEUP`): with wake-ups 277 to 366 thousand events a second were reached, with
//! a look every 5 ms more than a million, at a quarter of the cost for who is watched. The ring (16 MiB) holds 350
//! thousand events.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aya::maps::{MapData, RingBuf};

use crate::error::Unavailable;
use crate::program_set::ProgramSet;
use crate::sys;

use super::event::{Event, MAGIC};

const LOOK_EVERY: Duration = Duration::from_millis(5);
const BUFFER_BYTES: usize = 1 << 20;

/// What the thread leaves: the file, and the seconds of processor time that it took.
type Written = (BufWriter<File>, f64);

/// The thread that writes; dropped, it ends by itself.
pub(crate) struct Recorder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Written>>>,
    path: String,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

impl Recorder {
    /// Makes the file, and writes to it from now on.
    pub(crate) fn start(loaded: &mut ProgramSet, path: &Path) -> Result<Self, Unavailable> {
        let shown = path.display().to_string();
        let mut file = File::create(path)
            .map(|file| BufWriter::with_capacity(BUFFER_BYTES, file))
            .map_err(|error| cannot_write(&shown, error))?;
        file.write_all(MAGIC).map_err(|error| cannot_write(&shown, error))?;
        let map = loaded.ebpf.take_map("ring").expect("a map of the object");
        let ring = RingBuf::try_from(map).expect("a ring");
        let stop = Arc::new(AtomicBool::new(false));
        let seen_stop = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("record".to_owned())
            .spawn(move || write_all(ring, file, &seen_stop))
            .map_err(|error| cannot_write(&shown, error))?;
        Ok(Self { stop, thread: Some(thread), path: shown })
    }

    /// Writes what is left, and the requests that did not end; seconds of processor time that the thread took.
    pub(crate) fn finish(mut self, unended: &[Event]) -> Result<f64, Unavailable> {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take().expect("finished once");
        let written = thread.join().expect("the thread does not panic");
        let failed = |error| cannot_write(&self.path, error);
        let (mut file, cpu_s) = written.map_err(failed)?;
        for event in unended {
            file.write_all(&event.to_bytes()).map_err(failed)?;
        }
        file.flush().map_err(failed)?;
        Ok(cpu_s)
    }
}

fn cannot_write(path: &str, error: io::Error) -> Unavailable {
    Unavailable::Io { what: format!("the recording '{path}' cannot be written"), error }
}

fn write_all(mut ring: RingBuf<MapData>, mut file: BufWriter<File>, stop: &AtomicBool) -> io::Result<Written> {
    loop {
        let is_last = stop.load(Ordering::Acquire);
        while let Some(event) = ring.next() {
            file.write_all(&event)?;
        }
        if is_last {
            return Ok((file, sys::thread_cpu_s()));
        }
        thread::sleep(LOOK_EVERY);
    }
}
