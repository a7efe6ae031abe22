//! The drive against a plain map: whatever is done to it, each page is there or it is not, at one
//! place of its own, and the tables agree with each other.

use std::collections::BTreeSet;

use crate::loads::{self, drive, properties, with};
use ioassay_sim::Error;
use ioassay_sim::drive::{Drive, GcPolicy, Pool, Spec, WearLevelling};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Collects garbage as an element does before it serves a page, and writes.
    Write(u32),
    /// Writes without garbage collection in advance.
    WriteAtOnce(u32),
    Read(u32),
    Trim(u32),
    Collect(u32),
}

prop_compose! {
    fn specs()(
        elements in 1_u32..3, planes in 1_u32..4, blocks in 5_u32..12, pages_per_block in 2_u32..6,
        low in 1_u32..3, more in 2_u32..5,
        copy_back: bool, plane_pool: bool, cost_benefit: bool,
        wear_levelling in prop_oneof![
            Just(WearLevelling::Off), Just(WearLevelling::Dynamic), Just(WearLevelling::Static)
        ],
        wear_spread in 0_u32..4,
        endurance in prop_oneof![Just(0_u32), 1_u32..20],
    ) -> Spec {
        // Half a block more than wanted, so that no rounding takes it away.
        let share = |blocks_of: u32| (f64::from(blocks_of) + 0.5) / f64::from(blocks);
        Spec {
            elements,
            dies: 1,
            planes,
            blocks_per_plane: blocks,
            pages_per_block,
            reserve: share((low + more).min(blocks - 1)),
            min_free: share(low.min(blocks - 3)),
            copy_back,
            pool: if plane_pool { Pool::Plane } else { Pool::Element },
            gc_policy: if cost_benefit { GcPolicy::CostBenefit } else { GcPolicy::Greedy },
            wear_levelling,
            wear_spread,
            endurance,
            ..Spec::default()
        }
    }
}

/// Uniform over the drive, or over a few pages at its beginning.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = || prop_oneof![2 => any::<u32>(), 1 => 0_u32..5];
    let step = prop_oneof![
        30 => page().prop_map(Step::Write),
        4 => page().prop_map(Step::WriteAtOnce),
        2 => page().prop_map(Step::Read),
        4 => page().prop_map(Step::Trim),
        1 => any::<u32>().prop_map(Step::Collect),
    ];
    proptest::collection::vec(step, 0..600)
}

/// Does a step to both; whether the drive can still be written to.
fn take(step: Step, drive: &mut Drive, map: &mut BTreeSet<u32>) -> Result<(), Error> {
    let pages = drive.spec().pages();
    match step {
        Step::Write(page) | Step::WriteAtOnce(page) => {
            let place = drive.place(page % pages);
            if matches!(step, Step::Write(_)) {
                drive.collect_garbage(place.element);
            }
            drive.write(place)?;
            map.insert(page % pages);
        }
        Step::Read(page) => {
            let place = drive.place(page % pages);
            let cost_ps = drive.read(place, 1);
            assert_eq!(cost_ps > 0, map.contains(&(page % pages)));
        }
        Step::Trim(page) => {
            drive.trim(drive.place(page % pages));
            map.remove(&(page % pages));
        }
        Step::Collect(element) => {
            drive.collect_garbage(element % drive.spec().elements);
        }
    }
    Ok(())
}

fn agree(drive: &Drive, map: &BTreeSet<u32>) {
    drive.audit().expect("tables that agree");
    let mut homes = BTreeSet::new();
    for page in 0..drive.spec().pages() {
        let home = drive.physical_page(page);
        assert_eq!(home.is_some(), map.contains(&page), "page {page}");
        let is_alone = home.is_none_or(|home| homes.insert(home));
        assert!(is_alone, "page {page} lies where another does");
    }
}

properties! {
    #[test]
    fn whatever_is_done_each_page_has_one_place(spec in specs(), steps in steps()) {
        let mut drive = drive(&spec);
        let mut map: BTreeSet<u32> = (0..spec.pages()).collect();
        for (number, &step) in steps.iter().enumerate() {
            let taken = take(step, &mut drive, &mut map);
            if number % 16 == 0 || taken.is_err() {
                agree(&drive, &map);
            }
            if let Err(error) = taken {
                prop_assert!(matches!(error, Error::WornOut { .. }), "{error}");
                break;
            }
        }
        agree(&drive, &map);
    }

    /// With garbage collection as elements do it, a drive never runs out of blocks, unless they die.
    #[test]
    fn blocks_that_do_not_die_suffice_for_ever(spec in specs(), seed: u64, hot in 1_u32..40) {
        let spec = Spec { endurance: 0, ..spec };
        let mut drive = drive(&spec);
        let mut chance = loads::Chance(seed);
        for _ in 0..2000 {
            let pages = if chance.below(4) == 0 { spec.pages() } else { hot.min(spec.pages()) };
            let place = drive.place(chance.below(pages));
            drive.collect_garbage(place.element);
            let written = drive.write(place);
            prop_assert!(written.is_ok(), "{}", written.expect_err("an error"));
        }
        prop_assert!(drive.audit().is_ok());
    }
}

#[test]
fn a_drive_that_wears_out_says_so_and_still_holds_every_page() {
    for wear_levelling in [WearLevelling::Off, WearLevelling::Dynamic, WearLevelling::Static] {
        let spec = with(loads::small(), |spec| {
            (spec.endurance, spec.wear_levelling, spec.wear_spread) = (5, wear_levelling, 2);
        });
        let mut drive = drive(&spec);
        let mut chance = loads::Chance(1);
        let error = loop {
            let place = drive.place(chance.below(spec.pages()));
            drive.collect_garbage(place.element);
            if let Err(error) = drive.write(place) {
                break error;
            }
            // No block stands more than that: the loop ends.
            assert!(drive.counters().erases <= 5 * 32);
        };
        let counters = drive.counters();
        assert!(counters.dead_blocks > 0);
        assert!(error.to_string().contains("each after 5"), "{error}");
        agree(&drive, &(0..spec.pages()).collect());
    }
}
