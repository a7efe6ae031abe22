//! The loops of calls: what lies between the two readings of the clock. Nothing else belongs here.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::SeekFrom;
use rustix::io::{Errno, IoSlice, IoSliceMut};

use crate::buffer::Buffers;
use crate::clock::now_ns;
use crate::error::{Fault, advice};
use crate::matrix::Cell;
use crate::setup::Msync;
use crate::suite::{Access, Kind};
use crate::sys::{Mapping, Stream};

/// With jitter, two single bytes are read before every record whose number this divides.
const JITTER_RECORDS: u64 = 100;
const JITTER_PLACES: [u64; 2] = [0, 4096];

/// What was done by the calls that succeeded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    pub operations: u64,
    pub bytes: u64,
}

/// One loop over the records of a file.
pub struct Calls<'a> {
    pub cell: Cell,
    pub kind: Kind,
    /// The order of the records, for the accesses that have one.
    pub order: &'a [u64],
    /// The user's side of the data.
    pub buffers: &'a mut Buffers,
    /// Set when the user wants to stop.
    pub stop: &'a AtomicBool,
    /// For messages: errors of `O_DIRECT` have a remedy of their own.
    pub direct: bool,
    pub jitter: bool,
    /// How long each call took, where that is asked for.
    pub latencies_ns: Option<Vec<u64>>,
    /// What was done so far.
    pub done: Done,
}

/// The record that call `number` of an access moves, of `records`.
#[inline]
pub fn place(access: Access, number: u64, records: u64, order: &[u64]) -> u64 {
    match access {
        Access::Shuffled | Access::Strided => order[number as usize],
        Access::Backward => records - 1 - number,
        Access::SameRecord => 0,
        Access::Sequential | Access::Stdio | Access::Positioned | Access::Vectored => number,
    }
}

