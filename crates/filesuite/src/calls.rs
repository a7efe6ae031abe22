//! The loops of calls: what lies between the two readings of the clock. Nothing else belongs here.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::SeekFrom;
use rustix::io::{Errno, IoSlice, IoSliceMut};

use crate::buffer::Buffers;
use crate::error::{Fault, advice};
use crate::matrix::Cell;
use crate::suite::{Access, Kind};
use crate::sys::Stream;

/// What was done by the calls that succeeded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Calls that moved data.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
}

/// One loop over the records of a file.
pub struct Calls<'a> {
    /// File and record size.
    pub cell: Cell,
    /// Which way.
    pub kind: Kind,
    /// The order of the records, for the accesses that have one.
    pub order: &'a [u64],
    /// The user's side of the data.
    pub buffers: &'a mut Buffers,
    /// Set when the user wants to stop.
    pub stop: &'a AtomicBool,
    /// For messages: errors of `O_DIRECT` have a remedy of their own.
    pub direct: bool,
    /// What was done so far.
    pub done: Done,
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
                if let Some(next) = order.get(number as usize + 1) {
                    rustix::fs::seek(file, SeekFrom::Start(next * size))?;
                }
                Ok(moved)
            }),
            Access::Backward => self.each(|buffers, number| {
                let moved = read(file, buffers, last - number)?;
                if number < last {
                    rustix::fs::seek(file, SeekFrom::Current(back))?;
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
            Access::Sequential | Access::SameRecord | Access::Stdio => {
                self.each(|buffers, record| read(file, buffers, record))
            }
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
            Access::Positioned => self.each(|buffers, record| {
                rustix::io::pwrite(file, buffers.outgoing(record), record * size)
            }),
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
    fn each(
        &mut self,
        mut call: impl FnMut(&mut Buffers, u64) -> Result<usize, Errno>,
    ) -> Result<(), Fault> {
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
        Fault::Short {
            step,
            number: number + 1,
            of,
            moved,
            wanted: self.cell.record_bytes as usize,
        }
    }

    #[cold]
    fn failed(&self, number: u64, errno: Errno) -> Fault {
        let (step, of) = (self.kind.name(), self.cell.records());
        Fault::Call {
            step,
            number: number + 1,
            of,
            errno,
            advice: advice(errno, self.direct),
        }
    }
}

#[inline]
fn read(file: BorrowedFd<'_>, buffers: &mut Buffers, record: u64) -> Result<usize, Errno> {
    let moved = rustix::io::read(file, buffers.incoming())?;
    buffers.accept(record);
    Ok(moved)
}
