//! Features of a controller: their values, Get Features and Set Features (NVM Express Base Specification 2.0, sections 5.15
//! and 5.27). Those of zones are in `zones`, and those of interrupts with vfio-user.

use std::time::Instant;

use super::entry::{Outcome, Submission};
use super::status;
use super::u64_at;
use crate::command::DriveInfo;

mod id {
    pub const ARBITRATION: u8 = 0x01;
    pub const POWER_MANAGEMENT: u8 = 0x02;
    pub const TEMPERATURE_THRESHOLD: u8 = 0x04;
    pub const ERROR_RECOVERY: u8 = 0x05;
    pub const VOLATILE_WRITE_CACHE: u8 = 0x06;
    pub const NUMBER_OF_QUEUES: u8 = 0x07;
    pub const WRITE_ATOMICITY: u8 = 0x0a;
    pub const EVENT_CONFIGURATION: u8 = 0x0b;
    pub const TIMESTAMP: u8 = 0x0e;
    pub const KEEP_ALIVE_TIMER: u8 = 0x0f;
    pub const HOST_BEHAVIOR: u8 = 0x16;
    pub const HOST_IDENTIFIER: u8 = 0x81;
}

/// Bits of the event configuration: what the host wants to know of. The lowest eight are the critical warnings of the
/// health log.
pub const NAMESPACE_NOTICES: u32 = 1 << 8;
pub const ZONE_NOTICES: u32 = 1 << 27;

/// Features whose values are kept as plain numbers and change nothing.
const NUMBERS: [u8; 4] = [id::ARBITRATION, id::POWER_MANAGEMENT, id::ERROR_RECOVERY, id::WRITE_ATOMICITY];

const TIMESTAMP_MAX: u64 = (1 << 48) - 1;

/// The drive's constant temperature, and the threshold from which on it warns at first (Identify's WCTEMP): 40 and
/// 70 °C, in kelvin.
pub const KELVIN: u16 = 313;
pub const WARNING_KELVIN: u16 = 343;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// How long a host may be silent; 0 for ever.
    pub keep_alive_ms: u32,
    /// I/O queues that were granted, once the host asked.
    pub io_queues: Option<u16>,
    /// Whether the host switched the write cache off: every write is durable when it is answered.
    pub cache_is_off: bool,
    /// The events that the host wants to know of.
    pub event_configuration: u32,
    numbers: [u32; NUMBERS.len()],
    /// At which it warns of warmth, and of cold, kelvin.
    warm: u32,
    cold: u32,
    timestamp: Timestamp,
    host_behavior: Vec<u8>,
}

impl Features {
    /// The defaults.
    pub fn new(keep_alive_ms: u32) -> Self {
        Self {
            keep_alive_ms,
            io_queues: None,
            cache_is_off: false,
            event_configuration: 0,
            numbers: [0; NUMBERS.len()],
            warm: WARNING_KELVIN.into(),
            cold: 0,
            timestamp: Timestamp::reset(),
            host_behavior: vec![0; 512],
        }
    }

    /// Whether the temperature is at one of the thresholds, or beyond.
    pub fn warns_of_temperature(&self) -> bool {
        let is = u32::from(KELVIN);
        is >= self.warm || is <= self.cold
    }

    /// The threshold that a command is about: bits 16 to 19 choose a sensor, 0 or all of them, and bits
    /// 20 and 21 whether it is for warmth or for cold.
    fn threshold(&mut self, value: u32) -> Option<&mut u32> {
        match ((value >> 16) & 15, (value >> 20) & 3) {
            (0 | 15, 0) => Some(&mut self.warm),
            (0 | 15, 1) => Some(&mut self.cold),
            _ => None,
        }
    }

    /// The values that are plain numbers.
    fn number(&mut self, id: u8) -> Option<&mut u32> {
        match id {
            id::EVENT_CONFIGURATION => Some(&mut self.event_configuration),
            id::KEEP_ALIVE_TIMER => Some(&mut self.keep_alive_ms),
            _ => NUMBERS.iter().position(|&number| number == id).map(|at| &mut self.numbers[at]),
        }
    }
}

/// The controller's own time: it goes on from what the host set, or from the reset (section 5.27.1.11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Timestamp {
    from_ms: u64,
    since: Instant,
    is_set: bool,
}

impl Timestamp {
    fn reset() -> Self {
        Self { from_ms: 0, since: Instant::now(), is_set: false }
    }

    /// Reads the feature's data: milliseconds in six bytes.
    fn set(data: &[u8]) -> Self {
        Self { from_ms: u64_at(data, 0) & TIMESTAMP_MAX, is_set: true, ..Self::reset() }
    }

    fn bytes(self) -> [u8; 8] {
        let elapsed_ms = self.since.elapsed().as_millis() as u64;
        let mut bytes = (self.from_ms.wrapping_add(elapsed_ms) & TIMESTAMP_MAX).to_le_bytes();
        bytes[6] = u8::from(self.is_set) << 1; // its origin
        bytes
    }
}

/// Select of Get Features: 0 asks for the current value, 3 for the capabilities of the feature.
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

/// Whether a discovery controller has the feature of a Get or Set Features.
pub fn is_of_discovery(command: &Submission) -> bool {
    matches!(command.word(10) as u8, id::EVENT_CONFIGURATION | id::KEEP_ALIVE_TIMER)
}

/// Get Features of a controller with this host. Nothing is saved, so the saved value is the default.
pub fn get(own: &mut Features, host: [u8; 16], command: &Submission, facts: &DriveInfo, most_queues: u16) -> Outcome {
    let (id, select) = (command.word(10) as u8, (command.word(10) >> 8) & 7);
    let mut fresh = Features::new(0);
    let features = if matches!(select, 1 | 2) { &mut fresh } else { own };
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

/// The result of the feature: numbers of submission and completion queues, both less one.
fn granted(queues: u16) -> u64 {
    let less_one = u64::from(queues.saturating_sub(1));
    less_one | (less_one << 16)
}

pub fn set(features: &mut Features, command: &Submission, data: &[u8], facts: &DriveInfo, most_queues: u16) -> Outcome {
    let (id, value) = (command.word(10) as u8, command.word(11));
    if command.word(10) >> 31 != 0 {
        return status::FEATURE_NOT_SAVEABLE.into();
    }
    let Some(data) = data.get(..data_bytes(command)) else {
        return status::SGL_LENGTH_INVALID.into();
    };
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
