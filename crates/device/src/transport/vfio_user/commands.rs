//! Commands of the admin queue: those of queues in memory, and what differs from other transports.

use super::configuration::VENDOR;
use super::device::Device;
use super::interrupts::VECTORS;
use super::pages::{self, PAGE_BYTES};
use super::queues::{Bound, Place};
use super::registers::MOST_QUEUES;
use crate::command::Drive;
use crate::transport::nvme::admin::{self, NOT_ABORTED};
use crate::transport::nvme::entry::{Outcome, Submission};
use crate::transport::nvme::io::{self, Part};
use crate::transport::nvme::opcode::admin as opcode;
use crate::transport::nvme::status::{self, Status};

/// Features that only queues with interrupts have.
mod feature {
    pub const INTERRUPT_COALESCING: u8 = 0x08;
    pub const INTERRUPT_VECTOR: u8 = 0x09;
    pub const HOST_IDENTIFIER: u8 = 0x81;
}

/// Identify of the controller, and the log of its commands.
const OF_CONTROLLER: u8 = 1;
const OF_COMMANDS: u8 = 5;

pub fn execute(device: &mut Device, command: &Submission, drive: &mut dyn Drive) -> Outcome {
    match try_execute(device, command, drive) {
        Ok(outcome) => outcome,
        Err(status) => status.into(),
    }
}

fn try_execute(device: &mut Device, command: &Submission, drive: &mut dyn Drive) -> Result<Outcome, Status> {
    command.room()?;
    match command.opcode() {
        opcode::CREATE_COMPLETION_QUEUE => create_completions(device, command),
        opcode::CREATE_SUBMISSION_QUEUE => create_submissions(device, command),
        opcode::DELETE_COMPLETION_QUEUE => delete_completions(device, command),
        opcode::DELETE_SUBMISSION_QUEUE => delete_submissions(device, command, drive),
        opcode::ABORT => Ok(Outcome::Done(abort(device, command, drive))),
        opcode::GET_FEATURES | opcode::SET_FEATURES => match interrupt_feature(device, command)? {
            Some(outcome) => Ok(outcome),
            None => execute_shared(device, command, drive),
        },
        _ => execute_shared(device, command, drive),
    }
}

/// Commands that all transports have.
fn execute_shared(device: &mut Device, command: &Submission, drive: &mut dyn Drive) -> Result<Outcome, Status> {
    let mut data = vec![0; admin::data_bytes(command)];
    if command.takes_data() {
        pages::read(command, &device.memory, &mut data)?;
    }
    device.controller.hear();
    device.controller.look(drive);
    let cached = !device.controller.features.cache_is_off;
    let mut outcome = admin::execute(&mut device.controller, command, &data, &device.subsystem, drive);
    if cached && device.controller.features.cache_is_off {
        // Complete when what the cache has is durable, too: no flush comes for it from now on.
        let flush = |queue: &mut Bound<'_>| io::flush(queue, command.id(), Part::Whole, drive);
        device.with_queue(0, flush);
        return Ok(Outcome::Later);
    }
    if let Outcome::Data(page) = &mut outcome {
        match (command.opcode(), command.word(10) as u8) {
            (opcode::IDENTIFY, OF_CONTROLLER) => describe_as_local(page),
            (opcode::GET_LOG_PAGE, OF_COMMANDS) => add_queue_commands(page, command),
            _ => {}
        }
    }
    if admin::is_event_request(command) {
        device.tell();
    }
    Ok(outcome)
}

/// Names the vendor as the configuration space does, and clears what is of fabrics: keep alive, scatter-gather lists, most
/// commands, and capsules (NVM Express Base Specification 2.0, figure 275).
fn describe_as_local(page: &mut [u8]) {
    for range in [320..322, 514..516, 536..540, 1792..1804] {
        page[range].fill(0);
    }
    for at in [0, 2] {
        page[at..at + 2].copy_from_slice(&VENDOR.to_le_bytes());
    }
}

/// Adds the commands of queues to the log of commands, as far as it was read from its beginning.
fn add_queue_commands(page: &mut [u8], command: &Submission) {
    if command.double_word(12) > 0 {
        return;
    }
    for code in [
        opcode::DELETE_SUBMISSION_QUEUE,
        opcode::CREATE_SUBMISSION_QUEUE,
        opcode::DELETE_COMPLETION_QUEUE,
        opcode::CREATE_COMPLETION_QUEUE,
    ] {
        if let Some(entry) = page.get_mut(usize::from(code) * 4) {
            *entry = 1;
        }
    }
}

fn create_completions(device: &mut Device, command: &Submission) -> Result<Outcome, Status> {
    let place = new_place(device, command)?;
    if device.completions[usize::from(place.id)].is_some() {
        return Err(status::QUEUE_IDENTIFIER_INVALID);
    }
    let (has_interrupt, vector) = (command.word(11) & 2 != 0, (command.word(11) >> 16) as u16);
    if has_interrupt && usize::from(vector) >= VECTORS {
        return Err(status::INTERRUPT_VECTOR_INVALID);
    }
    device.open_completions(place, has_interrupt.then_some(vector));
    Ok(Outcome::Done(0))
}

