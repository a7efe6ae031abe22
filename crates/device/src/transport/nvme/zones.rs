//! A zoned namespace: what hosts are told of it, and the commands that only it has (NVM Express Zoned Namespace Command Set
//! Specification 1.1; command sets: NVM Express Base Specification 2.0, sections 3.1.3.1 and 5.17).

use super::MAX_TRANSFER_BYTES;
use super::command_table::Request;
use super::controller::Controller;
use super::entry::{IDENTIFY_BYTES, Outcome, Submission, page, placed};
use super::status::{self, Status, of_zone};
use crate::command::{Drive, DriveInfo, Op};
use crate::zones::{Zone, ZoneAction, ZoneState, Zones};

/// The type of all zones: Sequential Write Required.
const SEQUENTIAL_WRITE_REQUIRED: u8 = 2;

/// Bytes of the head of a report, and of each zone in it.
const DESCRIPTOR_BYTES: usize = 64;

const REMAP_PROTECTION: u32 = 1 << 25;
const SELECT_ALL: u32 = 1 << 8;
const PARTIAL: u32 = 1 << 16;

/// The log of zones that changed by themselves.
pub const CHANGED_ZONES: u8 = 0xbf;

/// The identifier of the command set.
pub const COMMAND_SET: u32 = 2;

/// Zones that the log of changes has room for.
const MOST_CHANGED: usize = 511;

/// Actions of Zone Management Send, by their numbers from 1 on. There are no descriptor extensions, and no random write
/// areas.
const ACTIONS: [ZoneAction; 5] =
    [ZoneAction::Close, ZoneAction::Finish, ZoneAction::Open, ZoneAction::Reset, ZoneAction::Offline];

/// States of which a report may be, by their numbers from 1 on; with 0 it is of all.
const REPORTED: [ZoneState; 7] = [
    ZoneState::Empty,
    ZoneState::ImplicitlyOpened,
    ZoneState::ExplicitlyOpened,
    ZoneState::Closed,
    ZoneState::Full,
    ZoneState::ReadOnly,
    ZoneState::Offline,
];

/// The namespace, as Identify of the command set describes it (figure 48). No zone changes by itself for another reason
/// than its wear, and reads may cross boundaries.
pub fn describe_namespace(zones: &Zones, facts: &DriveInfo) -> Vec<u8> {
    let geometry = zones.geometry();
    let limit = |most: u32| {
        let less_one = if most == geometry.count { u32::MAX } else { most - 1 };
        less_one.to_le_bytes()
    };
    let blocks = geometry.zone_bytes / u64::from(facts.block_bytes.max(1));
    page::<IDENTIFY_BYTES>(&[
        (2, &[1]), // reads across boundaries
        (4, &limit(geometry.most_active)),
        (8, &limit(geometry.most_open)),
        (2816, &blocks.to_le_bytes()),
    ])
}

/// The log of zones that changed by themselves since the host read it; more than it has room for are not listed.
pub fn changed(controller: &Controller, drive: &dyn Drive) -> Option<Vec<u8>> {
    let zones = drive.zones()?;
    let block = u64::from(drive.facts().block_bytes.max(1));
    let changed = zones.changed().get(controller.events.zones_read..).unwrap_or(&[]);
    if changed.len() > MOST_CHANGED {
        return Some(page::<IDENTIFY_BYTES>(&[(0, &[0xff; 2])]));
    }
    let listed: Vec<_> = changed.iter().flat_map(|&number| (zones.start_bytes(number) / block).to_le_bytes()).collect();
    Some(page::<IDENTIFY_BYTES>(&[(0, &(changed.len() as u16).to_le_bytes()), (8, &listed)]))
}

/// An append: its place is found now, and nothing comes between that and the write.
pub fn place(command: &Submission, request: Request, drive: &dyn Drive) -> Result<Request, Status> {
    let zones = drive.zones().ok_or(status::INVALID_OPCODE)?;
    if command.word(12) & REMAP_PROTECTION != 0 || request.length_bytes > zones.geometry().append_bytes {
        return Err(status::INVALID_FIELD);
    }
    if drive.facts().read_only {
        return Err(status::WRITE_PROTECTED);
    }
    let offset_bytes = zones.append_at(request.offset_bytes, request.length_bytes).map_err(of_zone)?;
    Ok(Request { offset_bytes, ..request })
}

