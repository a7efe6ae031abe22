//! Commands of a zoned namespace (NVM Express Zoned Namespace Command Set Specification 1.1, section 3.4), and those of the
//! NVM command set that it carries out in its own way.

use super::MAX_TRANSFER_BYTES;
use super::entry::{Outcome, Submission};
use super::io::{IoQueue, Part, Wanted, extent};
use super::opcode::io as opcode;
use super::status::{self, Status, of_zone};
use crate::command::{Drive, DriveInfo, Op};
use crate::namespace::NamespaceDrive;
use crate::zones::{Zone, ZoneAction, ZoneState, Zones};

/// The type of all zones: Sequential Write Required.
const SEQUENTIAL_WRITE_REQUIRED: u8 = 2;

/// Bytes of the head of a report, and of each zone in it.
const DESCRIPTOR_BYTES: usize = 64;

const FORCE_UNIT_ACCESS: u32 = 1 << 30;
const REMAP_PROTECTION: u32 = 1 << 25;
const SELECT_ALL: u32 = 1 << 8;
const PARTIAL: u32 = 1 << 16;

/// What the data of a command of this set have to be; `None` for all others.
pub fn data_bytes(command: &Submission, drive: &dyn Drive) -> Option<Result<usize, Status>> {
    match command.opcode() {
        opcode::ZONE_APPEND => Some(match drive.namespace(command.namespace()) {
            Some(namespace) => extent(command, namespace.facts).map(|place| place.1 as usize),
            None => Err(status::INVALID_NAMESPACE),
        }),
        opcode::ZONE_MANAGEMENT_SEND => Some(Ok(0)),
        _ => None,
    }
}

/// Begins a command that a zoned namespace has of its own, or carries out in its own way; `None` for all others.
pub fn begin(
    queue: &mut impl IoQueue,
    command: &Submission,
    data: &[u8],
    durable: bool,
    drive: &mut dyn Drive,
) -> Option<Outcome> {
    drive.zones()?;
    if !(opcode::ZONED.contains(&command.opcode()) || command.opcode() == opcode::WRITE_ZEROES) {
        return None;
    }
    let Some(drive) = &mut NamespaceDrive::new(drive, command.namespace()) else {
        return Some(status::INVALID_NAMESPACE.into());
    };
    let begun = match command.opcode() {
        _ if command.is_fused() => Err(status::INVALID_FIELD),
        opcode::ZONE_APPEND => append(queue, command, data, durable, drive),
        opcode::ZONE_MANAGEMENT_SEND => manage(queue, command, drive),
        opcode::ZONE_MANAGEMENT_RECEIVE => report(command, drive),
        opcode::WRITE_ZEROES => write_zeroes(queue, command, durable, drive),
        _ => return None,
    };
    Some(begun.unwrap_or_else(Outcome::from))
}

/// An append: its place is found now, and nothing comes between that and the write.
fn append(
    queue: &mut impl IoQueue,
    command: &Submission,
    data: &[u8],
    durable: bool,
    drive: &mut dyn Drive,
) -> Result<Outcome, Status> {
    let (start_bytes, length_bytes) = extent(command, drive.facts())?;
    let zones = drive.zones().ok_or(status::INVALID_OPCODE)?;
    if command.word(12) & REMAP_PROTECTION != 0 || length_bytes > zones.geometry().append_bytes {
        return Err(status::INVALID_FIELD);
    }
    if drive.facts().read_only {
        return Err(status::WRITE_PROTECTED);
    }
    let offset_bytes = zones.append_at(start_bytes, length_bytes).map_err(of_zone)?;
    let wanted =
        Wanted { op: Op::Write, offset_bytes, length_bytes, fua: durable || command.word(12) & FORCE_UNIT_ACCESS != 0 };
    queue.submit(command.id(), Part::Append, wanted, data, drive);
    Ok(Outcome::Later)
}

/// Zeroes are written, also where they may be deallocated: they move the write pointer.
fn write_zeroes(
    queue: &mut impl IoQueue,
    command: &Submission,
    durable: bool,
    drive: &mut dyn Drive,
) -> Result<Outcome, Status> {
    let (offset_bytes, length_bytes) = extent(command, drive.facts())?;
    if drive.facts().read_only {
        return Err(status::WRITE_PROTECTED);
    }
    let wanted = Wanted {
        op: Op::WriteZeroes,
        offset_bytes,
        length_bytes,
        fua: durable || command.word(12) & FORCE_UNIT_ACCESS != 0,
    };
    queue.submit(command.id(), Part::Whole, wanted, &[], drive);
    Ok(Outcome::Later)
}

