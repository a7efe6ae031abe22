//! `idle-cold`: the coldest page of an idle element leaves. Our own.
//!
//! Round robin spreads pages evenly, but blindly: its next element may be collecting garbage or reading
//! while others stand idle, and its oldest page may be a hot one. Two questions are asked instead.
//!
//! *Which element?* One that is idle, and of these the one whose candidate was written longest ago:
//! under light load that is plain replacement by coldness over the whole buffer. If none is idle,
//! the one that is free soonest. An element that was passed over while it was busy collects old
//! pages, which go as soon as it is idle, so no element is forgotten. What the policy has just given
//! to an element counts as `service_ps` of work even if the drive's state does not show it yet: pages
//! evicted at the same time go to different elements, and without any state (reshaping with no drive
//! behind) the elements take turns.
//!
//! *Which page?* Pages written once and pages written again stand in two lists an element, each in
//! order of last write; a long run of pages written once so passes without taking the others along.
//! How many slots the first kind may have is not a constant: as in ARC (N. Megiddo and
//! D. S. Modha, FAST 2003), each return of a page that left too early, of which the last `capacity`
//! are remembered, gives its kind one more slot. It begins at half, which favours neither. Where
//! no element with a page of the kind in excess is idle, an idle one's page of the other kind goes:
//! it is still the coldest of its element and may cost a write later, while waiting costs time now.
//!
//! Inside a drive it writes behind unless that is switched off; when and how far ahead is none of
//! its business (`engine::write_behind`).
//!
//! Cost: a hit moves one page between two lists, as LRU does; an eviction looks at one number an
//! element, two if none of the kind is idle. 105 to 185 bytes a page. There is no other parameter.

use std::num::NonZeroU32;

use super::{
    Access, DestageTargets, DriveState, Error, Eviction, Page, Policy, Settings, ghost::Ghost,
    list::Lists, slots::Slots,
};
use crate::divide::Divisor;

/// That an element has no page of a kind.
const NO_PAGE: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Kind {
    /// Written once.
    Recent,
    /// Written again while it was buffered, or remembered.
    Frequent,
}

impl Kind {
    const fn other(self) -> Self {
        match self {
            Self::Recent => Self::Frequent,
            Self::Frequent => Self::Recent,
        }
    }
}

