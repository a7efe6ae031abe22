//! Several loads at once: next to a trace of the same requests, and to what queueing theory says of them.

use ioassay_block::make::{Addresses, Arrivals, Made, Recipe};
use ioassay_sim::drive::{Controller, Overlap, Spec};
use ioassay_sim::engine::{BufferMode, Extras, Flow, OneThread, RunOptions, Settled, Tally, run, run_flows};
use ioassay_sim::options::OptionSet as _;
use ioassay_sim::{Error, Load, Start, simulate_from};

use crate::loads::{CHANNEL, SENSE, buffer_spec, drive, reference, setup, with};

/// Reads of a page over a mebibyte.
fn reads(requests: u64, arrivals: Arrivals, seed: u64) -> Recipe {
    Recipe { requests, arrivals, reads: 1.0, range_bytes: 1 << 20, seed, ..Recipe::default() }
}

fn made(recipe: &Recipe) -> Made {
    recipe.source().expect("a recipe")
}

fn flow(source: &mut Made, depth: Option<u32>) -> Flow<'_> {
    Flow { source, depth, is_urgent: false, until_ps: None, is_background: false }
}

fn no_window() -> RunOptions {
    RunOptions { window: None, ..RunOptions::default() }
}

fn run_on(spec: &Spec, flows: Vec<Flow<'_>>, options: &RunOptions) -> Result<(Tally, Vec<Tally>), Error> {
    run_flows(&mut drive(spec), flows, &mut Some(Settled::default()), options, Extras::default())
        .map(|(all, _, each)| (all, each))
}

fn mean_ps(tally: &Tally) -> f64 {
    tally.transfers().mean_response_ps().expect("requests")
}

#[track_caller]
fn assert_near(seen: f64, wanted: f64, share: f64) {
    assert!((seen / wanted - 1.0).abs() < share, "{seen}, expected {wanted} within {share}");
}

#[test]
fn one_flow_is_the_trace_of_its_requests() {
    let controller = with(reference(4), |spec| {
        spec.controller = Some(Controller::default());
        assert!(spec.set("write_cache", &(1_u64 << 20).into()).expect("an option"));
    });
    let parallel = with(reference(4), |spec| spec.overlap = Overlap::Planes);
    for spec in [&reference(4), &parallel, &controller] {
        for (depth, feed) in [(Some(7), "closed:7"), (None, "open")] {
            let recipe = Recipe {
                reads: 0.5,
                addresses: Addresses::Zipf { theta: 0.9 },
                ..reads(3000, Arrivals::Poisson { per_second: 9000.0 }, 3)
            };
            let options = with(no_window(), |options| {
                options.set("feed", &feed.into()).expect("a feed");
            });
            let (wanted, wanted_series) = run(&mut drive(spec), &mut made(&recipe), None, &options).expect("a trace");
            let mut source = made(&recipe);
            let flows = vec![flow(&mut source, depth)];
            let (seen, series, each) =
                run_flows(&mut drive(spec), flows, &mut Some(Settled::default()), &no_window(), Extras::default())
                    .expect("flows");
            assert_eq!(seen, wanted, "{feed}");
            assert_eq!(series.rows, wanted_series.rows);
            assert_eq!((&each[0].reads, &each[0].writes), (&wanted.reads, &wanted.writes));
        }
    }
}

/// The mean response of reads of one page by one element: Pollaczek and Khinchine's formula for M/D/1.
fn m_d_1_ps(load: f64) -> f64 {
    let service_ps = SENSE as f64;
    service_ps * (1.0 + load / (2.0 * (1.0 - load))) + CHANNEL as f64
}

#[test]
fn open_loops_wait_together_as_one_poisson_process() {
    for load in [0.3, 0.7] {
        let per_second = load * 1e12 / SENSE as f64;
        let mut sources =
            [1, 2].map(|seed| made(&reads(150_000, Arrivals::Poisson { per_second: per_second / 2.0 }, seed)));
        let flows = sources.iter_mut().map(|source| flow(source, None)).collect();
        let (all, each) = run_on(&reference(1), flows, &no_window()).expect("flows");
        for tally in [&all, &each[0], &each[1]] {
            assert_near(mean_ps(tally), m_d_1_ps(load), 0.03);
        }
    }
}

#[test]
fn a_closed_loop_next_to_an_open_one_obeys_the_operational_laws() {
    let per_second = 0.4 * 1e12 / SENSE as f64;
    let (mut open, mut closed) =
        (made(&reads(40_000, Arrivals::Poisson { per_second }, 1)), made(&reads(u64::MAX, Arrivals::None, 2)));
    let background = Flow { is_background: true, ..flow(&mut closed, Some(3)) };
    let (all, each) = run_on(&reference(1), vec![flow(&mut open, None), background], &no_window()).expect("flows");
    let span_ps = all.last_completion_ps as f64;
    // Little's law: three are outstanding all the time.
    assert_near(each[1].transfers().response_ps as f64 / span_ps, 3.0, 0.01);
    // Utilisation: the closed loop takes what the open one leaves.
    assert_near((each[0].issued + each[1].issued) as f64 * SENSE as f64 / span_ps, 1.0, 0.01);
    assert_near(each[0].issued as f64 * SENSE as f64 / span_ps, 0.4, 0.02);
    assert_eq!(each.iter().map(|tally| tally.issued).sum::<u64>(), all.issued);
    // The background ends with the last of the others.
    assert!(each[1].last_issue_ps <= each[0].last_completion_ps);
}

