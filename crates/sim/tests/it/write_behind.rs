//! Write-behind: what leaves and when against a plain model, and that every policy's pages reach
//! flash once for each time that they were made dirty.

use crate::loads::{
    self, CHANNEL, Chance, Live, PROGRAM, buffer, drive, each, plain, properties, reference, small, tally,
};
use crate::loads::{with, write};
use ioassay_block::{Kind, Request};
use ioassay_sim::Error;
use ioassay_sim::drive::Spec;
use ioassay_sim::engine::{BufferMode, Destaging, Event, WriteBehind, WriteBuffer};
use ioassay_sim::policy::POLICIES;
use proptest::prelude::*;

fn inline(spec: &Spec, policy: &str, slots: usize, destaging: Destaging) -> WriteBuffer {
    let buffer = buffer(spec, policy, slots, BufferMode::Inline);
    let eager = buffer.policy.writes_behind();
    let destager = destaging.destager(BufferMode::Inline, eager, slots, spec.elements);
    WriteBuffer { destager: destager.expect("options that can be"), ..buffer }
}

/// A page on its way to flash. Of programs that end at the same time, the one that began first does.
struct Program {
    end_ps: u64,
    /// How many had begun before it, of all elements; the largest number while it waits.
    turn: u64,
    page: u32,
}

/// A drive whose elements take `PROGRAM` for a page, as a diary of what happens at which time.
struct Diary {
    slots: usize,
    /// Held pages may be `high` before some must go, until they are `low`.
    high: usize,
    low: usize,
    depth: Option<usize>,
    renews: bool,
    going: bool,
    held: Vec<u32>,
    programs: Vec<Program>,
    begun: u64,
    ends_ps: Vec<u64>,
    gone: Vec<u32>,
    hits: u64,
}

impl Diary {
    fn element(&self, page: u32) -> usize {
        page as usize % self.ends_ps.len()
    }

    fn go(&mut self, at: usize, now_ps: u64) {
        let page = self.held.remove(at);
        let element = self.element(page);
        let mut programs = self.programs.iter();
        let waits = programs.any(|program| self.element(program.page) == element);
        let end_ps = now_ps.max(self.ends_ps[element]) + PROGRAM;
        self.ends_ps[element] = end_ps;
        self.begun += u64::from(!waits);
        let turn = if waits { u64::MAX } else { self.begun };
        self.programs.push(Program { end_ps, turn, page });
        self.gone.push(page);
    }

    fn write_behind(&mut self, now_ps: u64) {
        loop {
            self.going = self.held.len() > if self.going { self.low } else { self.high };
            let able = |&page: &u32| {
                let element = self.element(page);
                let of = |program: &&Program| self.element(program.page) == element;
                match self.depth {
                    None => self.ends_ps[element] <= now_ps,
                    Some(depth) => self.programs.iter().filter(of).count() < depth,
                }
            };
            match self.held.iter().position(able) {
                Some(at) if self.going => self.go(at, now_ps),
                _ => return,
            }
        }
    }

    /// All programs that end by then, each with what follows from it.
    fn pass(&mut self, until_ps: u64) {
        let order = |program: &Program| (program.end_ps, program.turn);
        while let Some(at) = (0..self.programs.len()).min_by_key(|&at| order(&self.programs[at])) {
            if self.programs[at].end_ps > until_ps {
                return;
            }
            let done = self.programs.remove(at);
            let element = self.element(done.page);
            let elements = self.ends_ps.len();
            let next = |program: &&mut Program| program.page as usize % elements == element;
            if let Some(next) = self.programs.iter_mut().find(next) {
                self.begun += 1;
                next.turn = self.begun;
            }
            self.write_behind(done.end_ps);
        }
    }

    fn write(&mut self, page: u32, now_ps: u64) {
        self.pass(now_ps);
        let at = self.held.iter().position(|&held| held == page);
        self.hits += u64::from(at.is_some());
        if let Some(at) = at.filter(|_| self.renews) {
            self.held.remove(at);
        } else if at.is_none() && self.held.len() == self.slots {
            self.go(0, now_ps);
        }
        if at.is_none() || self.renews {
            self.held.push(page);
        }
        self.write_behind(now_ps);
    }
}

