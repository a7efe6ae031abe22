//! Garbage collection of superblocks, beside the host's work.
//!
//! Folding of the SLC region is garbage collection, too: its superblocks are victims, its pages move to
//! others. It stops between two jobs when its reason is gone.
//!
//! A group that is low on free superblocks collects until it is not; meanwhile it takes no unit of the
//! host. Valid pages of the victim become jobs of one program unit each, at most one for each element
//! of the group at a time: a job's pages are read, then programmed as a unit of the group's next
//! element. What is left of a victim goes with the first pages of the next, or, at the end, in a unit
//! that is not full. A superblock is erased, on all its elements, when its pages are programmed.
//!
//! With `throttle`, units of the host are paid for by units of moved pages while a group collects: each moved unit
//! allows as many of the host as the group's space says, so that both end together and the host never waits for a
//! whole superblock.

use super::ControllerEngine;
use super::flash::Work;
use crate::Error;
use crate::drive::{Drive, Gained, Position};
use crate::engine::core::World;
use crate::policy::Page;
/// The garbage collection of one group.
#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Collection {
    active: bool,
    /// The superblock that is being collected, and how much of it was looked at.
    victim: Option<(u32, u32)>,
    /// Whether the victim is collected to fold its pages only.
    folds: bool,
    /// Physical pages that wait for more, to fill a unit.
    rest: Vec<u32>,
    /// Superblocks whose last valid pages are among `rest`.
    emptied: Vec<u32>,
    jobs: u32,
    /// Units that the host may write while it is throttled, millionths; a unit may exceed it.
    credit_ppm: i64,
    /// Superblocks that are being erased, each with the number of elements that have not done their part.
    erasing: Vec<(u32, u32)>,
}

impl Collection {
    /// The pages that wait, as a job.
    fn next_job(&mut self, group: u32) -> Job {
        let (pages, emptied) = (std::mem::take(&mut self.rest), std::mem::take(&mut self.emptied));
        Job { group, pages, emptied, ..Job::default() }
    }
}

/// Pages that are moved together.
#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Job {
    group: u32,
    pages: Vec<u32>,
    reads_left: u32,
    /// Pages that are programmed, for the mapping cache.
    moved: Vec<Page>,
    /// Superblocks that are erased when it is done.
    emptied: Vec<u32>,
}

#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Collections {
    groups: Vec<Collection>,
    jobs: Vec<Job>,
    free_jobs: Vec<u32>,
    /// Elements of a group: jobs of a group at a time.
    span: u32,
    throttle: bool,
}

const UNIT_PPM: i64 = 1_000_000;

impl Collections {
    pub fn new(drive: &Drive) -> Self {
        let layer = drive.layer();
        Self {
            groups: (0..layer.groups()).map(|_| Collection::default()).collect(),
            jobs: Vec::new(),
            free_jobs: Vec::new(),
            span: layer.span,
            throttle: layer.throttle,
        }
    }

    /// The most credit of the host: bursts of a unit for each element.
    fn most_credit_ppm(&self) -> i64 {
        i64::from(self.span) * UNIT_PPM
    }

    /// Whether the host's units wait for moved pages. While nothing is moved there is nothing to wait for.
    pub fn throttles(&self, drive: &Drive, element: u32) -> bool {
        if !self.throttle {
            return false;
        }
        let group = drive.layer().group_of(element);
        let collection = &self.groups[group as usize];
        let waits = collection.jobs > 0 && !collection.folds && collection.credit_ppm <= 0;
        waits && !drive.layer().writes_to_slc(group)
    }

    /// The host has placed a unit.
    pub fn spend(&mut self, group: u32) {
        self.groups[group as usize].credit_ppm -= UNIT_PPM;
    }

    fn new_job(&mut self, job: Job) -> u32 {
        if let Some(id) = self.free_jobs.pop() {
            self.jobs[id as usize] = job;
            return id;
        }
        self.jobs.push(job);
        (self.jobs.len() - 1) as u32
    }
}

impl<W: World> ControllerEngine<W> {
    /// Groups that are low begin to collect.
    pub(super) fn start_collections(&mut self) -> Result<(), Error> {
        for group in 0..self.collections.groups.len() as u32 {
            if !self.collections.groups[group as usize].active
                && (self.core.drive.layer().needs_collection(group, 0, false)
                    || self.core.drive.layer().needs_folding(group, Gained::default(), self.idle.is_idle))
            {
                let credit_ppm = self.collections.most_credit_ppm();
                let collection = &mut self.collections.groups[group as usize];
                (collection.active, collection.credit_ppm) = (true, credit_ppm);
                self.collect(group)?;
            }
        }
        Ok(())
    }

