//! An SLC region keeps every page, whatever happens meanwhile: requests, discards, power loss, folding.

use crate::loads::{Chance, drive, flush, read, request, write};
use ioassay_block::{Kind, Request};
use ioassay_sim::drive::{Controller, Spec};
use ioassay_sim::engine::{Event, OnlineDrive};
use ioassay_sim::{Preconditioning, precondition};
use proptest::prelude::*;

/// Drives of a few thousand pages with little space beyond what their rules need.
fn specs() -> impl Strategy<Value = Spec> {
    let geometry = (1_u32..5, 1_u32..3, 1_u32..4, 2_u32..4, any::<bool>());
    let region = (1_u32..4, any::<bool>(), 0_u32..3, any::<bool>());
    let space = (0_u32..4, 0_u32..11, any::<bool>());
    (geometry, region, space).prop_map(|(geometry, region, space)| {
        let (elements, unit, rows, bits, whole) = geometry;
        let (superblocks, dynamic, folding, hot_cold) = region;
        let (extra, fill, cached) = space;
        let unit_bytes = f64::from(unit) * 4096.0;
        let apart = if dynamic { 1 } else { superblocks };
        let reserved = 5 + 2 * u32::from(hot_cold) + apart + extra;
        let blocks = reserved + 8;
        let span = if whole { elements } else { 1 };
        let superblock_bytes = unit_bytes * f64::from(rows * span * (elements / span));
        let controller = Controller::of([
            ("program_unit", [unit_bytes].as_slice()),
            (
                "write_cache",
                &[if cached { 8.0 * unit_bytes } else { 0.0 }],
            ),
            ("superblock", &[f64::from(span)]),
            ("hot_cold", &[f64::from(u8::from(hot_cold))]),
            ("slc_region", &[superblock_bytes * f64::from(superblocks)]),
            ("slc_dynamic", &[f64::from(u8::from(dynamic))]),
            ("bits_per_cell", &[f64::from(bits)]),
            ("slc_program_us", &[75.0]),
            ("slc_read_us", &[10.0]),
            ("slc_folding", &[f64::from(folding)]),
            ("slc_idle_us", &[200.0]),
            ("fill", &[f64::from(fill) / 10.0]),
        ]);
        Spec {
            elements,
            dies: 1,
            planes: 1,
            blocks_per_plane: blocks,
            pages_per_block: (unit * rows * bits).max(2),
            reserve: (f64::from(reserved) + 0.5) / f64::from(blocks),
            min_free: 1.5 / f64::from(blocks),
            endurance: 0,
            controller: controller.expect("options"),
            ..Spec::default()
        }
    })
}

/// Reads, writes, discards and flushes of a few pages.
fn load(spec: &Spec, chance: &mut Chance, count: u32) -> Vec<Request> {
    let pages = spec.pages();
    let mut at_ns = 0;
    (0..count)
        .map(|_| {
            at_ns += u64::from(chance.below(400_000)) * u64::from(chance.below(8) / 4);
            let first = chance.below(pages);
            let length = u64::from(1 + chance.below(8.min(pages - first)));
            let first = u64::from(first);
            match chance.below(20) {
                0 => flush(at_ns),
                1 => request(Kind::Trim, at_ns, first, length),
                2..=6 => read(at_ns, first, length),
                _ => write(at_ns, first, length),
            }
        })
        .collect()
}

/// Submits requests one by one, with a look at all tables on the way.
fn serve(live: &mut OnlineDrive, load: &[Request], events: &mut Vec<Event>) {
    let begin_ps = live.now_ps();
    for (number, request) in load.iter().enumerate() {
        let at_ps = begin_ps + request.at_ns * 1000;
        live.advance_to(at_ps, events).expect("a drive that lives");
        live.submit(at_ps, request).expect("a request");
        if number % 16 == 0 {
            live.drive().audit().expect("tables that agree");
        }
    }
}

