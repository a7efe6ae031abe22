//! An online drive follows exactly the rules of a run over a trace, and reports its events.

use std::collections::BTreeMap;

use crate::loads::{
    Chance, Unsaid, buffer, drive, flush, plain, read, reference, request, same_drive, same_tally,
    write,
};
use ioassay_block::{Kind, Request};
use ioassay_sim::drive::{Controller, Overlap, Pool, Spec};
use ioassay_sim::engine::{BufferMode, Event, OnlineDrive, WriteBuffer, run};
use ioassay_sim::policy::POLICIES;
use proptest::prelude::*;

fn load(spec: &Spec, seed: u64, requests: u32, gap_ns: u32) -> Vec<Request> {
    let mut chance = Chance(seed);
    let mut at_ns = 0;
    let mut of = |kind, pages, cut: u64| {
        at_ns += u64::from(chance.below(2 * gap_ns + 1));
        let page = chance.below(spec.pages().min(400) - pages + 1);
        let cut = cut * u64::from(chance.below(8));
        Request {
            length_bytes: u64::from(pages) * 4096 - 512 * cut,
            offset_bytes: u64::from(page) * 4096 + 512 * (cut / 2),
            ..request(kind, at_ns, 0, 0)
        }
    };
    let mut kinds = Chance(seed ^ 1);
    (0..requests)
        .map(|_| match kinds.below(20) {
            0 => Request {
                offset_bytes: 0,
                length_bytes: 0,
                ..of(Kind::Flush, 1, 0)
            },
            1 => of(Kind::Trim, 1 + kinds.below(6), 0),
            2..6 => of(Kind::Read, 1 + kinds.below(6), 1),
            _ => of(Kind::Write, 1 + kinds.below(6), 1),
        })
        .collect()
}

prop_compose! {
    fn specs()(
        elements in prop_oneof![Just(1_u32), Just(3), Just(8)], overlap in 0..3, channels in 1_u32..3,
        plane_pool: bool, read_priority: bool, free_channel: bool,
    ) -> Spec {
        Spec {
            elements,
            channels: channels.min(elements),
            dies: 2,
            planes: 2,
            blocks_per_plane: 24,
            pages_per_block: 8,
            reserve: 0.5,
            min_free: 0.126,
            overlap: [Overlap::Off, Overlap::Dies, Overlap::Planes][overlap as usize],
            channel_ps_per_sector: if free_channel { 0 } else { 238_400 },
            pool: if plane_pool { Pool::Plane } else { Pool::Element },
            read_priority,
            endurance: 0,
            ..Spec::default()
        }
    }
}

prop_compose! {
    fn controllers()(
        unit in prop_oneof![Just(1_u32), Just(4), Just(8)], flash_page in prop_oneof![Just(1_u32), Just(4)],
        cache in prop_oneof![Just(0_u32), Just(9), Just(24)], command_us in 0_u32..20, rate in 0..2, link in 0..2,
        shared: bool, whole: bool, mapping in 0_u32..3,
    ) -> Controller {
        let bytes = |pages: u32| f64::from(pages) * 4096.0;
        let cache = if cache == 0 { 0 } else { cache.max(unit) };
        Controller::of([
            ("program_unit", [bytes(unit)].as_slice()),
            ("flash_page", &[bytes(flash_page.min(unit))]),
            ("write_cache", &[bytes(cache)]),
            ("command_write_us", &[f64::from(command_us)]),
            ("command_read_us", &[1.0]),
            ("command_rate", &[f64::from(rate) * 50_000.0]),
            ("link_mb_s", &[f64::from(link) * 1000.0]),
            ("flash_channels", &[f64::from(u8::from(shared))]),
            ("superblock", &[f64::from(u8::from(!whole))]),
            ("mapping_cache", &[bytes(mapping * flash_page.min(unit))]),
            ("mapping_entry_bytes", &[if mapping > 0 { 512.0 } else { 8.0 }]),
        ])
        .expect("options")
        .expect("a controller")
    }
}

/// The drives of the reference, and those with a controller.
fn drives() -> impl Strategy<Value = Spec> {
    let with_controller = (specs(), controllers()).prop_map(|(spec, controller)| Spec {
        channels: 1,
        overlap: Overlap::Off,
        pool: Pool::Element,
        controller: Some(controller),
        ..spec
    });
    prop_oneof![specs(), with_controller]
}

fn made(spec: &Spec, policy: usize, pages: usize) -> Option<WriteBuffer> {
    let name = POLICIES[policy].name;
    let has_buffer = name != "none" && spec.controller.is_none();
    has_buffer.then(|| buffer(spec, name, pages, BufferMode::Inline))
}