    /// A group goes on collecting, as far as it can without waiting.
    fn collect(&mut self, group: u32) -> Result<(), Error> {
        loop {
            // In the background one job at a time, so that the host has most of the elements; throttled, as many as
            // keep up with the host.
            let hurries = self.core.drive.layer().is_low(group)
                || self.idle.is_idle
                || self.core.drive.layer().host_stream(group).is_none();
            let most_jobs = match self.host_share_ppm(group) {
                _ if hurries => self.collections.span,
                Some(share_ppm) => {
                    1 + (2 * i64::from(self.collections.span) * (UNIT_PPM - share_ppm) / UNIT_PPM) as u32
                }
                None => 1,
            };
            while self.collections.groups[group as usize].jobs < most_jobs && self.collection_goes_on(group) {
                let Some(job) = self.next_job(group) else {
                    break;
                };
                self.start_job(job);
            }
            if self.collections.groups[group as usize].jobs > 0 {
                return Ok(());
            }
            self.give_up_folding(group);
            self.erase_emptied(group);
            let gained = self.gained(group);
            let collection = &mut self.collections.groups[group as usize];
            let has_rest = !collection.rest.is_empty();
            let free = gained.free as usize;
            if self.core.drive.layer().needs_collection(group, free, has_rest) {
                match self.core.drive.take_victim(group) {
                    Ok(victim) => {
                        collection.victim = Some((victim, 0));
                        collection.folds = false;
                    }
                    Err(_) if free > 0 || has_rest => return self.finish_collection(group),
                    Err(error) => return Err(error),
                }
            } else if self.core.drive.layer().needs_folding(group, gained, self.idle.is_idle) {
                collection.victim = self.core.drive.layer_mut().take_folded(group).map(|victim| (victim, 0));
                collection.folds = true;
            } else {
                return self.finish_collection(group);
            }
        }
    }

    /// The share of a group's program operations that is the host's, where it is throttled, millionths.
    fn host_share_ppm(&self, group: u32) -> Option<i64> {
        let victim = self.collections.groups[group as usize].victim;
        let looked_at = victim.map_or(0, |(_, offset)| offset);
        let layer = self.core.drive.layer();
        self.collections.throttle.then(|| layer.host_share_ppm(group, self.gained(group).free, looked_at))
    }

    /// A unit of moved pages lets the host write units, as many as its share says.
    fn grant(&mut self, group: u32) {
        let Some(share_ppm) = self.host_share_ppm(group) else {
            return;
        };
        let most_ppm = self.collections.most_credit_ppm();
        let granted_ppm = UNIT_PPM * share_ppm / (UNIT_PPM - share_ppm).max(1);
        let credit_ppm = &mut self.collections.groups[group as usize].credit_ppm;
        *credit_ppm = most_ppm.min(*credit_ppm + granted_ppm);
    }

    /// What a group gains when its emptied superblocks are erased.
    fn gained(&self, group: u32) -> Gained {
        let collection = &self.collections.groups[group as usize];
        let erasing = collection.erasing.iter().map(|(superblock, _)| superblock);
        let superblocks = erasing.chain(&collection.emptied);
        superblocks.map(|&superblock| self.core.drive.layer().gain_of(superblock)).sum()
    }

    /// Whether a group continues with its victim: to fold it, there has to be a reason still.
    fn collection_goes_on(&self, group: u32) -> bool {
        let collection = &self.collections.groups[group as usize];
        !(collection.folds && collection.victim.is_some())
            || self.core.drive.layer().folds(group, self.gained(group), self.idle.is_idle)
    }

    /// Gives up folding whose reason is gone; no job is in progress. Pages that were not moved stay.
    fn give_up_folding(&mut self, group: u32) {
        let collection = &mut self.collections.groups[group as usize];
        if let Some((victim, _)) = collection.victim.take() {
            collection.rest.clear();
            self.core.drive.layer_mut().release_victim(victim);
            for superblock in collection.emptied.drain(..) {
                self.core.drive.layer_mut().release_victim(superblock);
            }
        }
    }

    /// No further victim is needed: the rest of the pages goes, then the superblocks are erased.
    fn finish_collection(&mut self, group: u32) -> Result<(), Error> {
        let collection = &mut self.collections.groups[group as usize];
        if !collection.rest.is_empty() {
            let job = collection.next_job(group);
            self.start_job(job);
            return Ok(());
        }
        if collection.erasing.is_empty() {
            collection.active = false;
            return self.place_units();
        }
        Ok(())
    }

