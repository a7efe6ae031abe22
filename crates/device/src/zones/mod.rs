//! The zones of a zoned drive: their states, write pointers and open resources (NVM Express Zoned Namespace Command
//! Set Specification 1.1, section 2).
//!
//! All zones are of the type Sequential Write Required. The module knows no content, no time and no transport: it says
//! whether a command may be done, and what becomes of the zones when it is. Deliberately absent: zone descriptor
//! extensions, random write areas, and limits that the controller enforces by itself after a time.

mod geometry;
mod table;

use std::ops::Range;

use serde::Serialize;

pub use geometry::{ZoneGeometry, ZoneOptions};
pub use table::TableError;
pub(crate) use table::{FOOTER_BYTES, read_footer};

/// Why a command was refused (section 3 of the specification: status codes of the command set).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneError {
    /// A write goes beyond the capacity of its zone.
    Boundary,
    Full,
    /// The zone can only be read.
    ReadOnly,
    Offline,
    /// A write does not begin at the write pointer.
    InvalidWrite,
    /// No more zones can be active.
    TooManyActive,
    /// No more zones can be open, and none of them was opened implicitly.
    TooManyOpen,
    /// The state of the zone does not allow the action.
    InvalidTransition,
    /// The address is not that of the first block of a zone.
    NotAZone,
}

/// The state of a zone (figure 11 of the specification, with its values).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneState {
    /// Nothing was written since the last reset.
    Empty = 0x1,
    ImplicitlyOpened = 0x2,
    ExplicitlyOpened = 0x3,
    /// It takes writes, and has no open resource.
    Closed = 0x4,
    /// It can be read, and nothing else.
    ReadOnly = 0xd,
    /// It takes no writes until it is reset.
    Full = 0xe,
    Offline = 0xf,
}

impl ZoneState {
    /// Whether a zone in this state has an open resource.
    pub fn is_open(self) -> bool {
        matches!(self, Self::ImplicitlyOpened | Self::ExplicitlyOpened)
    }

    /// Whether a zone in this state has an active resource.
    pub fn is_active(self) -> bool {
        self.is_open() || self == Self::Closed
    }
}

/// What a host can do to a zone (Zone Send Action).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneAction {
    /// Give its open resource back.
    Close,
    Finish,
    Open,
    /// Discard its content, and begin anew.
    Reset,
    /// Give up a zone that can only be read.
    Offline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    pub state: ZoneState,
    /// Where the next write begins, bytes of the drive. In a finished zone, the end of its content.
    pub write_pointer_bytes: u64,
    /// How far it is durable without a gap, bytes of the drive.
    pub durable_bytes: u64,
    /// Counts up with each write to any zone, to find the one that was written least recently.
    written_at: u64,
}

/// Numbers of zones by their states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ZoneCounts {
    pub zones: u64,
    /// Bytes from the beginning of a zone to that of the next.
    pub zone_bytes: u64,
    /// Bytes of a zone that can be written.
    pub capacity_bytes: u64,
    pub empty: u64,
    pub implicitly_opened: u64,
    pub explicitly_opened: u64,
    /// Active zones that are not open.
    pub closed: u64,
    pub full: u64,
    /// Zones that can only be read.
    pub read_only: u64,
    pub offline: u64,
    /// Zone resets since the counters were reset.
    pub resets: u64,
}

/// All zones of a drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zones {
    geometry: ZoneGeometry,
    all: Vec<Zone>,
    open: u32,
    active: u32,
    writes: u64,
    /// Zone resets since the counters were reset.
    pub resets: u64,
    /// Zones that changed their state by themselves, in the order in which they did. A zone does that once at most:
    /// only a host's command changes one that can only be read.
    changed: Vec<u32>,
}

