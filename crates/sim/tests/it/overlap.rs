//! What of a drive works at the same time: dies, planes, channels; and reads before writes.

use crate::loads::{each, flush, plain, read, reference, request, tally, try_tally, with, write};
use ioassay_block::{Kind, Request};
use ioassay_sim::drive::{Overlap, Spec};
use ioassay_sim::engine::Tally;

// Picoseconds of the reference drive.
/// 8 sectors on a channel.
const CHANNEL: u128 = 1_907_200;
/// A page over the pins.
const PINS: u128 = 105_600_000;
const PROGRAM: u128 = 200_000_000;
const READ: u128 = 25_000_000;

fn overlapping(overlap: Overlap) -> Spec {
    with(reference(1), |spec| spec.overlap = overlap)
}

fn run(spec: &Spec, load: &[Request]) -> Tally {
    tally(spec, load, None, &plain())
}

#[test]
fn dies_program_while_the_next_page_crosses_the_pins() {
    let load = [write(0, 0, 1), write(0, 1, 1)];
    let alone = run(&overlapping(Overlap::Off), &load);
    // One after the other, whole.
    let first = CHANNEL + PINS + PROGRAM;
    assert_eq!(alone.writes.response_ps, first + (first + PINS + PROGRAM));
    let spec = with(overlapping(Overlap::Dies), |spec| spec.dies = 8);
    // The planes are filled in turn, so the second page goes to another die: it waits for the pins.
    let dies = run(&spec, &load);
    assert_eq!(dies.writes.response_ps, first + (first + PINS));
}

#[test]
fn one_die_with_all_planes_overlaps_nothing() {
    let load = each(20, |page| write(0, page, 1));
    let spec = with(overlapping(Overlap::Dies), |spec| spec.dies = 1);
    let off = run(&overlapping(Overlap::Off), &load);
    let one = run(&spec, &load);
    assert_eq!(one.writes.response_ps, off.writes.response_ps);
}

#[test]
fn planes_overlap_until_the_pins_are_the_limit() {
    let count = 400_u64;
    let load = each(count, |page| write(0, page, 1));
    let done = run(&overlapping(Overlap::Planes), &load).last_completion_ps;
    // 8 planes program while 2.9 pages cross: the pins never rest, but for a little at the ends.
    let pins = u128::from(count) * PINS;
    let most = pins + PINS + 3 * PROGRAM;
    assert!((pins..most).contains(&u128::from(done)), "{done}");
}

#[test]
fn reads_of_different_planes_are_sensed_together() {
    // At first page i lies in plane i / 63 mod 8.
    let apart = [read(0, 0, 1), read(0, 63, 1)];
    let times = run(&overlapping(Overlap::Planes), &apart).reads;
    let first = READ + PINS + CHANNEL;
    assert_eq!(times.response_ps, first + (first + PINS));
    let together = [read(0, 0, 1), read(0, 1, 1)];
    let times = run(&overlapping(Overlap::Planes), &together).reads;
    assert_eq!(times.response_ps, first + (first + READ + PINS));
}

#[test]
fn a_flush_waits_for_all_planes() {
    let load = [write(0, 0, 1), write(0, 1, 1), flush(10_000)];
    let tally = run(&overlapping(Overlap::Planes), &load);
    let all_done = CHANNEL + 2 * PINS + PROGRAM;
    assert_eq!(tally.others.response_ps, all_done - 10_000_000);
}

#[test]
fn everything_completes_and_cleaning_goes_on_beside_it() {
    for overlap in [Overlap::Dies, Overlap::Planes] {
        let spec = Spec {
            overlap,
            blocks_per_plane: 16,
            pages_per_block: 8,
            reserve: 0.3,
            min_free: 0.1,
            endurance: 0,
            ..reference(2)
        };
        let pages = u64::from(spec.pages());
        let load = each(20_000, |number| {
            let kind = [Kind::Read, Kind::Write, Kind::Write][(number % 3) as usize];
            request(kind, number * 300_000, number * 7919 % pages, 1)
        });
        let (drive, tally, _) = try_tally(&spec, &load, None, &plain()).expect("a run");
        assert_eq!((tally.transfers().count(), tally.unfinished), (20_000, 0));
        assert!(drive.counters().collected_blocks > 0);
    }
}

#[test]
fn channels_carry_the_pages_of_their_own_elements() {
    let spec = with(reference(2), |spec| spec.channels = 2);
    // One page on each: both cross at once, and half of the request's sectors is what each carries.
    let times = run(&spec, &[write(0, 0, 2)]).writes;
    assert_eq!(times.response_ps, CHANNEL + PINS + PROGRAM);
    let times = run(&spec, &[read(0, 0, 2)]).reads;
    assert_eq!(times.response_ps, READ + PINS + CHANNEL);
    let one = run(&reference(2), &[read(0, 0, 2)]).reads;
    assert_eq!(one.response_ps, READ + PINS + 2 * CHANNEL);
}

#[test]
fn reads_that_wait_go_first_where_they_may() {
    let load = [write(0, 0, 1), write(0, 1, 1), read(10_000, 2, 1)];
    let fair = run(&reference(1), &load);
    let spec = with(reference(1), |spec| spec.read_priority = true);
    let first = run(&spec, &load);
    let saved = fair.reads.response_ps - first.reads.response_ps;
    assert_eq!(saved, PINS + PROGRAM);
    let lost = first.writes.response_ps - fair.writes.response_ps;
    assert_eq!(lost, READ + PINS);
}
