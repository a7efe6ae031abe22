//! Cases small enough to be computed by hand, each exact to the picosecond. What stands here was
//! also measured with `DiskSim` 4.0 and its SSD extension (48 elements, 4 KiB pages), which prints
//! the same numbers to its six decimals of a millisecond.

use crate::loads::{CHANNEL, PROGRAM, SENSE, plain, read, reference, tally, with, write};
use ioassay_block::Request;
use ioassay_sim::engine::{Scheduler, Tally};

fn unlimited(requests: &[Request]) -> Tally {
    tally(&reference(48), requests, None, &plain())
}

/// Sum of the responses, and the last completion.
fn times(tally: &Tally) -> (u64, u64) {
    assert_eq!(tally.unfinished, 0);
    let sum = tally.reads.response_ps + tally.writes.response_ps;
    (sum as u64, tally.last_completion_ps)
}

fn singles(pages: impl IntoIterator<Item = u64>) -> Vec<Request> {
    pages.into_iter().map(|page| write(0, page, 1)).collect()
}

#[test]
fn times_are_exact_and_those_of_disksim() {
    let (none, twenty, both) = (&[None][..], &[Some(20)][..], &[None, Some(20)][..]);
    let alone = |response: u64| (response, response);
    let crossings = |count: u64| (1..=count).sum::<u64>() * CHANNEL;
    // Page i has crossed at (i + 1) channel times. The first 48 find an idle element; page 48 + i
    // finds element i busy since (i + 1), and is done a programming after that.
    let of_64 = (crossings(48) + crossings(16) + 80 * PROGRAM, 16 * CHANNEL + 2 * PROGRAM);
    // Request i completes a crossing and a programming after it entered, and lets i + 20 in, which
    // crosses at once: the twenty before it crossed earlier, and are a crossing apart. Completions
    // wait for no transfer: each ends as another does.
    let completes = |i: u64| (i / 20) * (CHANNEL + PROGRAM) + (i % 20 + 1) * CHANNEL + PROGRAM;
    let one_element = (48 * CHANNEL + (1..=48).sum::<u64>() * PROGRAM, CHANNEL + 48 * PROGRAM);
    // What happens, the windows with which it does, the load, the sum of the responses and the last completion, and
    // the mean response as DiskSim prints it, milliseconds.
    for (what, windows, load, wanted, disksim) in [
        ("a write crosses and is programmed", both, vec![write(0, 0, 1)], alone(CHANNEL + PROGRAM), "0.307507"),
        ("a second waits", none, singles([0, 48]), (2 * CHANNEL + 3 * PROGRAM, CHANNEL + 2 * PROGRAM), "0.460307"),
        (
            "two share the channel",
            none,
            singles([0, 1]),
            (crossings(2) + 2 * PROGRAM, 2 * CHANNEL + PROGRAM),
            "0.308461",
        ),
        ("many pages cross first", none, vec![write(0, 0, 48)], alone(48 * CHANNEL + PROGRAM), "0.397146"),
        ("16 elements have two", none, vec![write(0, 0, 64)], alone(64 * CHANNEL + 2 * PROGRAM), "0.733261"),
        ("single pages do not wait for others", none, singles(0..64), of_64, "0.421098"),
        ("48 elements", none, singles(0..48), (crossings(48) + 48 * PROGRAM, 48 * CHANNEL + PROGRAM), "0.352326"),
        ("with a window", twenty, singles(0..48), ((0..48).map(completes).sum(), completes(47)), "0.554349"),
        ("one element programs one by one", both, singles((0..48).map(|i| 48 * i)), one_element, "7.489107"),
        ("a read is sensed before it crosses", none, vec![read(0, 0, 1)], alone(SENSE + CHANNEL), "0.132507"),
        ("16 elements sense two", none, vec![read(0, 0, 64)], alone(2 * SENSE + 64 * CHANNEL), "0.383261"),
    ] {
        assert_eq!(format!("{:.6}", wanted.0 as f64 / load.len() as f64 / 1e9), disksim, "{what}");
        for &window in windows {
            let scheduler = if window.is_some() { Scheduler::Clook } else { Scheduler::Fcfs };
            let options = with(plain(), |run| (run.window, run.scheduler) = (window, scheduler));
            assert_eq!(times(&tally(&reference(48), &load, None, &options)), wanted, "{what}, window {window:?}");
        }
    }
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
    let run = tally(&spec, &load, None, &plain());
    assert_eq!(run.last_completion_ps, CHANNEL + 63 * PROGRAM + summary);
    assert_eq!(run.busy_ps, [63 * PROGRAM + summary]);
}

#[test]
fn small_pages_cross_the_pins_faster() {
    // 4 KiB on small pages: four or two elements program at the same time.
    for (page_bytes, length_bytes, disksim) in
        [(1024, 1024, "0.226877"), (2048, 2048, "0.253754"), (1024, 4096, "0.228307"), (2048, 4096, "0.254707")]
    {
        // Over the channel the sectors that are sent, over the pins those of a page.
        let wanted = length_bytes / 512 * 238_400 + page_bytes / 512 * 528 * 25_000 + 200_000_000;
        assert_eq!(format!("{:.6}", wanted as f64 / 1e9), disksim);
        assert_eq!(on_pages_of(page_bytes as u32, length_bytes), wanted);
    }
}

/// A request of 4 KiB on pages of another size.
fn on_pages_of(page_bytes: u32, length_bytes: u64) -> u64 {
    let spec = with(reference(48), |spec| spec.page_bytes = page_bytes);
    let request = with(write(0, 0, 1), |one| one.length_bytes = length_bytes);
    times(&tally(&spec, &[request], None, &plain())).1
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
