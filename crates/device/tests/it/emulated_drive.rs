//! When commands are answered, what is refused, and what is counted.

use crate::drives::{Bench, PAGE, Setup, runs, tag};
use ioassay_block::SplitMix64;
use ioassay_device::command::Answer;
use ioassay_device::command::Drive;
use ioassay_device::emulated_drive::TransportOverhead;
use ioassay_device::{Op, Status};

/// A page over the channel of the reference drive, picoseconds.
const CHANNEL: u64 = 8 * 238_400;
const SENSED: u64 = 25_000_000 + 105_600_000;

#[test]
fn an_answer_is_due_when_the_model_says() {
    let mut bench = Bench::new(&Setup::default());
    bench.ask(Op::Read, 0, PAGE);
    let due_ps = SENSED + CHANNEL;
    assert!(bench.pass(0).is_empty());
    assert_eq!(bench.drive.next_ps(), Some(SENSED));
    assert!(bench.pass(due_ps - 1).is_empty());
    assert!(bench.pass(1).iter().map(|one| (one.deadline_ps, one.status)).eq([(due_ps, Status::Done)]));
}

#[test]
fn an_answer_leaves_earlier_by_what_its_transport_takes() {
    let mut bench = Bench::new(&Setup::default());
    bench.drive.set_overheads(vec![TransportOverhead { busy_ns: 8_000, alone_ns: 12_000 }]);
    for begin_ps in [0, 1_000_000_000_000] {
        bench.pass(begin_ps - bench.now_ps());
        bench.ask(Op::Read, 0, PAGE);
        assert_eq!(bench.pass(1_000_000_000)[0].deadline_ps, begin_ps + SENSED + CHANNEL - 12_000_000);
    }
    // A client with two on their way is awake.
    let begin_ps = bench.now_ps();
    bench.ask(Op::Read, 0, PAGE);
    bench.ask(Op::Read, PAGE, PAGE);
    assert_eq!(bench.pass(1_000_000_000)[0].deadline_ps, begin_ps + SENSED + CHANNEL - 8_000_000);
}

#[test]
fn without_a_model_all_is_answered_at_once() {
    let mut bench = Bench::new(&Setup::of("none", "none"));
    bench.write(0, &[3; 512]);
    bench.ask(Op::Read, 0, 512);
    bench.flush();
    bench.ask(Op::Trim, 0, 512);
    let answers = bench.pass(0).into_iter().map(|one| (one.command.tag.command, one.status, one.deadline_ps));
    assert!(answers.eq((0..4).map(|command| (command, Status::Done, 0))));
}

#[test]
fn what_the_drive_has_not_is_refused() {
    let setup = Setup::default();
    let mut bench = Bench::new(&setup);
    let end = setup.size_bytes();
    for (op, offset, length, data) in [
        (Op::Read, end, 512, 0),
        (Op::Read, end - 512, 1024, 0),
        (Op::Read, u64::MAX - 511, 1024, 0),
        (Op::Read, 100, 512, 0),
        (Op::Write, 0, 100, 100),
        (Op::Write, 0, 1024, 512),
        (Op::Trim, end, 512, 0),
        (Op::WriteZeroes, 1, 512, 0),
    ] {
        bench.submit(op, offset, length, false, &vec![0; data]);
        assert_eq!(bench.pass(0)[0].status, Status::OutOfRange, "{op:?} {offset} {length}");
    }
    bench.ask(Op::Read, end - 512, 512);
    bench.ask(Op::Write, 0, 0);
    assert!(bench.settles_well());
}

#[test]
fn trims_of_parts_of_pages_are_zeroes_and_no_more() {
    for model in ["reference", "none"] {
        let mut bench = Bench::new(&Setup::of(model, "none"));
        bench.write(0, &vec![9; 8 * PAGE as usize]);
        bench.settle();
        for op in [Op::Trim, Op::WriteZeroes] {
            bench.submit(op, 1024, 4 * PAGE, false, &[]);
            bench.submit(op, 6 * PAGE + 512, 512, false, &[]);
            bench.settle();
        }
        let page = PAGE as usize;
        let kept_and_not = [(9, 1024), (0, 4 * page), (9, 2 * page - 512), (0, 512), (9, 2 * page - 1024)];
        assert_eq!(runs(&bench.content()[..8 * page]), kept_and_not);
    }
}

