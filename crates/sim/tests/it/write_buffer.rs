//! A write buffer inside the drive: when writes complete, what reads find in it, and that nothing is lost on the way.

use std::collections::BTreeMap;

use crate::loads::{
    Chance, Mix, each, flush, inline, mixed, plain, read, reference, small, tally, try_tally, with, write,
};
use ioassay_block::{Kind, Request};
use ioassay_sim::drive::{Overlap, Spec};
use ioassay_sim::engine::{IssueMode, RunOptions, Scheduler, Tally};
use ioassay_sim::policy::POLICIES;
use proptest::prelude::*;

const CHANNEL: u64 = 1_907_200;
const PROGRAM: u64 = 305_600_000;

/// A run with a buffer of so many pages.
fn buffered(spec: &Spec, load: &[Request], policy: &str, pages: usize) -> Tally {
    tally(spec, load, Some(inline(spec, policy, pages)), &plain())
}

#[test]
fn a_load_that_fits_takes_the_channel_alone() {
    let spec = reference(4);
    // One at a time, a millisecond apart, 16 pages again and again.
    let load = each(200, |number| write(1_000_000 * number, number % 16, 1));
    let run = buffered(&spec, &load, "lru", 16);
    assert_eq!(run.writes.response_ps, u128::from(200 * CHANNEL));
    assert_eq!((run.write_hits, run.evicted_pages), (184, 0));
    assert_eq!(run.buffered_at_end, 16);
}

#[test]
fn a_full_buffer_lets_a_write_wait_until_flash_has_what_left() {
    let spec = reference(4);
    let load = [(0, 0), (1_000_000, 1), (1_000_000, 2)].map(|(at_ns, page)| write(at_ns, page, 1));
    let run = buffered(&spec, &load, "fifo", 1);
    // The first takes the place. The second has crossed when page 0 begins to be programmed, and waits for that; the
    // third crosses behind it, and waits for page 1, which lies on another element and began when the third was there.
    let (first, second) = (CHANNEL, CHANNEL + PROGRAM);
    let third = 2 * CHANNEL + PROGRAM;
    assert_eq!(run.writes.response_ps, u128::from(first + second + third));
}

#[test]
fn reads_find_what_is_held_and_what_is_leaving() {
    let spec = reference(4);
    let load = [
        write(0, 0, 1),
        read(1_000_000, 0, 1), // held
        write(2_000_000, 1, 1),
        read(2_010_000, 0, 1), // leaving: it is being programmed
        read(3_000_000, 0, 1), // in flash
    ];
    let run = buffered(&spec, &load, "fifo", 1);
    let sensed = 25_000_000 + 105_600_000 + CHANNEL;
    assert_eq!(run.reads.response_ps, u128::from(2 * CHANNEL + sensed));
    assert_eq!((run.buffered_reads, run.read_hits), (3, 2));
}

#[test]
fn a_flush_waits_until_all_is_in_flash() {
    let spec = reference(4);
    // Pages 0 and 4 lie on element 0, page 1 on another.
    let mut load = [0, 4, 1].map(|page| write(0, page, 1)).to_vec();
    load.push(flush(1_000_000));
    let run = buffered(&spec, &load, "lru", 8);
    assert_eq!(run.others.response_ps, u128::from(2 * PROGRAM));
    assert_eq!((run.evicted_pages, run.buffered_at_end), (3, 0));
    // Without a buffer it waits for what is being programmed.
    let load = [write(0, 0, 1), flush(2_000)];
    let run = tally(&spec, &load, None, &plain());
    let left = CHANNEL + PROGRAM - 2_000_000;
    assert_eq!(run.others.response_ps, u128::from(left));
    // And an idle drive has nothing to flush.
    let idle = tally(&spec, &[flush(0)], None, &plain());
    assert_eq!(idle.others.response_ps, 0);
}

#[test]
fn what_is_discarded_leaves_the_buffer_unwritten() {
    let spec = reference(4);
    let trim = with(write(1_000_000, 0, 2), |one| one.kind = Kind::Trim);
    let load = [write(0, 0, 3), trim, flush(2_000_000)];
    let held = Some(inline(&spec, "lru", 8));
    let (drive, run, _) = try_tally(&spec, &load, held, &plain()).expect("a run");
    assert_eq!(run.evicted_pages, 1);
    assert_eq!(drive.counters().trimmed_pages, 2);
    assert!((0..2).all(|page| drive.physical_page(page).is_none()));
}