impl Calls<'_> {
    /// All calls of an access through a descriptor, which stands at the first record.
    pub fn through(&mut self, access: Access, file: BorrowedFd<'_>) -> Result<(), Fault> {
        match self.kind {
            Kind::Read => self.reads(access, file),
            Kind::Write => self.writes(access, file),
        }
    }

    fn reads(&mut self, access: Access, file: BorrowedFd<'_>) -> Result<(), Fault> {
        let (order, size) = (self.order, self.cell.record_bytes);
        let last = self.cell.records() - 1;
        let back = -2 * i64::try_from(size).unwrap_or(i64::MAX / 2);
        match access {
            Access::Shuffled => self.each(|buffers, number| {
                let record = order[number as usize];
                rustix::fs::seek(file, SeekFrom::Start(record * size))?;
                read(file, buffers, record)
            }),
            Access::Strided => self.each(|buffers, number| {
                let moved = read(file, buffers, order[number as usize])?;
                let next = order[number as usize + 1];
                rustix::fs::seek(file, SeekFrom::Start(next * size))?;
                Ok(moved)
            }),
            Access::Backward => self.each(|buffers, number| {
                let moved = read(file, buffers, last - number)?;
                let sought = rustix::fs::seek(file, SeekFrom::Current(back));
                // The last one would go before the file, and is refused: IOzone makes it all the same.
                if number < last {
                    sought?;
                }
                Ok(moved)
            }),
            Access::Positioned => self.each(|buffers, record| {
                let moved = rustix::io::pread(file, buffers.incoming(), record * size)?;
                buffers.accept(record);
                Ok(moved)
            }),
            Access::Vectored => self.each(|buffers, record| {
                let mut vector = [IoSliceMut::new(buffers.incoming())];
                let moved = rustix::io::preadv(file, &mut vector, record * size)?;
                buffers.accept(record);
                Ok(moved)
            }),
            Access::Sequential if self.jitter => self.jittered(file),
            Access::Sequential | Access::SameRecord | Access::Stdio => {
                self.each(|buffers, record| read(file, buffers, record))
            }
        }
    }

    /// Sequential reads, and single bytes elsewhere between them, which count as calls.
    fn jittered(&mut self, file: BorrowedFd<'_>) -> Result<(), Fault> {
        let mut elsewhere = Done::default();
        let ended = self.each(|buffers, record| {
            if record % JITTER_RECORDS == 0 {
                jitter(file, &mut elsewhere)?;
            }
            read(file, buffers, record)
        });
        self.done.operations += elsewhere.operations;
        self.done.bytes += elsewhere.bytes;
        ended
    }

    /// All copies of an access between the buffers and a mapping of the file.
    pub fn mapped(&mut self, access: Access, mapping: &mut Mapping, msync: Msync) -> Result<(), Fault> {
        let (order, size, records) = (self.order, self.cell.record_bytes, self.cell.records());
        let at = |number| place(access, number, records, order);
        match self.kind {
            Kind::Read => self.each(|buffers, number| {
                let record = at(number);
                mapping.read(record * size, buffers.incoming());
                buffers.accept(record);
                Ok(size as usize)
            }),
            Kind::Write => self.each(|buffers, number| {
                let record = at(number);
                mapping.write(record * size, buffers.outgoing(record));
                match msync {
                    Msync::Never => {}
                    Msync::Async => mapping.sync(record * size, size, false)?,
                    Msync::Sync => mapping.sync(record * size, size, true)?,
                }
                Ok(size as usize)
            }),
        }
    }

    fn writes(&mut self, access: Access, file: BorrowedFd<'_>) -> Result<(), Fault> {
        let (order, size) = (self.order, self.cell.record_bytes);
        match access {
            Access::Shuffled => self.each(|buffers, number| {
                let record = order[number as usize];
                rustix::fs::seek(file, SeekFrom::Start(record * size))?;
                rustix::io::write(file, buffers.outgoing(record))
            }),
            Access::SameRecord => self.each(|buffers, _| {
                let moved = rustix::io::write(file, buffers.outgoing(0))?;
                rustix::fs::seek(file, SeekFrom::Start(0))?;
                Ok(moved)
            }),
            Access::Positioned => {
                self.each(|buffers, record| rustix::io::pwrite(file, buffers.outgoing(record), record * size))
            }
            Access::Vectored => self.each(|buffers, record| {
                let vector = [IoSlice::new(buffers.outgoing(record))];
                rustix::io::pwritev(file, &vector, record * size)
            }),
            Access::Sequential | Access::Backward | Access::Strided | Access::Stdio => {
                self.each(|buffers, record| rustix::io::write(file, buffers.outgoing(record)))
            }
        }
    }

    /// All calls through a stream.
    pub fn streamed(&mut self, stream: &mut Stream) -> Result<(), Fault> {
        match self.kind {
            Kind::Write => self.each(|buffers, record| stream.write(buffers.outgoing(record))),
            Kind::Read => self.each(|buffers, record| {
                let moved = stream.read(buffers.incoming())?;
                buffers.accept(record);
                Ok(moved)
            }),
        }
    }

    /// As many calls as there are records; the first that fails or moves less ends it.
    #[inline]
    fn each(&mut self, mut call: impl FnMut(&mut Buffers, u64) -> Result<usize, Errno>) -> Result<(), Fault> {
        let Some(mut latencies_ns) = self.latencies_ns.take() else {
            return self.all(call);
        };
        let ended = self.all(|buffers, number| {
            let start_ns = now_ns();
            let moved = call(buffers, number);
            latencies_ns.push(now_ns() - start_ns);
            moved
        });
        self.latencies_ns = Some(latencies_ns);
        ended
    }

    #[inline]
    fn all(&mut self, mut call: impl FnMut(&mut Buffers, u64) -> Result<usize, Errno>) -> Result<(), Fault> {
        let wanted = self.cell.record_bytes as usize;
        for number in 0..self.cell.records() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Fault::Stopped);
            }
            match call(self.buffers, number) {
                Ok(moved) => {
                    self.done.operations += 1;
                    self.done.bytes += moved as u64;
                    if moved != wanted {
                        return Err(self.short(number, moved));
                    }
                }
                Err(errno) => return Err(self.failed(number, errno)),
            }
        }
        Ok(())
    }

    #[cold]
    fn short(&self, number: u64, moved: usize) -> Fault {
        let (step, of) = (self.kind.name(), self.cell.records());
        Fault::Short { step, number: number + 1, of, moved, wanted: self.cell.record_bytes as usize }
    }

    #[cold]
    fn failed(&self, number: u64, errno: Errno) -> Fault {
        let (step, of) = (self.kind.name(), self.cell.records());
        Fault::Call { step, number: number + 1, of, errno, advice: advice(errno, self.direct) }
    }
}

#[inline]
fn read(file: BorrowedFd<'_>, buffers: &mut Buffers, record: u64) -> Result<usize, Errno> {
    let moved = rustix::io::read(file, buffers.incoming())?;
    buffers.accept(record);
    Ok(moved)
}

/// Two single bytes from elsewhere, and back: as IOzone's -K does.
fn jitter(file: BorrowedFd<'_>, elsewhere: &mut Done) -> Result<(), Errno> {
    let place = rustix::fs::seek(file, SeekFrom::Current(0))?;
    for at in JITTER_PLACES {
        rustix::fs::seek(file, SeekFrom::Start(at))?;
        elsewhere.bytes += rustix::io::read(file, &mut [0_u8])? as u64;
        elsewhere.operations += 1;
    }
    rustix::fs::seek(file, SeekFrom::Start(place)).map(drop)
}