/// An element that would be given its oldest page of a kind.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    wait_ps: u64,
    element: u32,
    kind: Kind,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct IdleCold {
    slots: Slots,
    /// For each element its pages of `Kind::Recent`, then for each those of `Kind::Frequent`.
    lists: Lists,
    elements: Divisor,
    /// Number of each page's last write, and its kind.
    written: Box<[u64]>,
    kinds: Box<[Kind]>,
    /// Number of the last write of the back of each list: what an eviction compares.
    backs: Box<[u64]>,
    writes: u64,
    recent_pages: usize,
    /// Slots that pages written once may take: the target size of ARC.
    recent_target: usize,
    ghost: Ghost,
    /// Until when each element is busy with the pages that this policy evicted.
    busy_until_ps: Box<[u64]>,
    service_ps: u64,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Policy + Send>, Error> {
    settings.need("idle-cold", 1, "it keeps pages")?;
    let capacity = settings.capacity_pages;
    let elements = settings.layout.elements as usize;
    Ok(Box::new(IdleCold {
        slots: Slots::new(capacity),
        lists: Lists::new(capacity, 2 * elements),
        elements: Divisor::new(
            NonZeroU32::new(settings.layout.elements).unwrap_or(NonZeroU32::MIN),
        ),
        written: vec![0; capacity].into_boxed_slice(),
        kinds: vec![Kind::Recent; capacity].into_boxed_slice(),
        backs: vec![NO_PAGE; 2 * elements].into_boxed_slice(),
        writes: 0,
        recent_pages: 0,
        recent_target: capacity / 2,
        ghost: Ghost::new(capacity),
        busy_until_ps: vec![0; elements].into_boxed_slice(),
        service_ps: settings.service_ps.max(1),
    }))
}

impl IdleCold {
    #[inline]
    fn list(&self, kind: Kind, element: u32) -> u32 {
        match kind {
            Kind::Recent => element,
            Kind::Frequent => self.elements.get() + element,
        }
    }

    #[inline]
    fn enlist(&mut self, slot: u32, element: u32, kind: Kind) {
        let list = self.list(kind, element);
        self.lists.push_front(list, slot);
        self.kinds[slot as usize] = kind;
        self.written[slot as usize] = self.writes;
        self.recent_pages += usize::from(kind == Kind::Recent);
        let back = &mut self.backs[list as usize];
        // Only the first page of a list is its back as well.
        *back = (*back).min(self.writes);
    }

    #[inline]
    fn delist(&mut self, slot: u32, element: u32) {
        let kind = self.kinds[slot as usize];
        let list = self.list(kind, element);
        self.lists.unlink(slot);
        self.recent_pages -= usize::from(kind == Kind::Recent);
        let back = self.lists.back(list);
        self.backs[list as usize] = back.map_or(NO_PAGE, |back| self.written[back as usize]);
    }

    /// The element that can begin first with a page of this kind, of several the one whose page is
    /// oldest; and whether any element is idle, with or without one.
    #[inline]
    fn candidate(&self, kind: Kind, drive_state: &DriveState<'_>) -> (Option<Candidate>, bool) {
        let from = self.list(kind, 0) as usize;
        let backs = &self.backs[from..from + self.busy_until_ps.len()];
        let (mut best_wait_ps, mut best_age, mut best) = (u64::MAX, NO_PAGE, 0);
        let mut any_idle = false;
        for (element, (&age, &busy)) in (0..).zip(backs.iter().zip(&self.busy_until_ps)) {
            let free = drive_state
                .free_at_ps
                .get(element as usize)
                .copied()
                .unwrap_or(0);
            let wait_ps = busy.max(free).saturating_sub(drive_state.now_ps);
            any_idle |= wait_ps == 0;
            if age != NO_PAGE && (wait_ps, age) < (best_wait_ps, best_age) {
                (best_wait_ps, best_age, best) = (wait_ps, age, element);
            }
        }
        let found = Candidate {
            wait_ps: best_wait_ps,
            element: best,
            kind,
        };
        ((best_age != NO_PAGE).then_some(found), any_idle)
    }

    #[inline]
    fn victim(&self, drive_state: &DriveState<'_>) -> Option<Candidate> {
        let kind =
            if self.recent_pages > self.recent_target || self.recent_pages == self.slots.len() {
                Kind::Recent
            } else {
                Kind::Frequent
            };
        let (wanted, any_idle) = self.candidate(kind, drive_state);
        let is_idle = wanted.is_some_and(|wanted| wanted.wait_ps == 0);
        if is_idle || (wanted.is_some() && !any_idle) {
            return wanted;
        }
        let (other, _) = self.candidate(kind.other(), drive_state);
        other
            .filter(|other| other.wait_ps == 0 || wanted.is_none())
            .or(wanted)
    }

    #[inline]
    fn evict(
        &mut self,
        victim: Candidate,
        drive_state: &DriveState<'_>,
        evicted: &mut Vec<Eviction>,
    ) {
        let Candidate {
            element,
            kind,
            wait_ps,
            ..
        } = victim;
        let Some(slot) = self.lists.back(self.list(kind, element)) else {
            return;
        };
        self.delist(slot, element);
        let page = self.slots.remove(slot);
        self.ghost.remember(page, kind == Kind::Frequent);
        let begins_ps = drive_state.now_ps.saturating_add(wait_ps);
        self.busy_until_ps[element as usize] = begins_ps.saturating_add(self.service_ps);
        evicted.push(Eviction::of(page));
    }

    /// What a page is that comes in: one that was here not long ago is no page written once, and
    /// its kind should have had more room.
    #[inline]
    fn arriving(&mut self, page: Page) -> Kind {
        match self.ghost.recall(page) {
            None => return Kind::Recent,
            Some(false) => self.recent_target = self.slots.capacity().min(self.recent_target + 1),
            Some(true) => self.recent_target = self.recent_target.saturating_sub(1),
        }
        Kind::Frequent
    }
}

impl Policy for IdleCold {
    fn write(
        &mut self,
        page: Page,
        drive_state: &DriveState<'_>,
        evicted: &mut Vec<Eviction>,
    ) -> Access {
        self.writes += 1;
        let element = self.elements.rem(page);
        if let Some(slot) = self.slots.find(page) {
            self.delist(slot, element);
            self.enlist(slot, element, Kind::Frequent);
            return Access::Hit;
        }
        let kind = self.arriving(page);
        if self.slots.is_full() {
            if let Some(victim) = self.victim(drive_state) {
                self.evict(victim, drive_state, evicted);
            }
        }
        if let Some(slot) = self.slots.insert(page) {
            self.enlist(slot, element, kind);
        }
        Access::Miss
    }

    fn holds(&self, page: Page) -> bool {
        self.slots.find(page).is_some()
    }

    fn discard(&mut self, page: Page) -> bool {
        let found = self.slots.find(page);
        if let Some(slot) = found {
            self.delist(slot, self.elements.rem(page));
            self.slots.remove(slot);
        }
        found.is_some()
    }

    fn len(&self) -> usize {
        self.slots.len()
    }

    fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    fn watches_elements(&self) -> bool {
        true
    }

    fn writes_behind(&self) -> bool {
        true
    }

    fn destage(&mut self, targets: &DestageTargets<'_>, evicted: &mut Vec<Eviction>) -> bool {
        let victim = self.victim(&targets.drive_state).filter(|victim| {
            targets.ready[victim.element as usize] && (victim.wait_ps == 0 || !targets.only_idle)
        });
        if let Some(victim) = victim {
            self.evict(victim, &targets.drive_state, evicted);
        }
        victim.is_some()
    }

    /// One page an element in turn, so that all have work: the older of its two candidates.
    fn drain(&mut self, evicted: &mut Vec<Eviction>) {
        let drive_state = DriveState {
            now_ps: 0,
            free_at_ps: &[],
        };
        while !self.is_empty() {
            for element in 0..self.elements.get() {
                let age = |kind| self.backs[self.list(kind, element) as usize];
                let kind = if age(Kind::Recent) < age(Kind::Frequent) {
                    Kind::Recent
                } else {
                    Kind::Frequent
                };
                if age(kind) != NO_PAGE {
                    self.evict(
                        Candidate {
                            wait_ps: 0,
                            element,
                            kind,
                        },
                        &drive_state,
                        evicted,
                    );
                }
            }
        }
        // What comes after is not held up by this.
        self.busy_until_ps.fill(0);
    }
}
