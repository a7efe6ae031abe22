//! Takes the calls from their ring as they come, and makes lines of them when the paths are known.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::event::Event;
use super::text::{Paths, line};
use super::{Listed, ListedFile, Listing};
use crate::error::Unavailable;
use crate::program_set::ProgramSet;
use crate::ring_reader::{RingReader, Sink};

const BUFFER_BYTES: usize = 1 << 20;
/// Of each file, in a sample.
const FIRST: usize = 8;
const LAST: usize = 4;

pub(crate) struct Recorder {
    reader: RingReader<Kept>,
    path: PathBuf,
}

/// Where the calls are until they are lines.
enum Kept {
    /// Items of the ring, each behind its length; the file has no name.
    Whole(BufWriter<File>, u64),
    /// By slot of the session.
    Sample(BTreeMap<u32, Part>),
}

#[derive(Default)]
struct Part {
    calls: u64,
    first: Vec<Event>,
    last: VecDeque<Event>,
}

impl Part {
    fn add(&mut self, event: Event) {
        self.calls += 1;
        if self.first.len() < FIRST {
            self.first.push(event);
            return;
        }
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(event);
    }
}

impl Kept {
    fn new(wanted: &Listing) -> io::Result<Self> {
        let Listing::Whole(path) = wanted else {
            return Ok(Self::Sample(BTreeMap::new()));
        };
        let waiting = path.with_extension(format!("{}.calls", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&waiting)?;
        fs::remove_file(&waiting)?;
        Ok(Self::Whole(BufWriter::with_capacity(BUFFER_BYTES, file), 0))
    }

    fn listed(self, to: &Path, paths: &Paths) -> io::Result<Listed> {
        match self {
            Self::Whole(file, calls) => {
                let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.rewind()?;
                write_lines(&mut BufReader::with_capacity(BUFFER_BYTES, file), to, paths)?;
                Ok(Listed { calls, files: Vec::new() })
            }
            Self::Sample(parts) => Ok(sampled(parts, paths)),
        }
    }
}

impl Sink for Kept {
    fn add(&mut self, item: &[u8]) -> io::Result<()> {
        match self {
            Self::Whole(file, calls) => {
                *calls += 1;
                file.write_all(&(item.len() as u64).to_ne_bytes())?;
                file.write_all(item)
            }
            Self::Sample(parts) => {
                if let Some(event) = Event::from_bytes(item) {
                    parts.entry(event.slot).or_default().add(event);
                }
                Ok(())
            }
        }
    }
}

fn write_lines(items: &mut impl Read, to: &Path, paths: &Paths) -> io::Result<()> {
    let mut output = BufWriter::with_capacity(BUFFER_BYTES, File::create(to)?);
    let mut length = [0; 8];
    while let Ok(()) = items.read_exact(&mut length) {
        let mut item = vec![0; u64::from_ne_bytes(length) as usize];
        items.read_exact(&mut item)?;
        if let Some(event) = Event::from_bytes(&item) {
            writeln!(output, "{}", line(&event, paths))?;
        }
    }
    output.flush()
}

/// The sessions of a file together.
fn sampled(parts: BTreeMap<u32, Part>, paths: &Paths) -> Listed {
    let mut by_path: BTreeMap<String, (u64, Vec<Event>)> = BTreeMap::new();
    for (slot, part) in parts {
        let path = paths.of(slot).unwrap_or_default().to_owned();
        let (calls, events) = by_path.entry(path).or_default();
        *calls += part.calls;
        events.extend(part.first);
        events.extend(part.last);
    }
    let mut listed = Listed::default();
    let mut files: Vec<(u64, ListedFile)> = Vec::new();
    for (path, (calls, mut events)) in by_path {
        // As they ended, as in the whole listing.
        events.sort_by_key(|event| event.entered_ns + event.took_ns);
        listed.calls += calls;
        let lines: Vec<String> = events.iter().map(|event| line(event, paths)).collect();
        let first = lines.len().min(FIRST);
        let last = lines.len().saturating_sub(LAST).max(first);
        let began_ns = events.first().map_or(0, |event| event.entered_ns);
        files
            .push((began_ns, ListedFile { path, calls, first: lines[..first].to_vec(), last: lines[last..].to_vec() }));
    }
    files.sort_by_key(|&(began_ns, _)| began_ns);
    listed.files = files.into_iter().map(|(_, file)| file).collect();
    listed
}

impl Recorder {
    /// Takes calls from now on.
    pub(crate) fn start(loaded: &mut ProgramSet, wanted: &Listing) -> Result<Self, Unavailable> {
        let path = match wanted {
            Listing::Whole(path) => path.clone(),
            Listing::Sample => PathBuf::new(),
        };
        let started = Kept::new(wanted).and_then(|kept| RingReader::start(loaded, "listing_ring", kept));
        let reader = started.map_err(|error| cannot_write(&path, error))?;
        Ok(Self { reader, path })
    }

    /// Takes what is left, and makes lines of all.
    pub(crate) fn finish(self, paths: &Paths) -> Result<Listed, Unavailable> {
        let listed = self.reader.finish().and_then(|(kept, _)| kept.listed(&self.path, paths));
        listed.map_err(|error| cannot_write(&self.path, error))
    }
}

fn cannot_write(path: &Path, error: io::Error) -> Unavailable {
    Unavailable::Io { what: format!("the listing '{}' cannot be written", path.display()), error }
}

#[cfg(test)]
mod tests {
    use super::super::event::tests::{bytes_of, event};
    use super::*;

    fn calls(kept: &mut Kept, number: u64) {
        for place in 0..number {
            let mut read = event(libc::SYS_pread64, 0, [3, 0, 512, place, 0], 512);
            read.entered_ns = place * 1_000_000;
            kept.add(&bytes_of(&read)).unwrap();
        }
    }

    fn paths() -> Paths {
        Paths::new(&[], Vec::new(), &BTreeMap::new())
    }

    #[test]
    fn a_sample_has_the_first_and_the_last_and_counts_all() {
        let mut kept = Kept::new(&Listing::Sample).unwrap();
        calls(&mut kept, 1000);
        let listed = kept.listed(Path::new(""), &paths()).unwrap();
        let [file] = &listed.files[..] else { panic!("one file") };
        assert_eq!((listed.calls, file.calls), (1000, 1000));
        assert!(file.first[7].contains("…, 512, 7)"), "{:?}", file.first);
        assert!(file.last[0].contains("…, 512, 996)"), "{:?}", file.last);
        assert_eq!((file.first.len(), file.last.len()), (8, 4));
    }

    #[test]
    fn a_whole_listing_has_every_call_in_its_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("listing");
        let mut kept = Kept::new(&Listing::Whole(path.clone())).unwrap();
        calls(&mut kept, 100);
        assert_eq!(kept.listed(&path, &paths()).unwrap().calls, 100);
        let text = fs::read_to_string(&path).unwrap();
        let offsets: Vec<String> = (0..100).map(|place| format!("512, {place})")).collect();
        assert!(text.lines().zip(&offsets).all(|(line, offset)| line.contains(offset)));
        assert_eq!(text.lines().count(), 100);
    }
}
