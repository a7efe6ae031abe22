//! Which blocks are cleaned, when, and what that costs.

use crate::loads::{self, Chance, drive, with};
use ioassay_sim::drive::{Counters, Drive, GcPolicy, Pool, Spec, WearLevelling};

const MOVE: u64 = 225_000_000;
const ERASE: u64 = 1_500_000_000;
const SUMMARY: u64 = 213_200_000;
const PAGE_OVER_PINS: u64 = 105_600_000;

/// One plane of eight blocks of three pages. Blocks 0 to 3 hold pages 0 to 11 at first, and 3 is
/// never cleaned; 4 is open. One free block is low.
fn one_plane() -> Spec {
    with(loads::small(), |spec| (spec.elements, spec.planes) = (1, 1))
}

/// Writes pages, collecting garbage before each as elements do; returns the time that takes.
fn write(drive: &mut Drive, pages: impl IntoIterator<Item = u32>) -> u64 {
    let mut gc_ps = 0;
    for page in pages {
        let place = drive.place(page);
        gc_ps += drive.collect_garbage(place.element);
        drive.write(place).expect("a drive that is not worn out");
    }
    gc_ps
}

fn erased(drive: &Drive) -> Vec<usize> {
    let erases = drive.elements()[0].erases();
    let blocks = 0..erases.len();
    blocks.filter(|&block| erases[block] > 0).collect()
}

#[test]
fn the_victim_is_the_one_that_the_rule_says() {
    // Of the first load block 0 keeps one page, 1 and 2 keep two, 3 none. Of the second, blocks 0, 1, 2 and 5, where
    // page 9 was written first, keep two each: they fill the open block, which has one page.
    let (uneven, even) = ([0, 1, 3, 6, 9, 10, 11], [0, 3, 6, 9, 10, 11, 9]);
    for (what, gc_policy, load, victim, cost_ps) in [
        ("the one with the fewest valid pages", GcPolicy::Greedy, uneven, 0, MOVE + ERASE),
        ("the last of equals", GcPolicy::Greedy, even, 5, 2 * MOVE + SUMMARY + ERASE),
        ("the older of equals", GcPolicy::CostBenefit, even, 0, 2 * MOVE + SUMMARY + ERASE),
    ] {
        let mut drive = drive(&with(one_plane(), |spec| spec.gc_policy = gc_policy));
        assert_eq!(write(&mut drive, load), 0, "{what}");
        assert_eq!(drive.collect_garbage(0), cost_ps, "{what}");
        assert_eq!(erased(&drive), [victim], "{what}");
        assert_eq!(drive.collect_garbage(0), 0, "it is not low any more");
    }
}

#[test]
fn the_block_mapped_last_is_never_cleaned() {
    let mut drive = drive(&one_plane());
    let mut chance = Chance(3);
    write(&mut drive, (0..2000).map(|_| chance.below(12)));
    assert_eq!(drive.elements()[0].erases()[3], 0);
    assert!(drive.counters().collected_blocks > 100);
}

#[test]
fn a_block_is_full_when_all_but_its_last_page_hold_data() {
    let mut drive = drive(&one_plane());
    for (pages, summaries) in [(0..2, 0), (2..3, 1), (3..6, 2)] {
        write(&mut drive, pages);
        assert_eq!(drive.counters().summary_pages, summaries);
    }
}

#[test]
fn the_reference_drive_cleans_first_after_as_many_writes_as_its_thresholds_say() {
    let mut drive = drive(&with(Spec::default(), |spec| spec.elements = 1));
    // Each plane has 306 free blocks and one that is open; at 102 it is low. Pages in order go to
    // the planes in turn, so the first plane opens its 204th block with its page 63 × 204 + 1.
    let before = (306 - 102) * 63 * 8;
    assert_eq!(before, 102_816);
    assert_eq!(write(&mut drive, 0..=before), 0);
    assert_eq!(drive.counters().collected_blocks, 0);
    // The blocks that were overwritten hold nothing: the last of them is erased.
    assert_eq!(write(&mut drive, [before + 1]), ERASE);
    assert_eq!(drive.counters().collected_blocks, 1);
    assert_eq!(erased(&drive), [203]);
}

/// A drive that is soon written over, and cleans all the time then.
fn busy() -> Spec {
    Spec {
        elements: 1,
        dies: 1,
        planes: 2,
        blocks_per_plane: 64,
        pages_per_block: 17,
        reserve: 0.2,
        min_free: 0.05,
        endurance: 0,
        ..Spec::default()
    }
}

/// Uniform overwrites; the time of garbage collection, and all counters.
fn overwrite(spec: &Spec, writes: u32) -> (u64, Counters, Drive) {
    let mut drive = drive(spec);
    let mut chance = Chance(5);
    let pages = spec.pages();
    let gc_ps = write(&mut drive, (0..writes).map(|_| chance.below(pages)));
    (gc_ps, drive.counters(), drive)
}

#[test]
fn cleaning_takes_the_time_of_its_parts() {
    let (gc_ps, counters, _) = overwrite(&busy(), 20_000);
    let summaries_ps = gc_ps - counters.moved_pages * MOVE - counters.erases * ERASE;
    assert_eq!(summaries_ps % SUMMARY, 0);
    assert!(summaries_ps / SUMMARY < counters.summary_pages);
    assert!(counters.moved_pages > 20_000);
    // Each 16th page fills a block, but in the two that are open.
    let programmed = counters.written_pages + counters.moved_pages;
    assert!(programmed - 16 * counters.summary_pages < 2 * 16);
}

