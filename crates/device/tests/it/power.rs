//! What a power cut leaves, against plain models: what a drive may keep, and what this one keeps as its model holds it.

use std::collections::BTreeMap;

use crate::drives::{Bench, History, PAGE, Setup, any_drive, runs};
use ioassay_block::{Kind, Request, SplitMix64};
use ioassay_device::{Op, Status};
use ioassay_sim::drive::Drive;
use ioassay_sim::engine::{Event, OnlineDrive};
use proptest::prelude::*;

const BLOCK: u64 = 512;

/// A random range of whole blocks.
fn range(chance: &mut SplitMix64, setup: &Setup) -> (u64, u64) {
    let blocks = setup.size_bytes() / BLOCK;
    let most = if chance.below_wide(4) == 0 { 64 } else { 8 };
    let length = 1 + chance.below_wide(most);
    let aligned = chance.below_wide(2) == 0;
    let offset = chance.below_wide(blocks - length + 1);
    let offset = if aligned { offset / 8 * 8 } else { offset };
    (offset * BLOCK, length * BLOCK)
}

/// Random commands at random times, and now and then a cut.
fn exercise(bench: &mut Bench, setup: &Setup, seed: u64, steps: u32) {
    let mut chance = SplitMix64(seed);
    let mut plain = History::new(setup.size_bytes(), BLOCK, setup.policy != "none");
    let mut answered = 0;
    for step in 0..steps {
        let value = (1 + step % 255) as u8;
        let (offset, length) = range(&mut chance, setup);
        match chance.below_wide(40) {
            0..2 => plain.flush(bench.flush()),
            2..5 => {
                let op = [Op::Trim, Op::WriteZeroes][chance.below_wide(2) as usize];
                let fua = chance.below_wide(4) == 0;
                plain.write(bench.submit(op, offset, length, fua, &[]), offset, length, 0, fua);
            }
            5 => {
                bench.drive.power_cut();
                bench.pass(0);
                plain.cut(&bench.content());
                answered = bench.answers.len();
            }
            _ => {
                let fua = chance.below_wide(8) == 0;
                let data = vec![value; length as usize];
                plain.write(bench.submit(Op::Write, offset, length, fua, &data), offset, length, value, fua);
            }
        }
        bench.pass_at_random(&mut chance);
        for answer in &bench.answers[answered..] {
            assert_eq!(answer.status, Status::Done);
            plain.answered(answer.command.tag.command);
        }
        answered = bench.answers.len();
    }
    // When all is answered and flushed, nothing is on its way any more.
    bench.settle();
    bench.flush();
    bench.settle();
    assert_eq!(bench.drive.report().volatile_pages, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_cut_leaves_what_a_drive_may_keep(setup in any_drive(48), seed: u64) {
        exercise(&mut Bench::new(&setup), &setup, seed, 150);
    }

    #[test]
    fn a_cut_leaves_the_same_in_the_backing_file(setup in any_drive(48), seed: u64) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("backing");
        let mut bench = Bench::backed(&setup, &path);
        let mut chance = SplitMix64(seed);
        for step in 0..60_u32 {
            let (offset, length) = range(&mut chance, &setup);
            match chance.below_wide(12) {
                0 => drop(bench.flush()),
                1 => drop(bench.ask(Op::Trim, offset, length)),
                _ => drop(bench.write(offset, &vec![(1 + step) as u8; length as usize])),
            }
            bench.pass(chance.below_wide(400_000_000));
        }
        bench.drive.power_cut();
        let file = std::fs::read(&path).expect("the file");
        // Some of the content may not have been read from it; then nobody has changed it.
        bench.ask(Op::Read, 0, setup.size_bytes());
        bench.settle();
        prop_assert!(file == bench.content());
    }

    #[test]
    fn a_cut_takes_exactly_what_the_model_has_not_programmed(setup in any_drive(48), seed: u64) {
        let setup = Setup { page_bytes: 4096, ..setup };
        let mut bench = Bench::new(&setup);
        let spec = setup.geometry().spec(setup.size_bytes()).expect("a drive");
        let buffer = setup.buffer().spec(&spec);
        let buffer = buffer.map(|buffer| buffer.make(&spec).expect("a policy"));
        let drive = Drive::new(&spec, u64::MAX).expect("a drive");
        let mut online = OnlineDrive::new(drive, buffer.flatten()).expect("an online drive");
        let mut chance = SplitMix64(seed);
        let (mut flash, mut values) = (Flash::default(), BTreeMap::new());
        for step in 0..100_u64 {
            let page = chance.below_wide(12);
            let value = (1 + step) as u8;
            bench.write(page * PAGE, &vec![value; PAGE as usize]);
            let request = Request {
                at_ns: 0,
                offset_bytes: page * PAGE,
                length_bytes: PAGE,
                device: 0,
                kind: Kind::Write,
            };
            online.submit(bench.now_ps(), &request).expect("a request");
            values.insert(step, value);
            bench.pass(chance.below_wide(200_000_000));
            let mut events = Vec::new();
            online.advance_to(bench.now_ps(), &mut events).expect("a drive");
            flash.follow(&events);
        }
        bench.drive.power_cut();
        let content = bench.content();
        for page in 0..setup.pages {
            let request = flash.durable.get(&(page as u32));
            let wanted = request.map_or(0, |request| values[request]);
            prop_assert_eq!(content[(page * PAGE) as usize], wanted, "page {}", page);
        }
    }
}

