//! The values of a controller's features (NVM Express Base Specification 2.0, section 5.27).

use std::time::Instant;

use super::u64_at;

pub(super) mod id {
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

/// Events of the health log's critical warnings, each at its bit.
const HEALTH_NOTICES: u32 = 0xff;
const NAMESPACE_NOTICES: u32 = 1 << 8;

const ZONE_NOTICES: u32 = 1 << 27;

const TIMESTAMP_MAX: u64 = (1 << 48) - 1;

/// What the drive's temperature is said to be, and from which on it warns at first (Identify's WCTEMP):
/// 40 and 70 °C, in kelvin.
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
    event_configuration: u32,
    arbitration: u32,
    power_management: u32,
    error_recovery: u32,
    /// At which it warns of warmth, and of cold, kelvin.
    warm: u32,
    cold: u32,
    write_atomicity: u32,
    pub(super) timestamp: Timestamp,
    pub(super) host_behavior: Vec<u8>,
}

impl Features {
    /// As they are before a host sets any.
    pub fn new(keep_alive_ms: u32) -> Self {
        Self {
            keep_alive_ms,
            io_queues: None,
            cache_is_off: false,
            event_configuration: 0,
            arbitration: 0,
            power_management: 0,
            error_recovery: 0,
            warm: WARNING_KELVIN.into(),
            cold: 0,
            write_atomicity: 0,
            timestamp: Timestamp::reset(),
            host_behavior: vec![0; 512],
        }
    }

    /// Whether the host wants to know of changed namespaces.
    pub fn wants_namespace_notices(&self) -> bool {
        self.event_configuration & NAMESPACE_NOTICES != 0
    }

    /// Whether the host wants to know of zones that changed by themselves.
    pub fn wants_zone_notices(&self) -> bool {
        self.event_configuration & ZONE_NOTICES != 0
    }

    /// Critical warnings that the host wants to know of.
    pub fn wanted_warnings(&self) -> u8 {
        (self.event_configuration & HEALTH_NOTICES) as u8
    }

    /// Whether the temperature is at one of the thresholds, or beyond.
    pub fn warns_of_temperature(&self) -> bool {
        let is = u32::from(KELVIN);
        is >= self.warm || is <= self.cold
    }

    /// The threshold that a command is about: bits 16 to 19 choose a sensor, 0 or all of them, and bits
    /// 20 and 21 whether it is for warmth or for cold.
    pub(super) fn threshold(&mut self, value: u32) -> Option<&mut u32> {
        match ((value >> 16) & 15, (value >> 20) & 3) {
            (0 | 15, 0) => Some(&mut self.warm),
            (0 | 15, 1) => Some(&mut self.cold),
            _ => None,
        }
    }

    /// The values that are plain numbers.
    pub(super) fn number(&mut self, id: u8) -> Option<&mut u32> {
        match id {
            id::ARBITRATION => Some(&mut self.arbitration),
            id::POWER_MANAGEMENT => Some(&mut self.power_management),
            id::ERROR_RECOVERY => Some(&mut self.error_recovery),
            id::WRITE_ATOMICITY => Some(&mut self.write_atomicity),
            id::EVENT_CONFIGURATION => Some(&mut self.event_configuration),
            id::KEEP_ALIVE_TIMER => Some(&mut self.keep_alive_ms),
            _ => None,
        }
    }
}

/// The controller's own time: it goes on from what the host set, or from the reset (section 5.27.1.11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timestamp {
    from_ms: u64,
    since: Instant,
    is_set: bool,
}

impl Timestamp {
    fn reset() -> Self {
        Self { from_ms: 0, since: Instant::now(), is_set: false }
    }

    /// Of the feature's data: milliseconds in six bytes.
    pub(super) fn set(data: &[u8]) -> Self {
        Self { from_ms: u64_at(data, 0) & TIMESTAMP_MAX, is_set: true, ..Self::reset() }
    }

    pub(super) fn bytes(self) -> [u8; 8] {
        let elapsed_ms = self.since.elapsed().as_millis() as u64;
        let mut bytes = (self.from_ms.wrapping_add(elapsed_ms) & TIMESTAMP_MAX).to_le_bytes();
        bytes[6] = u8::from(self.is_set) << 1; // its origin
        bytes
    }
}
