//! Checks of the garbage collection of a drive that was read.

use std::collections::{BTreeMap, BTreeSet};

use super::Collections;
use crate::Error;
use crate::drive::{Gained, Translation};
use crate::engine::controller::flash::{Flash, Work};
use crate::state::ensure;

/// What the elements have still to do for garbage collection.
#[derive(Default)]
struct Pending {
    /// Reads and programs of each job.
    jobs: BTreeMap<u32, (u32, u32)>,
    /// Elements that erase their part of each superblock.
    erasures: BTreeMap<u32, u32>,
}

impl Collections {
    /// Whether it can be in progress on a drive with these tables and queues.
    pub fn check(&self, flash: &Flash, translation: &Translation) -> Result<(), Error> {
        ensure(
            self.groups.len() == translation.groups() as usize && self.span == translation.span,
            "its garbage collection is that of another drive",
        )?;
        let pending = self.pending(flash, translation)?;
        self.check_jobs(&pending, translation)?;
        self.check_groups(translation)?;
        self.check_erasures(&pending, translation)?;
        self.check_victims(translation)
    }

    fn is_job(&self, id: u32) -> bool {
        (id as usize) < self.jobs.len() && !self.free_jobs.contains(&id)
    }

    /// What is queued. No element erases a superblock before what it reads of it.
    fn pending(&self, flash: &Flash, translation: &Translation) -> Result<Pending, Error> {
        let mut pending = Pending::default();
        for element in 0..self.groups.len() as u32 * self.span {
            let mut erased: BTreeSet<u32> = BTreeSet::new();
            for operation in flash.operations(element) {
                match operation.work {
                    Work::CollectionRead(job) => {
                        ensure(self.is_job(job), "an element reads for no garbage collection")?;
                        let pages = &self.jobs[job as usize].pages;
                        let is_erased = |&page: &u32| {
                            let superblock = translation.superblock_of(page);
                            superblock.is_some_and(|superblock| erased.contains(&superblock))
                        };
                        ensure(!pages.iter().any(is_erased), "a superblock is erased before it is read")?;
                        pending.jobs.entry(job).or_default().0 += 1;
                    }
                    Work::CollectionProgram(job) => {
                        ensure(self.is_job(job), "an element writes for no garbage collection")?;
                        pending.jobs.entry(job).or_default().1 += 1;
                    }
                    Work::Erase(superblock) => {
                        erased.insert(superblock);
                        *pending.erasures.entry(superblock).or_default() += 1;
                    }
                    _ => {}
                }
            }
        }
        Ok(pending)
    }

    /// Each job is free, is read, or is programmed.
    fn check_jobs(&self, pending: &Pending, translation: &Translation) -> Result<(), Error> {
        let mut free = self.free_jobs.clone();
        free.sort_unstable();
        free.dedup();
        ensure(
            free.len() == self.free_jobs.len()
                && free.iter().all(|&id| (id as usize) < self.jobs.len())
                && free.len() + pending.jobs.len() == self.jobs.len(),
            "a job of garbage collection waits for nothing",
        )?;
        for (&id, &(reads, programs)) in &pending.jobs {
            let job = &self.jobs[id as usize];
            let is_read = reads == job.reads_left && reads > 0 && programs == 0;
            let is_programmed = job.reads_left == 0 && reads == 0 && programs == 1;
            ensure(
                (is_read || is_programmed)
                    && job.pages.len() <= translation.unit_pages as usize
                    && job.moved.iter().all(|&page| page < translation.pages())
                    && (job.group as usize) < self.groups.len(),
                "a job of garbage collection is not that of its operations",
            )?;
        }
        Ok(())
    }

