//! The event loop: one thread polls transports, advances the model and answers. It knows no protocol.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::thread::CpuSet;
use serde_json::json;

use super::control::{ControlReply, ControlRequest, PendingRequest};
use super::machine;
use super::options::{Options, Poll, TransportReport};
use crate::Error;
use crate::command::Answer;
use crate::emulated_drive::{EmulatedDrive, TransportOverhead};
use crate::transport::Transport;

/// Longest sleep at once: transports have timeouts of their own.
const LONGEST_SLEEP_NS: u64 = 100_000_000;

/// A drive and its transports.
pub struct DriveServer {
    pub drive: EmulatedDrive,
    pub transports: Vec<Box<dyn Transport>>,
    pub overheads: Vec<Option<TransportOverhead>>,
    /// Processors for clients of its own, while this thread is pinned.
    pub allowed: Option<CpuSet>,
    /// Whether clients of its own run in real time, as it does.
    pub realtime: bool,
    /// Counts polls, for the watchdog of a server in real time.
    pub heartbeat: Arc<AtomicU64>,
    answers: Vec<Answer>,
    /// Answers, and replies of the control socket, that wait until no old content is cached.
    held: Vec<Answer>,
    held_replies: Vec<(SyncSender<ControlReply>, ControlReply)>,
    changes: Vec<Range<u64>>,
    /// Wakes the thread that sleeps.
    wakeup: OwnedFd,
}

