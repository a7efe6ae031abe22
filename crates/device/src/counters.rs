//! What is counted of the commands while a drive is served.

use ioassay_stats::Histogram;

use crate::command::{Command, Op, Status};

/// Commands of one kind.
#[derive(Debug, Clone, Default)]
pub struct OpFigures {
    /// Answered as they were wanted.
    pub commands: u64,
    /// Bytes of their ranges.
    pub bytes: u64,
    /// Answered with an error.
    pub errors: u64,
    /// From arrival to answer, nanoseconds, of those without error.
    pub latency_ns: Histogram,
}

/// All that is counted of commands.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Reads.
    pub reads: OpFigures,
    /// Writes.
    pub writes: OpFigures,
    /// Trims and zeroes.
    pub trims: OpFigures,
    /// Flushes.
    pub flushes: OpFigures,
    /// Of each answer how much later than its deadline it was given to the system, nanoseconds.
    pub late_ns: Histogram,
    /// Commands in flight whenever one came, itself included.
    pub depth: Histogram,
    /// While there were commands in flight, picoseconds.
    pub busy_ps: u64,
}

/// A command that was answered.
#[derive(Debug, Clone, Copy)]
pub struct Delivered {
    /// The command.
    pub command: Command,
    /// How it ended.
    pub status: Status,
    /// When it came.
    pub arrived_ps: u64,
    /// When it was to be answered.
    pub deadline_ps: u64,
}

impl Figures {
    /// An answer was given to the system at `at_ps`.
    pub fn count(&mut self, one: &Delivered, at_ps: u64) {
        self.late_ns
            .record(at_ps.saturating_sub(one.deadline_ps) / 1000);
        let of = match one.command.op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::Trim | Op::WriteZeroes => &mut self.trims,
            Op::Flush => &mut self.flushes,
        };
        if one.status == Status::Done {
            of.commands += 1;
            of.bytes += one.command.length_bytes;
            of.latency_ns
                .record(at_ps.saturating_sub(one.arrived_ps) / 1000);
        } else {
            of.errors += 1;
        }
    }
}
