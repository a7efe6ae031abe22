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
fn times_are_those_of_what_works_in_parallel() {
    let (off, planes) = (overlapping(Overlap::Off), overlapping(Overlap::Planes));
    let dies = with(overlapping(Overlap::Dies), |spec| spec.dies = 8);
    let two = reference(2);
    let two_channels = with(two.clone(), |spec| spec.channels = 2);
    let reads_first = with(off.clone(), |spec| spec.read_priority = true);
    let (writes, write_two, read_two) = ([write(0, 0, 1), write(0, 1, 1)], [write(0, 0, 2)], [read(0, 0, 2)]);
    let then = |request| [writes[0], writes[1], request];
    let written = CHANNEL + PINS + PROGRAM;
    let sensed = READ + PINS + CHANNEL;
    // Of a read that comes when both writes are at the element, and the second programming is still to begin.
    let late = 2 * (PINS + PROGRAM) + sensed - 10_000_000 + CHANNEL;
    // The sums of the responses to reads, to writes and to flushes.
    for (what, spec, load, wanted) in [
        ("one page after the other", &off, &writes[..], [0, 2 * written + PINS + PROGRAM, 0]),
        // The planes are filled in turn, so the second page goes to another die: it waits for the pins.
        ("a die programs while the next page crosses", &dies, &writes, [0, 2 * written + PINS, 0]),
        // At first page i lies in plane i / 63 mod 8.
        ("planes sense together", &planes, &[read(0, 0, 1), read(0, 63, 1)], [2 * sensed + PINS, 0, 0]),
        ("one plane does not", &planes, &[read(0, 0, 1), read(0, 1, 1)], [2 * sensed + READ + PINS, 0, 0]),
        (
            "a flush waits for all planes",
            &planes,
            &then(flush(10_000)),
            [0, 2 * written + PINS, written + PINS - 10_000_000],
        ),
        // One page on each: both cross at once, and half of the request's sectors is what each carries.
        ("channels carry their own pages", &two_channels, &write_two, [0, written, 0]),
        ("in both directions", &two_channels, &read_two, [sensed, 0, 0]),
        ("one channel carries all", &two, &read_two, [sensed + CHANNEL, 0, 0]),
        ("a read waits its turn", &off, &then(read(10_000, 2, 1)), [late, 2 * written + PINS + PROGRAM, 0]),
        (
            "or goes first where it may",
            &reads_first,
            &then(read(10_000, 2, 1)),
            [late - PINS - PROGRAM, 2 * written + PINS + PROGRAM + READ + PINS, 0],
        ),
    ] {
        let tally = run(spec, load);
        let sums = [&tally.reads, &tally.writes, &tally.others].map(|kind| kind.response_ps);
        assert_eq!(sums, wanted, "{what}");
    }
}

#[test]
fn one_die_with_all_planes_overlaps_nothing() {
    let load = each(20, |page| write(0, page, 1));
    let spec = with(overlapping(Overlap::Dies), |spec| spec.dies = 1);
    let off = run(&overlapping(Overlap::Off), &load);
    assert_eq!(run(&spec, &load).writes.response_ps, off.writes.response_ps);
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
