//! A controller: what one host sees of the subsystem, from its Connect on.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::entry::{Submission, page};
use super::events::{Events, warnings};
use super::features::Features;
use super::status::Status;
use crate::command::Drive;

/// Entries of the error log, and bytes of each.
pub const ERROR_ENTRIES: usize = 16;
pub const ERROR_BYTES: usize = 64;

/// How much later than agreed a host may be heard: a machine that was stopped for a moment is alive.
const GRACE: Duration = Duration::from_secs(1);

/// Properties (NVM Express Base Specification 2.0, section 3.1.3).
pub mod property {
    pub const CAP: u32 = 0x00;
    pub const VS: u32 = 0x08;
    pub const CC: u32 = 0x14;
    pub const CSTS: u32 = 0x1c;
    pub const NSSR: u32 = 0x20;
}

/// The version that controllers conform to: 1.4.
pub const VERSION: u32 = 0x0001_0400;

/// Longest time in which a controller becomes ready, in half seconds.
const READY_TIME: u64 = 10;

/// All command sets that the controller has: a value of a configuration's field CSS.
const ALL_COMMAND_SETS: u32 = 0b110;

/// Configuration bits for larger pages, and for another arbitration than round robin.
const PAGES_AND_ARBITRATION: u32 = (15 << 7) | (7 << 11);

/// Configuration bit: the host enables the controller.
pub const ENABLE: u32 = 1;
/// State bit: the controller is ready.
pub const READY: u32 = 1;
const FATAL: u32 = 1 << 1;
const SHUTDOWN: u32 = 3 << 2;
const SHUTDOWN_OCCURS: u32 = 1 << 2;
const SHUTDOWN_COMPLETE: u32 = 2 << 2;
const NORMAL_SHUTDOWN: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub name: Vec<u8>,
    pub id: [u8; 16],
}

#[derive(Debug)]
pub struct Controller {
    pub id: u16,
    /// Whether it only tells of subsystems.
    pub discovers: bool,
    pub host: Host,
    pub features: Features,
    /// The numbers that I/O queues have in tags, by the queues' numbers.
    pub queues: Vec<Option<u32>>,
    pub connections: usize,
    /// The controller is gone, so all its connections end.
    pub is_over: bool,
    /// Bits of CAP for command sets in addition to the NVM command set.
    pub command_sets: u64,
    pub events: Events,
    /// The latest errors as their log has them, newest first.
    pub errors: VecDeque<Vec<u8>>,
    pub error_count: u64,
    configuration: u32,
    state: u32,
    /// The host gave a sign of life.
    pub heard: bool,
    heard_at: Option<Instant>,
}

impl Controller {
    /// A controller for a host; `queues` I/O queues may be connected.
    pub fn new(id: u16, discovers: bool, host: Host, queues: u16, keep_alive_ms: u32) -> Self {
        Self {
            id,
            discovers,
            host,
            features: Features::new(keep_alive_ms, queues),
            queues: vec![None; usize::from(queues) + 1],
            connections: 0,
            is_over: false,
            command_sets: 0,
            events: Events::default(),
            errors: VecDeque::new(),
            error_count: 0,
            configuration: 0,
            state: 0,
            heard: true,
            heard_at: None,
        }
    }

    /// Whether the controller takes commands other than those of fabrics.
    pub fn is_ready(&self) -> bool {
        self.state & (READY | FATAL) == READY
    }

    /// Fails the controller until it is reset.
    pub fn fail(&mut self) {
        self.state |= FATAL;
    }

    /// Whether the host enabled the controller, ready or not.
    pub fn is_enabled(&self) -> bool {
        self.configuration & ENABLE != 0
    }

    /// A property's value; `None` if there is no such.
    pub fn property(&self, offset: u32, entries: u16) -> Option<u64> {
        match offset {
            // Contiguous queues required, and the NVM command set.
            property::CAP => {
                let most = u64::from(entries.saturating_sub(1));
                Some(most | (1 << 16) | (READY_TIME << 24) | (1 << 37) | self.command_sets)
            }
            property::VS => Some(VERSION.into()),
            property::CC => Some(self.configuration.into()),
            property::CSTS => Some(self.state.into()),
            property::NSSR => Some(0),
            _ => None,
        }
    }

