//! A drive in memory goes on as one whose state was saved and loaded; copies and changed times are as if made so.

use crate::checkpoint::{buffer, content, continued, controlled_specs, load, options, saved, specs};
use crate::loads::{Unsaid, properties, reference, setup, with};
use ioassay_block::{Kind, Request};
use ioassay_sim::drive::{Controller, Folding, SlcOptions, Spec};
use ioassay_sim::engine::{BufferMode, End, RunOptions};
use ioassay_sim::options::Given;
use ioassay_sim::policy::POLICIES;
use ioassay_sim::{Error, Load, Preconditioning, Setup, SimulatedDrive, Simulation, Start};
use proptest::prelude::*;

fn made(setup: &Setup) -> SimulatedDrive {
    SimulatedDrive::new(setup, &mut || true).expect("a drive")
}

fn run(drive: &mut SimulatedDrive, load: &[Request]) -> Simulation {
    let options = drive.setup().run.clone();
    drive.run(Load::Trace(&mut Unsaid(load)), &options, false).expect("a run")
}

properties! {
    #[test]
    fn runs_follow_each_other_as_from_a_saved_state_and_copies_do_too(
        spec in prop_oneof![specs(), controlled_specs()], run_options in options(), seed: u64, requests in 1_u32..300,
        gap_us in 0_u32..300, policy in 0..POLICIES.len(), inline: bool, precondition: bool,
    ) {
        let inline = inline && spec.controller.is_none();
        let mode = if inline { BufferMode::Inline } else { BufferMode::Reshape };
        let how = Preconditioning { share: 0.5, most_rounds: 3, ..Preconditioning::default() };
        let setup = Setup {
            buffer: Some(buffer(&spec, POLICIES[policy].name, mode)),
            preconditioning: precondition.then_some(how),
            run: run_options,
            ..setup(&spec)
        };
        let (first, second) = (load(&spec, seed, requests, gap_us, false), load(&spec, seed ^ 1, requests, gap_us, false));
        let (before, state) = saved(Start::New, &first, &setup);
        let after = continued(Start::State(&mut state.as_slice()), Unsaid(&second), &setup).expect("a run");

        let mut drive = made(&setup);
        let mut untouched = drive.copy().expect("a copy");
        let one = run(&mut drive, &first);
        let mut copy = drive.copy().expect("a copy");
        let [of_copy, two, again] = [run(&mut copy, &second), run(&mut drive, &second), run(&mut untouched, &first)];
        for (seen, wanted) in [(&one, &before), (&of_copy, &after), (&two, &after), (&again, &before)] {
            prop_assert_eq!(content(seen), content(wanted));
        }
    }

    #[test]
    fn a_drive_whose_times_change_is_as_one_made_with_them(
        spec in prop_oneof![specs(), controlled_specs()], seed: u64, requests in 1_u32..300, program_us in 0_u64..900,
        read_us in 0_u64..90, policy in 0..POLICIES.len(),
    ) {
        let given = |of: u64| Given::from(of);
        let mut times = vec![("program_us", given(program_us)), ("read_us", given(read_us)), ("erase_us", given(700))];
        if spec.controller.is_some() {
            times.extend([("command_read_us", given(0)), ("link_mb_s", given(900)), ("flash_channels", given(1))]);
        }
        let how = Preconditioning { share: 0.5, most_rounds: 3, ..Preconditioning::default() };
        let of = |spec: &Spec| Setup {
            buffer: Some(buffer(spec, POLICIES[policy].name, BufferMode::Reshape)),
            preconditioning: Some(how.clone()),
            ..setup(spec)
        };
        let other = with(spec.clone(), |spec| {
            for (name, given) in &times {
                spec.set_timing(name, given).expect("a time");
            }
        });
        let (mut changed, mut new) = (made(&of(&spec)), made(&of(&other)));
        changed.set_timing(times.iter().map(|(name, given)| (*name, given))).expect("times");
        let requests = load(&spec, seed, requests, 100, false);
        let (of_changed, of_new) = (run(&mut changed, &requests), run(&mut new, &requests));
        prop_assert_eq!(content(&of_changed), content(&of_new));
        // A state that was saved may have them, too.
        let (_, state) = saved(Start::New, &[], &of(&spec));
        let from_state = continued(Start::State(&mut state.as_slice()), Unsaid(&requests), &of(&other)).expect("a run");
        prop_assert_eq!(content(&from_state), content(&of_new));
    }

    #[test]
    fn latencies_are_those_of_the_tally_in_order_of_issue(
        spec in prop_oneof![specs(), controlled_specs()], run_options in options(), seed: u64, requests in 1_u32..300,
    ) {
        let mut drive = made(&Setup { run: run_options.clone(), ..setup(&spec) });
        let requests = load(&spec, seed, requests, 100, false);
        let done = drive.run(Load::Trace(&mut Unsaid(&requests)), &run_options, true).expect("a run");
        let tally = &done.tally;
        let latencies_ps = &tally.latencies.as_ref().expect("latencies").latencies_ps;
        prop_assert_eq!(latencies_ps.len(), requests.len());
        for (kinds, of) in [(&[Kind::Read][..], &tally.reads), (&[Kind::Write], &tally.writes)] {
            let each = requests.iter().zip(latencies_ps);
            let of_kind = each.filter(|(request, latency_ps)| kinds.contains(&request.kind) && **latency_ps < u64::MAX);
            prop_assert_eq!(of_kind.map(|(_, &latency_ps)| u128::from(latency_ps)).sum::<u128>(), of.response_ps);
        }
    }
}

