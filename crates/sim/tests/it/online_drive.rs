//! An online drive follows exactly the rules of a run over a trace, and reports its events.

use crate::checkpoint::{self, controlled_specs};
use crate::loads::{
    Chance, Live, Mix, Unsaid, buffer, drive, flush, inline, mixed, plain, properties, read, reference, same_drive,
    write,
};
use ioassay_block::Request;
use ioassay_sim::drive::{Controller, SlcOptions, Spec};
use ioassay_sim::engine::{BufferMode, Event, OnlineDrive, WriteBuffer, run};
use ioassay_sim::policy::POLICIES;
use proptest::prelude::*;

fn load(spec: &Spec, seed: u64, requests: u32, gap_ns: u32) -> Vec<Request> {
    let mix = Mix { kinds: [1, 1, 4], gap_ns, burst: 1, most_pages: 6, parts: true };
    mixed(&mut Chance(seed), spec.pages().min(400), requests, mix)
}

fn specs() -> impl Strategy<Value = Spec> {
    (checkpoint::specs(), any::<bool>()).prop_map(|(spec, free_channel)| Spec {
        blocks_per_plane: 24,
        pages_per_block: 8,
        channel_ps_per_sector: if free_channel { 0 } else { 238_400 },
        ..spec
    })
}

/// Drives with a controller and without an SLC region: at the end of a run no host is idle, and folds nothing.
fn controlled() -> impl Strategy<Value = Spec> {
    controlled_specs().prop_map(|mut spec| {
        spec.controller.iter_mut().for_each(|controller| controller.slc = SlcOptions::default());
        spec
    })
}

fn made(spec: &Spec, policy: usize, pages: usize) -> Option<WriteBuffer> {
    let name = POLICIES[policy].name;
    let has_buffer = name != "none" && spec.controller.is_none();
    has_buffer.then(|| inline(spec, name, pages))
}

/// Serves a load in steps of any length, which are to change nothing.
fn serve(live: &mut Live, load: &[Request], seed: u64) {
    let mut chance = Chance(seed);
    for (number, request) in (0..).zip(load) {
        let at_ps = request.at_ns * 1000;
        if chance.below(3) > 0 {
            while let Some(next_ps) = live.drive.next_ps().filter(|&next_ps| next_ps <= at_ps) {
                live.advance_to(next_ps);
            }
            live.advance_to(at_ps);
        }
        assert_eq!(live.submit(at_ps, request), number);
    }
    live.finish();
}

properties! {
    #[test]
    fn a_served_drive_does_what_a_run_does(
        spec in prop_oneof![specs(), controlled()], seed: u64, requests in 1_u32..300, gap_us in 0_u32..300,
        policy in 0..POLICIES.len(), pages in 8_usize..40,
    ) {
        let mut load = load(&spec, seed, requests, 1000 * gap_us);
        // A run counts its time from its first request.
        let first_ns = load[0].at_ns;
        for one in &mut load {
            one.at_ns -= first_ns;
        }
        let mut trace_drive = drive(&spec);
        let (trace, _) = run(&mut trace_drive, &mut Unsaid(&load), made(&spec, policy, pages), &plain())
            .expect("a run");
        let mut live = Live::new(drive(&spec), made(&spec, policy, pages));
        serve(&mut live, &load, seed);
        same_drive(live.drive.drive(), &trace_drive)?;
        live.consistent()?;
        prop_assert_eq!(completions(&live.events).len(), load.len());
        prop_assert_eq!(live.drive.take_tally(), trace);
    }

    #[test]
    fn after_a_power_cut_the_buffer_is_empty_and_the_drive_serves_on(
        spec in prop_oneof![specs(), controlled_specs()], seed: u64, policy in 0..POLICIES.len(), until_us in 0_u64..5000,
    ) {
        let load = load(&spec, seed, 100, 50_000);
        let mut live = Live::new(drive(&spec), made(&spec, policy, 16));
        for request in &load {
            live.submit(request.at_ns * 1000, request);
        }
        live.advance_to(until_us * 1_000_000);
        live.drive.cut_power();
        let left = (live.drive.in_flight(), live.drive.next_ps(), live.drive.buffered_pages());
        prop_assert_eq!(left, (0, None, 0));
        live.events.clear();
        let now_ps = live.drive.now_ps();
        let submit = |request: &Request| live.submit(now_ps + request.at_ns * 1000, request);
        let ids: Vec<u64> = load.iter().map(submit).collect();
        live.finish();
        live.consistent()?;
        prop_assert_eq!(completions(&live.events), ids);
        live.audit();
    }

    #[test]
    fn what_was_written_before_a_flush_is_in_flash_when_it_completes(
        spec in controlled_specs(), seed: u64, gap_us in 0_u32..50,
    ) {
        let load = load(&spec, seed, 300, 1000 * gap_us);
        let mut live = Live::new(drive(&spec), None);
        serve(&mut live, &load, seed);
        let last = live.submit(live.drive.now_ps(), &flush(0));
        live.finish();
        let is_last = |event: &Event| matches!(event, Event::Complete { request, .. } if *request == last);
        let end = live.events.iter().position(is_last).expect("a flush that completes");
        let count = |wanted: fn(&Event) -> bool| live.events[..end].iter().filter(|event| wanted(event)).count();
        let issued = count(|event| matches!(event, Event::ProgramIssued { .. }));
        let programmed = count(|event| matches!(event, Event::Programmed { .. }));
        prop_assert_eq!(issued, programmed);
        prop_assert_eq!(live.drive.buffered_pages(), 0);
        live.consistent()?;
        live.audit();
    }
}

