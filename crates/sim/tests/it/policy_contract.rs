//! The contract of write buffers, over every entry of the list, and each promised order against a model so plain
//! that it can be believed.

use std::collections::BTreeSet;

use crate::loads::with;
use crate::policy_models::model;
use ioassay_sim::policy::{Access, Action, DestageTargets, DriveState, Eviction, Layout, POLICIES, Policy, Settings};
use ioassay_sim::policy::{BlockBy, Error, belady::OfflineOptimum, make};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Step {
    Write(u32),
    Discard(u32),
    /// Bits: the elements that are ready.
    Destage(u8),
    Drain,
}

const PAGES: u32 = 203; // no multiple of a block

fn layouts() -> impl Strategy<Value = Layout> {
    let lengths = prop::sample::select(&[1_u32, 4, 7, 64, 70][..]);
    (1_u32..9, lengths).prop_map(|(elements, pages_per_block)| Layout { elements, pages_per_block, pages: PAGES })
}

/// Uniform, skewed to low pages, or in order with jumps.
fn page() -> impl Strategy<Value = u32> {
    prop_oneof![0..PAGES, (0..PAGES).prop_map(|page| page * page / PAGES / 6), 0_u32..12]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let run = (page(), 1_u32..20).prop_map(|(first, pages)| {
        let run = first..PAGES.min(first + pages);
        run.map(Step::Write).collect::<Vec<_>>()
    });
    let one = prop_oneof![
        20 => page().prop_map(Step::Write),
        2 => page().prop_map(Step::Discard),
        4 => any::<u8>().prop_map(Step::Destage),
    ];
    let drain = Just(vec![Step::Drain]);
    let some = prop_oneof![40 => one.prop_map(|step| vec![step]), 4 => run, 1 => drain];
    proptest::collection::vec(some, 0..300).prop_map(|parts| parts.concat())
}

/// Every combination of the options that a policy knows, as far as it can be.
fn variants(name: &str, layout: Layout, capacity: usize) -> Vec<Settings> {
    let of_bits = |bits: usize| {
        let mut settings = Settings::new(layout, capacity);
        settings.block_by = [BlockBy::Lba, BlockBy::Element][bits & 1];
        settings.padding = bits & 2 != 0;
        settings.compensation = bits & 4 != 0;
        settings.block_requests = bits & 8 != 0;
        settings
    };
    let variants = (0..16).map(of_bits);
    variants.filter(|settings| make(name, settings).is_ok()).collect()
}

fn ready(bits: u8, elements: u32) -> Vec<bool> {
    let bits = (0..elements).map(|element| (bits >> element) & 1 == 1);
    bits.collect()
}

fn pages_of(eviction: &Eviction) -> impl Iterator<Item = u32> + use<> {
    eviction.first..eviction.first + eviction.pages
}

/// Written pages leave the model, each only if it is there; padding concerns no page that is.
fn leave(held: &mut BTreeSet<u32>, evicted: &[Eviction]) {
    let before = held.clone();
    for eviction in evicted {
        assert!(eviction.pages > 0, "{eviction:?}");
        for page in pages_of(eviction) {
            assert!(page < PAGES, "{eviction:?} is beyond the drive");
            match eviction.action {
                Action::Write => assert!(held.remove(&page), "{page} was not held"),
                Action::PadRead | Action::PadWrite => {
                    assert!(!before.contains(&page), "{eviction:?}");
                }
            }
        }
    }
}

/// Parts that are joined follow each other, and padding is read before it is written.
fn well_formed(evicted: &[Eviction]) {
    let mut read = BTreeSet::new();
    for (at, eviction) in evicted.iter().enumerate() {
        if eviction.joined {
            let before = &evicted[at - 1];
            assert_eq!(before.first + before.pages, eviction.first);
            assert!(before.action != Action::PadRead && eviction.action != Action::PadRead);
        }
        for page in pages_of(eviction) {
            match eviction.action {
                Action::Write => {}
                Action::PadRead => assert!(read.insert(page)),
                Action::PadWrite => assert!(read.remove(&page), "{page} was not read"),
            }
        }
    }
    assert!(read.is_empty(), "read and not written: {read:?}");
}

fn state(now_ps: u64, free_at_ps: &[u64]) -> DriveState<'_> {
    DriveState { now_ps, free_at_ps }
}

