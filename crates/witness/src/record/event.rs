//! `struct event` of `bpf/shapes.h`: a request of the block layer, in the byte order of the machine that recorded it.

use crate::shape::{EVENT_OWN, halves, words};

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
        let (longs, shorts) = bytes.split_at_mut(24);
        for (place, long) in longs.chunks_exact_mut(8).zip([self.start_ns, self.sector, self.d2c_ns]) {
            place.copy_from_slice(&long.to_ne_bytes());
        }
        for (place, short) in shorts.chunks_exact_mut(4).zip([self.q2d_ns, self.bytes, self.cmd_flags, self.dev]) {
            place.copy_from_slice(&short.to_ne_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; EVENT_BYTES]) -> Self {
        let [start_ns, sector, d2c_ns, size, flags] = words(bytes);
        let ((q2d_ns, bytes), (cmd_flags, dev)) = (halves(size), halves(flags));
        Self { start_ns, sector, d2c_ns, q2d_ns, bytes, cmd_flags, dev }
    }
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
