//! What of a drive works at the same time: dies, planes, channels; and reads before writes.

use crate::loads;
use crate::loads::{flush, plain, read, reference, request, tally, write};
use ioassay_block::Kind;
use ioassay_sim::drive::{Overlap, Spec};

// Picoseconds of the reference drive.
/// 8 sectors on a channel.
const CHANNEL: u128 = 1_907_200;
/// A page over the pins.
const PINS: u128 = 105_600_000;
const PROGRAM: u128 = 200_000_000;
const READ: u128 = 25_000_000;

fn with(overlap: Overlap) -> Spec {
    Spec {
        overlap,
        ..reference(1)
    }
}

#[test]
fn dies_program_while_the_next_page_crosses_the_pins() {
    let load = [write(0, 0, 1), write(0, 1, 1)];
    let alone = tally(&with(Overlap::Off), &load, None, &plain());
    // One after the other, whole.
    let first = CHANNEL + PINS + PROGRAM;
    assert_eq!(alone.writes.response_ps, first + (first + PINS + PROGRAM));
    let spec = Spec {
        dies: 8,
        ..with(Overlap::Dies)
    };
    // The planes are filled in turn, so the second page goes to another die: it waits for the pins.
    let dies = tally(&spec, &load, None, &plain());
    assert_eq!(dies.writes.response_ps, first + (first + PINS));
}

#[test]
fn one_die_with_all_planes_overlaps_nothing() {
    let load: Vec<_> = (0..20).map(|page| write(0, page, 1)).collect();
    let spec = Spec {
        dies: 1,
        ..with(Overlap::Dies)
    };
    let off = tally(&with(Overlap::Off), &load, None, &plain());
    let one = tally(&spec, &load, None, &plain());
    assert_eq!(one.writes.response_ps, off.writes.response_ps);
}

#[test]
fn planes_overlap_until_the_pins_are_the_limit() {
    let count = 400_u64;
    let load: Vec<_> = (0..count).map(|page| write(0, page, 1)).collect();
    let done = tally(&with(Overlap::Planes), &load, None, &plain()).last_completion_ps;
    // 8 planes program while 2.9 pages cross: the pins never rest, but for a little at the ends.
    let pins = u128::from(count) * PINS;
    assert!(
        (pins..pins + PINS + 3 * PROGRAM).contains(&u128::from(done)),
        "{done}"
    );
}

#[test]
fn reads_of_different_planes_are_sensed_together() {
    // At first page i lies in plane i / 63 mod 8.
    let apart = [read(0, 0, 1), read(0, 63, 1)];
    let times = tally(&with(Overlap::Planes), &apart, None, &plain()).reads;
    let first = READ + PINS + CHANNEL;
    assert_eq!(times.response_ps, first + (first + PINS));
    let together = [read(0, 0, 1), read(0, 1, 1)];
    let times = tally(&with(Overlap::Planes), &together, None, &plain()).reads;
    assert_eq!(times.response_ps, first + (first + READ + PINS));
}

#[test]
fn a_flush_waits_for_all_planes() {
    let load = [write(0, 0, 1), write(0, 1, 1), flush(10_000)];
    let tally = tally(&with(Overlap::Planes), &load, None, &plain());
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
        let load: Vec<_> = (0..20_000_u64)
            .map(|number| {
                let page = number * 7919 % pages;
                let kind = if number % 3 == 0 {
                    Kind::Read
                } else {
                    Kind::Write
                };
                request(kind, number * 300_000, page, 1)
            })
            .collect();
        let (drive, tally, _) = loads::try_tally(&spec, &load, None, &plain()).expect("a run");
        assert_eq!(tally.transfers().count(), 20_000);
        assert_eq!(tally.unfinished, 0);
        assert!(drive.counters().collected_blocks > 0);
    }
}

#[test]
fn channels_carry_the_pages_of_their_own_elements() {
    let spec = Spec {
        channels: 2,
        ..reference(2)
    };
    // One page on each: both cross at once, and half of the request's sectors is what each carries.
    let times = tally(&spec, &[write(0, 0, 2)], None, &plain()).writes;
    assert_eq!(times.response_ps, CHANNEL + PINS + PROGRAM);
    let times = tally(&spec, &[read(0, 0, 2)], None, &plain()).reads;
    assert_eq!(times.response_ps, READ + PINS + CHANNEL);
    let one = tally(&reference(2), &[read(0, 0, 2)], None, &plain()).reads;
    assert_eq!(one.response_ps, READ + PINS + 2 * CHANNEL);
}

#[test]
fn reads_that_wait_go_first_where_they_may() {
    let load = [write(0, 0, 1), write(0, 1, 1), read(10_000, 2, 1)];
    let fair = tally(&reference(1), &load, None, &plain());
    let spec = Spec {
        read_priority: true,
        ..reference(1)
    };
    let first = tally(&spec, &load, None, &plain());
    let saved = fair.reads.response_ps - first.reads.response_ps;
    assert_eq!(saved, PINS + PROGRAM);
    assert_eq!(
        first.writes.response_ps - fair.writes.response_ps,
        READ + PINS
    );
}
