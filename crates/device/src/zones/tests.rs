//! What resets, wear and power losses leave of zones, and random steps compared with a plain model that is written
//! from the specification's tables alone.

use proptest::prelude::*;

use super::{ZoneAction as Action, ZoneState as State, *};

const ZONE: u64 = 1 << 20;
const CAPACITY: u64 = 3 << 18;
const CAPACITY_BLOCKS: u64 = CAPACITY / 4096;

fn geometry(count: u32, most_open: u32, most_active: u32) -> ZoneGeometry {
    ZoneGeometry { count, zone_bytes: ZONE, capacity_bytes: CAPACITY, most_open, most_active, append_bytes: 1 << 20 }
}

fn zones() -> Zones {
    Zones::new(geometry(8, 2, 3))
}

fn states(zones: &Zones) -> Vec<State> {
    zones.all().iter().map(|zone| zone.state).collect()
}

/// Writes where that is allowed.
fn write(zones: &mut Zones, offset: u64, length: u64) -> Result<(), ZoneError> {
    zones.check_write(offset, length)?;
    zones.write(offset, length);
    Ok(())
}

/// A step on zones: writes of blocks of 4 KiB begin `off` blocks behind the write pointer.
#[derive(Debug, Clone)]
enum Step {
    Write { zone: usize, off: u64, blocks: u64 },
    Append { zone: usize, blocks: u64 },
    Act { action: Action, zone: Option<usize> },
    Wear { zone: usize },
}

fn take_step(zones: &mut Zones, step: &Step) -> Result<(), ZoneError> {
    match *step {
        Step::Write { zone, off, blocks } => {
            let at = zones.all()[zone].write_pointer_bytes + off * 4096;
            write(zones, at, blocks * 4096)
        }
        Step::Append { zone, blocks } => {
            let at = zones.append_at(zone as u64 * ZONE, blocks * 4096)?;
            assert_eq!(at, zones.all()[zone].write_pointer_bytes);
            zones.write(at, blocks * 4096);
            Ok(())
        }
        Step::Act { action, zone } => zones.manage(action, zone.map(|zone| zone as u64 * ZONE)).map(drop),
        Step::Wear { zone } => {
            zones.wear_out(zone as u32);
            Ok(())
        }
    }
}

#[test]
fn without_more_than_a_size_there_are_no_limits() {
    let options = ZoneOptions { zone_bytes: ZONE, ..ZoneOptions::default() };
    let all = ZoneGeometry { capacity_bytes: ZONE, ..geometry(16, 16, 16) };
    assert_eq!(ZoneGeometry::new(&options, 16 * ZONE, 512, 4096, 1 << 20).unwrap(), all);
}

#[test]
#[allow(clippy::single_range_in_vec_init)] // ranges are what is discarded
fn a_reset_says_what_is_to_be_discarded() {
    let mut zones = zones();
    write(&mut zones, 0, CAPACITY).unwrap();
    write(&mut zones, ZONE, 512).unwrap();
    assert_eq!(zones.manage(Action::Reset, Some(5 * ZONE)), Ok(vec![]));
    assert_eq!(zones.manage(Action::Reset, Some(0)), Ok(vec![0..CAPACITY]));
    assert_eq!(zones.all()[0].write_pointer_bytes, 0);
    assert_eq!(zones.manage(Action::Finish, Some(2 * ZONE)), Ok(vec![]));
    assert_eq!(zones.manage(Action::Reset, None), Ok(vec![ZONE..ZONE + 512]));
    assert!(states(&zones).iter().all(|state| *state == State::Empty));
    assert_eq!(zones.manage(Action::Reset, Some(512)), Err(ZoneError::NotAZone));
    assert_eq!(zones.append_at(512, 4096), Err(ZoneError::NotAZone));
    assert_eq!(zones.counts().resets, 4);
}

#[test]
fn after_a_power_loss_zones_end_where_they_are_durable() {
    let mut zones = zones();
    write(&mut zones, 0, 4096).unwrap();
    write(&mut zones, ZONE, CAPACITY).unwrap();
    write(&mut zones, 2 * ZONE, 4096).unwrap();
    zones.manage(Action::Finish, Some(2 * ZONE)).unwrap();
    zones.manage(Action::Open, Some(3 * ZONE)).unwrap();
    zones.set_durable(0, 1024);
    zones.set_durable(1, ZONE + 512);
    let mut lost = Vec::new();
    zones.lose_power(|range| lost.push(range));
    assert_eq!(lost, [1024..4096, ZONE + 512..ZONE + CAPACITY, 2 * ZONE..2 * ZONE + 4096]);
    assert_eq!(states(&zones)[..4], [State::Closed, State::Closed, State::Full, State::Empty]);
    assert_eq!(zones.all()[1].write_pointer_bytes, ZONE + 512);
    assert_eq!((zones.open, zones.active), (0, 2));
}

