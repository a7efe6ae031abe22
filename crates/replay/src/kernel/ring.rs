//! A ring of `io_uring`, with the memory that its requests use.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;
use serde::Serialize;

use super::memory::{Memory, Place};
use crate::Error;

/// `BLOCK_URING_CMD_DISCARD`: `_IO(0x12, 0)` of include/uapi/linux/blkdev.h.
const DISCARD: u32 = 0x1200;
/// Of include/uapi/linux/falloc.h.
const PUNCH_HOLE_KEEP_SIZE: i32 = 3;
/// Registered buffers, by number.
const READS: u16 = 0;
const WRITES: u16 = 1;

/// What a request does. Places of reads are in the memory of reads, those of writes in that of writes.
#[derive(Debug, Clone, Copy)]
pub enum Op {
    Read { to: Place, offset_bytes: u64 },
    Write { from: Place, offset_bytes: u64 },
    Sync,
    Discard { offset_bytes: u64, length_bytes: u64 },
    Punch { offset_bytes: u64, length_bytes: u64 },
    Nothing,
}

/// How a ring works here: what it has depends on the kernel and its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RingFacts {
    /// `defer`, `cooperative` or `signals`: how the kernel hands completions to the thread.
    pub completions: &'static str,
    /// Whether buffers are registered.
    pub fixed: bool,
    /// Whether they are locked in memory.
    pub locked: bool,
}

pub struct Ring {
    uring: IoUring,
    reads: Memory,
    writes: Memory,
    outstanding: u32,
    pub facts: RingFacts,
}

impl Ring {
    /// A ring for at most `depth` requests outstanding and `batch` submitted at once, over `file`, with the first of
    /// the `completions` that the kernel has. It belongs to the thread that makes it.
    pub fn new(
        completions: &[&'static str],
        file: Option<&File>,
        depth: u32,
        batch: u32,
        fixed: bool,
        reads: Memory,
        writes: Memory,
    ) -> Result<Self, Error> {
        let (uring, completions) =
            ring_of(completions, depth, batch).map_err(|error| Error::io_uring(errno(&error)))?;
        if !uring.params().is_feature_ext_arg() {
            return Err(Error::io_uring(Errno::NOSYS));
        }
        if let Some(file) = file {
            let registered = uring.submitter().register_files(&[file.as_raw_fd()]);
            registered.map_err(|error| Error::io_uring(errno(&error)))?;
        }
        // SAFETY: both stay mapped for as long as the ring is there.
        let registered = fixed && unsafe { uring.submitter().register_buffers(&[reads.all(), writes.all()]) }.is_ok();
        let locked = registered || (reads.locked && writes.locked);
        let facts = RingFacts { completions, fixed: registered, locked };
        Ok(Self { uring, reads, writes, outstanding: 0, facts })
    }

    /// Fills the data of a write.
    pub fn mark(&mut self, place: Place, seed: u64, number: u64, offset_bytes: u64) {
        self.writes.mark(place, seed, number, offset_bytes);
    }

    /// Puts a request into the ring; `submit` hands it to the kernel.
    #[inline]
    pub fn push(&mut self, slot: u32, op: Op) -> Result<(), Error> {
        let entry = self.entry(op).user_data(slot.into());
        // Where the kernel had no memory for the last ones.
        while self.uring.submission().is_full() {
            self.submit()?;
        }
        // SAFETY: `address` has the data within memory that lives as long as the ring, which waits for all when dropped.
        let pushed = unsafe { self.uring.submission().push(&entry) };
        self.outstanding += u32::from(pushed.is_ok());
        Ok(())
    }

    fn entry(&self, op: Op) -> squeue::Entry {
        let file = Fixed(0);
        match op {
            Op::Read { to, offset_bytes } => {
                let (buffer, length) = (self.reads.address(to), to.length as u32);
                if self.facts.fixed {
                    opcode::ReadFixed::new(file, buffer, length, READS).offset(offset_bytes).build()
                } else {
                    opcode::Read::new(file, buffer, length).offset(offset_bytes).build()
                }
            }
            Op::Write { from, offset_bytes } => {
                let (buffer, length) = (self.writes.address(from), from.length as u32);
                if self.facts.fixed {
                    opcode::WriteFixed::new(file, buffer, length, WRITES).offset(offset_bytes).build()
                } else {
                    opcode::Write::new(file, buffer, length).offset(offset_bytes).build()
                }
            }
            Op::Sync => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
            Op::Discard { offset_bytes, length_bytes } => {
                let mut command = [0; 16];
                command[..8].copy_from_slice(&length_bytes.to_ne_bytes());
                opcode::UringCmd16::new(file, DISCARD).cmd(command).addr(Some(offset_bytes)).build()
            }
            Op::Punch { offset_bytes, length_bytes } => {
                opcode::Fallocate::new(file, length_bytes).offset(offset_bytes).mode(PUNCH_HOLE_KEEP_SIZE).build()
            }
            Op::Nothing => opcode::Nop::new().build(),
        }
    }

    /// Hands what was put to the kernel, which also does what it has put off.
    #[inline]
    pub fn submit(&mut self) -> Result<(), Error> {
        done(self.uring.submit())
    }

    /// Whether the kernel has completions, or work that gives some.
    #[inline]
    pub fn has_completions(&mut self) -> bool {
        self.uring.submission().taskrun() || !self.uring.completion().is_empty()
    }

    /// Hands what was put to the kernel, and waits for a completion, at most so long.
    pub fn wait(&mut self, most_ns: u64) -> Result<(), Error> {
        let (seconds, rest) = (most_ns / 1_000_000_000, most_ns % 1_000_000_000);
        let most = Timespec::new().sec(seconds).nsec(rest as u32);
        done(self.uring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&most)))
    }

    /// Gives slot and result of each completion.
    #[inline]
    pub fn reap(&mut self, mut take: impl FnMut(u32, i32)) -> Result<(), Error> {
        if self.uring.submission().taskrun() {
            self.submit()?;
        }
        for completion in self.uring.completion() {
            self.outstanding -= 1;
            take(completion.user_data() as u32, completion.result());
        }
        Ok(())
    }
}