impl Zones {
    pub fn new(geometry: ZoneGeometry) -> Self {
        let zone = |number| {
            let start = u64::from(number) * geometry.zone_bytes;
            Zone { state: ZoneState::Empty, write_pointer_bytes: start, durable_bytes: start, written_at: 0 }
        };
        Self {
            all: (0..geometry.count).map(zone).collect(),
            geometry,
            open: 0,
            active: 0,
            writes: 0,
            resets: 0,
            changed: Vec::new(),
        }
    }

    pub fn geometry(&self) -> &ZoneGeometry {
        &self.geometry
    }

    /// All zones in the order of their addresses.
    pub fn all(&self) -> &[Zone] {
        &self.all
    }

    /// The number of the zone that an address within the drive lies in.
    pub fn number(&self, offset_bytes: u64) -> u32 {
        (offset_bytes / self.geometry.zone_bytes) as u32
    }

    /// The first byte of a zone.
    pub fn start_bytes(&self, number: u32) -> u64 {
        u64::from(number) * self.geometry.zone_bytes
    }

    /// The end of what can be written of a zone.
    pub fn end_bytes(&self, number: u32) -> u64 {
        self.start_bytes(number) + self.geometry.capacity_bytes
    }

    /// How many zones are in which state.
    pub fn counts(&self) -> ZoneCounts {
        let mut counts = ZoneCounts {
            zones: self.all.len() as u64,
            zone_bytes: self.geometry.zone_bytes,
            capacity_bytes: self.geometry.capacity_bytes,
            resets: self.resets,
            ..ZoneCounts::default()
        };
        for zone in &self.all {
            *match zone.state {
                ZoneState::Empty => &mut counts.empty,
                ZoneState::ImplicitlyOpened => &mut counts.implicitly_opened,
                ZoneState::ExplicitlyOpened => &mut counts.explicitly_opened,
                ZoneState::Closed => &mut counts.closed,
                ZoneState::ReadOnly => &mut counts.read_only,
                ZoneState::Full => &mut counts.full,
                ZoneState::Offline => &mut counts.offline,
            } += 1;
        }
        counts
    }

    /// Whether a range can be read: no zone of it is offline. Reads may cross the boundaries of zones.
    pub fn check_read(&self, range: Range<u64>) -> Result<(), ZoneError> {
        let is_offline = self.of(range).iter().any(|zone| zone.state == ZoneState::Offline);
        if is_offline { Err(ZoneError::Offline) } else { Ok(()) }
    }

    /// Whether a range can be deallocated. That moves no write pointer.
    pub fn check_deallocate(&self, range: Range<u64>) -> Result<(), ZoneError> {
        self.of(range).iter().try_for_each(|zone| match zone.state {
            ZoneState::ReadOnly => Err(ZoneError::ReadOnly),
            ZoneState::Offline => Err(ZoneError::Offline),
            _ => Ok(()),
        })
    }

    /// Where an append to the zone that begins at an address is written.
    pub fn append_at(&self, start_bytes: u64, length_bytes: u64) -> Result<u64, ZoneError> {
        let number = self.number(start_bytes);
        if self.start_bytes(number) != start_bytes {
            return Err(ZoneError::NotAZone);
        }
        let zone = self.all.get(number as usize).ok_or(ZoneError::NotAZone)?;
        let at = zone.write_pointer_bytes;
        takes_writes(zone.state)?;
        self.check_write(at, length_bytes)?;
        Ok(at)
    }

    /// Whether a write can be done. The order of the checks is QEMU's (hw/nvme/ctrl.c): the state, the write pointer,
    /// the boundary, and then the resources.
    pub fn check_write(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), ZoneError> {
        let number = self.number(offset_bytes);
        let zone = self.all[number as usize];
        takes_writes(zone.state)?;
        if offset_bytes != zone.write_pointer_bytes {
            return Err(ZoneError::InvalidWrite);
        }
        if offset_bytes + length_bytes > self.end_bytes(number) {
            return Err(ZoneError::Boundary);
        }
        if zone.state.is_open() {
            return Ok(());
        }
        self.check_resources(zone.state)
    }

