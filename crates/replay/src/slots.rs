//! The requests that are outstanding, each in a slot, and the memory of their data. Nothing here allocates once made.

use std::collections::VecDeque;

use ioassay_block::{Kind, Request};

use crate::kernel::{PAGE, Place};

/// A request that is about to be issued, or outstanding.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot {
    pub request: Request,
    /// Which of the trace, from 1.
    pub number: u64,
    pub due_ns: u64,
    pub issue_ns: u64,
    /// The error of what was done by a call instead of the ring, negative.
    pub result: i32,
    /// Of its data in the [`Arena`], by number.
    extent: u64,
    /// Where it stands in the list of those outstanding.
    place: u32,
}

/// What is outstanding, as far as order depends on it.
#[derive(Debug, Clone, Copy)]
struct Range {
    start: u64,
    end: u64,
    kind: Kind,
    slot: u32,
}

pub struct Slots {
    held: Vec<Slot>,
    free: Vec<u32>,
    outstanding: Vec<Range>,
    arena: Arena,
}

impl Slots {
    /// For so many requests outstanding, and one that waits; `arena_bytes` for the data of writes among them.
    pub fn new(depth: u32, arena_bytes: usize) -> Self {
        Self {
            held: vec![Slot::default(); depth as usize + 1],
            free: (0..=depth).rev().collect(),
            outstanding: Vec::with_capacity(depth as usize + 1),
            arena: Arena::new(arena_bytes, depth as usize + 1),
        }
    }

    /// A slot for a request that waits, and where its data go if it is a write; nothing while there is no memory for it.
    /// At most one request waits.
    pub fn take(&mut self, request: &Request, number: u64, due_ns: u64) -> Option<(u32, Place)> {
        let &slot = self.free.last()?;
        let (mut extent, mut place) = (0, Place { start: 0, length: 0 });
        if request.kind == Kind::Write {
            (extent, place) = self.arena.allocate(request.length_bytes as usize)?;
        }
        self.free.pop();
        self.held[slot as usize] = Slot { request: *request, number, due_ns, extent, ..Slot::default() };
        Some((slot, place))
    }

    pub fn get(&mut self, slot: u32) -> &mut Slot {
        &mut self.held[slot as usize]
    }

    pub fn outstanding(&self) -> u32 {
        self.outstanding.len() as u32
    }

    /// The request becomes outstanding.
    pub fn issue(&mut self, slot: u32) {
        let place = self.outstanding();
        let held = self.get(slot);
        held.place = place;
        let Request { kind, offset_bytes: start, length_bytes, .. } = held.request;
        self.outstanding.push(Range { start, end: start + length_bytes, kind, slot });
    }

    /// The request is done, and its slot and memory free.
    pub fn complete(&mut self, slot: u32) -> Slot {
        let held = *self.get(slot);
        self.outstanding.swap_remove(held.place as usize);
        if let Some(moved) = self.outstanding.get(held.place as usize) {
            self.held[moved.slot as usize].place = held.place;
        }
        self.release(slot);
        held
    }

    /// A slot that was taken is not needed.
    pub fn release(&mut self, slot: u32) {
        let held = self.held[slot as usize];
        if held.request.kind == Kind::Write {
            self.arena.free(held.extent);
        }
        self.free.push(slot);
    }

    /// Whether a request has to wait for one that is outstanding: they overlap and one of them changes data, or one is a
    /// flush, which no change passes in either direction.
    pub fn depends(&self, request: &Request) -> bool {
        let changes = |kind| matches!(kind, Kind::Write | Kind::Trim);
        let (start, end) = (request.offset_bytes, request.offset_bytes + request.length_bytes);
        self.outstanding.iter().any(|other| match (request.kind, other.kind) {
            (Kind::Flush, kind) | (kind, Kind::Flush) => changes(kind),
            (kind, before) => (changes(kind) || changes(before)) && start < other.end && other.start < end,
        })
    }
}

/// Memory that is given out in a circle: requests end about in the order in which they began.
struct Arena {
    bytes: usize,
    /// Begin, end, and whether it was freed; the oldest first.
    extents: VecDeque<(usize, usize, bool)>,
    /// Number of the oldest.
    first: u64,
}