#[test]
fn without_copy_back_a_page_that_changes_its_plane_crosses_the_pins_twice() {
    let off = with(busy(), |spec| {
        (spec.copy_back, spec.program_ps) = (false, 0);
    });
    let (gc_ps, counters, _) = overwrite(&off, 20_000);
    // Without programming times only sensing, erasing, a sector for each summary, and the pins.
    let sensed_ps = counters.moved_pages * 25_000_000 + counters.erases * ERASE;
    let sector = 528 * 25_000;
    let over_pins_ps = gc_ps - sensed_ps;
    // 16 sectors of a page both ways: a whole number of sectors in all.
    assert_eq!(over_pins_ps % sector, 0);
    let across = over_pins_ps / (2 * PAGE_OVER_PINS);
    // With two planes that take turns, about half of the pages change theirs.
    let share = across as f64 / counters.moved_pages as f64;
    assert!((0.3..0.7).contains(&share), "{share}");
}

#[test]
fn a_single_page_over_the_pins_costs_exactly_that() {
    // Pages are moved to the other plane, which has more room.
    let spec = with(one_plane(), |spec| {
        (spec.planes, spec.copy_back, spec.pool) = (2, false, Pool::Plane);
    });
    let mut drive = drive(&spec);
    // Plane 0 holds pages 0 to 2, 6 to 8, 12 to 14, 18 to 20; it alone is written.
    write(&mut drive, [0, 1, 6, 12, 18, 19, 20]);
    let before = drive.counters();
    let cost_ps = drive.collect_garbage(0);
    let did = drive.counters().since(before);
    let across_ps = cost_ps - did.moved_pages * MOVE - did.erases * ERASE;
    let summaries_ps = did.summary_pages * SUMMARY;
    let wanted = did.moved_pages * 2 * PAGE_OVER_PINS;
    assert_eq!(across_ps - summaries_ps, wanted);
    assert!(did.moved_pages > 0);
}

#[test]
fn a_discarded_page_is_not_moved() {
    let spec = busy();
    let amplification = |discard: bool| {
        let mut drive = drive(&spec);
        let mut chance = Chance(5);
        let pages = spec.pages();
        if discard {
            // A third of the drive is never written again.
            for page in 0..pages / 3 {
                drive.trim(drive.place(page));
            }
        }
        let from = pages / 3;
        let load = (0..40_000).map(|_| from + chance.below(pages - from));
        write(&mut drive, load);
        drive.counters().write_amplification().expect("writes")
    };
    let (with, without) = (amplification(true), amplification(false));
    assert!(with < 0.7 * without, "{with} against {without}");
}

/// Nine writes of ten go to a tenth of the pages.
fn hot_and_cold(spec: &Spec, writes: u32, seed: u64) -> Drive {
    let mut drive = drive(spec);
    let mut chance = Chance(seed);
    let hot = spec.pages() / 10;
    let page = |_| match chance.below(10) {
        0 => hot + chance.below(spec.pages() - hot),
        _ => chance.below(hot),
    };
    write(&mut drive, (0..writes).map(page));
    drive.audit().expect("tables that agree");
    drive
}

#[test]
fn static_levelling_keeps_erasures_together() {
    let spread = |wear_levelling| {
        let spec = with(busy(), |spec| spec.wear_levelling = wear_levelling);
        let drive = hot_and_cold(&spec, 60_000, 7);
        // The block that is never cleaned is not counted.
        let erases = drive.elements()[0].erases();
        let rows = |plane: usize| {
            let held = 64 + spec.usable_blocks() as usize - 1;
            let rows = (64 * plane..64 * (plane + 1)).filter(move |&block| block != held);
            rows.map(|block| erases[block])
        };
        let of = |plane| rows(plane).max().unwrap_or(0) - rows(plane).min().unwrap_or(0);
        (of(0).max(of(1)), drive.counters())
    };
    let (off, _) = spread(WearLevelling::Off);
    let (dynamic, none) = spread(WearLevelling::Dynamic);
    let (held, counters) = spread(WearLevelling::Static);
    let are_as_wanted = held <= 22 && off > 60 && dynamic > 30;
    assert!(are_as_wanted, "{held}, {off}, {dynamic}");
    assert!(counters.levellings > 0 && counters.levellings < counters.collected_blocks / 4);
    assert_eq!(none.levellings, 0);
}

/// Where little is reserved. With more of it the two are about the same here, as hot and cold pages
/// that are moved share an open block.
#[test]
fn cost_benefit_moves_less_of_hot_and_cold_pages() {
    for seed in 1..4 {
        let amplification = |gc_policy| {
            let spec = with(busy(), |spec| {
                (spec.gc_policy, spec.reserve) = (gc_policy, 0.1);
            });
            let drive = hot_and_cold(&spec, 40_000, seed);
            drive.counters().write_amplification().expect("writes")
        };
        let greedy = amplification(GcPolicy::Greedy);
        let cost_benefit = amplification(GcPolicy::CostBenefit);
        let less = cost_benefit < 0.95 * greedy;
        assert!(less, "seed {seed}: {cost_benefit} against {greedy}");
    }
}
