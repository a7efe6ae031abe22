//! Counters of the commands of a drive. Flash and the write buffer are counted by the simulation.

use ioassay_stats::Histogram;
use serde::Serialize;

use crate::command::{Answer, Op, Status};

/// Commands of one kind. A distribution is a histogram while they are counted.
#[derive(Debug, Clone, Default, Serialize)]
pub struct OpCounters<D = Histogram> {
    pub commands: u64,
    pub bytes: u64,
    pub errors: u64,
    /// From arrival to answer, nanoseconds, of successful ones.
    pub latency_ns: D,
}

impl<D> OpCounters<D> {
    fn map<E>(&self, of: &impl Fn(&D) -> E) -> OpCounters<E> {
        let &Self { commands, bytes, errors, ref latency_ns } = self;
        OpCounters { commands, bytes, errors, latency_ns: of(latency_ns) }
    }
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
    pub fn record(&mut self, answer: &Answer) {
        let counters = match answer.command.op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::Trim | Op::WriteZeroes | Op::Zone(..) => &mut self.trims,
            Op::Flush => return,
        };
        if answer.status == Status::Done {
            counters.commands += 1;
            counters.bytes += answer.command.length_bytes;
        } else {
            counters.errors += 1;
        }
    }
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct CommandCounters<D = Histogram> {
    pub reads: OpCounters<D>,
    pub writes: OpCounters<D>,
    pub trims: OpCounters<D>,
    pub flushes: OpCounters<D>,
    /// How late each answer was given to the system, after its deadline, nanoseconds.
    pub late_ns: D,
    /// Commands in flight at each arrival, including the new one.
    pub depth: D,
    /// Time with commands in flight, picoseconds.
    #[serde(skip)]
    pub busy_ps: u64,
}

impl<D> CommandCounters<D> {
    /// These counters with another form of distributions.
    pub(crate) fn map<E>(&self, of: impl Fn(&D) -> E) -> CommandCounters<E> {
        CommandCounters {
            reads: self.reads.map(&of),
            writes: self.writes.map(&of),
            trims: self.trims.map(&of),
            flushes: self.flushes.map(&of),
            late_ns: of(&self.late_ns),
            depth: of(&self.depth),
            busy_ps: self.busy_ps,
        }
    }
}

impl CommandCounters {
    /// An answer was given to the system at `at_ps`.
    pub fn record(&mut self, answer: &Answer, at_ps: u64) {
        self.late_ns.record(at_ps.saturating_sub(answer.deadline_ps) / 1000);
        let counters = match answer.command.op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::Trim | Op::WriteZeroes | Op::Zone(..) => &mut self.trims,
            Op::Flush => &mut self.flushes,
        };
        if answer.status == Status::Done {
            counters.commands += 1;
            counters.bytes += answer.command.length_bytes;
            counters.latency_ns.record(at_ps.saturating_sub(answer.arrived_ps) / 1000);
        } else {
            counters.errors += 1;
        }
    }
}
