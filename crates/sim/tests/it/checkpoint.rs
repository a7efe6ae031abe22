//! A run that was saved and continued has the results of a run without the break.

use crate::loads::{Chance, Mix, Unsaid, buffer_spec, mixed, properties, reference, setup, simulated, with};
use ioassay_block::{Request, Source};
use ioassay_sim::drive::{Controller, Folding, GcPolicy, Overlap, Pool, SlcOptions, Spec, WearLevelling};
use ioassay_sim::engine::{
    BufferMode, End, IssueMode, OneThread, RunOptions, Scheduler, Tally, TimeSeries, TimeSlice, WriteBehind,
};
use ioassay_sim::policy::POLICIES;
use ioassay_sim::{
    BufferSpec, ElementTotals, Error, Load, Preconditioned, Preconditioning, Setup, Simulation, Start, simulate_from,
};
use proptest::prelude::*;

/// Requests of all kinds, some of them at the same time.
pub fn load(spec: &Spec, seed: u64, requests: u32, gap_us: u32, only_writes: bool) -> Vec<Request> {
    let kinds = if only_writes { [0; 3] } else { [1, 1, 6] };
    let mix = Mix { kinds, gap_ns: 1000 * gap_us, burst: 2, most_pages: 6, parts: false };
    mixed(&mut Chance(seed), spec.pages(), requests, mix)
}

prop_compose! {
    pub fn specs()(
        elements in prop_oneof![Just(1_u32), Just(3), Just(8)], dies in 1_u32..3,
        blocks in 8_u32..16, pages_per_block in 3_u32..9, channels in 1_u32..3, plane_pool: bool,
        cost_benefit: bool, copy_back: bool, read_priority: bool,
        overlap in prop_oneof![Just(Overlap::Off), Just(Overlap::Dies), Just(Overlap::Planes)],
        wear in prop_oneof![Just(WearLevelling::Off), Just(WearLevelling::Dynamic), Just(WearLevelling::Static)],
    ) -> Spec {
        Spec {
            elements,
            dies,
            planes: 2 * dies,
            blocks_per_plane: blocks,
            pages_per_block,
            channels: channels.min(elements),
            reserve: 0.5,
            min_free: 0.126,
            pool: if plane_pool { Pool::Plane } else { Pool::Element },
            gc_policy: if cost_benefit { GcPolicy::CostBenefit } else { GcPolicy::Greedy },
            copy_back,
            read_priority,
            overlap,
            wear_levelling: wear,
            wear_spread: 2,
            endurance: 0,
            ..Spec::default()
        }
    }
}

prop_compose! {
    fn controllers()(
        write_cache in prop_oneof![Just(0_u64), Just(5), Just(64)], unit in prop_oneof![Just(1_u64), Just(4)],
        flash_page in prop_oneof![Just(1_u64), Just(2)], channels in 0_u64..2, small_read: bool, duplex: bool,
        command_us in 0_u64..9, interval_us in 0_u64..2, suspensions in 0_u64..3, hot_cold: bool,
        background in prop_oneof![Just(0_u64), Just(230_000)], superblock in 0_u64..2, mapping in 0_u64..4,
        flash_command in 0_u64..2, translation_read in 0_u64..2,
    ) -> Controller {
        let page = 4096;
        Controller {
            write_cache_bytes: write_cache * page,
            program_unit_bytes: unit * page,
            flash_page_bytes: flash_page.min(unit) * page,
            page_type_read_ps: vec![40_000_000, 80_000_000],
            small_read_ps: if small_read { vec![30_000_000] } else { Vec::new() },
            command_read_ps: command_us * 1_000_000,
            command_write_ps: 2_000_000,
            command_write_ps_per_4k: command_us * 100_000,
            command_interval_ps: interval_us * 1_000_000,
            flash_channels: channels,
            link_duplex: duplex,
            program_suspensions: suspensions,
            erase_suspensions: suspensions,
            suspend_ps: suspensions * 5_000_000,
            background_free_ppm: background,
            hot_cold,
            superblock_elements: superblock,
            mapping_cache_bytes: mapping.saturating_sub(1) * 2 * page,
            mapping_entry_bytes: if mapping > 1 { 512 } else { 8 },
            flash_command_ps: flash_command * 1_000_000,
            translation_read_bytes: if mapping > 1 { translation_read * 512 } else { 0 },
            ..Controller::default()
        }
    }
}

