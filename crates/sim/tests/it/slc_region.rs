//! An SLC region keeps every page, whatever happens meanwhile: requests, discards, power loss, folding.

use crate::loads::{Chance, Live, Mix, drive, flush, mixed, properties};
use ioassay_block::{Kind, Request};
use ioassay_sim::drive::{Controller, Spec};
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
        let cache_bytes = f64::from(u8::from(cached)) * 8.0 * unit_bytes;
        let controller = Controller::of([
            ("program_unit", unit_bytes.into()),
            ("write_cache", cache_bytes.into()),
            ("superblock", u64::from(span).into()),
            ("hot_cold", hot_cold.into()),
            ("slc_region", (superblock_bytes * f64::from(superblocks)).into()),
            ("slc_dynamic", dynamic.into()),
            ("bits_per_cell", u64::from(bits).into()),
            ("slc_program_us", 75.0.into()),
            ("slc_read_us", 10.0.into()),
            ("slc_folding", ["both", "idle", "full"][folding as usize].into()),
            ("slc_idle_us", 200.0.into()),
            ("fill", (f64::from(fill) / 10.0).into()),
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
    let mix = Mix { kinds: [1, 1, 5], gap_ns: 200_000, burst: 2, most_pages: 8, parts: false };
    mixed(chance, spec.pages(), count, mix)
}

/// Serves requests to their end, with a look at all tables on the way.
fn serve(live: &mut Live, load: &[Request]) {
    let begin_ps = live.drive.now_ps();
    for (number, request) in load.iter().enumerate() {
        let at_ps = begin_ps + request.at_ns * 1000;
        live.advance_to(at_ps);
        live.submit(at_ps, request);
        if number % 16 == 0 {
            live.audit();
        }
    }
    live.finish();
    live.audit();
}

/// Whether each page is where the writes and discards leave it; cached ones are in flash after a flush.
fn mapped(spec: &Spec, load: &[Request]) -> Vec<bool> {
    let controller = spec.controller.as_ref().expect("a controller");
    let pages = u64::from(spec.pages());
    let filled = pages * (1_000_000 - controller.unmapped_ppm) / 1_000_000;
    let mut mapped: Vec<bool> = (0..pages).map(|page| page < filled).collect();
    for request in load {
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

properties! {
    #[test]
    fn every_request_completes_and_all_tables_agree_at_any_time(spec in specs(), seed: u64) {
        let mut live = Live::new(drive(&spec), None);
        serve(&mut live, &load(&spec, &mut Chance(seed), 400));
    }

    #[test]
    fn no_page_is_lost_and_none_appears(spec in specs(), seed: u64) {
        let mut load = load(&spec, &mut Chance(seed), 300);
        load.push(flush(0));
        let mut live = Live::new(drive(&spec), None);
        // One after the other, so that discards do not overtake writes.
        for request in &load {
            live.submit(live.drive.now_ps(), request);
            while live.drive.in_flight() > 0 {
                live.advance_to(live.drive.next_ps().expect("something to wait for"));
            }
        }
        // What is in flash survives the loss of power, wherever it is.
        live.drive.cut_power();
        live.audit();
        for (page, &wanted) in (0..).zip(&mapped(&spec, &load)) {
            let home = live.drive.drive().physical_page(page);
            prop_assert_eq!(home.is_some(), wanted, "page {}", page);
        }
    }

    #[test]
    fn after_a_power_cut_it_serves_on(spec in specs(), seed: u64, until_us in 0_u64..40_000) {
        let mut chance = Chance(seed);
        let (before, after) = (load(&spec, &mut chance, 200), load(&spec, &mut chance, 200));
        let mut live = Live::new(drive(&spec), None);
        for request in &before {
            live.submit(request.at_ns * 1000, request);
        }
        live.advance_to(until_us * 1_000_000);
        live.drive.cut_power();
        live.audit();
        serve(&mut live, &after);
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
        serve(&mut Live::new(drive, None), &load(&spec, &mut Chance(seed), 200));
    }
}
