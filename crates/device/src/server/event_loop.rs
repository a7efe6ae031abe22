//! The loop that serves: one thread for everything.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::thread::CpuSet;

use super::control::{Asked, Question, Told};
use super::machine;
use super::options::{Poll, Way};
use crate::Error;
use crate::counters::Delivered;
use crate::emulated_drive::{Floor, Served};
use crate::transport::Transport;

/// It sleeps no longer than this at once: transports have clocks of their own.
const LONGEST_SLEEP_NS: u64 = 100_000_000;

/// A drive and the ways to it.
pub struct Serving {
    /// The drive.
    pub served: Served,
    /// The ways to it.
    pub transports: Vec<Box<dyn Transport>>,
    /// What each takes by itself.
    pub floors: Vec<Option<Floor>>,
    /// Processors that clients of its own may run on, though this thread is pinned.
    pub allowed: Option<CpuSet>,
    due: Vec<Delivered>,
    /// Wakes the thread that sleeps.
    bell: OwnedFd,
}

/// When the loop sleeps and when it ends.
pub struct Manner<'a> {
    /// Whether it may sleep.
    pub poll: Poll,
    /// Without a command for so long it does.
    pub idle_ms: u64,
    /// Ends it.
    pub end: &'a AtomicBool,
    /// Questions from elsewhere.
    pub questions: Option<&'a Receiver<Asked>>,
}

impl Serving {
    /// Serves a drive by transports.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn new(served: Served, transports: Vec<Box<dyn Transport>>) -> Result<Self, Error> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::system("cannot make an event descriptor", error))?;
        Ok(Self {
            served,
            floors: vec![None; transports.len()],
            transports,
            allowed: machine::allowed(),
            due: Vec::new(),
            bell,
        })
    }

    /// What wakes the loop when something is written to it.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn bell(&self) -> Result<OwnedFd, Error> {
        let bell = self.bell.try_clone();
        bell.map_err(|error| Error::system("cannot copy a descriptor", error))
    }

    /// Takes what has come and answers what is due; whether there was anything.
    ///
    /// # Errors
    /// [`Error::System`] when a transport fails altogether.
    pub fn turn(&mut self) -> Result<bool, Error> {
        let mut any = false;
        for transport in &mut self.transports {
            any |= transport
                .poll(&mut self.served)
                .map_err(|error| failed(transport.as_ref(), error))?;
        }
        self.served.due(&mut self.due);
        for one in &self.due {
            if let Some(transport) = self.transports.get_mut(one.command.tag.transport as usize) {
                transport.answer(one.into(), &self.served);
            }
        }
        for transport in &mut self.transports {
            transport
                .send()
                .map_err(|error| failed(transport.as_ref(), error))?;
        }
        if !self.due.is_empty() {
            self.served.delivered(&self.due);
            self.due.clear();
            any = true;
        }
        Ok(any)
    }

    /// Serves until it is to end.
    ///
    /// # Errors
    /// [`Error::System`] when a transport fails altogether.
    pub fn run(&mut self, manner: &Manner<'_>) -> Result<(), Error> {
        let idle_ps = manner.idle_ms.saturating_mul(1_000_000_000);
        let mut busy_ps = self.served.now_ps();
        while !manner.end.load(Ordering::Relaxed) {
            let any = self.turn()?;
            if let Some(questions) = manner.questions {
                while let Ok(asked) = questions.try_recv() {
                    self.tell(&asked, manner.end);
                }
            }
            if any || self.served.in_flight() > 0 {
                busy_ps = self.served.now_ps();
            } else if manner.poll == Poll::Adaptive && self.served.now_ps() - busy_ps >= idle_ps {
                self.sleep()?;
            }
        }
        Ok(())
    }

    fn tell(&mut self, asked: &Asked, end: &AtomicBool) {
        let told = match asked.question {
            Question::Stats => Told::Stats(Box::new(self.served.snapshot()), self.ways()),
            Question::PowerCut => Told::PowerCut(self.served.power_cut()),
            Question::ResetStats => {
                self.served.reset_figures();
                Told::Done
            }
            Question::Stop => {
                end.store(true, Ordering::Relaxed);
                Told::Done
            }
        };
        let _ = asked.to.send(told); // who asked may be gone
    }

    /// The ways to the drive as they are now.
    #[must_use]
    pub fn ways(&self) -> Vec<Way> {
        let numbered = self.transports.iter().zip(&self.floors);
        numbered
            .map(|(transport, floor)| Way {
                transport: transport.name(),
                address: transport.address(),
                nqn: transport.nqn(),
                floor_ns: floor.map(|floor| floor.busy_ns),
                alone_ns: floor.map(|floor| floor.alone_ns),
                connections: transport.connections(),
            })
            .collect()
    }

    /// Until a transport has something, somebody asks, a signal comes, or the model goes on.
    fn sleep(&mut self) -> Result<(), Error> {
        let mut descriptors: Vec<RawFd> = Vec::new();
        for transport in &self.transports {
            transport.descriptors(&mut descriptors);
        }
        let mut wait_ns = LONGEST_SLEEP_NS;
        if let Some(next_ps) = self.served.next_ps() {
            wait_ns = wait_ns.min(next_ps.saturating_sub(self.served.now_ps()) / 1000);
        }
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: i64::try_from(wait_ns).unwrap_or(0),
        };
        let mut waits: Vec<PollFd<'_>> = descriptors
            .iter()
            .map(|&descriptor| PollFd::from_borrowed_fd(borrowed(descriptor), PollFlags::IN))
            .collect();
        waits.push(PollFd::new(&self.bell, PollFlags::IN));
        match rustix::event::poll(&mut waits, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::system("cannot wait for commands", error)),
        }
        let _ = rustix::io::read(self.bell.as_fd(), &mut [0_u8; 8]); // empty: nobody rang
        Ok(())
    }
}

fn failed(transport: &dyn Transport, error: std::io::Error) -> Error {
    Error::system(format!("{} failed", transport.name()), error)
}

/// A descriptor of a transport, which has it open as long as it lives.
#[allow(unsafe_code)]
fn borrowed<'a>(descriptor: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the transports, which are borrowed all the while, have it open.
    unsafe { BorrowedFd::borrow_raw(descriptor) }
}
