//! Counters of the commands of a drive.

use ioassay_stats::Histogram;
use serde::Serialize;

use crate::command::{Command, Op, Status};

#[derive(Debug, Clone, Default)]
pub struct OpCounters {
    pub commands: u64,
    pub bytes: u64,
    pub errors: u64,
    /// From arrival to answer, nanoseconds, of successful ones.
    pub latency_ns: Histogram,
}

/// Commands of one kind to one namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NamespaceOpCounters {
    pub commands: u64,
    pub bytes: u64,
    pub errors: u64,
}

/// Commands of one namespace. Flushes are none: they concern the whole drive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NamespaceCounters {
    pub reads: NamespaceOpCounters,
    pub writes: NamespaceOpCounters,
    pub trims: NamespaceOpCounters,
}

impl NamespaceCounters {
    /// A command of the namespace was answered.
    pub fn record(&mut self, completion: &Completion) {
        let counters = match completion.command.op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::Trim | Op::WriteZeroes | Op::Zone(..) => &mut self.trims,
            Op::Flush => return,
        };
        if completion.status == Status::Done {
            counters.commands += 1;
            counters.bytes += completion.command.length_bytes;
        } else {
            counters.errors += 1;
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct CommandCounters {
    pub reads: OpCounters,
    pub writes: OpCounters,
    pub trims: OpCounters,
    pub flushes: OpCounters,
    /// How late each answer was given to the system, after its deadline, nanoseconds.
    pub late_ns: Histogram,
    /// Commands in flight at each arrival, including the new completion.
    pub depth: Histogram,
    /// Time with commands in flight, picoseconds.
    pub busy_ps: u64,
}

/// A completed command, as it is answered.
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    pub command: Command,
    pub status: Status,
    pub arrived_ps: u64,
    /// When its answer is due.
    pub deadline_ps: u64,
}

impl CommandCounters {
    /// An answer was given to the system at `at_ps`.
    pub fn record(&mut self, completion: &Completion, at_ps: u64) {
        self.late_ns.record(at_ps.saturating_sub(completion.deadline_ps) / 1000);
        let counters = match completion.command.op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::Trim | Op::WriteZeroes | Op::Zone(..) => &mut self.trims,
            Op::Flush => &mut self.flushes,
        };
        if completion.status == Status::Done {
            counters.commands += 1;
            counters.bytes += completion.command.length_bytes;
            counters.latency_ns.record(at_ps.saturating_sub(completion.arrived_ps) / 1000);
        } else {
            counters.errors += 1;
        }
    }
}