    /// A write that was checked is done: its zone is open, or full, and its write pointer moves.
    pub fn write(&mut self, offset_bytes: u64, length_bytes: u64) {
        let number = self.number(offset_bytes);
        if !self.all[number as usize].state.is_open() {
            self.make_room();
            self.set(number, ZoneState::ImplicitlyOpened);
        }
        self.writes += 1;
        let (writes, end) = (self.writes, self.end_bytes(number));
        let zone = &mut self.all[number as usize];
        zone.written_at = writes;
        zone.write_pointer_bytes += length_bytes;
        if zone.write_pointer_bytes == end {
            self.set(number, ZoneState::Full);
        }
    }

    /// Changes the state of the zone that begins at `start_bytes`, or with `None` of all zones that the action
    /// concerns. Returns what zones held that were reset, and is to be discarded. Nothing is changed after an error.
    pub fn manage(&mut self, action: ZoneAction, start_bytes: Option<u64>) -> Result<Vec<Range<u64>>, ZoneError> {
        if let Some(start_bytes) = start_bytes {
            let number = self.number(start_bytes);
            let is_zone = self.start_bytes(number) == start_bytes && number < self.geometry.count;
            return if is_zone { self.act(action, number).map(Vec::from_iter) } else { Err(ZoneError::NotAZone) };
        }
        let concerned = (0..).zip(&self.all).filter(|(_, zone)| is_selected(action, zone.state));
        let concerned: Vec<u32> = concerned.map(|(number, _)| number).collect();
        if action == ZoneAction::Open && self.open as usize + concerned.len() > self.geometry.most_open as usize {
            return Err(ZoneError::TooManyOpen);
        }
        let mut discarded = Vec::new();
        for number in concerned {
            discarded.extend(self.act(action, number)?);
        }
        Ok(discarded)
    }

    /// Acts on one zone. Returns what it held, if it was reset.
    fn act(&mut self, action: ZoneAction, number: u32) -> Result<Option<Range<u64>>, ZoneError> {
        use ZoneState::{Closed, Empty, ExplicitlyOpened, Full, ImplicitlyOpened, Offline, ReadOnly};
        let state = self.all[number as usize].state;
        let to = match (action, state) {
            (ZoneAction::Close, ImplicitlyOpened | ExplicitlyOpened | Closed) => Closed,
            (ZoneAction::Finish, state) if state != ReadOnly && state != Offline => Full,
            (ZoneAction::Open, Empty | Closed) => {
                self.check_resources(state)?;
                self.make_room();
                ExplicitlyOpened
            }
            (ZoneAction::Open, ImplicitlyOpened | ExplicitlyOpened) => ExplicitlyOpened,
            (ZoneAction::Reset, state) if state != ReadOnly && state != Offline => Empty,
            (ZoneAction::Offline, ReadOnly | Offline) => Offline,
            _ => return Err(ZoneError::InvalidTransition),
        };
        self.set(number, to);
        if to != Empty {
            return Ok(None);
        }
        let start = self.start_bytes(number);
        let zone = &mut self.all[number as usize];
        let held = start..zone.write_pointer_bytes;
        (zone.write_pointer_bytes, zone.durable_bytes) = (start, start);
        self.resets += 1;
        Ok((!held.is_empty()).then_some(held))
    }

    /// A zone has come to the end of its life: from now on it can only be read.
    pub fn wear_out(&mut self, number: u32) {
        if !matches!(self.all[number as usize].state, ZoneState::ReadOnly | ZoneState::Offline) {
            self.set(number, ZoneState::ReadOnly);
            self.changed.push(number);
        }
    }

    /// Zones that changed their state by themselves, all since the drive was started. Later ones are appended.
    pub fn changed(&self) -> &[u32] {
        &self.changed
    }

    /// A zone is durable without a gap up to here.
    pub fn set_durable(&mut self, number: u32, durable_bytes: u64) {
        self.all[number as usize].durable_bytes = durable_bytes;
    }