#[test]
fn zones_that_lost_their_ends_are_never_more_than_can_be_active() {
    let mut zones = zones();
    for number in 0..5 {
        write(&mut zones, number * ZONE, CAPACITY).unwrap();
        zones.set_durable(number as u32, number * ZONE + 512);
    }
    zones.lose_power(|_| {});
    assert_eq!(zones.active, 3);
    let finished = [State::Full, State::Full, State::Closed];
    assert_eq!(states(&zones)[..3], finished, "those written first");
}

#[test]
fn a_table_gives_the_zones_of_a_drive_that_ended() {
    let mut zones = zones();
    write(&mut zones, 0, 4096).unwrap();
    zones.set_durable(0, 4096);
    write(&mut zones, ZONE, CAPACITY).unwrap();
    zones.set_durable(1, ZONE + 8192);
    zones.wear_out(2);
    zones.manage(Action::Finish, Some(3 * ZONE)).unwrap();
    zones.manage(Action::Open, Some(4 * ZONE)).unwrap();
    let table = zones.table();
    let again = Zones::from_table(geometry(8, 2, 3), &table).unwrap();
    zones.lose_power(|_| {});
    assert_eq!(states(&again), states(&zones));
    for (is, was) in again.all().iter().zip(zones.all()) {
        assert_eq!(is.write_pointer_bytes, was.write_pointer_bytes);
    }
}

#[test]
fn a_table_that_cannot_be_is_refused() {
    let zones = zones();
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut table = zones.table();
        change(&mut table);
        Zones::from_table(*zones.geometry(), &table).expect_err("it cannot be")
    };
    assert_eq!(refused(&Vec::clear), TableError::Absent);
    assert_eq!(refused(&|table| table[4096] = 0), TableError::Absent);
    assert_eq!(refused(&|table| table[16] = 9), TableError::Damaged { number: 1 });
    assert_eq!(refused(&|table| table[24] = 9), TableError::Damaged { number: 1 });
    assert_eq!(
        refused(&|table| (table[16], table[27]) = (4, 12)),
        TableError::Damaged { number: 1 },
        "a closed zone whose pointer is at its end"
    );
    assert!(matches!(refused(&|table| table[4096 + 33] = 1), TableError::Other { .. }));
}

/// Zones as the specification describes them, each fact kept in the plainest way.
#[derive(Debug, Clone)]
struct Plain {
    state: Vec<State>,
    /// Blocks of each zone.
    written: Vec<u64>,
    /// Zones in the order of their latest writes.
    recent: Vec<usize>,
    most_open: usize,
    most_active: usize,
}

const OPEN: [State; 2] = [State::ImplicitlyOpened, State::ExplicitlyOpened];
const ACTIVE: [State; 3] = [State::ImplicitlyOpened, State::ExplicitlyOpened, State::Closed];

impl Plain {
    fn many(&self, states: &[State]) -> usize {
        self.state.iter().filter(|state| states.contains(state)).count()
    }

    fn take_resources(&mut self, zone: usize) -> Result<(), ZoneError> {
        if !ACTIVE.contains(&self.state[zone]) && self.many(&ACTIVE) >= self.most_active {
            return Err(ZoneError::TooManyActive);
        }
        if self.many(&OPEN) < self.most_open {
            return Ok(());
        }
        let oldest = self.recent.iter().copied().find(|&zone| self.state[zone] == State::ImplicitlyOpened);
        self.state[oldest.ok_or(ZoneError::TooManyOpen)?] = State::Closed;
        Ok(())
    }

    fn write(&mut self, zone: usize, off: u64, blocks: u64) -> Result<(), ZoneError> {
        match self.state[zone] {
            State::Full => return Err(ZoneError::Full),
            State::ReadOnly => return Err(ZoneError::ReadOnly),
            State::Offline => return Err(ZoneError::Offline),
            _ if off > 0 => return Err(ZoneError::InvalidWrite),
            _ if self.written[zone] + blocks > CAPACITY_BLOCKS => return Err(ZoneError::Boundary),
            State::Empty | State::Closed => {
                self.take_resources(zone)?;
                self.state[zone] = State::ImplicitlyOpened;
            }
            State::ImplicitlyOpened | State::ExplicitlyOpened => {}
        }
        self.written[zone] += blocks;
        self.recent.retain(|&other| other != zone);
        self.recent.push(zone);
        if self.written[zone] == CAPACITY_BLOCKS {
            self.state[zone] = State::Full;
        }
        Ok(())
    }

