//! Injected faults concern the commands that they name, and no others.

use crate::drives::{Bench, PAGE, Setup, is_all, runs, tag};
use ioassay_device::command::Drive;
use ioassay_device::faults::Fault;
use ioassay_device::{Op, Status};
use proptest::prelude::*;

const US: u64 = 1_000_000;
const LAST: u64 = 127 * PAGE;

fn fault(json: &str) -> Fault {
    serde_json::from_str(json).expect(json)
}

fn bench(model: &'static str, policy: &'static str) -> Bench {
    Bench::new(&Setup::of(model, policy))
}

fn with(json: &str) -> Bench {
    let mut bench = bench("none", "none");
    bench.write(0, &vec![7; 8 * PAGE as usize]);
    bench.settle();
    arm(&mut bench, json);
    bench
}

fn arm(bench: &mut Bench, json: &str) -> u64 {
    bench.drive.arm_faults(vec![fault(json)]).expect(json)[0]
}

fn fired(bench: &Bench) -> u64 {
    bench.drive.fault_reports()[0].fired
}

#[test]
fn errors_concern_their_operation_and_their_region_alone() {
    use Op::{Flush, Read, Trim, Write, WriteZeroes};
    use Status::{Done, Media};
    for (json, commands) in [
        (
            r#"{"kind":"read-error","offset_bytes":4096,"length_bytes":4096}"#,
            &[
                (Read, 0, PAGE, Done),
                (Read, 2 * PAGE, PAGE, Done),
                (Write, PAGE, PAGE, Done),
                (Read, PAGE + 512, 512, Media),
                (Read, 0, PAGE + 512, Media),
            ][..],
        ),
        (
            r#"{"kind":"write-error","op":["trim"]}"#,
            &[(Write, 0, PAGE, Done), (Trim, 0, PAGE, Media), (WriteZeroes, 0, PAGE, Media)],
        ),
        (r#"{"kind":"flush-error","count":1}"#, &[(Flush, 0, 0, Media), (Flush, 0, 0, Done)]),
        (
            r#"{"kind":"worn","length_bytes":8192,"endurance":2}"#,
            &[
                (Write, 0, 512, Done),
                (Write, 0, 512, Done),
                (Write, 0, 512, Media),
                (Write, 0, 512, Media),
                (Write, PAGE, 512, Done),
                (Write, 2 * PAGE, 512, Done),
            ],
        ),
    ] {
        let mut bench = with(json);
        for &(op, offset, length, wanted) in commands {
            assert_eq!(bench.status(op, offset, length, 9), wanted, "{json}: {op:?} at {offset}");
        }
        let failed = commands.iter().filter(|command| command.3 == Media).count() as u64;
        assert_eq!((fired(&bench), bench.drive.health().media_errors), (failed, failed), "{json}");
        assert!(!bench.content()[..8 * PAGE as usize].contains(&0), "{json}: nothing of a failed trim is done");
    }
}

#[test]
fn a_fault_has_its_time_its_period_and_its_number() {
    for (json, wanted_us) in [
        (r#"{"kind":"read-error","after_us":10,"for_us":5,"every_us":20,"skip":1,"count":3}"#, &[11, 12, 13][..]),
        (r#"{"kind":"read-error","after_us":10,"for_us":2,"every_us":20}"#, &[10, 11, 30, 31, 50, 51]),
    ] {
        let mut bench = with(json);
        let mut fails = |_: &u64| {
            let failed = bench.status(Op::Read, 0, 512, 0) == Status::Media;
            bench.pass(US);
            failed
        };
        let failed_us: Vec<u64> = (0..60).filter(&mut fails).collect();
        assert_eq!(failed_us, wanted_us, "{json}");
    }
}

#[test]
fn chance_comes_from_the_seed() {
    let of_seed = |seed: u32| -> Vec<bool> {
        let json = r#"{"kind":"read-error","probability":0.1,"seed":"#;
        let mut bench = with(&format!("{json}{seed}}}"));
        (0..2000).map(|_| bench.status(Op::Read, 0, 512, 0) == Status::Media).collect()
    };
    let first = of_seed(5);
    assert_eq!(first, of_seed(5));
    assert_ne!(first, of_seed(6));
    let count = first.iter().filter(|&&failed| failed).count();
    assert!((140..260).contains(&count), "{count}"); // 200 expected, deviation 13.4
}

#[test]
fn pages_that_are_bad_stay_bad() {
    let mut bench = with(r#"{"kind":"read-error","probability":0.2,"scope":"page","seed":3}"#);
    let mut read =
        || (0..128).map(|page| bench.status(Op::Read, page * PAGE, PAGE, 0) == Status::Media).collect::<Vec<_>>();
    let bad = read();
    assert_eq!(bad, read());
    let count = bad.iter().filter(|&&bad| bad).count();
    assert!((8..48).contains(&count), "{count}");
    // A command over several pages fails when one of them is bad.
    let first_bad = bad.iter().position(|&bad| bad).expect("one") as u64;
    assert_eq!(bench.status(Op::Read, 0, first_bad * PAGE + 512, 0), Status::Media);
}

#[test]
fn latency_is_added_to_the_models_and_throttling_is_a_rate() {
    let mut bench = bench("reference", "none");
    bench.ask(Op::Read, 0, PAGE);
    let without_ps = bench.settle()[0].deadline_ps;
    let begin_ps = bench.now_ps();
    arm(&mut bench, r#"{"kind":"latency","delay_us":250}"#);
    bench.ask(Op::Read, 0, PAGE);
    assert_eq!(bench.settle()[0].deadline_ps - begin_ps, without_ps + 250 * US);

    let mut bench = with(r#"{"kind":"throttle","bytes_per_s":1000000}"#);
    let begin_ps = bench.now_ps();
    for page in 0..4 {
        bench.ask(Op::Read, page * PAGE, PAGE);
    }
    let answers = bench.pass(1_000_000 * US);
    assert!(answers.iter().map(|one| (one.deadline_ps - begin_ps) / US).eq([4096, 8192, 12288, 16384]));
}

#[test]
fn lost_and_torn_writes_are_answered_and_done_in_part() {
    for model in ["none", "reference"] {
        let mut bench = bench(model, "none");
        bench.write(0, &vec![7; 4 * PAGE as usize]);
        bench.settle();
        arm(&mut bench, r#"{"kind":"lost-write","length_bytes":4096}"#);
        arm(&mut bench, r#"{"kind":"torn-write","offset_bytes":8192,"seed":4}"#);
        for page in 0..3 {
            bench.write(page * PAGE, &[9; PAGE as usize]);
        }
        bench.write(3 * PAGE, &[9; 512]);
        assert!(bench.settles_well());
        // The first page is lost, the third torn, and the last was written in part.
        let runs = runs(&bench.content()[..4 * PAGE as usize]);
        let written = runs[1].1 - PAGE as usize;
        assert!(written % 512 == 0 && (512..4096).contains(&written), "{written}");
        assert_eq!(runs, [(7, 4096), (9, 4096 + written), (7, 4096 - written), (9, 512), (7, 3584)]);
    }
}

#[test]
fn rotten_bits_are_in_flash_and_stay_until_they_are_written() {
    let mut bench = with(r#"{"kind":"bit-rot","count":1,"seed":11}"#);
    let before = bench.content();
    assert_eq!(bench.status(Op::Read, 0, 2 * PAGE, 9), Status::Done);
    let after = bench.content();
    let differ: u32 = before.iter().zip(&after).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert_eq!(differ, 1);
    assert_eq!(bench.status(Op::Read, 0, 2 * PAGE, 9), Status::Done);
    assert_eq!(bench.content(), after);
    assert_eq!(bench.status(Op::Write, 0, 2 * PAGE, 9), Status::Done);
    assert!(is_all(&bench.content()[..2 * PAGE as usize], 9));
    // What was never written has no cells that could rot.
    let mut bench = with(r#"{"kind":"bit-rot","bits":4096}"#);
    assert_eq!(bench.status(Op::Read, LAST, PAGE, 0), Status::Done);
    assert!(is_all(&bench.content()[LAST as usize..], 0));
}

#[test]
fn a_flush_that_is_ignored_keeps_nothing_from_a_power_loss() {
    for (json, kept) in [(r#"{"kind":"ignored-flush"}"#, false), (r#"{"kind":"ignored-flush","op":["write"]}"#, true)] {
        let mut bench = bench("reference", "lru");
        arm(&mut bench, json);
        bench.write(0, &[5; PAGE as usize]);
        bench.pass(10_000 * US);
        bench.flush();
        assert!(bench.settles_well());
        bench.drive.power_cut();
        assert_eq!(bench.content()[0] == 5, kept, "{json}");
    }
    // FUA is a flush of one write.
    let mut bench = bench("reference", "lru");
    arm(&mut bench, r#"{"kind":"ignored-flush"}"#);
    bench.submit(Op::Write, 0, PAGE, true, &[5; PAGE as usize]);
    bench.settle();
    bench.drive.power_cut();
    assert_eq!(bench.content()[0], 0);
}

#[test]
fn what_is_stuck_is_answered_when_the_fault_ends_is_cleared_or_the_host_aborts() {
    let mut bench = with(r#"{"kind":"stuck","for_us":100}"#);
    bench.ask(Op::Read, 0, 512);
    assert!(bench.pass(99 * US).is_empty());
    assert_eq!(bench.pass(US)[0].status, Status::Done);

    let clear = |bench: &mut Bench| {
        let id = bench.drive.fault_reports()[0].id;
        assert_eq!(bench.drive.clear_faults(Some(id + 1)), 0);
        assert!(bench.pass(US).is_empty());
        assert_eq!(bench.drive.clear_faults(Some(id)), 1);
    };
    let abort = |bench: &mut Bench| assert!(bench.drive.abort(tag(1)));
    let cut = |bench: &mut Bench| assert_eq!(bench.drive.power_cut(), 0);
    for (end, wanted) in [(clear as fn(&mut Bench), Status::Done), (abort, Status::Aborted), (cut, Status::PowerLost)] {
        let mut bench = with(r#"{"kind":"stuck","op":["read"]}"#);
        bench.ask(Op::Read, 0, 512);
        assert!(bench.pass(1_000_000_000 * US).is_empty());
        end(&mut bench);
        assert_eq!(bench.pass(0)[0].status, wanted);
        assert_eq!(bench.drive.in_flight(), 0);
    }
}

#[test]
fn resets_come_by_time_and_by_command() {
    let mut bench = with(r#"{"kind":"controller-reset","after_us":50,"every_us":100,"count":2}"#);
    let mut at_us = Vec::new();
    for us in 0..400 {
        if bench.drive.drops_connections() {
            at_us.push(us);
        }
        bench.pass(US);
    }
    assert_eq!(at_us, [50, 150]);

    let mut bench = with(r#"{"kind":"controller-reset","op":["write"],"skip":1,"count":1}"#);
    arm(&mut bench, r#"{"kind":"stuck","op":["read"]}"#);
    bench.ask(Op::Read, 0, 512);
    bench.write(0, &[9; 512]);
    assert!(bench.pass(0).iter().map(|one| one.status).eq([Status::Done]));
    assert!(!bench.drive.drops_connections());
    bench.write(0, &[1; 512]);
    assert!(bench.drive.drops_connections());
    assert!(bench.pass(0).iter().map(|one| one.status).eq([Status::Aborted, Status::Aborted]));
    assert!(!bench.drive.drops_connections());
}

#[test]
fn while_the_link_is_lost_nobody_is_served() {
    let mut bench = with(r#"{"kind":"link-loss","after_us":10,"down_us":100}"#);
    assert_eq!(bench.drive.next_ps(), Some(bench.now_ps() + 10 * US)); // a drive that sleeps wakes for it
    bench.pass(10 * US);
    assert!(bench.drive.drops_connections());
    bench.ask(Op::Read, 0, 512); // of a file that is mounted
    assert!(bench.pass(99 * US).is_empty());
    assert!(bench.drive.drops_connections());
    assert_eq!(bench.pass(US).len(), 1);
    assert!(!bench.drive.drops_connections());

    let mut bench = with(r#"{"kind":"link-loss","down_us":100}"#);
    assert!(bench.drive.drops_connections());
    bench.ask(Op::Read, 0, 512);
    assert_eq!(bench.drive.clear_faults(Some(1)), 1);
    assert!(!bench.drive.drops_connections());
    assert_eq!(bench.pass(0).len(), 1);
}

#[test]
fn a_worn_region_reads_slowly() {
    let mut bench = with(r#"{"kind":"worn","length_bytes":8192,"endurance":2,"delay_us":50}"#);
    bench.ask(Op::Read, 0, 512);
    assert!(bench.pass(49 * US).is_empty());
    assert_eq!(bench.pass(US)[0].status, Status::Done);
}

#[test]
fn what_cannot_be_is_refused_with_all_that_came_with_it() {
    let mut bench = bench("none", "none");
    for row in include_str!("wrong_faults.tsv").lines().skip(1) {
        let (json, name) = row.split_once('\t').expect("a row");
        let faults = vec![fault(r#"{"kind":"stuck"}"#), fault(json)];
        let error = bench.drive.arm_faults(faults).expect_err(json).to_string();
        assert!(error.starts_with(name), "{json}: {error}");
    }
    assert!(bench.drive.fault_reports().is_empty());
    assert!(bench.drive.arm_faults(vec![fault(r#"{"kind":"stuck"}"#); 65]).is_err());
}

const KINDS: &str = "read-error write-error flush-error latency throttle bit-rot lost-write \
    torn-write ignored-flush stuck controller-reset link-loss worn";

prop_compose! {
    fn any_fault()(
        kind in prop::sample::select(KINDS.split(' ').collect::<Vec<_>>()),
        offset in 0..128_u64, length in 1..64_u64, after in 0..500_u64, lasts in 1..300_u64, probability in 0.01..1.0_f64, seed: u64, skip in 0..4_u64,
    ) -> Fault {
        let mut fault = serde_json::json!({
            "kind": kind, "offset_bytes": offset * PAGE, "length_bytes": length * 512,
            "after_us": after, "for_us": lasts, "probability": probability, "seed": seed, "skip": skip,
        });
        let more = match kind {
            "latency" => ("delay_us", 40),
            "throttle" => ("bytes_per_s", 10_000_000),
            "link-loss" => ("down_us", 70),
            _ => ("endurance", 0),
        };
        fault[more.0] = more.1.into();
        serde_json::from_value(fault).expect("a fault")
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever faults there are: each command is answered once, and a drive without them is whole again.
    #[test]
    fn every_command_is_answered_once(
        faults in prop::collection::vec(any_fault(), 1..6),
        commands in prop::collection::vec((0..5_usize, 0..127_u64, 1..9_u64, any::<bool>(), 0..40_u64), 1..120),
        policy in prop::sample::select(vec!["none", "lru"]),
    ) {
        let mut bench = bench("reference", policy);
        bench.drive.arm_faults(faults).expect("they can be");
        for &(op, page, blocks, fua, pause_us) in &commands {
            let op = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes][op];
            let (offset, length) = if op == Op::Flush { (0, 0) } else { (page * PAGE, blocks * 512) };
            let data = vec![3; if op == Op::Write { length as usize } else { 0 }];
            bench.submit(op, offset, length, fua, &data);
            bench.drive.drops_connections();
            bench.pass(pause_us * US);
        }
        bench.settle();
        let mut answered: Vec<u64> = bench.answers.iter().map(|one| one.command.tag.command).collect();
        answered.sort_unstable();
        prop_assert!(answered.into_iter().eq(0..commands.len() as u64));
        bench.drive.clear_faults(None);
        bench.write(0, &vec![8; 128 * PAGE as usize]);
        bench.settle();
        bench.flush();
        prop_assert!(bench.settles_well());
        bench.drive.power_cut();
        prop_assert!(is_all(&bench.content(), 8));
    }
}
