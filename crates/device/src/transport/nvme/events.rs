//! Asynchronous events of a controller (NVM Express Base Specification 2.0, section 5.2): that the drive has become
//! one that can only be read, which changes its namespaces, and what its health log warns of. Events
//! that never happen here are left out: namespaces keep their sizes, and the one subsystem its place.

use std::collections::VecDeque;

use crate::command::{Drive, Trouble};

/// Requests that are held, at most.
pub const MAX_REQUESTS: usize = 4;

/// Bits of the event configuration: what the host wants to know of. The lowest eight are the critical warnings of the
/// health log.
const NAMESPACE_NOTICES: u32 = 1 << 8;
const ZONE_NOTICES: u32 = 1 << 27;

/// The notices of a controller, in the order in which they are told: the health log warns, of what bits 8 to 15 say; a
/// namespace changed; zones changed by themselves (figures 145, 147 and 148).
const NOTICES: [u64; 3] = [1, 2, (0xef << 8) | 2];
const OF_HEALTH: usize = 0;
const OF_NAMESPACE: usize = 1;
const OF_ZONES: usize = 2;

/// The log pages that say which.
const LOGS: [u8; 3] = [0x02, 0x04, 0xbf];

/// Critical warnings of the health log (figure 207).
mod warning {
    pub const SPARE: u8 = 1;
    pub const TEMPERATURE: u8 = 1 << 1;
    pub const UNRELIABLE: u8 = 1 << 2;
    pub const READ_ONLY: u8 = 1 << 3;
}

/// The critical warnings of the health log.
pub fn warnings(trouble: Trouble, temperature: bool) -> u8 {
    let of = |is: bool, warning: u8| if is { warning } else { 0 };
    of(trouble.worn_out, warning::SPARE | warning::READ_ONLY)
        | of(trouble.unreliable, warning::UNRELIABLE)
        | of(temperature, warning::TEMPERATURE)
}

/// What new warnings are of: reliability, temperature, or spare.
fn information(warnings: u8) -> u64 {
    match warnings {
        _ if warnings & (warning::UNRELIABLE | warning::READ_ONLY) != 0 => 0,
        _ if warnings & warning::TEMPERATURE != 0 => 1,
        _ => 2,
    }
}

/// An event of one type: told once, and again only when the host has read its log page.
#[derive(Debug, Default)]
struct Notice {
    due: bool,
    told: bool,
}

impl Notice {
    fn raise(&mut self, wanted: bool) {
        self.due |= wanted && !self.told;
    }
}

/// Events, and the host's requests for them.
#[derive(Debug, Default)]
pub struct Events {
    /// Numbers of the requests that are held.
    pub requests: VecDeque<u16>,
    /// Requests that a reset dropped; their identifiers are free again.
    pub dropped: Vec<u16>,
    notices: [Notice; 3],
    /// Changes of zones that the host has read, and that there were when they were looked at.
    pub zones_read: usize,
    zones_seen: usize,
    /// The namespace changed since the host read the log.
    pub namespace_changed: bool,
    /// Whether the drive refused writes, and what it warned of, when it was looked at last.
    read_only: Option<bool>,
    warnings: u8,
    /// What the latest of them is of.
    information: u64,
}

impl Events {
    /// Looks at the drive, and at what it warns of. Of what is new the host is told what its event configuration wants.
    pub fn look(&mut self, drive: &dyn Drive, warnings: u8, wanted: u32) {
        let read_only = drive.facts().read_only;
        let before = self.read_only.replace(read_only);
        if before.is_some_and(|before| before != read_only) {
            self.namespace_changed = true;
            self.notices[OF_NAMESPACE].raise(wanted & NAMESPACE_NOTICES != 0);
        }
        let new = warnings & wanted as u8 & !self.warnings;
        let health = &mut self.notices[OF_HEALTH];
        if new != 0 && !health.due && !health.told {
            health.due = true;
            self.information = information(new);
        }
        self.warnings = (self.warnings | new) & warnings;
        let changes = drive.zones().map_or(0, |zones| zones.changed().len());
        if changes > std::mem::replace(&mut self.zones_seen, changes) {
            self.notices[OF_ZONES].raise(wanted & ZONE_NOTICES != 0);
        }
    }

    /// The host read a log, when so many zones had changed by themselves.
    pub fn read(&mut self, log: u8, zones: usize) {
        let Some(at) = LOGS.iter().position(|&of| of == log) else {
            return;
        };
        self.notices[at] = Notice::default();
        match at {
            OF_NAMESPACE => self.namespace_changed = false,
            OF_ZONES => self.zones_read = zones,
            _ => {}
        }
    }

    /// The request that is to be answered now, and with what.
    pub fn next(&mut self) -> Option<(u16, u64)> {
        let at = self.notices.iter().position(|notice| notice.due)?;
        let request = self.requests.pop_front()?;
        self.notices[at] = Notice { due: false, told: true };
        let information = if at == OF_HEALTH { self.information } else { 0 };
        Some((request, (u64::from(LOGS[at]) << 16) | NOTICES[at] | (information << 8)))
    }

    pub fn reset(&mut self) {
        self.dropped.extend(self.requests.drain(..));
        (self.notices, self.warnings) = (Default::default(), 0);
    }
}
