//! `idle-cold`: the coldest page of an idle element leaves. Our own.
//!
//! Round robin spreads pages evenly, but blindly: its next element may be collecting garbage or reading
//! while others stand idle, and its oldest page may be a hot one. Two questions are asked instead.
//!
//! *Which element?* One that is idle, and of these the one whose candidate was written longest ago: under light load
//! that is plain replacement by coldness over the whole buffer. If none is idle, the one that is free soonest. An
//! element that was passed over while it was busy collects old pages, which go as soon as it is idle, so no element is
//! forgotten. What the policy has just given to an element counts as `service_ps` of work even if the drive's state
//! does not show it yet: pages evicted at the same time go to different elements, and without any state (reshaping with
//! no drive behind) the elements take turns.
//!
//! *Which page?* Pages written once and pages written again stand in two lists an element, each in order of last write;
//! a long run of pages written once so passes without taking the others along. How many slots the first kind may have
//! is not a constant: as in ARC (N. Megiddo and D. S. Modha, FAST 2003), each return of a page that left too early, of
//! which the last `capacity` are remembered, gives its kind one more slot. It begins at half, which favours neither.
//! Where no element with a page of the kind in excess is idle, an idle one's page of the other kind goes: it is still
//! the coldest of its element and may cost a write later, while waiting costs time now.
//!
//! Inside a drive it writes behind unless that is switched off; when and how far ahead is none of
//! its business (`engine::write_behind`).
//!
//! Cost: a hit moves one page between two lists, as LRU does; an eviction looks at one number an
//! element, two if none of the kind is idle. 105 to 185 bytes a page. There is no other parameter.

use super::{
    Access, DestageTargets, DriveState, Eviction, Page, Policy, Settings, ghost::Ghost, list::Lists, slots::Slots,
};
use crate::divide::Divisor;

/// The age of the oldest page of a kind where an element has none.
const NO_PAGE: u64 = u64::MAX;