prop_compose! {
    pub fn controlled_specs()(
        elements in prop_oneof![Just(1_u32), Just(3), Just(8)], planes in 1_u32..3, blocks in 20_u32..28,
        units in 1_u32..4, cost_benefit: bool, copy_back: bool, mut controller in controllers(),
        region in 0_u64..3, dynamic: bool, folding in 0_usize..3, idle_us in 0_u64..100, fill in 0_u64..4,
    ) -> Spec {
        controller.unmapped_ppm = (fill * 400_000).min(1_000_000);
        controller.mapping_log_bytes = fill * 512;
        if region == 0 && !controller.hot_cold && controller.background_free_ppm > 0 {
            (controller.throttle, controller.background_free_ppm) = (true, 350_000);
        }
        if region > 0 {
            let unit_bytes = controller.flash_page_bytes;
            let rows = u64::from(planes * 4 * units) / 2 / (unit_bytes / 4096);
            controller.slc = SlcOptions {
                region_bytes: region * rows * unit_bytes * u64::from(elements),
                dynamic,
                bits_per_cell: 2,
                program_unit_bytes: unit_bytes,
                program_ps: Some(75_000_000),
                read_ps: Some(10_000_000),
                folding: [Folding::Both, Folding::Idle, Folding::Full][folding],
                idle_ps: idle_us * 1_000_000,
            };
        }
        Spec {
            elements,
            dies: 1,
            planes,
            blocks_per_plane: blocks,
            pages_per_block: 4 * units,
            reserve: 0.5,
            min_free: 0.126,
            gc_policy: if cost_benefit { GcPolicy::CostBenefit } else { GcPolicy::Greedy },
            copy_back,
            read_priority: controller.program_suspensions > 0,
            endurance: 0,
            controller: Some(controller),
            ..Spec::default()
        }
    }
}

prop_compose! {
    pub fn options()(
        issue_mode in prop_oneof![
            Just(IssueMode::OpenLoop), Just(IssueMode::ScaledOpenLoop(0.3)), Just(IssueMode::ClosedLoop(9)),
            Just(IssueMode::Bursts { size: 7, gap_ps: 500_000_000 }),
        ],
        window in prop_oneof![Just(None), Just(Some(3_u32)), Just(Some(20))],
        clook: bool, last_issued: bool,
    ) -> RunOptions {
        RunOptions {
            issue_mode,
            window,
            scheduler: if clook { Scheduler::Clook } else { Scheduler::Fcfs },
            end: if last_issued { End::LastIssued } else { End::Drained },
            series_rows: 16,
            ..RunOptions::default()
        }
    }
}

pub fn buffer(spec: &Spec, policy: &str, mode: BufferMode) -> BufferSpec {
    with(buffer_spec(spec, policy, 24, mode), |buffer| {
        buffer.settings.compensation = policy == "bplru";
    })
}

pub fn content(of: &Simulation) -> (&Tally, &[ElementTotals], Option<&Preconditioned>) {
    (&of.tally, &of.elements, of.preconditioned.as_ref())
}

fn rows(series: &TimeSeries) -> (u64, &[TimeSlice]) {
    (series.width_ps, &series.rows)
}

/// A run from there on, whose state is not saved.
pub fn continued(start: Start<'_>, mut load: impl Source, setup: &Setup) -> Result<Simulation, Error> {
    simulate_from(start, Load::Trace(&mut load), setup, None, &OneThread, &mut || true)
}