impl DriveServer {
    /// Serves a drive by transports.
    pub fn new(drive: EmulatedDrive, transports: Vec<Box<dyn Transport>>) -> Result<Self, Error> {
        let wakeup = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::system("cannot make an event descriptor", error))?;
        Ok(Self {
            drive,
            overheads: vec![None; transports.len()],
            transports,
            allowed: machine::allowed(),
            realtime: false,
            heartbeat: Arc::default(),
            answers: Vec::new(),
            held: Vec::new(),
            held_replies: Vec::new(),
            changes: Vec::new(),
            wakeup,
        })
    }

    /// A descriptor that wakes the loop when it is written.
    pub fn wakeup(&self) -> Result<OwnedFd, Error> {
        self.wakeup.try_clone().map_err(|error| Error::system("cannot copy a descriptor", error))
    }

    /// Polls the transports once and sends the answers that are due. Returns false if there was nothing to do.
    pub fn poll_once(&mut self) -> Result<bool, Error> {
        let mut any = false;
        // Only this thread counts, so that no atomic addition is needed.
        let beats = self.heartbeat.load(Ordering::Relaxed);
        self.heartbeat.store(beats.wrapping_add(1), Ordering::Relaxed);
        for transport in &mut self.transports {
            any |= transport.poll(&mut self.drive).map_err(|error| failed(transport.as_ref(), error))?;
        }
        if self.drive.drops_connections() {
            self.disconnect();
        }
        self.drive.take_answers(&mut self.answers);
        any |= self.hold_while_stale();
        for answer in &self.answers {
            if let Some(transport) = self.transports.get_mut(answer.command.tag.transport as usize) {
                transport.answer(*answer, &self.drive);
            }
        }
        for transport in &mut self.transports {
            any |= transport.send(&self.drive).map_err(|error| failed(transport.as_ref(), error))?;
        }
        if !self.answers.is_empty() {
            self.drive.record_answers(&self.answers);
            self.answers.clear();
            any = true;
        }
        Ok(any)
    }

    fn disconnect(&mut self) {
        for transport in &mut self.transports {
            transport.disconnect();
        }
    }

    /// Tells the transports of changed content, and holds what must not be told while old content
    /// is still cached. Returns whether anything is held.
    fn hold_while_stale(&mut self) -> bool {
        self.drive.take_changes(&mut self.changes);
        for change in self.changes.drain(..) {
            for transport in &mut self.transports {
                transport.changed(&change);
            }
        }
        let transports = &self.transports;
        if transports.iter().any(|transport| transport.is_stale()) {
            let caches = |answer: &Answer| {
                let transport = transports.get(answer.command.tag.transport as usize);
                transport.is_some_and(|transport| transport.caches(&answer.command))
            };
            let answers = std::mem::take(&mut self.answers).into_iter();
            let (answered, held): (Vec<_>, Vec<_>) = answers.partition(caches);
            self.answers = answered;
            self.held.extend(held);
            return true;
        }
        if !self.held.is_empty() {
            self.answers.splice(..0, self.held.drain(..));
        }
        for (reply_to, reply) in self.held_replies.drain(..) {
            let _ = reply_to.send(reply); // the client may be gone
        }
        false
    }

    /// Serves until a request of the control socket stops it, or `stop` is set.
    pub fn run(
        &mut self,
        options: &Options,
        stop: &AtomicBool,
        requests: Option<&Receiver<PendingRequest>>,
    ) -> Result<(), Error> {
        let idle_ps = options.idle_ms.saturating_mul(1_000_000_000);
        let mut busy_ps = self.drive.now_ps();
        let stopped = AtomicBool::new(false);
        while !stop.load(Ordering::Relaxed) && !stopped.load(Ordering::Relaxed) {
            let busy = self.poll_once()?;
            if let Some(requests) = requests {
                while let Ok(pending) = requests.try_recv() {
                    self.answer_request(pending, &stopped);
                }
            }
            if busy || self.drive.in_flight() > 0 || !self.held_replies.is_empty() {
                busy_ps = self.drive.now_ps();
            } else if options.poll == Poll::Adaptive && self.drive.now_ps() - busy_ps >= idle_ps {
                self.sleep()?;
            }
        }
        Ok(())
    }

    fn answer_request(&mut self, PendingRequest { request, reply_to }: PendingRequest, end: &AtomicBool) {
        let drive = &mut self.drive;
        let done = match request {
            ControlRequest::Stats { .. } => {
                let stats = ControlReply::Stats(Box::new(drive.report()), self.transport_reports());
                let _ = reply_to.send(stats); // the client may be gone
                return;
            }
            ControlRequest::PowerCut { keep_connections } => {
                let lost = ControlReply::Done(Ok(json!({"lost_pages": drive.power_cut()})));
                if !keep_connections {
                    self.disconnect();
                }
                // Sent with the next poll, if nothing that was lost is cached then.
                return self.held_replies.push((reply_to, lost));
            }
            ControlRequest::FaultInject { faults } => drive.arm_faults(faults).map(|ids| json!({"armed": ids})),
            ControlRequest::FaultList {} => Ok(json!({"faults": drive.fault_reports()})),
            ControlRequest::FaultClear { fault } => Ok(json!({"cleared": drive.clear_faults(fault)})),
            ControlRequest::ResetStats {} => {
                drive.reset_counters();
                Ok(json!({}))
            }
            ControlRequest::Stop {} => {
                end.store(true, Ordering::Relaxed);
                Ok(json!({}))
            }
        };
        let _ = reply_to.send(ControlReply::Done(done)); // the client may be gone
    }

    /// The state of each transport.
    pub fn transport_reports(&self) -> Vec<TransportReport> {
        self.transports
            .iter()
            .zip(&self.overheads)
            .map(|(transport, overhead)| TransportReport {
                transport: transport.name(),
                address: transport.address(),
                nqn: transport.nqn(),
                floor_ns: overhead.map(|overhead| overhead.busy_ns),
                alone_ns: overhead.map(|overhead| overhead.alone_ns),
                connections: transport.connections(),
            })
            .collect()
    }

    /// Sleeps until a transport has input, a request or a signal arrives, or the model's next event.
    fn sleep(&mut self) -> Result<(), Error> {
        let mut descriptors = vec![self.wakeup.as_fd()];
        for transport in &self.transports {
            transport.descriptors(&mut descriptors);
        }
        let mut wait_ns = LONGEST_SLEEP_NS;
        if let Some(next_ps) = self.drive.next_ps() {
            wait_ns = wait_ns.min(next_ps.saturating_sub(self.drive.now_ps()) / 1000);
        }
        for longest in self.transports.iter().filter_map(|one| one.longest_sleep()) {
            wait_ns = wait_ns.min(longest.as_nanos() as u64);
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::try_from(wait_ns).unwrap_or(0) };
        let waits = descriptors.into_iter().map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        let mut waits: Vec<PollFd<'_>> = waits.collect();
        match rustix::event::poll(&mut waits, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::system("cannot wait for commands", error)),
        }
        let _ = rustix::io::read(self.wakeup.as_fd(), &mut [0_u8; 8]); // empty: nobody rang
        Ok(())
    }
}

fn failed(transport: &dyn Transport, error: std::io::Error) -> Error {
    Error::system(format!("{} failed", transport.name()), error)
}