/// Submits requests and collects everything that happens.
fn served(spec: &Spec, buffer: WriteBuffer, load: &[Request]) -> Live {
    let mut live = Live::new(drive(spec), Some(buffer));
    for request in load {
        let at_ps = 1000 * request.at_ns;
        live.advance_to(at_ps - 1);
        live.submit(at_ps, request);
    }
    while let Some(next_ps) = live.drive.next_ps() {
        live.advance_to(next_ps);
    }
    live
}

properties! {
    #[test]
    fn pages_leave_as_a_plain_model_says(
        seed: u64, renews: bool, slots in 2_usize..40, elements in 1_u32..6, writes in 1_u64..400,
        gap_us in 0_u32..300, depth in 0_u32..4, high in 0.0_f64..0.999, low in 0.0_f64..1.0, given in 0_u32..3,
        range in 4_u32..90
    ) {
        let spec = Spec { pages_per_block: 4096, blocks_per_plane: 64, ..reference(elements) };
        let low = low * high;
        let destaging = Destaging {
            write_behind: if depth == 0 { WriteBehind::Idle } else { WriteBehind::Any },
            high_watermark: (given > 0).then_some(high),
            low_watermark: (given > 1).then_some(low),
            depth: (depth > 0).then_some(depth),
        };
        let of = |share: f64| (share * slots as f64) as usize;
        let high = if given > 0 { of(high) } else { slots - (elements as usize).min(slots / 8) };
        let mut diary = Diary {
            slots, high, low: if given > 1 { of(low) } else { high },
            depth: (depth > 0).then_some(depth as usize),
            renews, going: false, held: Vec::new(), programs: Vec::new(), begun: 0,
            ends_ps: vec![0; elements as usize], gone: Vec::new(), hits: 0,
        };
        let mut chance = Chance(seed);
        let (mut at_ns, mut crossed_ps) = (1, 0);
        let load = each(writes, |_| {
            at_ns += 1 + u64::from(chance.below(1000 * gap_us + 1));
            write(at_ns, u64::from(chance.below(range)), 1)
        });
        for request in &load {
            crossed_ps = crossed_ps.max(1000 * request.at_ns) + CHANNEL;
            diary.write((request.offset_bytes / 4096) as u32, crossed_ps);
        }
        diary.pass(u64::MAX);
        let policy = if renews { "lru" } else { "fifo" };
        let mut live = served(&spec, inline(&spec, policy, slots, destaging), &load);
        let gone: Vec<u32> = live.events.iter().filter_map(|event| match event {
            Event::ProgramIssued { page, .. } => Some(*page),
            _ => None,
        }).collect();
        prop_assert_eq!(gone, diary.gone);
        prop_assert_eq!(live.drive.buffered_pages(), diary.held.len() as u64);
        prop_assert_eq!(live.drive.take_tally().write_hits, diary.hits);
    }

    #[test]
    fn a_page_is_programmed_once_for_each_time_it_became_dirty(
        seed: u64, policy in 1..POLICIES.len(), slots in 4_usize..60, how in 0_usize..4, gap_us in 0_u32..200,
        high in 0.0_f64..0.999, low in 0.0_f64..1.0
    ) {
        let name = POLICIES[policy].name;
        let spec = small();
        let write_behind = [WriteBehind::Auto, WriteBehind::Off, WriteBehind::Idle, WriteBehind::Any][how];
        let eager = write_behind == WriteBehind::Auto && name == "idle-cold";
        let on = eager || matches!(write_behind, WriteBehind::Idle | WriteBehind::Any);
        let destaging = Destaging {
            write_behind,
            high_watermark: on.then_some(high),
            low_watermark: on.then_some(low * high),
            depth: None,
        };
        let mut chance = Chance(seed);
        let mut at_ns = 1;
        let load = each(400, |_| {
            at_ns += 1 + u64::from(chance.below(1000 * gap_us + 1));
            let kind = match chance.below(20) {
                0 => Kind::Trim,
                1 => return loads::flush(at_ns),
                2..5 => Kind::Read,
                _ => Kind::Write,
            };
            let pages = 1 + chance.below(3);
            loads::request(kind, at_ns, u64::from(chance.below(spec.pages() - pages)), u64::from(pages))
        });
        let mut live = served(&spec, inline(&spec, name, slots, destaging), &load);
        let by_request = |event: &Event| matches!(event, Event::ProgramIssued { request: Some(_), .. });
        prop_assert!(!live.events.iter().any(by_request));
        // No acknowledged page is lost: it is held, or it was programmed after its last write.
        let counts = live.consistent()?;
        let held = (0..spec.pages()).filter(|&page| live.drive.is_buffered(page)).count();
        prop_assert_eq!(held as u64, live.drive.buffered_pages());
        let tally = live.drive.take_tally();
        prop_assert_eq!((tally.write_hits, tally.evicted_pages), counts, "{}", name);
        prop_assert_eq!((live.drive.in_flight(), held <= slots), (0, true));
    }
}