#[test]
fn large_trims_let_others_pass() {
    for model in ["reference", "none"] {
        let setup = Setup { pages: 64 << 8, ..Setup::of(model, "none") }; // 64 MiB
        let mut bench = Bench::new(&setup);
        bench.write(0, &vec![9; 4 << 20]);
        bench.write(setup.size_bytes() - PAGE, &[9; PAGE as usize]);
        bench.settle();
        let trim = bench.ask(Op::Trim, 512, setup.size_bytes() - 512);
        let read = bench.ask(Op::Read, 0, 512);
        let commands: Vec<u64> = bench.settle().into_iter().map(|one| one.command.tag.command).collect();
        assert!(commands.contains(&trim) && commands.contains(&read));
        if model == "none" {
            assert_eq!(commands, [read, trim]);
        }
        assert_eq!(runs(&bench.content()), [(9, 512), (0, setup.size_bytes() as usize - 512)]);
        // Nothing of one that is under way is left after a cut.
        bench.ask(Op::Trim, 0, setup.size_bytes());
        bench.drive.power_cut();
        assert_eq!(bench.settle()[0].status, Status::PowerLost);
        assert_eq!((bench.drive.in_flight(), bench.drive.next_ps()), (0, None));
    }
}

#[test]
fn an_aborted_command_is_answered_now_and_its_number_means_nothing_later() {
    let setup = Setup::default();
    let mut bench = Bench::new(&setup);
    let write = bench.submit(Op::Write, 0, PAGE, false, &[7; PAGE as usize]);
    let trim = bench.ask(Op::Trim, PAGE, setup.size_bytes() - PAGE);
    let read = bench.ask(Op::Read, 0, PAGE);
    for command in [write, read] {
        assert!(bench.drive.abort(tag(command)) && !bench.drive.abort(tag(command)));
    }
    let ended = |answers: &[Answer]| -> Vec<(u64, Status)> {
        answers.iter().map(|one| (one.command.tag.command, one.status)).collect()
    };
    assert_eq!(ended(&bench.pass(0)), [(write, Status::Aborted), (read, Status::Aborted)]);
    // What takes their places is answered when it is done, not when they would have been.
    let next = bench.submit(Op::Write, 0, PAGE, false, &[8; PAGE as usize]);
    let settled = ended(&bench.settle());
    assert!(settled.contains(&(next, Status::Done)) && settled.contains(&(trim, Status::Done)));
    assert_eq!(settled.len(), 2);
    assert_eq!((bench.drive.in_flight(), bench.drive.next_ps()), (0, None));
    assert_eq!(bench.content()[..PAGE as usize], [8; PAGE as usize]);
}