/// Zone Management Send (section 3.4.3).
fn manage(queue: &mut impl IoQueue, command: &Submission, drive: &mut dyn Drive) -> Result<Outcome, Status> {
    let action = match command.word(13) & 0xff {
        0x01 => ZoneAction::Close,
        0x02 => ZoneAction::Finish,
        0x03 => ZoneAction::Open,
        0x04 => ZoneAction::Reset,
        0x05 => ZoneAction::Offline,
        // There are no descriptor extensions, and no random write areas.
        _ => return Err(status::INVALID_FIELD),
    };
    let is_of_all = command.word(13) & SELECT_ALL != 0;
    let zones = drive.zones().ok_or(status::INVALID_OPCODE)?;
    let (offset_bytes, length_bytes) = if is_of_all {
        (0, drive.facts().size_bytes)
    } else {
        let start_bytes = address(command, drive.facts())?;
        if zones.start_bytes(zones.number(start_bytes)) != start_bytes {
            return Err(status::INVALID_FIELD);
        }
        (start_bytes, zones.geometry().zone_bytes)
    };
    if drive.facts().read_only {
        return Err(status::WRITE_PROTECTED);
    }
    let wanted = Wanted { op: Op::Zone(action, is_of_all), offset_bytes, length_bytes, fua: false };
    queue.submit(command.id(), Part::Whole, wanted, &[], drive);
    Ok(Outcome::Later)
}

/// The first byte of the block that a command names.
fn address(command: &Submission, facts: &DriveInfo) -> Result<u64, Status> {
    let block = u64::from(facts.block_bytes.max(1));
    let first = command.double_word(10);
    if first >= facts.size_bytes / block {
        return Err(status::LBA_OUT_OF_RANGE);
    }
    Ok(first * block)
}

/// Zone Management Receive (section 3.4.2): a report, never an extended one.
fn report(command: &Submission, drive: &dyn Drive) -> Result<Outcome, Status> {
    let zones = drive.zones().ok_or(status::INVALID_OPCODE)?;
    let facts = drive.facts();
    let start_bytes = address(command, facts)?;
    let length = (u64::from(command.word(12)) + 1) * 4;
    let (action, filter) = (command.word(13) & 0xff, (command.word(13) >> 8) & 0xff);
    if action != 0 || length < DESCRIPTOR_BYTES as u64 || length > MAX_TRANSFER_BYTES as u64 {
        return Err(status::INVALID_FIELD);
    }
    if (command.room()? as u64) < length {
        return Err(status::SGL_LENGTH_INVALID);
    }
    let is_wanted = filtered(filter).ok_or(status::INVALID_FIELD)?;
    let mut page = vec![0; length as usize];
    let room = page.len() / DESCRIPTOR_BYTES - 1;
    let from = zones.number(start_bytes);
    let numbered = (from..).zip(&zones.all()[from as usize..]);
    let mut count = 0;
    for (number, zone) in numbered.filter(|(_, zone)| is_wanted(zone.state)) {
        if count < room {
            let at = (count + 1) * DESCRIPTOR_BYTES;
            describe(&mut page[at..at + DESCRIPTOR_BYTES], zones, number, zone, facts);
        } else if command.word(13) & PARTIAL != 0 {
            break;
        }
        count += 1;
    }
    page[..8].copy_from_slice(&(count as u64).to_le_bytes());
    Ok(Outcome::Data(page))
}

/// Which states a report wants.
fn filtered(filter: u32) -> Option<fn(ZoneState) -> bool> {
    Some(match filter {
        0 => |_| true,
        1 => |state| state == ZoneState::Empty,
        2 => |state| state == ZoneState::ImplicitlyOpened,
        3 => |state| state == ZoneState::ExplicitlyOpened,
        4 => |state| state == ZoneState::Closed,
        5 => |state| state == ZoneState::Full,
        6 => |state| state == ZoneState::ReadOnly,
        7 => |state| state == ZoneState::Offline,
        _ => return None,
    })
}

/// The descriptor of a zone (figure 37). Without a valid write pointer its field has all bits set.
fn describe(into: &mut [u8], zones: &Zones, number: u32, zone: &Zone, facts: &DriveInfo) {
    let block = u64::from(facts.block_bytes.max(1));
    let has_pointer = zone.state == ZoneState::Empty || zone.state.is_active();
    let pointer = if has_pointer { zone.write_pointer_bytes / block } else { u64::MAX };
    into[0] = SEQUENTIAL_WRITE_REQUIRED;
    into[1] = (zone.state as u8) << 4;
    let numbers = [zones.geometry().capacity_bytes / block, zones.start_bytes(number) / block, pointer];
    for (field, number) in into[8..32].chunks_exact_mut(8).zip(numbers) {
        field.copy_from_slice(&number.to_le_bytes());
    }
}