fn create_submissions(device: &mut Device, command: &Submission) -> Result<Outcome, Status> {
    let place = new_place(device, command)?;
    if device.submissions[usize::from(place.id)].is_some() {
        return Err(status::QUEUE_IDENTIFIER_INVALID);
    }
    let completions = (command.word(11) >> 16) as u16;
    if completions == 0 {
        return Err(status::COMPLETION_QUEUE_INVALID);
    }
    if !matches!(device.completions.get(usize::from(completions)), Some(Some(_))) {
        return Err(status::COMPLETION_QUEUE_INVALID);
    }
    device.open_submissions(place, completions);
    Ok(Outcome::Done(0))
}

/// Where a queue that is to be created lies. Its memory must be contiguous.
fn new_place(device: &Device, command: &Submission) -> Result<Place, Status> {
    let (id, last) = (command.word(10) as u16, (command.word(10) >> 16) as u16);
    let granted = device.controller.features.io_queues.unwrap_or(MOST_QUEUES);
    if id == 0 || id > granted.min(MOST_QUEUES) {
        return Err(status::QUEUE_IDENTIFIER_INVALID);
    }
    if last == 0 || last >= device.subsystem.queue_entries {
        return Err(status::QUEUE_SIZE_INVALID);
    }
    let (address, _) = command.pages();
    if command.word(11) & 1 == 0 {
        return Err(status::INVALID_FIELD);
    }
    if address % PAGE_BYTES != 0 {
        return Err(status::PAGE_OFFSET_INVALID);
    }
    Ok(Place { id, address, entries: last + 1 })
}

fn delete_completions(device: &mut Device, command: &Submission) -> Result<Outcome, Status> {
    let id = command.word(10) as u16;
    let queue = device
        .completions
        .get_mut(usize::from(id))
        .filter(|queue| id > 0 && queue.is_some())
        .ok_or(status::QUEUE_IDENTIFIER_INVALID)?;
    let mut submissions = device.submissions.iter().flatten();
    if submissions.any(|submissions| submissions.completions == id) {
        return Err(status::QUEUE_DELETION_INVALID);
    }
    *queue = None;
    Ok(Outcome::Done(0))
}

/// Complete when the drive has nothing of the queue any more.
fn delete_submissions(device: &mut Device, command: &Submission, drive: &mut dyn Drive) -> Result<Outcome, Status> {
    let id = command.word(10) as u16;
    let queue = device
        .submissions
        .get_mut(usize::from(id))
        .filter(|_| id > 0)
        .and_then(Option::as_mut)
        .filter(|queue| queue.deletion.is_none())
        .ok_or(status::QUEUE_IDENTIFIER_INVALID)?;
    queue.deletion = Some(command.id());
    queue.abort_all(drive);
    device.end_deletion(id);
    Ok(Outcome::Later)
}

/// Aborts a held event request, or I/O that the drive has not done yet. The result says whether it did.
fn abort(device: &mut Device, command: &Submission, drive: &mut dyn Drive) -> u64 {
    let (of_queue, id) = (command.word(10) as u16, (command.word(10) >> 16) as u16);
    let Some(Some(queue)) = device.submissions.get(usize::from(of_queue)) else {
        return NOT_ABORTED;
    };
    let Some(number) = queue.number_of(id) else {
        return NOT_ABORTED;
    };
    let held = &mut device.controller.events.requests;
    let held_at = held.iter().position(|&held| held == number).filter(|_| of_queue == 0);
    if let Some(at) = held_at {
        held.remove(at);
        device.complete(0, number, status::ABORT_REQUESTED, 0);
        return 0;
    }
    if queue.abort(number, drive) { 0 } else { NOT_ABORTED }
}

/// Features of interrupts, which are kept and change nothing; and the host's identifier, which other
/// transports get when a host connects.
fn interrupt_feature(device: &mut Device, command: &Submission) -> Result<Option<Outcome>, Status> {
    let (id, value) = (command.word(10) as u8, command.word(11));
    let sets = command.opcode() == opcode::SET_FEATURES;
    let saves = sets && command.word(10) >> 31 != 0;
    let number = match id {
        feature::INTERRUPT_COALESCING => &mut device.coalescing,
        feature::INTERRUPT_VECTOR => {
            let vector = usize::from(value as u16);
            let settings = device.vector_settings.get_mut(vector);
            settings.ok_or(status::INVALID_FIELD)?
        }
        feature::HOST_IDENTIFIER if sets && !saves => {
            if value & 1 == 0 {
                return Err(status::INVALID_FIELD); // the short form is not offered
            }
            let mut host = [0; 16];
            pages::read(command, &device.memory, &mut host)?;
            device.controller.host.id = host;
            return Ok(Some(Outcome::Done(0)));
        }
        _ => return Ok(None),
    };
    if saves {
        return Err(status::FEATURE_NOT_SAVEABLE);
    }
    if sets {
        *number = value;
        return Ok(Some(Outcome::Done(0)));
    }
    Ok(Some(Outcome::Done((*number).into())))
}