pub fn saved(start: Start<'_>, load: &[Request], setup: &Setup) -> (Simulation, Vec<u8>) {
    let (mut state, mut load) = (Vec::new(), Unsaid(load));
    let to = Some(&mut state as _);
    let done = simulate_from(start, Load::Trace(&mut load), setup, to, &OneThread, &mut || true);
    (done.expect("a run"), state)
}

/// A run, the same by the engine of runs that are saved, and the same in parts.
fn interrupted(setup: &Setup, load: &[Request], cuts: &[prop::sample::Index]) -> (Simulation, Simulation, Simulation) {
    let whole = simulated(load, setup);
    let (events, _) = saved(Start::New, load, setup);
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(load.len() + 1)).collect();
    places.sort_unstable();
    let (mut done, mut state) = saved(Start::New, &load[..places[0]], setup);
    for number in 0..places.len() {
        let until = places.get(number + 1).copied().unwrap_or(load.len());
        let mut input = state.as_slice();
        (done, state) = saved(Start::Resumed(&mut input), &load[..until], setup);
    }
    (whole, events, done)
}

/// A run, another one on the drive that it left, and both in one run with a pause that all requests end in.
fn one_after_the_other(setup: &Setup, first: &[Request], second: &[Request]) -> [Simulation; 3] {
    let (before, state) = saved(Start::New, first, setup);
    let alone = continued(Start::State(&mut state.as_slice()), Unsaid(second), setup);
    let pause_ns = 10_000_000_000 - second[0].at_ns;
    let later = second.iter().map(|request| with(*request, |later| later.at_ns += pause_ns));
    let both: Vec<Request> = first.iter().copied().chain(later).collect();
    let (together, _) = saved(Start::New, &both, setup);
    [before, alone.expect("a run"), together]
}

fn small_spec() -> Spec {
    with(reference(2), |spec| spec.endurance = 0)
}

properties! {
    #[test]
    fn continued_runs_are_one_run(
        spec in prop_oneof![specs(), controlled_specs()], run in options(), seed: u64, requests in 0_u32..500,
        gap_us in 0_u32..300, cuts in proptest::collection::vec(any::<prop::sample::Index>(), 1..4),
        policy in 0..POLICIES.len(), inline: bool, only_writes: bool, precondition: bool,
        write_behind in prop_oneof![Just(WriteBehind::Auto), Just(WriteBehind::Idle), Just(WriteBehind::Any)],
    ) {
        let inline = inline && spec.controller.is_none();
        let mode = if inline { BufferMode::Inline } else { BufferMode::Reshape };
        let policy = POLICIES[policy].name;
        let mut buffer = buffer(&spec, policy, mode);
        if inline && policy != "none" {
            buffer.destaging.write_behind = write_behind;
        }
        let how = Preconditioning { share: 0.5, most_rounds: 3, ..Preconditioning::default() };
        let preconditioning = precondition.then_some(how);
        let setup = Setup { buffer: Some(buffer), preconditioning, run, ..setup(&spec) };
        let load = load(&spec, seed, requests, gap_us, only_writes);
        let (whole, events, done) = interrupted(&setup, &load, &cuts);
        prop_assert_eq!(content(&done), content(&whole));
        prop_assert_eq!(rows(&done.series), rows(&events.series));
        if spec.controller.is_some() {
            prop_assert_eq!(rows(&done.series), rows(&whole.series));
        }
    }

    #[test]
    fn a_drive_works_on_as_it_was_left(
        mut spec in prop_oneof![specs(), controlled_specs()], seed: u64, requests in 1_u32..300, only_writes: bool,
    ) {
        // During a pause between requests a host is idle, between two runs it is not.
        let region = spec.controller.iter_mut().map(|controller| &mut controller.slc);
        for slc in region.filter(|slc| slc.region_bytes > 0) {
            slc.folding = Folding::Full;
        }
        let setup = setup(&spec);
        let first = load(&spec, seed, requests, 100, only_writes);
        let second = load(&spec, seed ^ 1, requests, 100, only_writes);
        let [before, alone, together] = one_after_the_other(&setup, &first, &second);
        prop_assert_eq!(alone.tally.issued, second.len() as u64);
        for (element, (one, two)) in alone.elements.iter().zip(&together.elements).enumerate() {
            prop_assert_eq!(one.most_block_erases, two.most_block_erases, "element {}", element);
        }
        if spec.controller.is_none() {
            return Ok(());
        }
        for (element, one) in alone.elements.iter().enumerate() {
            let (two, earlier) = (&together.elements[element], &before.elements[element]);
            prop_assert_eq!(one.counters, two.counters.since(earlier.counters), "element {}", element);
        }
        let sums = |of: &Simulation| [&of.tally.reads, &of.tally.writes, &of.tally.others].map(|each| each.response_ps);
        let (one, two, earlier) = (sums(&alone), sums(&together), sums(&before));
        prop_assert_eq!(one, [0, 1, 2].map(|kind| two[kind] - earlier[kind]));
        prop_assert_eq!(alone.tally.write_hits, together.tally.write_hits - before.tally.write_hits);
    }
}