#[test]
fn options_that_decide_where_pages_are_do_not_change() {
    let controller = Controller { command_read_ps: 5_000_000, ..Controller::default() };
    let plain = with(reference(2), |spec| spec.endurance = 0);
    let of_today = with(plain.clone(), |spec| {
        spec.controller = Some(controller);
        spec.reserve = 0.2;
    });
    let cases: [(&Spec, &str, Given); 6] = [
        (&plain, "elements", 4.0.into()),
        (&plain, "command_read_us", 4.0.into()),
        (&of_today, "write_cache", 1_048_576_u64.into()),
        (&of_today, "page_type_program_us", vec![1.0, 2.0].into()),
        (&of_today, "cleaning", "greedy".into()),
        (&of_today, "program_us", (-1.0).into()),
    ];
    for (spec, name, given) in cases {
        let mut drive = made(&setup(spec));
        let refused = drive.set_timing([("read_us", &Given::from(50.0)), (name, &given)]).expect_err(name).to_string();
        assert!(refused.starts_with(name), "{refused}");
        assert_eq!(&drive.setup().drive, spec, "{name}");
    }
    made(&setup(&of_today)).set_timing([("command_read_us", &Given::from(0.0))]).expect("no time is a time");
}

#[test]
fn a_drive_cannot_be_used_behind_a_run_that_failed() {
    let spec = with(reference(2), |spec| spec.endurance = 0);
    let mut drive = made(&setup(&spec));
    let outside = Request { offset_bytes: spec.capacity_bytes(), length_bytes: 4096, ..Request::default() };
    let copy = drive.copy().expect("a copy");
    let options = RunOptions { end: End::Drained, ..RunOptions::default() };
    assert!(matches!(drive.run(Load::Trace(&mut Unsaid(&[outside])), &options, false), Err(Error::Request { .. })));
    assert!(matches!(drive.run(Load::Trace(&mut Unsaid(&[])), &options, false), Err(Error::Unsettled)));
    assert!(matches!(drive.copy(), Err(Error::Unsettled)));
    assert!(copy.copy().is_ok());
}

#[test]
fn a_drive_folds_its_slc_region_while_it_rests() {
    let slc = SlcOptions { region_bytes: 8 << 20, bits_per_cell: 2, folding: Folding::Idle, ..SlcOptions::default() };
    let spec = with(reference(2), |spec| {
        (spec.dies, spec.planes, spec.blocks_per_plane, spec.pages_per_block) = (1, 1, 128, 64);
        (spec.reserve, spec.endurance) = (0.4, 0);
        spec.controller = Some(Controller { slc, ..Controller::default() });
    });
    let writes: Vec<Request> = (0..512)
        .map(|page| Request { offset_bytes: page * 4096, length_bytes: 4096, kind: Kind::Write, ..Request::default() })
        .collect();
    let mut drive = made(&setup(&spec));
    let free_share = |drive: &SimulatedDrive| drive.drive().slc_free_share().expect("a region");
    run(&mut drive, &writes);
    let before = free_share(&drive);
    drive.rest(0).expect("a rest");
    let longer = with(drive.copy().expect("a copy"), |drive| drive.rest(10_000_000_000_000).expect("a rest"));
    assert!(before < 1.0 && free_share(&drive) < 1.0, "{before}");
    assert!(free_share(&longer) > free_share(&drive));
}