#[test]
fn urgent_requests_wait_as_in_a_queue_with_priorities() {
    // Cobham's formula for two classes without preemption, one server of constant time.
    let (service_ps, loads) = ((SENSE + CHANNEL) as f64, [0.3, 0.4]);
    let per_second = loads.map(|load| load * 1e12 / service_ps);
    let mut sources = [0, 1].map(|number| {
        // Both end at about the same time.
        let (seed, requests) = (number as u64 + 1, (loads[number] * 5e5) as u64);
        made(&reads(requests, Arrivals::Poisson { per_second: per_second[number] }, seed))
    });
    let [urgent, other] = &mut sources;
    let flows = vec![Flow { is_urgent: true, ..flow(urgent, None) }, flow(other, None)];
    let options = with(RunOptions::default(), |options| options.window = Some(1));
    let (_, each) = run_on(&reference(1), flows, &options).expect("flows");
    let rest_ps = (loads[0] + loads[1]) * service_ps / 2.0;
    let waits_ps = [rest_ps / (1.0 - loads[0]), rest_ps / ((1.0 - loads[0]) * (1.0 - loads[0] - loads[1]))];
    for (tally, wait_ps) in each.iter().zip(waits_ps) {
        assert_near(mean_ps(tally), service_ps + wait_ps, 0.03);
    }
}

#[test]
fn each_flow_has_its_own_end() {
    let until_ps = 20 * SENSE;
    let recipe = reads(1000, Arrivals::None, 1);
    let mut sources = [made(&recipe), made(&reads(50, Arrivals::None, 2)), made(&recipe)];
    let [by_time, by_count, background] = &mut sources;
    let flows = vec![
        Flow { until_ps: Some(until_ps), ..flow(by_time, Some(1)) },
        flow(by_count, Some(1)),
        Flow { is_background: true, ..flow(background, Some(1)) },
    ];
    let (_, each) = run_on(&reference(1), flows, &no_window()).expect("flows");
    assert!(each[0].last_issue_ps < until_ps && each[0].last_completion_ps >= until_ps);
    assert_eq!(each[1].issued, 50);
    assert!(each[1].last_issue_ps > until_ps);
    assert!(each[2].last_issue_ps <= each[1].last_completion_ps && each[2].issued < 1000);
    assert!(each.iter().all(|tally| tally.unfinished == 0));
}

#[test]
fn what_flows_cannot_be_is_refused_by_name() {
    let recipe = reads(10, Arrivals::None, 1);
    let refused = |change: &dyn Fn(&mut Flow<'_>, &mut RunOptions)| {
        let (mut source, mut options) = (made(&recipe), no_window());
        let mut flow = flow(&mut source, Some(1));
        change(&mut flow, &mut options);
        run_on(&reference(1), vec![flow], &options).expect_err("refused").to_string()
    };
    assert_eq!(refused(&|flow, _| flow.depth = Some(0)), "depth is 0, expected at least 1");
    let said = "priority is 1, expected a window: without one no request waits in the host's queue";
    assert_eq!(refused(&|flow, _| flow.is_urgent = true), said);
    let said = "feed is other than open, expected open: each flow has its depth or its rate";
    assert_eq!(refused(&|_, options| assert!(options.set("feed", &"closed:2".into()).expect("a feed"))), said);
    let none = run_on(&reference(1), Vec::new(), &no_window()).expect_err("refused").to_string();
    assert_eq!(none, "flows is 0, expected 1 to 65535");
    let mut source = made(&recipe);
    let load = Load::Flows(vec![flow(&mut source, Some(1))]);
    let spec = reference(1);
    let plain = with(setup(&spec), |setup| setup.run = no_window());
    let before = with(plain.clone(), |setup| setup.buffer = Some(buffer_spec(&spec, "lru", 8, BufferMode::Reshape)));
    let said = simulate_from(Start::New, load, &before, None, &OneThread, &mut || true).expect_err("refused");
    assert_eq!(said.to_string(), "mode is reshape, expected inline, or no buffer, with several flows");
    let mut source = made(&recipe);
    let load = Load::Flows(vec![flow(&mut source, Some(1))]);
    let said = simulate_from(Start::New, load, &plain, Some(&mut Vec::new()), &OneThread, &mut || true);
    assert_eq!(said.expect_err("refused").to_string(), "the state: flows are not saved, only a run over a trace is");
}