/// Runs the steps against a set; returns all evictions and the hits.
fn run(policy: &mut dyn Policy, steps: &[Step], elements: u32) -> (Vec<Eviction>, u64) {
    let (mut held, mut all, mut hits) = (BTreeSet::new(), Vec::new(), 0);
    for (now, &step) in (0_u64..).zip(steps) {
        let free = (0..u64::from(elements)).map(|element| now * 7 * element % 31 * 40);
        let free: Vec<u64> = free.collect();
        let drive_state = state(now * 10, &free);
        let mut evicted = Vec::new();
        match step {
            Step::Write(page) => {
                let was_held = held.contains(&page);
                let access = policy.write(page, &drive_state, &mut evicted);
                assert_eq!(access == Access::Hit, was_held);
                assert!(!was_held || evicted.is_empty(), "a hit evicted {evicted:?}");
                hits += u64::from(was_held);
                if access == Access::Bypass {
                    held.insert(page);
                    leave(&mut held, &evicted);
                    assert!(!held.contains(&page));
                } else {
                    leave(&mut held, &evicted);
                    held.insert(page);
                }
            }
            Step::Discard(page) => assert_eq!(policy.discard(page), held.remove(&page)),
            Step::Destage(bits) => {
                let ready = ready(bits, elements);
                let targets = DestageTargets { drive_state, ready: &ready };
                let destaged = policy.destage(&targets, &mut evicted);
                assert_eq!(destaged, !evicted.is_empty());
                let mut written = evicted.iter().filter(|one| one.action != Action::PadRead);
                let is_ready = |page: u32| ready[(page % elements) as usize];
                assert!(written.all(|one| pages_of(one).all(is_ready)));
                leave(&mut held, &evicted);
            }
            Step::Drain => {
                policy.drain(&mut evicted);
                leave(&mut held, &evicted);
                assert!(held.is_empty() && policy.is_empty());
            }
        }
        well_formed(&evicted);
        all.extend(evicted);
        assert_eq!(policy.len(), held.len());
        assert!(policy.len() <= policy.capacity());
        // Every page is asked for after some steps; after the others the one that follows them.
        let one = now as u32 % PAGES;
        let some = if now % 16 == 0 { 0..PAGES } else { one..one + 1 };
        for page in some {
            assert_eq!(policy.holds(page), held.contains(&page), "{page}");
        }
    }
    (all, hits)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_policy_loses_or_invents_a_page(layout in layouts(), capacity in 0_usize..90, steps in steps()) {
        let writes: Vec<u32> = steps.iter().filter_map(|step| match step {
            Step::Write(page) => Some(*page),
            _ => None,
        }).collect();
        let mut optimum = OfflineOptimum::new(capacity, PAGES);
        for &page in &writes {
            optimum.write(page);
        }
        let best = optimum.hits();
        for entry in POLICIES {
            for settings in variants(entry.name, layout, capacity) {
                let once = run(&mut *entry.build(&settings).unwrap(), &steps, layout.elements);
                prop_assert!(once.1 <= best, "{} has {} hits, {best} are possible", entry.name, once.1);
                let twice = run(&mut *entry.build(&settings).unwrap(), &steps, layout.elements);
                prop_assert_eq!(once, twice, "{} is not deterministic", entry.name);
            }
        }
    }

    #[test]
    fn promised_orders_are_kept(layout in layouts(), capacity in 1_usize..90, steps in steps()) {
        for entry in POLICIES {
            for settings in variants(entry.name, layout, capacity) {
                let Some(mut model) = model(entry.name, &settings) else { continue };
                let mut policy = entry.build(&settings).unwrap();
                let drive_state = state(0, &[]);
                let mut evicted = Vec::new();
                for step in &steps {
                    evicted.clear();
                    let expected = match *step {
                        Step::Write(page) => {
                            policy.write(page, &drive_state, &mut evicted);
                            model.write(page)
                        }
                        Step::Discard(page) => {
                            policy.discard(page);
                            model.discard(page);
                            Vec::new()
                        }
                        Step::Drain => {
                            policy.drain(&mut evicted);
                            model.drain()
                        }
                        Step::Destage(bits) => {
                            let ready = ready(bits, layout.elements);
                            let targets = DestageTargets { drive_state, ready: &ready };
                            policy.destage(&targets, &mut evicted);
                            model.destage(&|page| ready[(page % layout.elements) as usize])
                        }
                    };
                    let left: Vec<u32> = evicted.iter().filter(|eviction| eviction.action == Action::Write)
                        .flat_map(pages_of).collect();
                    prop_assert_eq!(left, expected, "{} with {:?}", entry.name, settings);
                }
            }
        }
    }
}