/// Whether each page is where the writes and discards leave it; cached ones are in flash after a flush.
fn mapped(spec: &Spec, loads: &[&[Request]]) -> Vec<bool> {
    let filled = spec
        .controller
        .as_ref()
        .map_or(0, |controller| 1_000_000 - controller.unmapped_ppm);
    let filled = u64::from(spec.pages()) * filled / 1_000_000;
    let mut mapped: Vec<bool> = (0..u64::from(spec.pages()))
        .map(|page| page < filled)
        .collect();
    for request in loads.iter().flat_map(|load| load.iter()) {
        let first = (request.offset_bytes / 4096) as usize;
        let pages = first..first + (request.length_bytes / 4096) as usize;
        match request.kind {
            Kind::Write => mapped[pages].fill(true),
            Kind::Trim => mapped[pages].fill(false),
            _ => {}
        }
    }
    mapped
}

/// Requests one after the other, so that discards do not overtake writes.
fn in_order(live: &mut OnlineDrive, load: &[Request], events: &mut Vec<Event>) {
    for request in load {
        live.submit(live.now_ps(), request).expect("a request");
        while live.in_flight() > 0 {
            let next_ps = live.next_ps().expect("something to wait for");
            live.advance_to(next_ps, events)
                .expect("a drive that lives");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_completes_and_all_tables_agree_at_any_time(spec in specs(), seed: u64) {
        let mut chance = Chance(seed);
        let load = load(&spec, &mut chance, 400);
        let mut live = OnlineDrive::new(drive(&spec), None).expect("a live drive");
        let mut events = Vec::new();
        serve(&mut live, &load, &mut events);
        live.advance_to(u64::MAX - 1, &mut events).expect("a drive that lives");
        prop_assert_eq!(live.in_flight(), 0);
        live.drive().audit().expect("tables that agree");
    }

    #[test]
    fn no_page_is_lost_and_none_appears(spec in specs(), seed: u64) {
        let mut chance = Chance(seed);
        let load = load(&spec, &mut chance, 300);
        let mut live = OnlineDrive::new(drive(&spec), None).expect("a live drive");
        let mut events = Vec::new();
        in_order(&mut live, &load, &mut events);
        in_order(&mut live, &[flush(0)], &mut events);
        // What is in flash survives the loss of power, wherever it is.
        live.cut_power();
        live.drive().audit().expect("tables that agree");
        for (page, &wanted) in (0..).zip(&mapped(&spec, &[&load])) {
            prop_assert_eq!(live.drive().physical_page(page).is_some(), wanted, "page {}", page);
        }
    }

    #[test]
    fn after_a_power_cut_it_serves_on(spec in specs(), seed: u64, until_us in 0_u64..40_000) {
        let mut chance = Chance(seed);
        let (before, after) = (load(&spec, &mut chance, 200), load(&spec, &mut chance, 200));
        let mut live = OnlineDrive::new(drive(&spec), None).expect("a live drive");
        let mut events = Vec::new();
        for request in &before {
            live.submit(request.at_ns * 1000, request).expect("a request");
        }
        live.advance_to(until_us * 1_000_000, &mut events).expect("a drive that lives");
        live.cut_power();
        live.drive().audit().expect("tables that agree");
        serve(&mut live, &after, &mut events);
        live.advance_to(u64::MAX - 1, &mut events).expect("a drive that lives");
        prop_assert_eq!(live.in_flight(), 0);
        live.drive().audit().expect("tables that agree");
    }

    #[test]
    fn preconditioning_leaves_the_region_to_the_host(spec in specs(), seed: u64) {
        let mut drive = drive(&spec);
        let free = drive.slc_free_share();
        let how = Preconditioning { most_rounds: 4, seed, ..Preconditioning::default() };
        precondition(&mut drive, &how, &mut || true).expect("a drive that lives");
        drive.audit().expect("tables that agree");
        prop_assert_eq!(drive.counters().slc_pages, 0);
        let is_apart = !spec.controller.as_ref().expect("a controller").slc.dynamic;
        prop_assert!(!is_apart || (free, drive.slc_free_share()) == (Some(1.0), Some(1.0)));
        let mut live = OnlineDrive::new(drive, None).expect("a live drive");
        let mut chance = Chance(seed);
        let load = load(&spec, &mut chance, 200);
        serve(&mut live, &load, &mut Vec::new());
        live.advance_to(u64::MAX - 1, &mut Vec::new()).expect("a drive that lives");
        live.drive().audit().expect("tables that agree");
    }
}