    /// Superblocks none of whose pages wait are erased; no job is in progress.
    fn erase_emptied(&mut self, group: u32) {
        let collection = &mut self.collections.groups[group as usize];
        if collection.rest.is_empty() {
            for superblock in std::mem::take(&mut collection.emptied) {
                self.erase(group, superblock);
            }
        }
    }

    /// Pages of a unit from the victim; `None` when it has not enough left, or there is none.
    fn next_job(&mut self, group: u32) -> Option<Job> {
        let collection = &mut self.collections.groups[group as usize];
        let (victim, mut offset) = collection.victim?;
        while collection.rest.len() < self.unit_pages {
            let Some(physical) = self.core.drive.layer().next_valid(victim, &mut offset) else {
                collection.victim = None;
                collection.emptied.push(victim);
                return None;
            };
            collection.rest.push(physical);
        }
        collection.victim = Some((victim, offset));
        Some(collection.next_job(group))
    }

    /// The pages of a job are read, those of a flash page together.
    fn start_job(&mut self, job: Job) {
        let mut reads: Vec<(Position, u32)> = Vec::new();
        for &physical in &job.pages {
            let at = self.core.drive.layer().position(physical);
            match reads.last_mut() {
                Some((first, pages)) if first.flash_page == at.flash_page => *pages += 1,
                _ => reads.push((at, 1)),
            }
        }
        self.collections.groups[job.group as usize].jobs += 1;
        let id = self.collections.new_job(Job { reads_left: reads.len() as u32, ..job });
        for (at, pages) in reads {
            let operation = self.flash.collection_read(id, &at, pages);
            self.enqueue(at.element, operation);
        }
    }

    /// A read of a job is done; after the last one what is still valid is programmed.
    pub(super) fn job_read(&mut self, id: u32) -> Result<(), Error> {
        let job = &mut self.collections.jobs[id as usize];
        job.reads_left -= 1;
        if job.reads_left > 0 {
            return Ok(());
        }
        let (group, pages) = (job.group, std::mem::take(&mut job.pages));
        let mut valid = pages.iter().filter_map(|&physical| self.core.drive.layer().page_at(physical)).peekable();
        if valid.peek().is_none() {
            return self.job_programmed(id);
        }
        if self.mapping.is_some() {
            self.collections.jobs[id as usize].moved = valid.collect();
        }
        let Some(unit) = self.core.drive.move_unit(group, &pages) else {
            return Err(self.core.drive.worn_out(group * self.collections.span));
        };
        let sectors = self.flash.moved_sectors(unit.pages);
        let work = Work::CollectionProgram(id);
        let operation = self.flash.program(work, &unit, sectors);
        self.enqueue(unit.element, operation);
        Ok(())
    }

    pub(super) fn job_programmed(&mut self, id: u32) -> Result<(), Error> {
        let job = std::mem::take(&mut self.collections.jobs[id as usize]);
        self.collections.free_jobs.push(id);
        self.collections.groups[job.group as usize].jobs -= 1;
        for page in job.moved {
            self.change_entry(page);
        }
        for superblock in job.emptied {
            self.erase(job.group, superblock);
        }
        self.grant(job.group);
        self.collect(job.group)?;
        if self.collections.throttle { self.place_units() } else { Ok(()) }
    }

    /// A superblock is erased on each of its elements.
    fn erase(&mut self, group: u32, superblock: u32) {
        let span = self.collections.span;
        self.collections.groups[group as usize].erasing.push((superblock, span));
        for element in group * span..(group + 1) * span {
            let operation = self.flash.erase(superblock);
            self.enqueue(element, operation);
        }
    }

    /// An element has erased its part of a superblock.
    pub(super) fn part_erased(&mut self, superblock: u32) -> Result<(), Error> {
        let group = self.core.drive.layer().group_of_superblock(superblock);
        let erasing = &mut self.collections.groups[group as usize].erasing;
        let Some(at) = erasing.iter().position(|&(erased, _)| erased == superblock) else {
            return Ok(());
        };
        erasing[at].1 -= 1;
        if erasing[at].1 > 0 {
            return Ok(());
        }
        erasing.remove(at);
        self.core.drive.erase_superblock(superblock);
        self.place_units()?;
        self.collect(group)
    }
}