const LAYOUT: Layout = Layout { elements: 8, pages_per_block: 64, pages: 1000 };

#[test]
fn what_cannot_be_is_refused_with_the_number() {
    let settings = Settings::new(LAYOUT, 2048);
    let padded = with(settings, |settings| settings.padding = true);
    let small = Settings::new(LAYOUT, 7);
    let mut both = with(settings, |both| both.block_by = BlockBy::Element);
    both.block_requests = true;
    let empty = Settings::new(with(LAYOUT, |layout| layout.elements = 0), 1);
    let all = "none, fifo, lru, clock, sieve, s3-fifo, arc, bplru, fab, epo, epo-all, idle-cold";
    let each = "at least 8 pages (one for each element), not of 7";
    let unknown = "policy `epo` knows no option `padding`; it knows none";
    for (name, settings, wanted) in [
        ("lruu", &settings, "called `lruu`; did you mean lru?"),
        ("zzz", &settings, all),
        ("epo", &padded, unknown),
        ("bplru", &small, "at least 64 pages (one block), not of 7"),
        ("epo-all", &small, each),
        ("bplru", &both, "expected blocks by lba"),
        ("none", &empty, "elements of a buffer is 0"),
    ] {
        let refusal = make(name, settings).err().expect("it is refused").to_string();
        assert!(refusal.contains(wanted), "{refusal}");
    }
}

#[test]
fn only_none_can_hold_nothing() {
    let settings = Settings::new(LAYOUT, 0);
    for entry in POLICIES {
        match entry.build(&settings) {
            Ok(policy) => assert_eq!((entry.name, policy.capacity()), ("none", 0)),
            Err(error) => assert!(matches!(error, Error::TooSmall { seen: 0, .. }), "{error}"),
        }
    }
}

#[test]
fn idle_cold_leaves_busy_elements_alone() {
    let mut policy = make("idle-cold", &Settings::new(LAYOUT, 8)).unwrap();
    let mut evicted = Vec::new();
    let mut free = [50_u64; 8];
    free[3] = 10;
    for page in 0..9 {
        assert!(evicted.is_empty());
        policy.write(page, &state(10, &free), &mut evicted);
    }
    assert_eq!(evicted[0].first, 3); // the only idle element's page, though not the oldest
}

#[test]
fn idle_cold_keeps_what_was_written_again_while_a_scan_passes() {
    let mut policy = make("idle-cold", &Settings::new(LAYOUT, 64)).unwrap();
    let free = [0; 8];
    let mut evicted = Vec::new();
    for (now, page) in (0_u64..).zip((0..16).chain(0..16).chain(100..900)) {
        policy.write(page, &state(now << 40, &free), &mut evicted);
    }
    assert!((0..16).all(|page| policy.holds(page)));
}

#[test]
fn a_padded_block_is_one_request_of_joined_parts() {
    let layout = Layout { elements: 2, pages_per_block: 4, pages: 6 };
    let settings = Settings { padding: true, block_requests: true, ..Settings::new(layout, 4) };
    let mut policy = make("bplru", &settings).unwrap();
    let drive_state = state(0, &[]);
    let mut evicted = Vec::new();
    policy.write(5, &drive_state, &mut evicted);
    policy.write(1, &drive_state, &mut evicted);
    policy.drain(&mut evicted);
    let part = |first, pages, action, joined| Eviction { first, pages, action, joined };
    let wanted = [
        part(4, 1, Action::PadRead, false), // nothing beyond the drive's last page
        part(4, 1, Action::PadWrite, false),
        part(5, 1, Action::Write, true),
        part(0, 1, Action::PadRead, false),
        part(2, 2, Action::PadRead, false),
        part(0, 1, Action::PadWrite, false),
        part(1, 1, Action::Write, true),
        part(2, 2, Action::PadWrite, true),
    ];
    assert_eq!(evicted, wanted);
}
