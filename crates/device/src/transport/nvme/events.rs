//! Asynchronous events of a controller (NVM Express Base Specification 2.0, section 5.2): that the drive has become
//! one that can only be read, which changes its namespaces, and what its health log warns of. Events
//! that never happen here are left out: namespaces keep their sizes, and the one subsystem its place.

use std::collections::VecDeque;

use crate::command::Trouble;

/// Requests that are held, at most.
pub const MAX_REQUESTS: usize = 4;

/// A notice that a namespace changed, with the log page that says which (figures 145 and 148).
const NAMESPACE_CHANGED: u64 = (0x04 << 16) | 2;
/// A notice that zones changed by themselves, with the log page that says which.
const ZONES_CHANGED: u64 = (0xbf << 16) | (0xef << 8) | 2;
/// The health log warns, of what bits 8 to 15 say (figures 145 and 147).
const HEALTH: u64 = (0x02 << 16) | 1;

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

/// The event of new warnings: reliability, temperature, or spare.
fn event_of(warnings: u8) -> u64 {
    let information = match warnings {
        _ if warnings & (warning::UNRELIABLE | warning::READ_ONLY) != 0 => 0,
        _ if warnings & warning::TEMPERATURE != 0 => 1,
        _ => 2,
    };
    HEALTH | (information << 8)
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

/// The notices of a controller, in the order in which they are told.
const OF_HEALTH: usize = 0;
const OF_NAMESPACE: usize = 1;
const OF_ZONES: usize = 2;

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
    /// The event of the latest of them.
    event: u64,
}

impl Events {
    /// Looks at the drive. Of what is new the host is told what it wants to be: changed namespaces, and these warnings.
    pub fn look(&mut self, read_only: bool, warnings: u8, wants_namespaces: bool, wants: u8) {
        let before = self.read_only.replace(read_only);
        if before.is_some_and(|before| before != read_only) {
            self.namespace_changed = true;
            self.notices[OF_NAMESPACE].raise(wants_namespaces);
        }
        let new = warnings & wants & !self.warnings;
        let health = &mut self.notices[OF_HEALTH];
        if new != 0 && !health.due && !health.told {
            health.due = true;
            self.event = event_of(new);
        }
        self.warnings = (self.warnings | new) & warnings;
    }

    /// Looks at the zones: how many changed by themselves since the drive was started.
    pub fn look_at_zones(&mut self, changes: usize, wanted: bool) {
        if changes > std::mem::replace(&mut self.zones_seen, changes) {
            self.notices[OF_ZONES].raise(wanted);
        }
    }

    /// The host read the log of changed zones, up to this number of changes.
    pub fn read_zones(&mut self, changes: usize) {
        (self.notices[OF_ZONES], self.zones_read) = (Notice::default(), changes);
    }

    /// The request that is to be answered now, and with what.
    pub fn next(&mut self) -> Option<(u16, u64)> {
        let at = self.notices.iter().position(|notice| notice.due)?;
        let request = self.requests.pop_front()?;
        self.notices[at] = Notice { due: false, told: true };
        Some((request, [self.event, NAMESPACE_CHANGED, ZONES_CHANGED][at]))
    }

    /// The host read the health log.
    pub fn read_health(&mut self) {
        self.notices[OF_HEALTH] = Notice::default();
    }

    /// The host read the log of changed namespaces.
    pub fn read_namespaces(&mut self) {
        (self.notices[OF_NAMESPACE], self.namespace_changed) = (Notice::default(), false);
    }

    pub fn reset(&mut self) {
        self.dropped.extend(self.requests.drain(..));
        (self.notices, self.warnings) = (Default::default(), 0);
    }
}
