//! Cases small enough to be computed by hand, each exact to the picosecond. What stands here was
//! also measured with `DiskSim` 4.0 and its SSD extension (48 elements, 4 KiB pages), which prints
//! the same numbers to its six decimals of a millisecond.

use crate::loads::{plain, read, reference, tally, with, write};
use ioassay_block::Request;
use ioassay_sim::engine::{Scheduler, Tally};

/// A page crosses the host channel: 8 sectors of 238,400 ps.
const CHANNEL: u64 = 1_907_200;
/// A page crosses the pins: 8 sectors of (512 + 16) bytes of 25,000 ps.
const PINS: u64 = 105_600_000;
/// Pins and programming, 0.2 ms.
const PROGRAM: u64 = PINS + 200_000_000;
/// Sensing, 25 µs, and pins.
const SENSE: u64 = 25_000_000 + PINS;

fn unlimited(requests: &[Request]) -> Tally {
    tally(&reference(48), requests, None, &plain())
}

fn window_20(requests: &[Request]) -> Tally {
    let options = with(plain(), |run| {
        (run.window, run.scheduler) = (Some(20), Scheduler::Clook);
    });
    tally(&reference(48), requests, None, &options)
}

/// Sum of the responses, and the last completion.
fn times(tally: &Tally) -> (u64, u64) {
    assert_eq!(tally.unfinished, 0);
    let sum = tally.reads.response_ps + tally.writes.response_ps;
    (sum as u64, tally.last_completion_ps)
}

fn singles(pages: impl Iterator<Item = u64>) -> Vec<Request> {
    pages.map(|page| write(0, page, 1)).collect()
}

#[test]
fn a_single_write_crosses_and_is_programmed() {
    let alone = CHANNEL + PROGRAM;
    assert_eq!(alone, 307_507_200); // 0.307507 ms
    assert_eq!(times(&unlimited(&[write(0, 0, 1)])), (alone, alone));
    assert_eq!(times(&window_20(&[write(0, 0, 1)])), (alone, alone));
}

#[test]
fn two_writes_to_an_element_are_programmed_one_after_the_other() {
    // The second crosses while the first is programmed, and waits for it.
    let (first, second) = (CHANNEL + PROGRAM, CHANNEL + 2 * PROGRAM);
    assert_eq!(first.midpoint(second), 460_307_200); // 0.460307 ms
    assert_eq!(second, 613_107_200); // 0.613107 ms
    let load = singles([0, 48].into_iter());
    assert_eq!(times(&unlimited(&load)), (first + second, second));
}

#[test]
fn two_writes_to_two_elements_share_the_channel_alone() {
    let (first, second) = (CHANNEL + PROGRAM, 2 * CHANNEL + PROGRAM);
    assert_eq!(first.midpoint(second), 308_460_800); // 0.308461 ms
    assert_eq!(second, 309_414_400); // 0.309414 ms
    let load = singles(0..2);
    assert_eq!(times(&unlimited(&load)), (first + second, second));
}

#[test]
fn a_write_of_many_pages_crosses_whole_before_any_is_programmed() {
    // 48 pages, one an element.
    let one_each = 48 * CHANNEL + PROGRAM;
    assert_eq!(one_each, 397_145_600); // 0.397146 ms
    assert_eq!(times(&unlimited(&[write(0, 0, 48)])).1, one_each);
    // 64 pages: sixteen elements have two.
    let two = 64 * CHANNEL + 2 * PROGRAM;
    assert_eq!(two, 733_260_800); // 0.733261 ms
    assert_eq!(times(&unlimited(&[write(0, 0, 64)])).1, two);
}

#[test]
fn single_pages_are_programmed_as_they_come() {
    // Page i has crossed at (i + 1) channel times. The first 48 find an idle element; page 48 + i
    // finds element i busy since (i + 1), and is done a programming after that.
    let crossed: u64 = (1..=48).sum::<u64>() * CHANNEL;
    let first = crossed + 48 * PROGRAM;
    let second = (1..=16).sum::<u64>() * CHANNEL + 32 * PROGRAM;
    let sum = first + second;
    assert_eq!(sum / 64, 421_097_600); // 0.421098 ms
    assert_eq!(times(&unlimited(&singles(0..64))).0, sum);
}

#[test]
fn distinct_elements_without_a_window_wait_for_the_channel_alone() {
    let sum = (1..=48).sum::<u64>() * CHANNEL + 48 * PROGRAM;
    assert_eq!(sum / 48, 352_326_400); // 0.352326 ms
    let last = 48 * CHANNEL + PROGRAM;
    assert_eq!(times(&unlimited(&singles(0..48))), (sum, last));
}

#[test]
fn the_window_lets_twenty_in_and_one_more_for_each_that_completes() {
    // Request i completes a crossing and a programming after it entered, and lets i + 20 in, which
    // crosses at once: the twenty before it crossed earlier, and are a crossing apart. Completions
    // wait for no transfer: each ends as another does.
    let enters = |i: u64| (i / 20) * (CHANNEL + PROGRAM);
    let completes = |i: u64| enters(i) + (i % 20 + 1) * CHANNEL + PROGRAM;
    let sum: u64 = (0..48).map(completes).sum();
    assert_eq!(sum / 48, 554_348_800); // 0.554349 ms
    assert_eq!(times(&window_20(&singles(0..48))), (sum, completes(47)));
}