    fn check_groups(&self, translation: &Translation) -> Result<(), Error> {
        for (number, group) in (0..).zip(&self.groups) {
            let jobs = self.live_jobs().filter(|job| job.group == number).count();
            let of_group = |erasure: &&super::Erasure| translation.group_of_superblock(erasure.superblock) == number;
            let erasing = self.erasures.iter().filter(of_group).count();
            let gains = self.erasures.iter().filter(of_group);
            let gain = gains.fold(Gained::default(), |sum, erasure| sum.plus(translation.gain_of(erasure.superblock)));
            let offset = group.victim.map_or(0, |(_, offset)| offset);
            ensure(
                group.jobs as usize == jobs
                    && jobs <= self.span as usize
                    && group.erasing == erasing
                    && group.erasing_gain == gain
                    && group.active == (jobs + erasing > 0)
                    && group.rest.len() <= translation.unit_pages as usize
                    && offset <= translation.superblock_pages,
                "the garbage collection of a group is not that of its jobs",
            )?;
            let is_of_victim = |&page: &u32| {
                let superblock = translation.superblock_of(page);
                let victim = group.victim.map(|(victim, _)| victim);
                superblock.is_some_and(|superblock| Some(superblock) == victim || group.emptied.contains(&superblock))
            };
            ensure(group.rest.iter().all(is_of_victim), "a page of a superblock that is not collected is moved")?;
            let idle = group.rest.is_empty() && group.emptied.is_empty() && group.victim.is_none();
            ensure(group.active || idle, "a group does not go on collecting")?;
        }
        Ok(())
    }

    fn live_jobs(&self) -> impl Iterator<Item = &super::Job> {
        let all = (0..).zip(&self.jobs);
        all.filter(|(id, _)| self.is_job(*id)).map(|(_, job)| job)
    }

    fn check_erasures(&self, pending: &Pending, translation: &Translation) -> Result<(), Error> {
        let mut parts = BTreeMap::new();
        for erasure in &self.erasures {
            parts.insert(erasure.superblock, erasure.parts_left);
        }
        ensure(
            parts.len() == self.erasures.len() && parts == pending.erasures,
            "the erasures are not those of the elements",
        )?;
        let first = |superblock: u32| translation.group_of_superblock(superblock) * self.span;
        let within = parts.iter().all(|(&superblock, &parts)| {
            parts <= self.span && first(superblock) < self.groups.len() as u32 * self.span
        });
        ensure(within, "the erasures are not those of the elements")
    }

    /// Each victim is being collected, emptied or erased, and its valid pages will be moved before.
    fn check_victims(&self, translation: &Translation) -> Result<(), Error> {
        let mut moving: BTreeSet<u32> = BTreeSet::new();
        let mut found: Vec<u32> = Vec::new();
        let groups = (0..).zip(&self.groups);
        let rests = groups.map(|(number, group)| (number, &group.rest, &group.emptied));
        let jobs = self.live_jobs();
        let jobs = jobs.map(|job| (job.group, &job.pages, &job.emptied));
        for (group, pages, emptied) in rests.chain(jobs) {
            for &physical in pages {
                let superblock = translation.superblock_of(physical);
                let known = superblock.is_some_and(|superblock| translation.group_of_superblock(superblock) == group);
                ensure(known, "a page of another group is moved")?;
                moving.insert(physical);
            }
            for &superblock in emptied {
                ensure(
                    translation.group_of_superblock(superblock) == group,
                    "a superblock of another group is erased",
                )?;
            }
            found.extend(emptied);
        }
        let mut offsets = BTreeMap::new();
        for (number, group) in (0..).zip(&self.groups) {
            if let Some((victim, offset)) = group.victim {
                ensure(
                    translation.group_of_superblock(victim) == number,
                    "a superblock of another group is collected",
                )?;
                offsets.insert(victim, offset);
                found.push(victim);
            }
        }
        found.extend(self.erasures.iter().map(|erasure| erasure.superblock));
        found.sort_unstable();
        ensure(found.iter().copied().eq(translation.victims()), "the superblocks that are collected are others")?;
        for victim in found {
            let end = offsets.get(&victim).copied();
            let mut offset = 0;
            while let Some(physical) = translation.next_valid(victim, offset) {
                offset = physical - victim * translation.superblock_pages;
                let is_ahead = end.is_some_and(|end| offset >= end);
                ensure(is_ahead || moving.contains(&physical), "a superblock is erased with its pages")?;
                offset += 1;
            }
        }
        Ok(())
    }
}
