//! Get Features and Set Features (NVM Express Base Specification 2.0, sections 5.15 and 5.27).

use super::controller::Controller;
use super::entry::{Outcome, Submission};
use super::feature_values::{Features, Timestamp, id};
use super::status;
use crate::command::DriveInfo;

/// What the current value is asked for with; 3 asks what can be done with the feature.
const SUPPORTED_CAPABILITIES: u32 = 3;
/// The feature can be changed.
const CHANGEABLE: u64 = 1 << 2;

/// Bytes that the host has to send with Set Features.
pub fn data_bytes(command: &Submission) -> usize {
    match command.word(10) as u8 {
        id::TIMESTAMP => 8,
        id::HOST_BEHAVIOR => 512,
        id::HOST_IDENTIFIER => 16,
        _ => 0,
    }
}

/// Get Features. Nothing is saved, so the saved value is the default.
pub fn get(controller: &mut Controller, command: &Submission, facts: &DriveInfo, most_queues: u16) -> Outcome {
    let (id, select) = (command.word(10) as u8, (command.word(10) >> 8) & 7);
    if controller.discovers && !matches!(id, id::EVENT_CONFIGURATION | id::KEEP_ALIVE_TIMER) {
        return status::INVALID_FIELD.into();
    }
    let mut fresh = Features::new(0);
    let host = controller.host.id;
    let features = if matches!(select, 1 | 2) { &mut fresh } else { &mut controller.features };
    let outcome = match id {
        id::VOLATILE_WRITE_CACHE if facts.volatile_cache => Outcome::Done(u64::from(!features.cache_is_off)),
        id::NUMBER_OF_QUEUES => Outcome::Done(granted(features.io_queues.unwrap_or(most_queues))),
        id::TIMESTAMP => Outcome::Data(features.timestamp.bytes().to_vec()),
        id::HOST_BEHAVIOR => Outcome::Data(features.host_behavior.clone()),
        id::HOST_IDENTIFIER if command.word(11) & 1 != 0 => Outcome::Data(host.to_vec()),
        id::TEMPERATURE_THRESHOLD => match features.threshold(command.word(11)) {
            Some(value) => Outcome::Done((*value).into()),
            None => return status::INVALID_FIELD.into(),
        },
        other => match features.number(other) {
            Some(value) => Outcome::Done((*value).into()),
            None => return status::INVALID_FIELD.into(),
        },
    };
    match (select, outcome) {
        (SUPPORTED_CAPABILITIES, _) => Outcome::Done(if id == id::HOST_IDENTIFIER { 0 } else { CHANGEABLE }),
        (0..=2, outcome) => outcome,
        _ => status::INVALID_FIELD.into(),
    }
}

/// As completions tell it: numbers of submission and completion queues, both less one.
fn granted(queues: u16) -> u64 {
    let less_one = u64::from(queues.saturating_sub(1));
    less_one | (less_one << 16)
}

pub fn set(
    controller: &mut Controller,
    command: &Submission,
    data: &[u8],
    facts: &DriveInfo,
    most_queues: u16,
) -> Outcome {
    let (id, value) = (command.word(10) as u8, command.word(11));
    if command.word(10) >> 31 != 0 {
        return status::FEATURE_NOT_SAVEABLE.into();
    }
    if controller.discovers && !matches!(id, id::EVENT_CONFIGURATION | id::KEEP_ALIVE_TIMER) {
        return status::INVALID_FIELD.into();
    }
    let Some(data) = data.get(..data_bytes(command)) else {
        return status::SGL_LENGTH_INVALID.into();
    };
    let features = &mut controller.features;
    match id {
        id::VOLATILE_WRITE_CACHE if facts.volatile_cache => features.cache_is_off = value & 1 == 0,
        id::NUMBER_OF_QUEUES => return set_queues(features, value, most_queues),
        id::TIMESTAMP => features.timestamp = Timestamp::set(data),
        id::HOST_BEHAVIOR => features.host_behavior = data.to_vec(),
        id::HOST_IDENTIFIER => return status::SEQUENCE_ERROR.into(), // it came with Connect
        id::POWER_MANAGEMENT if value & 0x1f != 0 => return status::INVALID_FIELD.into(), // one state
        id::WRITE_ATOMICITY if value > 1 => return status::INVALID_FIELD.into(),
        id::TEMPERATURE_THRESHOLD => match features.threshold(value) {
            Some(threshold) => *threshold = value & 0xffff,
            None => return status::INVALID_FIELD.into(),
        },
        other => match features.number(other) {
            Some(number) => *number = value,
            None => return status::INVALID_FIELD.into(),
        },
    }
    Outcome::Done(0)
}

fn set_queues(features: &mut Features, value: u32, most: u16) -> Outcome {
    let (submissions, completions) = (value & 0xffff, value >> 16);
    if submissions == 0xffff || completions == 0xffff {
        return status::INVALID_FIELD.into();
    }
    let queues = (submissions.min(completions) + 1).min(u32::from(most)) as u16;
    features.io_queues = Some(queues);
    Outcome::Done(granted(queues))
}