#[test]
fn a_write_to_a_full_buffer_waits_only_without_write_behind() {
    let spec = reference(4);
    // To distinct pages, a millisecond apart.
    let load = each(200, |page| write(1_000_000 * page, page, 1));
    for entry in POLICIES.iter().filter(|entry| entry.name != "none") {
        for (write_behind, waits) in [(WriteBehind::Off, true), (WriteBehind::Idle, false)] {
            let destaging = with(Destaging::default(), |how| how.write_behind = write_behind);
            let buffer = inline(&spec, entry.name, 64, destaging);
            let run = tally(&spec, &load, Some(buffer), &plain());
            let has_waited = run.writes.response_ps > u128::from(200 * CHANNEL);
            assert_eq!(has_waited, waits, "{}", entry.name);
        }
    }
}

#[test]
fn a_destaged_page_is_read_from_its_slot_until_it_is_in_flash() {
    let spec = reference(2);
    let destaging = Destaging { write_behind: WriteBehind::Idle, high_watermark: Some(0.0), ..Destaging::default() };
    let load = [
        write(1_000_000, 0, 1), // goes at once
        loads::read(1_010_000, 0, 1),
        write(1_020_000, 0, 1), // no hit: it must be programmed again
        loads::read(3_000_000, 0, 1),
    ];
    let buffer = inline(&spec, "lru", 8, destaging);
    let run = tally(&spec, &load, Some(buffer), &plain());
    assert_eq!((run.buffered_reads, run.read_hits), (2, 1));
    assert_eq!((run.write_hits, run.evicted_pages), (0, 2));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    use BufferMode::{Inline, Reshape};
    use WriteBehind::{Any, Auto, Idle, Off};
    let refusal = |(write_behind, mode, high, low, depth)| {
        let destaging = Destaging { write_behind, high_watermark: high, low_watermark: low, depth };
        match destaging.destager(mode, false, 100, 8) {
            Err(Error::Option { name, .. }) => name,
            Err(error) => panic!("{error}"),
            Ok(destager) => destager.map_or("off", |_| "on"),
        }
    };
    for (given, expected) in [
        ((Auto, Inline, None, None, None), "off"),
        ((Off, Reshape, None, None, None), "off"),
        ((Idle, Inline, Some(0.5), Some(0.5), None), "on"),
        ((Any, Inline, Some(0.0), None, Some(3)), "on"),
        ((Idle, Reshape, None, None, None), "write_behind"),
        ((Any, Reshape, None, None, None), "write_behind"),
        ((Auto, Inline, Some(0.5), None, None), "high_watermark"),
        ((Off, Inline, None, Some(0.5), None), "low_watermark"),
        ((Off, Inline, None, None, Some(1)), "destage_depth"),
        ((Idle, Inline, None, None, Some(2)), "destage_depth"),
        ((Any, Inline, None, None, Some(0)), "destage_depth"),
        ((Idle, Inline, Some(1.0), None, None), "high_watermark"),
        ((Idle, Inline, Some(-0.1), None, None), "high_watermark"),
        ((Idle, Inline, Some(f64::NAN), None, None), "high_watermark"),
        ((Idle, Inline, Some(0.5), Some(0.6), None), "low_watermark"),
        ((Idle, Inline, None, Some(0.95), None), "low_watermark"),
    ] {
        assert_eq!(refusal(given), expected, "{given:?}");
    }
}