/// The wait for an element that is given no page now.
const NEVER_READY: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Kind {
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

/// For the lists of a kind the number of the last write of their back, and the elements in its order.
#[derive(serde::Serialize, serde::Deserialize)]
struct Backs {
    ages: Box<[u64]>,
    /// Age and element, of those that have a page.
    oldest_first: Vec<(u64, u32)>,
}

impl Backs {
    fn new(elements: usize) -> Self {
        Self { ages: vec![NO_PAGE; elements].into_boxed_slice(), oldest_first: Vec::with_capacity(elements) }
    }

    #[inline]
    fn set(&mut self, element: u32, age: u64) {
        let before = std::mem::replace(&mut self.ages[element as usize], age);
        if before == age {
            return;
        }
        let place = |order: &[(u64, u32)], age| order.partition_point(|&(other, _)| other < age);
        if before != NO_PAGE {
            let place = place(&self.oldest_first, before);
            self.oldest_first.remove(place);
        }
        if age != NO_PAGE {
            let place = place(&self.oldest_first, age);
            self.oldest_first.insert(place, (age, element));
        }
    }
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
    /// The back of each list, for `Kind::Recent` and `Kind::Frequent`: what an eviction compares.
    backs: [Backs; 2],
    writes: u64,
    recent_pages: usize,
    /// Slots that pages written once may take: the target size of ARC.
    recent_target: usize,
    ghost: Ghost,
    /// Until when each element is busy with the pages that this policy evicted.
    busy_until_ps: Box<[u64]>,
    service_ps: u64,
}

pub(super) fn make(settings: &Settings) -> Box<dyn Policy + Send> {
    let capacity = settings.capacity_pages;
    let elements = settings.layout.elements as usize;
    Box::new(IdleCold {
        slots: Slots::new(capacity),
        lists: Lists::new(capacity, 2 * elements),
        elements: Divisor::new(settings.layout.elements),
        written: vec![0; capacity].into_boxed_slice(),
        kinds: vec![Kind::Recent; capacity].into_boxed_slice(),
        backs: [Backs::new(elements), Backs::new(elements)],
        writes: 0,
        recent_pages: 0,
        recent_target: capacity / 2,
        ghost: Ghost::new(capacity),
        busy_until_ps: vec![0; elements].into_boxed_slice(),
        service_ps: settings.service_ps.max(1),
    })
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
        let backs = &mut self.backs[kind as usize];
        // Only the first page of a list is its back as well.
        if backs.ages[element as usize] == NO_PAGE {
            backs.set(element, self.writes);
        }
    }

    #[inline]
    fn delist(&mut self, slot: u32, element: u32) {
        let kind = self.kinds[slot as usize];
        let list = self.list(kind, element);
        self.lists.unlink(slot);
        self.recent_pages -= usize::from(kind == Kind::Recent);
        let back = self.lists.back(list);
        let age = back.map_or(NO_PAGE, |back| self.written[back as usize]);
        self.backs[kind as usize].set(element, age);
    }

    #[inline]
    fn wait_ps(&self, element: u32, drive_state: &DriveState<'_>) -> u64 {
        let free_ps = drive_state.free_at_ps.get(element as usize);
        let busy_ps = self.busy_until_ps[element as usize];
        busy_ps.max(free_ps.copied().unwrap_or(0)).saturating_sub(drive_state.now_ps)
    }

    /// The element that can begin first with a page of this kind, of several the one whose page is oldest.
    #[inline]
    fn candidate(&self, kind: Kind, wait_ps: impl Fn(u32) -> u64) -> Option<Candidate> {
        let mut first: Option<Candidate> = None;
        for &(_, element) in &self.backs[kind as usize].oldest_first {
            let wait_ps = wait_ps(element);
            if first.is_none_or(|first| wait_ps < first.wait_ps) {
                first = Some(Candidate { wait_ps, element, kind });
                if wait_ps == 0 {
                    break;
                }
            }
        }
        first
    }

    /// An idle element's page of the kind in excess, or of the other one; without an idle element, the
    /// first that begins with a page of the kind in excess.
    #[inline]
    fn victim(&self, wait_ps: impl Fn(u32) -> u64 + Copy) -> Option<Candidate> {
        let kind = if self.recent_pages > self.recent_target || self.recent_pages == self.slots.len() {
            Kind::Recent
        } else {
            Kind::Frequent
        };
        let first = self.candidate(kind, wait_ps);
        if first.is_some_and(|first| first.wait_ps == 0) {
            return first;
        }
        let other = self.candidate(kind.other(), wait_ps);
        let idle = other.filter(|other| other.wait_ps == 0);
        idle.or(first).or(other)
    }

    #[inline]
    fn evict(&mut self, victim: Candidate, drive_state: &DriveState<'_>, evicted: &mut Vec<Eviction>) {
        let Candidate { element, kind, wait_ps, .. } = victim;
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

    /// The kind of a page that comes in. A page that left not long ago is not one written once, and its kind should
    /// have had more room.
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
    fn begin(&mut self, service_ps: u64) {
        self.busy_until_ps.fill(0);
        self.service_ps = service_ps.max(1);
    }

    fn write(&mut self, page: Page, drive_state: &DriveState<'_>, evicted: &mut Vec<Eviction>) -> Access {
        self.writes += 1;
        let element = self.elements.rem(page);
        if let Some(slot) = self.slots.find(page) {
            self.delist(slot, element);
            self.enlist(slot, element, Kind::Frequent);
            return Access::Hit;
        }
        let kind = self.arriving(page);
        if self.slots.is_full() {
            let victim = self.victim(|element| self.wait_ps(element, drive_state));
            if let Some(victim) = victim {
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

    fn can_be_sampled(&self) -> bool {
        false
    }

    fn writes_behind(&self) -> bool {
        true
    }

    fn destage(&mut self, targets: &DestageTargets<'_>, evicted: &mut Vec<Eviction>) -> bool {
        // Which elements are ready is known, and needs no estimate.
        let wait_ps = |element: u32| [NEVER_READY, 0][usize::from(targets.ready[element as usize])];
        let victim = self.victim(wait_ps).filter(|victim| victim.wait_ps == 0);
        if let Some(victim) = victim {
            self.evict(victim, &targets.drive_state, evicted);
        }
        victim.is_some()
    }

    /// One page an element in turn, so that all have work: the older of its two candidates.
    fn drain(&mut self, evicted: &mut Vec<Eviction>) {
        let drive_state = DriveState { now_ps: 0, free_at_ps: &[] };
        while !self.is_empty() {
            for element in 0..self.elements.get() {
                let age = |kind| self.backs[kind as usize].ages[element as usize];
                let kind = if age(Kind::Recent) < age(Kind::Frequent) { Kind::Recent } else { Kind::Frequent };
                if age(kind) != NO_PAGE {
                    self.evict(Candidate { wait_ps: 0, element, kind }, &drive_state, evicted);
                }
            }
        }
        // What comes after is not held up by this.
        self.busy_until_ps.fill(0);
    }
}
