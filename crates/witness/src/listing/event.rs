//! `struct listed` of `bpf/listing.h`, and the path behind it where the call has one.

use crate::shape::{halves, text, words};

pub(crate) const CALL_BYTES: usize = 88;
/// Requests that are no calls of their own.
pub(crate) const AIO: u32 = 0x1_0000;
pub(crate) const URING: u32 = 0x2_0000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) entered_ns: u64,
    pub(crate) took_ns: u64,
    pub(crate) result: i64,
    pub(crate) arguments: [u64; 5],
    pub(crate) requested_bytes: u64,
    pub(crate) task: u32,
    pub(crate) number: u32,
    pub(crate) slot: u32,
    pub(crate) other_slot: u32,
    /// As the caller wrote it; none of a call without one.
    pub(crate) path: Option<String>,
}

impl Event {
    /// The event behind an item of the ring, none where it is too short for one.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (call, path) = bytes.split_at_checked(CALL_BYTES)?;
        let [entered_ns, took_ns, result, first, second, third, fourth, fifth, requested_bytes, whose, slots] =
            words(call);
        let ((task, number), (slot, other_slot)) = (halves(whose), halves(slots));
        Some(Self {
            entered_ns,
            took_ns,
            result: i64::from_ne_bytes(result.to_ne_bytes()),
            arguments: [first, second, third, fourth, fifth],
            requested_bytes,
            task,
            number,
            slot,
            other_slot,
            path: (!path.is_empty()).then(|| text(path)),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn bytes_of(event: &Event) -> Vec<u8> {
        let mut words = vec![event.entered_ns, event.took_ns, event.result as u64];
        words.extend(event.arguments);
        words.push(event.requested_bytes);
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        for half in [event.task, event.number, event.slot, event.other_slot] {
            bytes.extend(half.to_ne_bytes());
        }
        if let Some(path) = &event.path {
            bytes.extend(path.as_bytes());
            bytes.resize(CALL_BYTES + crate::shape::PATH_BYTES, 0);
        }
        bytes
    }

    pub(crate) fn event(number: i64, slot: u32, arguments: [u64; 5], result: i64) -> Event {
        Event {
            entered_ns: 1,
            took_ns: 12_345,
            result,
            arguments,
            requested_bytes: 0,
            task: 42,
            number: number as u32,
            slot,
            other_slot: crate::shape::NONE,
            path: None,
        }
    }

    #[test]
    fn an_event_survives_its_bytes() {
        let mut one = event(libc::SYS_pread64, 7, [3, 4, 5, 6, 7], -2);
        assert_eq!(Event::from_bytes(&bytes_of(&one)), Some(one.clone()));
        one.path = Some("/a/b".to_owned());
        assert_eq!(Event::from_bytes(&bytes_of(&one)), Some(one));
        assert_eq!(Event::from_bytes(&[0; CALL_BYTES - 1]), None);
    }
}