#[test]
fn one_element_programs_one_page_after_the_other() {
    let sum = 48 * CHANNEL + (1..=48).sum::<u64>() * PROGRAM;
    assert_eq!(sum / 48, 7_489_107_200); // 7.489107 ms
    let last = CHANNEL + 48 * PROGRAM;
    assert_eq!(last, 14_670_707_200); // 14.670707 ms
    let load = singles((0..48).map(|i| 48 * i));
    assert_eq!(times(&unlimited(&load)), (sum, last));
    // A window of 20 keeps the element busy too.
    assert_eq!(times(&window_20(&load)), (sum, last));
}

#[test]
fn a_read_is_sensed_before_it_crosses() {
    let alone = SENSE + CHANNEL;
    assert_eq!(alone, 132_507_200); // 0.132507 ms
    assert_eq!(times(&unlimited(&[read(0, 0, 1)])), (alone, alone));
    // 64 pages: sixteen elements sense two; then all cross whole.
    let many = 2 * SENSE + 64 * CHANNEL;
    assert_eq!(many, 383_260_800); // 0.383261 ms
    assert_eq!(times(&unlimited(&[read(0, 0, 64)])), (many, many));
}

#[test]
fn a_read_of_a_part_of_a_page_costs_its_sectors() {
    let part = with(read(0, 0, 1), |one| {
        (one.offset_bytes, one.length_bytes) = (1024, 512);
    });
    // One sector over the pins, one over the channel.
    let alone = 25_000_000 + 528 * 25_000 + 238_400;
    assert_eq!(times(&unlimited(&[part])), (alone, alone));
}

#[test]
fn the_write_that_fills_a_block_pays_for_its_summary() {
    // 63 data pages of one plane of one element: the last also programs a page of which a sector,
    // 528 bytes, crosses the pins.
    let spec = with(reference(1), |spec| {
        (spec.elements, spec.dies, spec.planes) = (1, 1, 1);
    });
    let load = singles(std::iter::repeat_n(0, 63));
    let summary = 528 * 25_000 + 200_000_000;
    let last = CHANNEL + 63 * PROGRAM + summary;
    let run = tally(&spec, &load, None, &plain());
    assert_eq!(run.last_completion_ps, last);
    assert_eq!(run.busy_ps, [63 * PROGRAM + summary]);
}

/// A request of 4 KiB on pages of another size.
fn on_pages_of(page_bytes: u32, length_bytes: u64) -> u64 {
    let spec = with(reference(48), |spec| spec.page_bytes = page_bytes);
    let request = with(write(0, 0, 1), |one| one.length_bytes = length_bytes);
    times(&tally(&spec, &[request], None, &plain())).1
}

#[test]
fn small_pages_cross_the_pins_faster() {
    // 2 sectors, 4 sectors: over the channel and over the pins.
    let of = |sectors: u64, channel_sectors: u64| channel_sectors * 238_400 + sectors * 528 * 25_000 + 200_000_000;
    assert_eq!(on_pages_of(1024, 1024), of(2, 2));
    assert_eq!(of(2, 2), 226_876_800); // 0.226877 ms
    assert_eq!(on_pages_of(2048, 2048), of(4, 4));
    assert_eq!(of(4, 4), 253_753_600); // 0.253754 ms
    // 4 KiB on small pages: four or two elements program at the same time.
    assert_eq!(on_pages_of(1024, 4096), of(2, 8));
    assert_eq!(of(2, 8), 228_307_200); // 0.228307 ms
    assert_eq!(on_pages_of(2048, 4096), of(4, 8));
    assert_eq!(of(4, 8), 254_707_200); // 0.254707 ms
}

#[test]
fn a_write_of_a_part_of_a_page_programs_it_whole() {
    // The channel carries what was sent, the pins a page.
    assert_eq!(on_pages_of(4096, 512), 238_400 + PROGRAM);
}

#[test]
fn a_completion_waits_for_the_transfer_in_progress() {
    // The second request crosses when the first is done: it waits for the end of that.
    let begins = CHANNEL + PROGRAM - 7_200; // a whole number of nanoseconds, 7.2 ns before the end
    let load = [write(0, 0, 1), write(begins / 1000, 1, 1)];
    let run = unlimited(&load);
    let first = begins + CHANNEL;
    let second = CHANNEL + PROGRAM;
    assert_eq!(begins % 1000, 0);
    assert_eq!(run.writes.response_ps, u128::from(first + second));
}

#[test]
fn nothing_costs_nothing() {
    let run = unlimited(&[]);
    assert_eq!((run.issued, run.unfinished), (0, 0));
    assert_eq!(run.transfers().mean_response_ps(), None);
}