    /// Changes the configuration: enables or disables at once. Whether a shutdown begins, which is
    /// complete when all that was answered is durable.
    pub fn configure(&mut self, to: u32) -> bool {
        let before = std::mem::replace(&mut self.configuration, to);
        if before & ENABLE == 0 && to & ENABLE != 0 {
            self.state = if self.discovers || is_possible(to, self.command_sets != 0) { READY } else { FATAL };
        }
        if before & ENABLE != 0 && to & ENABLE == 0 {
            // A reset: features and held events begin anew; shutdown stays complete until then.
            self.state = 0;
            let queues = self.queues.len() as u16 - 1;
            self.features = Features::new(self.features.keep_alive_ms, queues);
            self.events.reset();
        }
        let (before, notifies) = ((before >> 14) & 3, (to >> 14) & 3);
        if before == notifies || notifies == 0 {
            return false;
        }
        let flushes = notifies == NORMAL_SHUTDOWN && !self.discovers;
        let shutdown = if flushes { SHUTDOWN_OCCURS } else { SHUTDOWN_COMPLETE };
        self.state = self.state & !SHUTDOWN | shutdown;
        flushes
    }

    /// Looks whether there is anything to tell the host of the drive.
    pub fn look(&mut self, drive: &dyn Drive) {
        if !self.discovers {
            let warnings = self.warnings(drive);
            self.events.look(drive, warnings, self.features.event_configuration);
        }
    }

    /// The critical warnings of its health log.
    pub fn warnings(&self, drive: &dyn Drive) -> u8 {
        warnings(drive.trouble(), self.features.warns_of_temperature())
    }

    /// Ends a shutdown: all that was answered is durable.
    pub fn shut_down(&mut self) {
        if self.state & SHUTDOWN == SHUTDOWN_OCCURS {
            self.state = self.state & !SHUTDOWN | SHUTDOWN_COMPLETE;
        }
    }

    /// Whether the host was silent for longer than agreed.
    pub fn is_silent(&mut self, now: Instant) -> bool {
        if std::mem::take(&mut self.heard) {
            self.heard_at = Some(now);
        }
        let limit = Duration::from_millis(self.features.keep_alive_ms.into());
        let since = *self.heard_at.get_or_insert(now);
        !limit.is_zero() && now.duration_since(since) > limit + GRACE
    }

    /// Keeps an error of a queue's command for the log, under the next number.
    pub fn log(&mut self, queue: u16, command: &Submission, status: Status) {
        self.error_count += 1;
        let block = if queue > 0 { command.double_word(10) } else { 0 };
        self.errors.push_front(page::<ERROR_BYTES>(&[
            (0, &self.error_count.to_le_bytes()),
            (8, &queue.to_le_bytes()),
            (10, &command.id().to_le_bytes()),
            (12, &(status.0 << 1).to_le_bytes()),
            (14, &[0xff; 2]), // no one parameter is to blame
            (16, &block.to_le_bytes()),
            (24, &command.namespace().to_le_bytes()),
        ]));
        self.errors.truncate(ERROR_ENTRIES);
    }
}

/// Whether a configuration is one that there is: the NVM command set, or all that there are, pages of 4 KiB, round robin,
/// entries of 64 and 16 bytes (or not said, as some hosts do).
fn is_possible(configuration: u32, has_others: bool) -> bool {
    let sets = (configuration >> 4) & 7;
    let (submissions, completions) = ((configuration >> 16) & 15, (configuration >> 20) & 15);
    (sets == 0 || has_others && sets == ALL_COMMAND_SETS)
        && configuration & PAGES_AND_ARBITRATION == 0
        && matches!(submissions, 0 | 6)
        && matches!(completions, 0 | 4)
}