/// The item of this number, from 1 on.
fn numbered<T: Copy>(items: &[T], number: u32) -> Result<T, Status> {
    let item = (number as usize).checked_sub(1).and_then(|at| items.get(at));
    item.copied().ok_or(status::INVALID_FIELD)
}

/// Zone Management Send (section 3.4.3).
pub fn action(command: &Submission, drive: &dyn Drive) -> Result<Request, Status> {
    let action = numbered(&ACTIONS, command.word(13) & 0xff)?;
    let is_of_all = command.word(13) & SELECT_ALL != 0;
    let zones = drive.zones().ok_or(status::INVALID_OPCODE)?;
    let (offset_bytes, length_bytes) = if is_of_all {
        (0, drive.facts().size_bytes)
    } else {
        let (start_bytes, _) = placed(command.double_word(10), 1, drive.facts())?;
        if zones.start_bytes(zones.number(start_bytes)) != start_bytes {
            return Err(status::INVALID_FIELD);
        }
        (start_bytes, zones.geometry().zone_bytes)
    };
    Ok(Request { op: Op::Zone(action, is_of_all), offset_bytes, length_bytes, fua: false })
}

/// Zone Management Receive (section 3.4.2): a report, never an extended one.
pub fn report(command: &Submission, drive: &dyn Drive) -> Result<Outcome, Status> {
    let zones = drive.zones().ok_or(status::INVALID_OPCODE)?;
    let facts = drive.facts();
    let (start_bytes, _) = placed(command.double_word(10), 1, facts)?;
    let length = (u64::from(command.word(12)) + 1) * 4;
    let (action, filter) = (command.word(13) & 0xff, (command.word(13) >> 8) & 0xff);
    if action != 0 || length < DESCRIPTOR_BYTES as u64 || length > MAX_TRANSFER_BYTES as u64 {
        return Err(status::INVALID_FIELD);
    }
    if (command.room()? as u64) < length {
        return Err(status::SGL_LENGTH_INVALID);
    }
    let wanted = if filter == 0 { None } else { Some(numbered(&REPORTED, filter)?) };
    let most = length as usize / DESCRIPTOR_BYTES - 1;
    let from = zones.number(start_bytes);
    let is_wanted = |zone: &Zone| wanted.is_none_or(|wanted| wanted == zone.state);
    let found = (from..).zip(&zones.all()[from as usize..]).filter(|(_, zone)| is_wanted(zone));
    let count = if command.word(13) & PARTIAL != 0 { found.clone().take(most).count() } else { found.clone().count() };
    let mut report = page::<DESCRIPTOR_BYTES>(&[(0, &(count as u64).to_le_bytes())]);
    for (number, zone) in found.take(most) {
        report.extend(describe_zone(zones, number, zone, facts));
    }
    report.resize(length as usize, 0);
    Ok(Outcome::Data(report))
}

/// The descriptor of a zone (figure 37). Without a valid write pointer its field has all bits set.
fn describe_zone(zones: &Zones, number: u32, zone: &Zone, facts: &DriveInfo) -> Vec<u8> {
    let block = u64::from(facts.block_bytes.max(1));
    let has_pointer = zone.state == ZoneState::Empty || zone.state.is_active();
    let pointer = if has_pointer { zone.write_pointer_bytes / block } else { u64::MAX };
    page::<DESCRIPTOR_BYTES>(&[
        (0, &[SEQUENTIAL_WRITE_REQUIRED, (zone.state as u8) << 4]),
        (8, &(zones.geometry().capacity_bytes / block).to_le_bytes()),
        (16, &(zones.start_bytes(number) / block).to_le_bytes()),
        (24, &pointer.to_le_bytes()),
    ])
}