    /// The drive lost its power, or was ended: what was not durable is gone, open zones are closed, and those without
    /// content are empty. Calls back for each range that is to be discarded. A finished zone stays full.
    pub fn lose_power(&mut self, mut discard: impl FnMut(Range<u64>)) {
        for number in 0..self.geometry.count {
            let (start, end) = (self.start_bytes(number), self.end_bytes(number));
            let zone = &mut self.all[number as usize];
            let lost = zone.durable_bytes..zone.write_pointer_bytes;
            zone.write_pointer_bytes = zone.durable_bytes;
            let lost_its_end = zone.state == ZoneState::Full && !lost.is_empty() && lost.end == end;
            if zone.state.is_active() || lost_its_end {
                let to = if lost.start == start { ZoneState::Empty } else { ZoneState::Closed };
                self.set(number, to);
            }
            if !lost.is_empty() {
                discard(lost);
            }
        }
        // More zones may have lost their ends than can be active: the controller finishes those written first.
        while let Some(number) =
            self.least_recent(ZoneState::is_active).filter(|_| self.active > self.geometry.most_active)
        {
            self.set(number, ZoneState::Full);
        }
    }

    fn of(&self, range: Range<u64>) -> &[Zone] {
        if range.is_empty() {
            return &[];
        }
        let last = self.number(range.end - 1) as usize;
        &self.all[self.number(range.start) as usize..=last]
    }

    /// Whether there are resources to open a zone that is in this state. An open zone may have to make room.
    fn check_resources(&self, state: ZoneState) -> Result<(), ZoneError> {
        if !state.is_active() && self.active >= self.geometry.most_active {
            return Err(ZoneError::TooManyActive);
        }
        let is_room = self.open < self.geometry.most_open || self.least_recent(is_implicit).is_some();
        if is_room { Ok(()) } else { Err(ZoneError::TooManyOpen) }
    }

    /// Closes the implicitly opened zone that was written least recently, if there is no resource left.
    fn make_room(&mut self) {
        if self.open >= self.geometry.most_open {
            if let Some(number) = self.least_recent(is_implicit) {
                self.set(number, ZoneState::Closed);
            }
        }
    }

    /// The zone that was written least recently, of those in certain states.
    fn least_recent(&self, is_wanted: impl Fn(ZoneState) -> bool) -> Option<u32> {
        let wanted = (0..).zip(&self.all).filter(|(_, zone)| is_wanted(zone.state));
        wanted.min_by_key(|(_, zone)| zone.written_at).map(|(number, _)| number)
    }

    fn set(&mut self, number: u32, state: ZoneState) {
        let zone = &mut self.all[number as usize];
        let before = std::mem::replace(&mut zone.state, state);
        self.open = self.open + u32::from(state.is_open()) - u32::from(before.is_open());
        self.active = self.active + u32::from(state.is_active()) - u32::from(before.is_active());
    }
}

fn is_implicit(state: ZoneState) -> bool {
    state == ZoneState::ImplicitlyOpened
}

fn takes_writes(state: ZoneState) -> Result<(), ZoneError> {
    match state {
        ZoneState::Full => Err(ZoneError::Full),
        ZoneState::ReadOnly => Err(ZoneError::ReadOnly),
        ZoneState::Offline => Err(ZoneError::Offline),
        _ => Ok(()),
    }
}

/// Which zones an action concerns if it is wanted of all (the field Select All).
fn is_selected(action: ZoneAction, state: ZoneState) -> bool {
    match action {
        ZoneAction::Close => state.is_open(),
        ZoneAction::Finish => state.is_active(),
        ZoneAction::Open => state == ZoneState::Closed,
        ZoneAction::Reset => state.is_active() || state == ZoneState::Full,
        ZoneAction::Offline => state == ZoneState::ReadOnly,
    }
}

#[cfg(test)]
mod tests;