/// Serves a load in steps of any length, which are to change nothing.
fn serve(live: &mut OnlineDrive, load: &[Request], seed: u64) -> Vec<Event> {
    let mut chance = Chance(seed);
    let mut events = Vec::new();
    for (number, request) in load.iter().enumerate() {
        let at_ps = request.at_ns * 1000;
        if chance.below(3) > 0 {
            while let Some(next_ps) = live.next_ps().filter(|&next_ps| next_ps <= at_ps) {
                live.advance_to(next_ps, &mut events).expect("a drive");
            }
            live.advance_to(at_ps, &mut events).expect("a drive");
        }
        let id = live.submit(at_ps, request).expect("a request");
        assert_eq!(id, number as u64);
    }
    live.advance_to(u64::MAX - 1, &mut events).expect("a drive");
    assert_eq!((live.next_ps(), live.in_flight()), (None, 0));
    events
}

/// What the events say of pages: all that entered the buffer is in it, or was dropped, or left; all
/// that left was programmed.
fn consistent(events: &[Event], live: &OnlineDrive) -> Result<(), TestCaseError> {
    let mut buffered = BTreeMap::new();
    let mut leaving: BTreeMap<u32, Vec<Option<u64>>> = BTreeMap::new();
    for event in events {
        match *event {
            Event::Complete { .. } => {}
            Event::Buffered { request, page } => {
                buffered.insert(page, request);
            }
            Event::Dropped { page } => prop_assert!(buffered.remove(&page).is_some()),
            Event::ProgramIssued { request, page } => {
                prop_assert!(request.is_some() || buffered.remove(&page).is_some());
                leaving.entry(page).or_default().push(request);
            }
            Event::Programmed { request, page } => {
                let of_page = leaving.get_mut(&page).expect("a page that left");
                let place = of_page.iter().position(|left| *left == request);
                of_page.remove(place.expect("what left"));
            }
        }
    }
    prop_assert!(leaving.values().all(Vec::is_empty));
    prop_assert_eq!(buffered.len() as u64, live.buffered_pages());
    prop_assert!(buffered.keys().all(|&page| live.is_buffered(page)));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_served_drive_does_what_a_run_does(
        spec in drives(), seed: u64, requests in 1_u32..300, gap_us in 0_u32..300,
        policy in 0..POLICIES.len(), pages in 8_usize..40,
    ) {
        let load = load(&spec, seed, requests, 1000 * gap_us);
        // A run counts its time from its first request.
        let first_ns = load[0].at_ns;
        let load: Vec<_> = load
            .iter()
            .map(|one| Request { at_ns: one.at_ns - first_ns, ..*one })
            .collect();
        let mut trace_drive = drive(&spec);
        let (trace, _) = run(&mut trace_drive, &mut Unsaid(&load), made(&spec, policy, pages), &plain())
            .expect("a run");
        let mut live = OnlineDrive::new(drive(&spec), made(&spec, policy, pages)).expect("a live drive");
        let events = serve(&mut live, &load, seed);
        same_drive(live.drive(), &trace_drive)?;
        consistent(&events, &live)?;
        let completions = events.iter().filter(|event| matches!(event, Event::Complete { .. }));
        prop_assert_eq!(completions.count(), load.len());
        let tally = live.take_tally();
        same_tally(&tally, &trace)?;
        prop_assert_eq!(&tally.busy_ps, &trace.busy_ps);
    }

    #[test]
    fn after_a_power_cut_the_buffer_is_empty_and_the_drive_serves_on(
        spec in drives(), seed: u64, policy in 0..POLICIES.len(), until_us in 0_u64..5000,
    ) {
        let load = load(&spec, seed, 100, 50_000);
        let mut live = OnlineDrive::new(drive(&spec), made(&spec, policy, 16)).expect("a live drive");
        let mut events = Vec::new();
        for request in &load {
            live.submit(request.at_ns * 1000, request).expect("a request");
        }
        live.advance_to(until_us * 1_000_000, &mut events).expect("a drive that lives");
        live.cut_power();
        prop_assert_eq!((live.in_flight(), live.next_ps(), live.buffered_pages()), (0, None, 0));
        events.clear();
        let now_ps = live.now_ps();
        let ids: Vec<u64> = load
            .iter()
            .map(|request| live.submit(now_ps + request.at_ns * 1000, request).expect("a request"))
            .collect();
        live.advance_to(u64::MAX - 1, &mut events).expect("a drive that lives");
        consistent(&events, &live)?;
        let mut done: Vec<u64> = events
            .iter()
            .filter_map(|event| match event {
                Event::Complete { request, .. } => Some(*request),
                _ => None,
            })
            .collect();
        done.sort_unstable();
        prop_assert_eq!(done, ids);
        live.drive().audit().expect("tables that agree");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_written_before_a_flush_is_in_flash_when_it_completes(
        spec in specs(), controller in controllers(), seed: u64, gap_us in 0_u32..50,
    ) {
        let spec = Spec {
            channels: 1,
            overlap: Overlap::Off,
            pool: Pool::Element,
            controller: Some(controller),
            ..spec
        };
        let load = load(&spec, seed, 300, 1000 * gap_us);
        let mut live = OnlineDrive::new(drive(&spec), None).expect("a live drive");
        let mut events = serve(&mut live, &load, seed);
        let last = live.submit(live.now_ps(), &flush(0)).expect("a request");
        live.advance_to(u64::MAX - 1, &mut events).expect("a drive that lives");
        let end = events
            .iter()
            .position(|event| matches!(event, Event::Complete { request, .. } if *request == last))
            .expect("a flush that completes");
        let count = |wanted: fn(&Event) -> bool| events[..end].iter().filter(|event| wanted(event)).count();
        let issued = count(|event| matches!(event, Event::ProgramIssued { .. }));
        let programmed = count(|event| matches!(event, Event::Programmed { .. }));
        prop_assert_eq!(issued, programmed);
        prop_assert_eq!(live.buffered_pages(), 0);
        consistent(&events, &live)?;
        live.drive().audit().expect("tables that agree");
    }
}

/// A drive in whose buffer is page 5, at a second, and what it took to bring it there.
fn buffered() -> (OnlineDrive, Vec<Event>) {
    let spec = reference(4);
    let held = buffer(&spec, "lru", 8, BufferMode::Inline);
    let mut live = OnlineDrive::new(drive(&spec), Some(held)).expect("a live drive");
    let mut events = Vec::new();
    live.submit(0, &write(0, 5, 1)).expect("a request");
    live.advance_to(1_000_000_000, &mut events)
        .expect("a drive");
    assert!(live.is_buffered(5));
    (live, events)
}

#[test]
fn a_flush_completes_when_all_before_it_is_programmed() {
    let (mut live, mut events) = buffered();
    let (request, page) = (0, 5);
    let at_ps = 8 * 238_400;
    let arrived = Event::Buffered { request, page };
    assert_eq!(events, [arrived, Event::Complete { request, at_ps }]);
    events.clear();
    live.submit(1_000_000_000, &flush(0)).expect("a request");
    live.advance_to(u64::MAX - 1, &mut events).expect("a drive");
    let at_ps = 1_000_000_000 + 305_600_000;
    let request = None;
    let wanted = [
        Event::ProgramIssued { request, page },
        Event::Programmed { request, page },
        Event::Complete { request: 1, at_ps },
    ];
    assert_eq!(events, wanted);
}

#[test]
fn a_write_past_the_buffer_replaces_what_is_there_and_waits_for_flash() {
    let (mut live, _) = buffered();
    let mut events = Vec::new();
    live.submit_bypass(1_000_000_000, &write(0, 5, 1))
        .expect("a request");
    live.advance_to(u64::MAX - 1, &mut events).expect("a drive");
    let (request, page) = (Some(1), 5);
    let at_ps = 1_000_000_000 + 8 * 238_400 + 305_600_000;
    let wanted = [
        Event::Dropped { page },
        Event::ProgramIssued { request, page },
        Event::Programmed { request, page },
        Event::Complete { request: 1, at_ps },
    ];
    assert_eq!(events, wanted);
    assert_eq!(live.buffered_pages(), 0);
}

#[test]
fn the_clock_begins_anew_when_nothing_is_on_its_way() {
    let spec = reference(4);
    let mut live = OnlineDrive::new(drive(&spec), None).expect("a live drive");
    let mut events = Vec::new();
    let late_ps = 90 * 24 * 3600 * 1_000_000_000_000;
    live.submit(late_ps, &read(0, 0, 1)).expect("a request");
    assert!(!live.reset_clock());
    live.advance_to(u64::MAX - 1, &mut events).expect("a drive");
    assert!(live.submit(2 * late_ps, &read(0, 0, 1)).is_err());
    assert!(live.reset_clock());
    live.submit(0, &read(0, 0, 1)).expect("a request");
    live.advance_to(u64::MAX - 1, &mut events).expect("a drive");
    assert!(live.now_ps() < late_ps);
}

#[test]
fn a_buffer_before_the_drive_is_refused() {
    let spec = reference(4);
    let before = buffer(&spec, "lru", 8, BufferMode::Reshape);
    assert!(OnlineDrive::new(drive(&spec), Some(before)).is_err());
}