#[test]
fn a_page_that_waits_and_is_written_again_gets_no_place_earlier() {
    let spec = reference(4);
    let load = [(0, 0), (1_000_000, 1), (1_000_000, 1)].map(|(at_ns, page)| write(at_ns, page, 1));
    let run = buffered(&spec, &load, "fifo", 1);
    // Both wait for page 0, which begins to be programmed when the second has crossed.
    let wanted = CHANNEL + 2 * (CHANNEL + PROGRAM);
    assert_eq!(run.writes.response_ps, u128::from(wanted));
}

/// How long each of these writes takes, of pages that are all different, first in, first out: its
/// page has a place when all but `capacity` - 1 of the pages before it are in flash, whichever they
/// are; and the word of it waits for the transfer in progress.
fn naive(spec: &Spec, load: &[Request], capacity: usize) -> Vec<u64> {
    let elements = u64::from(spec.elements);
    let mut free_ps = BTreeMap::new();
    let mut gone_ps = Vec::new();
    let mut crossed_ps: Vec<u64> = Vec::new();
    for (number, request) in load.iter().enumerate() {
        let idle_ps = crossed_ps.last().copied().unwrap_or(0);
        let at_ps = idle_ps.max(1000 * request.at_ns) + CHANNEL;
        crossed_ps.push(at_ps);
        if number >= capacity {
            // It has pushed out the page that came `capacity` before it.
            let page = load[number - capacity].offset_bytes / 4096;
            let free = free_ps.entry(page % elements).or_insert(0);
            *free = at_ps.max(*free) + PROGRAM;
            gone_ps.push(*free);
        }
    }
    gone_ps.sort_unstable();
    let response = |(number, request): (usize, &Request)| {
        let placed_ps = number.checked_sub(capacity).map_or(0, |last| gone_ps[last]);
        let done_ps = placed_ps.max(crossed_ps[number]);
        let under_way = crossed_ps.iter().find(|&&end_ps| end_ps - CHANNEL < done_ps && done_ps < end_ps);
        under_way.copied().unwrap_or(done_ps) - 1000 * request.at_ns
    };
    load.iter().enumerate().map(response).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_queue_of_pages_completes_as_a_plain_model_says(
        seed: u64, capacity in 1_usize..6, elements in 1_u32..4, requests in 1_u32..40, gap_us in 0_u32..600
    ) {
        let spec = Spec { pages_per_block: 128, ..reference(elements) };
        let mut chance = Chance(seed);
        let mut at_ns = 0;
        let load = each(requests.into(), |number| {
            at_ns += u64::from(chance.below(1000 * gap_us + 1));
            // Different pages, on elements at random.
            write(at_ns, number * u64::from(elements) + u64::from(chance.below(elements)), 1)
        });
        let run = buffered(&spec, &load, "fifo", capacity);
        let wanted: u64 = naive(&spec, &load, capacity).iter().sum();
        prop_assert_eq!(run.writes.response_ps, u128::from(wanted));
    }

    #[test]
    fn every_request_completes(
        seed: u64, policy in 0..POLICIES.len(), capacity in 4_usize..40, closed in 0_u32..9,
        windowed: bool, overlap in 0_u32..3, channels in 1_u32..3, gap_us in 0_u32..300
    ) {
        let name = POLICIES[policy].name;
        let overlap = [Overlap::Off, Overlap::Dies, Overlap::Planes][overlap as usize];
        let spec = Spec { overlap, channels, dies: 2, read_priority: seed % 2 == 0, ..small() };
        let mix = Mix { kinds: [1, 1, 6], gap_ns: 500 * gap_us, burst: 1, most_pages: 4, parts: false };
        let load = mixed(&mut Chance(seed), spec.pages(), 300, mix);
        let options = RunOptions {
            issue_mode: if closed == 0 { IssueMode::OpenLoop } else { IssueMode::ClosedLoop(closed) },
            window: windowed.then_some(3),
            scheduler: if seed % 3 == 0 { Scheduler::Fcfs } else { Scheduler::Clook },
            ..plain()
        };
        let place = (name != "none").then(|| inline(&spec, name, capacity));
        let (drive, run, series) = try_tally(&spec, &load, place, &options).expect("a run");
        prop_assert_eq!((run.issued, run.unfinished), (300, 0), "{}", name);
        let done = run.reads.count() + run.writes.count() + run.others.count();
        prop_assert_eq!(done, 300);
        prop_assert!(run.buffered_at_end <= capacity as u64);
        // All that was written is in the buffer, was discarded there, or is in flash.
        if name != "none" {
            let written = drive.counters().written_pages;
            prop_assert_eq!(written, run.evicted_pages + run.pad_writes);
        }
        // The rows hold each request once.
        let rows = |of: fn(&ioassay_sim::engine::TimeSlice) -> u64| series.rows.iter().map(of).sum::<u64>();
        prop_assert_eq!((rows(|row| row.issued), rows(|row| row.completed)), (300, 300));
    }
}
