//! Writes events from the ring to a file as they come.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::event::{Event, MAGIC};
use crate::error::Unavailable;
use crate::program_set::ProgramSet;
use crate::ring_reader::{RingReader, Sink};

const BUFFER_BYTES: usize = 1 << 20;

pub(crate) struct Recorder {
    reader: RingReader<BufWriter<File>>,
    path: String,
}

impl Sink for BufWriter<File> {
    fn add(&mut self, item: &[u8]) -> io::Result<()> {
        self.write_all(item)
    }
}

impl Recorder {
    /// Makes the file, and writes to it from now on.
    pub(crate) fn start(loaded: &mut ProgramSet, path: &Path) -> Result<Self, Unavailable> {
        let shown = path.display().to_string();
        let started = File::create(path).and_then(|file| {
            let mut file = BufWriter::with_capacity(BUFFER_BYTES, file);
            file.write_all(MAGIC)?;
            RingReader::start(loaded, "ring", file)
        });
        let reader = started.map_err(|error| cannot_write(&shown, error))?;
        Ok(Self { reader, path: shown })
    }

    /// Writes what is left, and the requests that did not end; seconds of processor time that the thread took.
    pub(crate) fn finish(self, unended: &[Event]) -> Result<f64, Unavailable> {
        let written = self.reader.finish().and_then(|(mut file, cpu_s)| {
            unended.iter().try_for_each(|event| file.write_all(&event.to_bytes()))?;
            file.flush()?;
            Ok(cpu_s)
        });
        written.map_err(|error| cannot_write(&self.path, error))
    }
}

fn cannot_write(path: &str, error: io::Error) -> Unavailable {
    Unavailable::Io { what: format!("the recording '{path}' cannot be written"), error }
}