/// What flash has of each page, by the number of the request that wrote it: all is remembered, and nothing is clever.
#[derive(Default)]
struct Flash {
    buffered: BTreeMap<u32, u64>,
    leaving: Vec<(u32, u64)>,
    durable: BTreeMap<u32, u64>,
}

impl Flash {
    fn follow(&mut self, events: &[Event]) {
        for event in events {
            match *event {
                Event::Buffered { request, page } => drop(self.buffered.insert(page, request)),
                Event::Dropped { page } => drop(self.buffered.remove(&page)),
                Event::ProgramIssued { request, page } if request.is_none() => {
                    let request = self.buffered.remove(&page).expect("what was in the buffer");
                    self.leaving.push((page, request));
                }
                Event::ProgramIssued { .. } | Event::Complete { .. } => {}
                Event::Programmed { request, page } => {
                    let programmed = request.unwrap_or_else(|| {
                        let place = self.leaving.iter().position(|left| left.0 == page);
                        self.leaving.remove(place.expect("what left")).1
                    });
                    self.has(page, programmed);
                }
            }
        }
    }

    fn has(&mut self, page: u32, request: u64) {
        let newest = self.durable.entry(page).or_insert(request);
        *newest = request.max(*newest);
    }
}

#[test]
fn what_is_in_flight_at_a_cut_is_answered_so() {
    let mut bench = Bench::new(&Setup::default());
    bench.write(0, &[1; 4096]);
    bench.ask(Op::Read, 0, 4096);
    bench.flush();
    assert_eq!(bench.pass(1).len(), 0);
    assert_eq!(bench.drive.power_cut(), 1);
    assert!(bench.pass(0).iter().map(|answer| answer.status).eq([Status::PowerLost; 3]));
    assert_eq!((bench.drive.in_flight(), bench.drive.next_ps()), (0, None));
    // And it serves on.
    assert_eq!(bench.status(Op::Write, 0, 4096, 2), Status::Done);
    assert_eq!(bench.content()[0], 2);
    let state = bench.drive.report();
    assert_eq!((state.power_cuts, state.lost_pages), (1, 1));
}

#[test]
fn a_page_written_again_while_it_is_programmed_keeps_what_was_programmed() {
    let mut bench = Bench::new(&Setup { buffer_pages: 8, ..Setup::of("reference", "fifo") });
    bench.write(0, &[1; 4096]);
    bench.pass(10_000_000);
    // The flush sends it on its way; it is written again before flash has it.
    bench.flush();
    bench.pass(10_000_000);
    bench.write(0, &[2; 4096]);
    bench.pass(10_000_000);
    bench.settle();
    bench.drive.power_cut();
    assert_eq!(bench.content()[0], 1);
}

#[test]
fn without_a_model_all_that_is_answered_stays() {
    let mut bench = Bench::new(&Setup::of("none", "none"));
    bench.write(512, &[7; 1024]);
    assert_eq!(bench.pass(0).len(), 1);
    assert_eq!(bench.drive.power_cut(), 0);
    assert_eq!(runs(&bench.content()[..2048]), [(0, 512), (7, 1024), (0, 512)]);
}