    fn act(&mut self, action: Action, zone: usize) -> Result<(), ZoneError> {
        let state = self.state[zone];
        let is_gone = [State::ReadOnly, State::Offline].contains(&state);
        self.state[zone] = match action {
            Action::Close if ACTIVE.contains(&state) => State::Closed,
            Action::Finish if !is_gone => State::Full,
            Action::Open if OPEN.contains(&state) => State::ExplicitlyOpened,
            Action::Open if [State::Empty, State::Closed].contains(&state) => {
                self.take_resources(zone)?;
                State::ExplicitlyOpened
            }
            Action::Reset if !is_gone => {
                self.written[zone] = 0;
                State::Empty
            }
            Action::Offline if is_gone => State::Offline,
            _ => return Err(ZoneError::InvalidTransition),
        };
        Ok(())
    }

    fn act_on_all(&mut self, action: Action) -> Result<(), ZoneError> {
        let concerned: &[State] = match action {
            Action::Close => &OPEN,
            Action::Finish => &ACTIVE,
            Action::Open => &[State::Closed],
            Action::Reset => &[State::ImplicitlyOpened, State::ExplicitlyOpened, State::Closed, State::Full],
            Action::Offline => &[State::ReadOnly],
        };
        if action == Action::Open && self.many(&OPEN) + self.many(concerned) > self.most_open {
            return Err(ZoneError::TooManyOpen);
        }
        for zone in 0..self.state.len() {
            if concerned.contains(&self.state[zone]) {
                self.act(action, zone)?;
            }
        }
        Ok(())
    }

    fn take_step(&mut self, step: &Step) -> Result<(), ZoneError> {
        match *step {
            Step::Write { zone, off, blocks } => self.write(zone, off, blocks),
            Step::Append { zone, blocks } => self.write(zone, 0, blocks),
            Step::Act { action, zone: Some(zone) } => self.act(action, zone),
            Step::Act { action, zone: None } => self.act_on_all(action),
            Step::Wear { zone } => {
                if self.state[zone] != State::Offline {
                    self.state[zone] = State::ReadOnly;
                }
                Ok(())
            }
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let actions =
        prop::sample::select(vec![Action::Close, Action::Finish, Action::Open, Action::Reset, Action::Offline]);
    let blocks = || prop_oneof![4 => 1_u64..64, 1 => Just(CAPACITY_BLOCKS)];
    let off = prop_oneof![9 => Just(0_u64), 1 => 1_u64..3];
    let step = prop_oneof![
        6 => (0_usize..6, off, blocks()).prop_map(|(zone, off, blocks)| Step::Write { zone, off, blocks }),
        4 => (0_usize..6, blocks()).prop_map(|(zone, blocks)| Step::Append { zone, blocks }),
        4 => (actions, proptest::option::weighted(0.8, 0_usize..6))
            .prop_map(|(action, zone)| Step::Act { action, zone }),
        1 => (0_usize..6).prop_map(|zone| Step::Wear { zone }),
    ];
    proptest::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn zones_do_what_a_plain_model_does(steps in steps(), limits in (1_u32..4, 0_u32..3)) {
        let (most_open, most_active) = (limits.0, limits.0 + limits.1);
        let mut zones = Zones::new(geometry(6, most_open, most_active));
        let mut plain = Plain {
            state: vec![State::Empty; 6],
            written: vec![0; 6],
            recent: Vec::new(),
            most_open: most_open as usize,
            most_active: most_active as usize,
        };
        for step in steps {
            prop_assert_eq!(take_step(&mut zones, &step), plain.take_step(&step));
            prop_assert_eq!(states(&zones), &plain.state[..]);
            for (start, (zone, blocks)) in (0..).step_by(ZONE as usize).zip(zones.all().iter().zip(&plain.written)) {
                prop_assert_eq!(zone.write_pointer_bytes, start + blocks * 4096);
                let is_gone = [State::ReadOnly, State::Offline].contains(&zone.state);
                prop_assert_eq!(zones.check_read(start..start + ZONE).is_err(), zone.state == State::Offline);
                prop_assert_eq!(zones.check_deallocate(start..start + ZONE).is_err(), is_gone);
                let changed = zones.changed().iter().filter(|&&number| zones.start_bytes(number) == start).count();
                prop_assert_eq!(changed, usize::from(is_gone));
            }
            let counts = (zones.open as usize, zones.active as usize);
            prop_assert_eq!(counts, (plain.many(&OPEN), plain.many(&ACTIVE)));
        }
    }
}