/// The requests that are complete, in order of their numbers.
fn completions(events: &[Event]) -> Vec<u64> {
    let complete = events.iter().filter_map(|event| match event {
        Event::Complete { request, .. } => Some(*request),
        _ => None,
    });
    let mut complete: Vec<u64> = complete.collect();
    complete.sort_unstable();
    complete
}

/// A drive in whose buffer is page 5, at a second, and what it took to bring it there.
fn buffered() -> Live {
    let spec = reference(4);
    let mut live = Live::new(drive(&spec), Some(inline(&spec, "lru", 8)));
    live.submit(0, &write(0, 5, 1));
    live.advance_to(1_000_000_000);
    assert!(live.drive.is_buffered(5));
    live
}

#[test]
fn a_flush_completes_when_all_before_it_is_programmed() {
    let mut live = buffered();
    let (request, page) = (0, 5);
    let at_ps = 8 * 238_400;
    let arrived = Event::Buffered { request, page };
    assert_eq!(live.events, [arrived, Event::Complete { request, at_ps }]);
    live.events.clear();
    live.submit(1_000_000_000, &flush(0));
    live.finish();
    let at_ps = 1_000_000_000 + 305_600_000;
    let request = None;
    let wanted = [
        Event::ProgramIssued { request, page },
        Event::Programmed { request, page },
        Event::Complete { request: 1, at_ps },
    ];
    assert_eq!(live.events, wanted);
}

#[test]
fn a_write_past_the_buffer_replaces_what_is_there_and_waits_for_flash() {
    let mut live = buffered();
    live.events.clear();
    let passed = live.drive.submit_bypass(1_000_000_000, &write(0, 5, 1));
    assert_eq!(passed.expect("a request"), 1);
    live.finish();
    let (request, page) = (Some(1), 5);
    let at_ps = 1_000_000_000 + 8 * 238_400 + 305_600_000;
    let wanted = [
        Event::Dropped { page },
        Event::ProgramIssued { request, page },
        Event::Programmed { request, page },
        Event::Complete { request: 1, at_ps },
    ];
    assert_eq!(live.events, wanted);
    assert_eq!(live.drive.buffered_pages(), 0);
}

#[test]
fn a_write_past_the_cache_waits_for_whole_units() {
    let cache = [("write_cache", 1_048_576_u64), ("program_unit", 16_384)];
    let controller = Controller::of(cache.map(|(name, value)| (name, value.into()))).expect("options");
    let mut spec = reference(4);
    (spec.controller, spec.reserve) = (controller, 0.3);
    let mut live = Live::new(drive(&spec), None);
    live.drive.submit_bypass(0, &write(0, 0, 16)).expect("a request");
    live.finish();
    let at_ps = live.events.iter().find_map(|event| match event {
        Event::Complete { request: 0, at_ps } => Some(*at_ps),
        _ => None,
    });
    let (sectors, moved, program) = (16 * 8 * 238_400, 4 * 105_600_000, 200_000_000);
    assert_eq!(at_ps, Some(sectors + moved + program), "one unit on each of four elements");
}

#[test]
fn the_clock_begins_anew_when_nothing_is_on_its_way() {
    let mut live = Live::new(drive(&reference(4)), None);
    let late_ps = 90 * 24 * 3600 * 1_000_000_000_000;
    live.submit(late_ps, &read(0, 0, 1));
    assert!(!live.drive.reset_clock());
    live.finish();
    assert!(live.drive.submit(2 * late_ps, &read(0, 0, 1)).is_err());
    assert!(live.drive.reset_clock());
    live.submit(0, &read(0, 0, 1));
    live.finish();
    assert!(live.drive.now_ps() < late_ps);
}

#[test]
fn a_buffer_before_the_drive_is_refused() {
    let spec = reference(4);
    let before = buffer(&spec, "lru", 8, BufferMode::Reshape);
    assert!(OnlineDrive::new(drive(&spec), Some(before)).is_err());
}