#[test]
fn the_counts_add_up() {
    let mut bench = Bench::new(&Setup::of("reference", "lru"));
    let mut chance = SplitMix64(5);
    let (mut commands, mut bytes) = ([0_u64; 4], [0_u64; 4]);
    for _ in 0..500 {
        let kind = chance.below_wide(4) as usize;
        let (page, pages) = (chance.below_wide(60), 1 + chance.below_wide(4));
        let (offset, length) = (page * PAGE, pages * PAGE);
        match kind {
            0 => drop(bench.ask(Op::Read, offset, length)),
            1 => drop(bench.write(offset, &vec![1; length as usize])),
            2 => drop(bench.ask(Op::Trim, offset, length)),
            _ => drop(bench.flush()),
        }
        commands[kind] += 1;
        bytes[kind] += if kind == 3 { 0 } else { length };
        bench.pass(chance.below_wide(500_000_000));
    }
    bench.ask(Op::Read, 1, 1);
    bench.settle();
    let state = bench.drive.report();
    let seen = serde_json::to_value(&state).expect("JSON");
    for (op, (commands, bytes)) in
        ["reads", "writes", "trims", "flushes"].into_iter().zip(commands.into_iter().zip(bytes))
    {
        let latency = &seen[op]["latency_ns"];
        let buckets = latency["buckets"].as_array().expect("buckets");
        let counted = [&seen[op]["commands"], &seen[op]["bytes"], &latency["count"]];
        assert_eq!(counted, [commands, bytes, commands]);
        assert_eq!(buckets.iter().filter_map(|bucket| bucket[1].as_u64()).sum::<u64>(), commands);
    }
    assert_eq!([&seen["reads"]["errors"], &seen["writes"]["errors"]], [1, 0]);
    assert_eq!([&seen["late_ns"]["count"], &seen["depth"]["count"], &seen["depth"]["min"]], [501, 501, 1]);
    assert_eq!(state.depth_now, 0);
    let buffer = state.buffer.expect("a buffer");
    assert_eq!(buffer.written_pages, bytes[1] / PAGE);
    assert_eq!(buffer.read_pages, bytes[0] / PAGE);
    let flash = state.flash.expect("flash").counters;
    assert!(flash.written_pages > 0 && flash.written_pages <= buffer.written_pages);
    assert!(state.busy_s > 0.0 && state.busy_s <= state.counted_s);
    let health = bench.drive.health();
    assert_eq!((health.reads, health.read_bytes), (commands[0], bytes[0]));
    assert_eq!((health.writes, health.written_bytes), (commands[1], bytes[1]));
    // What goes on counts as busy already.
    let busy_us = health.busy_us;
    bench.ask(Op::Read, 0, PAGE);
    bench.pass(1_000_000);
    assert_eq!(bench.drive.health().busy_us, busy_us + 1);
    bench.settle();

    bench.drive.reset_counters();
    let state = bench.drive.report();
    assert_eq!((state.counters.blocks.reads.counters.commands, state.counters.late_ns.count()), (0, 0));
    assert_eq!(state.flash.expect("flash").counters.written_pages, 0);
    assert_eq!(state.buffer.expect("a buffer").written_pages, 0);
    assert_eq!(bench.drive.health().reads, commands[0] + 1);
    bench.drive.reset_all_counters();
    assert_eq!(bench.drive.health().reads, 0);
}

#[test]
fn a_drive_that_is_worn_out_can_be_read() {
    let setup = Setup { pages: 512, ..Setup::default() };
    let geometry = setup.geometry().with("endurance", 3);
    let mut bench = Bench::with(&setup, &geometry, None);
    let mut written = 0_u64;
    let mut chance = SplitMix64(1);
    loop {
        match bench.status(Op::Write, chance.below_wide(setup.pages) * PAGE, PAGE, 1) {
            Status::Done => written += 1,
            Status::Failed => break,
            other => panic!("{other:?}"),
        }
        assert!(written < 1_000_000, "it never wears out");
    }
    let ops = [(Op::Write, PAGE, Status::ReadOnly), (Op::Read, PAGE, Status::Done), (Op::Flush, 0, Status::Done)];
    for (op, length, status) in ops {
        assert_eq!(bench.status(op, 0, length, 2), status);
    }
    assert!(bench.drive.facts().read_only);
    assert!(bench.drive.report().worn_out.is_some());
    assert!(bench.drive.health().percentage_used >= 90);
}

#[test]
fn many_large_trims_at_once_are_no_longer_work_than_one() {
    const MIB: u64 = 1 << 20;
    let mut bench = Bench::new(&Setup { pages: 16384, ..Setup::of("none", "none") });
    bench.write(0, &vec![1; 64 << 20]);
    bench.settle();
    for number in 0..4 {
        bench.ask(Op::Trim, number * 16 * MIB, 16 * MIB);
    }
    let zeroes = |bench: &Bench| bench.content().chunks(512).filter(|block| block[0] == 0).count();
    assert_eq!(zeroes(&bench) as u64, 4 * MIB / 512); // others have their turn
    assert_eq!(bench.settle().len(), 4);
    assert_eq!(zeroes(&bench) as u64, 64 * MIB / 512);
}