impl Arena {
    fn new(bytes: usize, most: usize) -> Self {
        Self { bytes, extents: VecDeque::with_capacity(most), first: 0 }
    }

    /// A place behind the newest, or at the beginning; and the number to free it by.
    fn allocate(&mut self, length: usize) -> Option<(u64, Place)> {
        let needed = length.next_multiple_of(PAGE);
        let start = match (self.extents.front(), self.extents.back()) {
            (Some(&(oldest, ..)), Some(&(_, newest, _))) if newest > oldest => {
                if newest + needed <= self.bytes {
                    newest
                } else if needed <= oldest {
                    0
                } else {
                    return None;
                }
            }
            (Some(&(oldest, ..)), Some(&(_, newest, _))) => (newest + needed <= oldest).then_some(newest)?,
            _ => (needed <= self.bytes).then_some(0)?,
        };
        self.extents.push_back((start, start + needed, false));
        Some((self.first + self.extents.len() as u64 - 1, Place { start, length }))
    }

    fn free(&mut self, extent: u64) {
        self.extents[(extent - self.first) as usize].2 = true;
        while self.extents.front().is_some_and(|oldest| oldest.2) {
            self.extents.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Arena, Slots};
    use crate::kernel::{PAGE, Place};
    use ioassay_block::{Kind, Request};

    fn request(kind: Kind, offset_bytes: u64, length_bytes: u64) -> Request {
        Request { at_ns: 0, offset_bytes, length_bytes, device: 0, kind }
    }

    #[test]
    fn a_request_waits_for_a_change_of_its_bytes_and_changes_wait_for_a_flush() {
        use Kind::{Flush, Read, Trim, Write};
        let flush = request(Flush, 0, 0);
        let cases = [
            (request(Write, 8, 4), request(Write, 11, 1), true),
            (request(Write, 8, 4), request(Read, 4, 5), true),
            (request(Write, 8, 4), request(Trim, 0, 99), true),
            (request(Read, 8, 4), request(Write, 9, 1), true),
            (request(Trim, 8, 4), request(Read, 11, 1), true),
            (request(Read, 8, 4), request(Read, 8, 4), false),
            (request(Write, 8, 4), request(Write, 12, 4), false),
            (request(Write, 8, 4), request(Write, 4, 4), false),
            (request(Write, 8, 4), flush, true),
            (request(Trim, 8, 4), flush, true),
            (request(Read, 8, 4), flush, false),
            (flush, request(Write, 8, 4), true),
            (flush, request(Read, 8, 4), false),
            (flush, flush, false),
        ];
        for (before, next, waits) in cases {
            let mut slots = Slots::new(4, 1 << 20);
            let mut issue = |request: &Request| {
                let (slot, _) = slots.take(request, 1, 0).unwrap();
                slots.issue(slot);
                slot
            };
            let (first, slot) = (issue(&request(Read, 500, 1)), issue(&before));
            assert_eq!(slots.depends(&next), waits, "{before:?}, {next:?}");
            // In another place of the list, and then out of it.
            slots.complete(first);
            assert_eq!(slots.depends(&next), waits, "{before:?}, {next:?}");
            slots.complete(slot);
            assert!(!slots.depends(&next));
        }
    }

    proptest! {
        #[test]
        fn memory_is_given_once_until_it_is_freed_in_any_order(
            steps in prop::collection::vec((any::<bool>(), 1..9 * PAGE, any::<prop::sample::Index>()), 1..200),
        ) {
            let mut arena = Arena::new(16 * PAGE, 200);
            let mut held: Vec<(u64, Place)> = Vec::new();
            for (take, length, which) in steps {
                if !take && !held.is_empty() {
                    let (extent, _) = held.swap_remove(which.index(held.len()));
                    arena.free(extent);
                } else if let Some((extent, place)) = arena.allocate(length) {
                    prop_assert!(place.start % PAGE == 0 && place.start + length <= 16 * PAGE);
                    for (_, other) in &held {
                        let apart = place.start >= other.start + other.length || other.start >= place.start + length;
                        prop_assert!(apart, "{place:?} {other:?}");
                    }
                    held.push((extent, place));
                }
            }
            for (extent, _) in held {
                arena.free(extent);
            }
            prop_assert!(arena.allocate(16 * PAGE).is_some(), "all is free again");
        }
    }
}