impl Drop for Ring {
    /// The kernel may still read and write the memory: waits for it.
    fn drop(&mut self) {
        while self.outstanding > 0 && self.wait(u64::MAX >> 1).is_ok() {
            if self.reap(|_, _| ()).is_err() {
                break;
            }
        }
        if self.outstanding > 0 {
            self.reads.leak();
            self.writes.leak();
        }
    }
}

/// Completions are handed over where the thread asks for them, from Linux 6.1 on; else with its next call, from 5.19
/// on; else by an interrupt.
pub const COMPLETIONS: [&str; 3] = ["defer", "cooperative", "signals"];

/// The first of these that the kernel has.
fn ring_of(wanted: &[&'static str], depth: u32, batch: u32) -> io::Result<(IoUring, &'static str)> {
    let mut last = io::Error::from(Errno::INVAL);
    for &completions in wanted {
        let mut builder = IoUring::builder();
        builder.setup_clamp().setup_cqsize(depth.max(batch).next_power_of_two()).dontfork();
        match completions {
            "defer" => _ = builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag(),
            "cooperative" => _ = builder.setup_coop_taskrun().setup_taskrun_flag(),
            _ => {}
        }
        match builder.build(batch) {
            Ok(ring) => return Ok((ring, completions)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// A wait that ended by its time or a signal is none that failed; neither is one with completions to take first.
fn done(entered: io::Result<usize>) -> Result<(), Error> {
    match entered.map_err(|error| errno(&error)) {
        Ok(_) | Err(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
        Err(errno) => Err(Error::System { path: "io_uring".into(), step: "submit or wait", errno, advice: "" }),
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::{COMPLETIONS, Memory, Op, Place, Ring};

    #[test]
    fn requests_complete_however_the_kernel_hands_completions_over() {
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let place = Place { start: 4096, length: 512 };
        for completions in COMPLETIONS {
            let memory = || Memory::filled(8192, None).unwrap();
            let ring = Ring::new(&[completions], Some(&file), 64, 16, true, memory(), memory());
            if ring.is_err() && completions != "signals" {
                continue; // an older kernel
            }
            let mut ring = ring.unwrap_or_else(|error| panic!("{completions}: {error}"));
            assert_eq!(ring.facts.completions, completions);
            let mut done = Vec::new();
            for slot in 0..50 {
                ring.push(slot, if slot % 2 == 0 { Op::Read { to: place, offset_bytes: 0 } } else { Op::Nothing })
                    .unwrap();
                ring.reap(|slot, result| done.push((slot, result))).unwrap();
            }
            while done.len() < 50 {
                ring.wait(1_000_000_000).unwrap();
                ring.reap(|slot, result| done.push((slot, result))).unwrap();
            }
            done.sort_unstable();
            assert!(done.iter().zip(0..).all(
                |(&(slot, result), number)| slot == number && i64::from(result) == (i64::from(slot) + 1) % 2 * 512
            ));
        }
    }
}
