//! A write buffer inside the drive: when writes complete, what reads find in it, and that nothing is lost on the way.

use std::collections::BTreeMap;

use crate::loads::{
    CHANNEL, Chance, Mix, PROGRAM, SENSE, each, flush, inline, mixed, plain, properties, read, reference, small, tally,
    try_tally, with, write,
};
use ioassay_block::{Kind, Request};
use ioassay_sim::drive::{Overlap, Spec};
use ioassay_sim::engine::{IssueMode, RunOptions, Scheduler};
use ioassay_sim::policy::POLICIES;
use proptest::prelude::*;

#[test]
fn times_and_hits_are_those_of_the_rules() {
    let spec = reference(4);
    let each_at = |requests: &[(u64, u64)]| -> Vec<Request> {
        requests.iter().map(|&(at_ns, page)| write(at_ns, page, 1)).collect()
    };
    let of_flash = CHANNEL + PROGRAM;
    // The sums of the responses to reads, to writes and to flushes; page writes that hit and that left, page reads and
    // those that hit, and what is held at the end.
    for (what, buffer, load, sums, counts) in [
        (
            "a load that fits takes the channel alone, one at a time, 16 pages again and again",
            Some(("lru", 16)),
            each(200, |number| write(1_000_000 * number, number % 16, 1)),
            [0, 200 * CHANNEL, 0],
            [184, 0, 0, 0, 16],
        ),
        (
            // The first takes the place. The second has crossed when page 0 begins to be programmed, and waits for
            // that; the third crosses behind it, and waits for page 1, which lies on another element and began when the
            // third was there.
            "a full buffer lets a write wait until flash has what left",
            Some(("fifo", 1)),
            each_at(&[(0, 0), (1_000_000, 1), (1_000_000, 2)]),
            [0, CHANNEL + of_flash + CHANNEL + of_flash, 0],
            [0, 2, 0, 0, 1],
        ),
        (
            // Both wait for page 0, which begins to be programmed when the second has crossed.
            "a page that waits and is written again gets no place earlier",
            Some(("fifo", 1)),
            each_at(&[(0, 0), (1_000_000, 1), (1_000_000, 1)]),
            [0, CHANNEL + 2 * of_flash, 0],
            [1, 1, 0, 0, 1],
        ),
        (
            "reads find what is held and what is leaving, and the third finds nothing",
            Some(("fifo", 1)),
            vec![
                write(0, 0, 1),
                read(1_000_000, 0, 1),
                write(2_000_000, 1, 1),
                read(2_010_000, 0, 1),
                read(3_000_000, 0, 1),
            ],
            [2 * CHANNEL + SENSE + CHANNEL, CHANNEL + of_flash, 0],
            [0, 1, 3, 2, 1],
        ),
        (
            // Pages 0 and 4 lie on element 0, page 1 on another.
            "a flush waits until all is in flash",
            Some(("lru", 8)),
            [each_at(&[(0, 0), (0, 4), (0, 1)]), vec![flush(1_000_000)]].concat(),
            [0, (1 + 2 + 3) * CHANNEL, 2 * PROGRAM],
            [0, 3, 0, 0, 0],
        ),
        (
            "without a buffer it waits for what is being programmed",
            None,
            vec![write(0, 0, 1), flush(2_000)],
            [0, of_flash, of_flash - 2_000_000],
            [0; 5],
        ),
        ("and an idle drive has nothing to flush", None, vec![flush(0)], [0; 3], [0; 5]),
    ] {
        let run = tally(&spec, &load, buffer.map(|(policy, pages)| inline(&spec, policy, pages)), &plain());
        let times = [&run.reads, &run.writes, &run.others].map(|kind| kind.response_ps);
        assert_eq!(times, sums.map(u128::from), "{what}");
        let seen = [run.write_hits, run.evicted_pages, run.buffered_reads, run.read_hits, run.buffered_at_end];
        assert_eq!(seen, counts, "{what}");
    }
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

properties! {
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
        let run = tally(&spec, &load, Some(inline(&spec, "fifo", capacity)), &plain());
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
