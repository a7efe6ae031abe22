//! `struct event` of `bpf/shapes.h`: a request of the block layer, in the byte order of the machine that recorded it.

use crate::shape::EVENT_OWN;

pub(crate) const EVENT_BYTES: usize = 40;
/// First bytes of a recording; as long as an event, so that all is aligned.
pub(crate) const MAGIC: &[u8; EVENT_BYTES] = b"ioassay block requests, version 1, 40 B\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) start_ns: u64,
    pub(crate) sector: u64,
    /// From dispatch to completion; all ones where that was not seen.
    pub(crate) d2c_ns: u64,
    pub(crate) q2d_ns: u32,
    pub(crate) bytes: u32,
    /// The kernel's flags, and whether the process tree issued it.
    pub(crate) cmd_flags: u32,
    pub(crate) dev: u32,
}

impl Event {
    pub(crate) fn is_own(&self) -> bool {
        self.cmd_flags & EVENT_OWN != 0
    }

    pub(crate) fn to_bytes(self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        bytes[0..8].copy_from_slice(&self.start_ns.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.sector.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.d2c_ns.to_ne_bytes());
        for (place, word) in [self.q2d_ns, self.bytes, self.cmd_flags, self.dev].iter().enumerate() {
            bytes[24 + 4 * place..28 + 4 * place].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; EVENT_BYTES]) -> Self {
        let long = |at: usize| u64::from(word(bytes, at)) | (u64::from(word(bytes, at + 4)) << 32);
        let long = |at| {
            if cfg!(target_endian = "little") { long(at) } else { long(at).rotate_left(32) }
        };
        Self {
            start_ns: long(0),
            sector: long(8),
            d2c_ns: long(16),
            q2d_ns: word(bytes, 24),
            bytes: word(bytes, 28),
            cmd_flags: word(bytes, 32),
            dev: word(bytes, 36),
        }
    }
}

fn word(bytes: &[u8; EVENT_BYTES], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_its_bytes() {
        let event = Event {
            start_ns: (1 << 40) | 7,
            sector: 2 << 33,
            d2c_ns: u64::MAX,
            q2d_ns: 3,
            bytes: 4096,
            cmd_flags: EVENT_OWN | 1,
            dev: 254 << 20,
        };
        assert_eq!(Event::from_bytes(&event.to_bytes()), event);
        assert!(event.is_own());
    }
}
