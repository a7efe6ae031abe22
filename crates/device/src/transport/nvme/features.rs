//! Features of a controller: their values, Get Features and Set Features (NVM Express Base Specification 2.0, sections 5.15
//! and 5.27). Those of interrupts are with vfio-user.

use std::time::Instant;

use super::entry::{Outcome, Submission};
use super::status::{self, Status};
use super::u64_at;
use crate::command::Drive;

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
    /// Of zoned drives: there is one combination of command sets.
    pub const COMMAND_SET_PROFILE: u8 = 0x19;
    pub const HOST_IDENTIFIER: u8 = 0x81;
}

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
    /// I/O queues that are granted at most.
    most_queues: u16,
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
    pub fn new(keep_alive_ms: u32, most_queues: u16) -> Self {
        Self {
            keep_alive_ms,
            most_queues,
            io_queues: None,
            cache_is_off: false,
            event_configuration: 0,
            numbers: [0; NUMBERS.len()],
            warm: WARNING_KELVIN.into(),
            cold: 0,
            timestamp: Timestamp::new(0, false),
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
    fn threshold(&mut self, value: u32) -> Result<&mut u32, Status> {
        match ((value >> 16) & 15, (value >> 20) & 3) {
            (0 | 15, 0) => Ok(&mut self.warm),
            (0 | 15, 1) => Ok(&mut self.cold),
            _ => Err(status::INVALID_FIELD),
        }
    }

    /// The values that are plain numbers.
    fn number(&mut self, id: u8) -> Result<&mut u32, Status> {
        match id {
            id::EVENT_CONFIGURATION => Ok(&mut self.event_configuration),
            id::KEEP_ALIVE_TIMER => Ok(&mut self.keep_alive_ms),
            _ => {
                let at = NUMBERS.iter().position(|&number| number == id).ok_or(status::INVALID_FIELD)?;
                Ok(&mut self.numbers[at])
            }
        }
    }

    /// Get Features of a controller with this host. Nothing is saved, so the saved value is the default.
    pub fn get(&mut self, host: [u8; 16], command: &Submission, drive: &dyn Drive) -> Result<Outcome, Status> {
        let (id, select) = (command.word(10) as u8, (command.word(10) >> 8) & 7);
        let mut fresh = Features::new(0, self.most_queues);
        let features = if matches!(select, 1 | 2) { &mut fresh } else { self };
        let outcome = match id {
            id::VOLATILE_WRITE_CACHE if drive.facts().volatile_cache => {
                Outcome::Done(u64::from(!features.cache_is_off))
            }
            id::NUMBER_OF_QUEUES => Outcome::Done(granted(features.io_queues.unwrap_or(features.most_queues))),
            id::TIMESTAMP => Outcome::Data(features.timestamp.bytes().to_vec()),
            id::HOST_BEHAVIOR => Outcome::Data(features.host_behavior.clone()),
            id::HOST_IDENTIFIER if command.word(11) & 1 != 0 => Outcome::Data(host.to_vec()),
            id::COMMAND_SET_PROFILE if drive.zones().is_some() => Outcome::Done(0),
            id::TEMPERATURE_THRESHOLD => Outcome::Done((*features.threshold(command.word(11))?).into()),
            other => Outcome::Done((*features.number(other)?).into()),
        };
        match select {
            SUPPORTED_CAPABILITIES if matches!(id, id::HOST_IDENTIFIER | id::COMMAND_SET_PROFILE) => {
                Ok(Outcome::Done(0))
            }
            SUPPORTED_CAPABILITIES => Ok(Outcome::Done(CHANGEABLE)),
            0..=2 => Ok(outcome),
            _ => Err(status::INVALID_FIELD),
        }
    }

    pub fn set(&mut self, command: &Submission, data: &[u8], drive: &dyn Drive) -> Result<Outcome, Status> {
        let (id, value) = (command.word(10) as u8, command.word(11));
        if command.word(10) >> 31 != 0 {
            return Err(status::FEATURE_NOT_SAVEABLE);
        }
        let data = data.get(..data_bytes(command)).ok_or(status::SGL_LENGTH_INVALID)?;
        match id {
            id::VOLATILE_WRITE_CACHE if drive.facts().volatile_cache => self.cache_is_off = value & 1 == 0,
            id::NUMBER_OF_QUEUES => {
                let (submissions, completions) = (value & 0xffff, value >> 16);
                if submissions == 0xffff || completions == 0xffff {
                    return Err(status::INVALID_FIELD);
                }
                let queues = (submissions.min(completions) + 1).min(u32::from(self.most_queues)) as u16;
                self.io_queues = Some(queues);
                return Ok(Outcome::Done(granted(queues)));
            }
            id::TIMESTAMP => self.timestamp = Timestamp::new(u64_at(data, 0) & TIMESTAMP_MAX, true),
            id::HOST_BEHAVIOR => self.host_behavior = data.to_vec(),
            id::HOST_IDENTIFIER => return Err(status::SEQUENCE_ERROR), // it came with Connect
            id::COMMAND_SET_PROFILE if drive.zones().is_some() => {
                if value & 0x1ff != 0 {
                    return Err(status::COMMAND_SETS_REJECTED);
                }
            }
            id::POWER_MANAGEMENT if value & 0x1f != 0 => return Err(status::INVALID_FIELD), // one state
            id::WRITE_ATOMICITY if value > 1 => return Err(status::INVALID_FIELD),
            id::TEMPERATURE_THRESHOLD => *self.threshold(value)? = value & 0xffff,
            other => *self.number(other)? = value,
        }
        Ok(Outcome::Done(0))
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
    fn new(from_ms: u64, is_set: bool) -> Self {
        Self { from_ms, since: Instant::now(), is_set }
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

/// The result of the feature: numbers of submission and completion queues, both less one.
fn granted(queues: u16) -> u64 {
    let less_one = u64::from(queues.saturating_sub(1));
    less_one | (less_one << 16)
}