#[test]
fn a_preconditioned_drive_is_saved_and_takes_any_buffer() {
    let how = Preconditioning::default();
    let worn = Setup { preconditioning: Some(how), ..setup(&small_spec()) };
    let (_, state) = saved(Start::New, &[], &worn);
    let load = load(&worn.drive, 3, 2000, 100, true);
    for policy in [None, Some("lru"), Some("idle-cold")] {
        let buffer = policy.map(|policy| buffer(&worn.drive, policy, BufferMode::Inline));
        let worn = with(worn.clone(), |setup| setup.buffer = buffer.clone());
        let new = with(setup(&worn.drive), |setup| setup.buffer = buffer);
        let at_once = simulated(&load, &worn);
        let start = Start::State(&mut state.as_slice());
        let from_state = continued(start, load.as_slice(), &new).expect("a run");
        assert_eq!(content(&from_state), content(&at_once));
        assert_eq!(rows(&from_state.series), rows(&at_once.series));
    }
}

#[test]
fn a_state_of_something_else_is_refused() {
    let lru = Setup { buffer: Some(buffer(&small_spec(), "lru", BufferMode::Inline)), ..setup(&small_spec()) };
    let (_, state) = saved(Start::New, &load(&lru.drive, 1, 100, 10, false), &lru);
    let refused = |setup: &Setup, resumed: bool| {
        let mut input = state.as_slice();
        let start = if resumed { Start::Resumed(&mut input) } else { Start::State(&mut input) };
        let done = continued(start, &[][..], setup);
        matches!(done, Err(Error::OtherState { .. }))
    };
    let other_drive = with(lru.clone(), |setup| setup.drive.elements = 4);
    let other_buffer = with(lru.clone(), |setup| setup.buffer = None);
    let other_run = with(lru.clone(), |setup| setup.run.window = None);
    for resumed in [false, true] {
        assert!(refused(&other_drive, resumed));
        assert!(refused(&other_buffer, resumed));
        assert_eq!(refused(&other_run, resumed), resumed);
        assert!(!refused(&lru, resumed));
    }
    // The version comes first.
    let other_version = with(state.clone(), |state| state[0] += 1);
    let done = continued(Start::State(&mut other_version.as_slice()), &[][..], &lru);
    let message = done.expect_err("another version").to_string();
    assert_eq!(message, "the state is of version 7, expected version 6");
}

#[test]
fn a_state_that_breaks_off_or_goes_on_is_refused() {
    let setup = setup(&small_spec());
    let (_, mut state) = saved(Start::New, &[], &setup);
    let whole = state.len();
    state.push(0);
    for length in [0, 1, 100, whole / 2, whole - 1, whole + 1] {
        let done = continued(Start::State(&mut &state[..length]), &[][..], &setup);
        assert!(matches!(done, Err(Error::State(_))), "{length} bytes");
    }
}
