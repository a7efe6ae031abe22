//! A recording as a trace.
//!
//! Events were written when requests ended, and a trace is in the order in which they were issued. How late an event
//! can be is found by reading the file once; a heap of that depth then puts them right in a second pass, so a long
//! recording needs no more memory than the device had requests under way. One whose completion the kernel hid is
//! written at the very end: then all that came after it is held.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use ioassay_block::{BATCH, Error, Kind, Request, Source};

use super::event::{EVENT_BYTES, Event, MAGIC};

const BUFFER_BYTES: usize = 1 << 18;

/// Which requests of a recording are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only those that the process tree issued itself.
    pub own_only: bool,
    /// Only those to this device, `(major, minor)`.
    pub device: Option<(u32, u32)>,
}

impl Selection {
    fn has(self, event: &Event) -> bool {
        let device = (event.dev >> 20, event.dev & 0xf_ffff);
        (!self.own_only || event.is_own()) && self.device.is_none_or(|wanted| wanted == device)
    }
}

/// Gives the requests of a recording in the order of their issue, times from the first of them.
///
/// Devices are numbered in the order in which they come. What a trace has no word for is left out: commands of the
/// drivers, zones, ranges to be zeroed.
pub struct Reader {
    events: Events,
    selection: Selection,
    /// How much later than its issue an event may stand behind others, in nanoseconds.
    lateness_ns: u64,
    first_ns: u64,
    latest_ns: u64,
    waiting: BinaryHeap<Reverse<Waiting>>,
    read: u64,
    devices: Vec<u32>,
}

/// Ordered by issue, then by place.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    at_ns: u64,
    place: u64,
    request: Request,
}

impl Reader {
    /// Opens a recording, and reads it once to learn its order.
    pub fn open(path: &Path, selection: Selection) -> Result<Self, Error> {
        let mut events = Events::open(path)?;
        let (mut first_ns, mut latest_ns, mut lateness_ns) = (u64::MAX, 0, 0);
        while let Some(event) = events.next()? {
            if selection.has(&event) && kind_of(&event).is_some() {
                first_ns = first_ns.min(event.start_ns);
                latest_ns = event.start_ns.max(latest_ns);
                lateness_ns = lateness_ns.max(latest_ns - event.start_ns);
            }
        }
        Ok(Self {
            events: Events::open(path)?,
            selection,
            lateness_ns,
            first_ns,
            latest_ns: 0,
            waiting: BinaryHeap::new(),
            read: 0,
            devices: Vec::new(),
        })
    }

    /// The next request in order, none at the end.
    fn next_request(&mut self) -> Result<Option<Request>, Error> {
        loop {
            if let Some(Reverse(first)) = self.waiting.peek() {
                if first.at_ns + self.lateness_ns < self.latest_ns {
                    return Ok(self.waiting.pop().map(|Reverse(first)| first.request));
                }
            }
            let Some(event) = self.events.next()? else {
                return Ok(self.waiting.pop().map(|Reverse(first)| first.request));
            };
            self.take(&event);
        }
    }

    fn take(&mut self, event: &Event) {
        let Some(kind) = kind_of(event).filter(|_| self.selection.has(event)) else {
            return;
        };
        self.latest_ns = self.latest_ns.max(event.start_ns);
        self.read += 1;
        let is_flush = kind == Kind::Flush;
        let request = Request {
            at_ns: event.start_ns - self.first_ns,
            offset_bytes: if is_flush { 0 } else { event.sector * 512 },
            length_bytes: u64::from(event.bytes),
            device: self.number_of(event.dev),
            kind,
        };
        self.waiting.push(Reverse(Waiting { at_ns: event.start_ns, place: self.read, request }));
    }

    fn number_of(&mut self, dev: u32) -> u32 {
        let known = self.devices.iter().position(|&known| known == dev);
        let number = known.unwrap_or_else(|| {
            self.devices.push(dev);
            self.devices.len() - 1
        });
        number as u32
    }
}

impl Source for Reader {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        while batch.len() < BATCH {
            match self.next_request()? {
                Some(request) => batch.push(request),
                None => break,
            }
        }
        Ok(())
    }
}

/// What a request does (`include/linux/blk_types.h`, `enum req_op`).
fn kind_of(event: &Event) -> Option<Kind> {
    match (event.cmd_flags & 0xff, event.bytes) {
        (0, 1..) => Some(Kind::Read),
        (1 | 7, 1..) => Some(Kind::Write),
        (3 | 5, 1..) => Some(Kind::Trim),
        (1 | 2, 0) => Some(Kind::Flush),
        _ => None,
    }
}

/// The events of a file, in the file's order.
struct Events {
    input: BufReader<File>,
    place: u64,
}

impl Events {
    fn open(path: &Path) -> Result<Self, Error> {
        let mut input = BufReader::with_capacity(BUFFER_BYTES, File::open(path)?);
        let mut magic = [0; EVENT_BYTES];
        let is_one = input.read_exact(&mut magic).is_ok() && magic == *MAGIC;
        if !is_one {
            let message = "no recording of block requests: it does not begin as one";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message).into());
        }
        Ok(Self { input, place: 0 })
    }

    fn next(&mut self) -> Result<Option<Event>, Error> {
        let mut bytes = [0; EVENT_BYTES];
        let mut filled = 0;
        while filled < EVENT_BYTES {
            match self.input.read(&mut bytes[filled..])? {
                0 if filled == 0 => return Ok(None),
                0 => return Err(self.truncated(filled)),
                read => filled += read,
            }
        }
        self.place += 1;
        Ok(Some(Event::from_bytes(&bytes)))
    }

    fn truncated(&self, seen: usize) -> Error {
        Error::At {
            place: format!("event {}", self.place + 1),
            fault: ioassay_block::Fault::Truncated { seen, wanted: EVENT_BYTES },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;
    use tempfile::TempDir;

    /// A file in a folder, which goes when that is dropped.
    fn recording(events: &[Event]) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        let mut bytes = MAGIC.to_vec();
        bytes.extend(events.iter().flat_map(|event| event.to_bytes()));
        fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    fn event(start_ns: u64, flags: u32, bytes: u32) -> Event {
        Event { start_ns, sector: start_ns, d2c_ns: 1, q2d_ns: 0, bytes, cmd_flags: flags, dev: 8 << 20 }
    }

    fn read(events: &[Event], selection: Selection) -> Vec<Request> {
        let (_folder, path) = recording(events);
        let mut reader = Reader::open(&path, selection).unwrap();
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        loop {
            reader.next_batch(&mut batch).unwrap();
            if batch.is_empty() {
                break;
            }
            all.extend_from_slice(&batch);
        }
        all
    }

    #[test]
    fn requests_come_in_the_order_of_their_issue() {
        let starts = [300, 100, 200, 900, 500, 400, 1000];
        let events: Vec<Event> = starts.iter().map(|&at| event(at, 0, 512)).collect();
        let found = read(&events, Selection::default());
        let times: Vec<u64> = found.iter().map(|request| request.at_ns).collect();
        assert_eq!(times, [0, 100, 200, 300, 400, 800, 900]);
        assert_eq!(found[0].offset_bytes, 100 * 512);
    }

    #[test]
    fn kinds_are_those_of_the_operations() {
        let flags = [(0, 512), (1, 512), (3, 512), (1, 0), (9, 512), (34, 0)];
        let events: Vec<Event> = flags.iter().zip(1..).map(|(&(flags, bytes), at)| event(at, flags, bytes)).collect();
        let kinds: Vec<Kind> = read(&events, Selection::default()).iter().map(|request| request.kind).collect();
        assert_eq!(kinds, [Kind::Read, Kind::Write, Kind::Trim, Kind::Flush]);
    }

    #[test]
    fn a_selection_leaves_others_and_other_devices_out() {
        let mut events = vec![event(1, 0, 512), event(2, 1 << 31, 1024), event(3, 1 << 31, 2048)];
        events[2].dev = (9 << 20) | 1;
        let own = Selection { own_only: true, device: None };
        let lengths = |found: Vec<Request>| -> Vec<u64> { found.iter().map(|request| request.length_bytes).collect() };
        assert_eq!(lengths(read(&events, own)), [1024, 2048]);
        let one = Selection { own_only: true, device: Some((9, 1)) };
        assert_eq!(lengths(read(&events, one)), [2048]);
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        let (_folder, path) = recording(&[event(1, 0, 512)]);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(Reader::open(&path, Selection::default()).is_err());
        fs::write(&path, b"something else").unwrap();
        assert!(Reader::open(&path, Selection::default()).is_err());
    }
}
