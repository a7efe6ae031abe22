//! Exact steps of zones, and random ones beside a plain model that is written from the specification's tables alone.

use proptest::prelude::*;

use super::*;

const ZONE: u64 = 1 << 20;
const CAPACITY: u64 = 3 << 18;

fn geometry(count: u32, most_open: u32, most_active: u32) -> ZoneGeometry {
    ZoneGeometry { count, zone_bytes: ZONE, capacity_bytes: CAPACITY, most_open, most_active, append_bytes: 1 << 20 }
}

fn zones() -> Zones {
    Zones::new(geometry(8, 2, 3))
}

fn states(zones: &Zones) -> Vec<ZoneState> {
    zones.all().iter().map(|zone| zone.state).collect()
}

/// Writes where that is allowed.
fn write(zones: &mut Zones, offset: u64, length: u64) -> Result<(), ZoneError> {
    zones.check_write(offset, length)?;
    zones.write(offset, length);
    Ok(())
}

#[test]
fn a_write_opens_a_zone_moves_its_pointer_and_fills_it() {
    let mut zones = zones();
    assert_eq!(write(&mut zones, ZONE + 512, 512), Err(ZoneError::InvalidWrite));
    assert_eq!(write(&mut zones, ZONE, 512), Ok(()));
    assert_eq!(zones.all()[1].state, ZoneState::ImplicitlyOpened);
    assert_eq!(zones.all()[1].write_pointer_bytes, ZONE + 512);
    assert_eq!(write(&mut zones, ZONE, 512), Err(ZoneError::InvalidWrite));
    assert_eq!(write(&mut zones, ZONE + 512, CAPACITY), Err(ZoneError::Boundary));
    assert_eq!(write(&mut zones, ZONE + 512, CAPACITY - 512), Ok(()));
    assert_eq!(zones.all()[1].state, ZoneState::Full);
    assert_eq!(write(&mut zones, ZONE + CAPACITY, 512), Err(ZoneError::Full));
    assert_eq!((zones.open, zones.active), (0, 0));
}

#[test]
fn an_append_is_placed_at_the_write_pointer() {
    let mut zones = zones();
    for number in 0..3 {
        assert_eq!(zones.append_at(ZONE, 4096), Ok(ZONE + number * 4096));
        zones.write(ZONE + number * 4096, 4096);
    }
    assert_eq!(zones.append_at(ZONE + 4096, 4096), Err(ZoneError::NotAZone));
    assert_eq!(zones.append_at(ZONE, CAPACITY), Err(ZoneError::Boundary));
    zones.write(ZONE + 3 * 4096, CAPACITY - 3 * 4096);
    assert_eq!(zones.append_at(ZONE, 4096), Err(ZoneError::Full));
}

#[test]
fn the_implicitly_opened_zone_that_was_written_least_recently_makes_room() {
    let mut zones = zones();
    write(&mut zones, 0, 512).unwrap();
    write(&mut zones, ZONE, 512).unwrap();
    write(&mut zones, 512, 512).unwrap();
    write(&mut zones, 2 * ZONE, 512).unwrap();
    let [first, second, third] = [0, 1, 2].map(|number| zones.all()[number].state);
    assert_eq!((first, second, third), (ZoneState::ImplicitlyOpened, ZoneState::Closed, ZoneState::ImplicitlyOpened));
    assert_eq!(write(&mut zones, 3 * ZONE, 512), Err(ZoneError::TooManyActive));
    assert_eq!(write(&mut zones, ZONE + 512, 512), Ok(()), "a closed zone is active");
    assert_eq!(zones.all()[0].state, ZoneState::Closed);
}

#[test]
fn explicitly_opened_zones_make_no_room() {
    let mut zones = zones();
    for number in 0..2 {
        assert_eq!(zones.manage(ZoneAction::Open, Some(number * ZONE)), Ok(vec![]));
    }
    assert_eq!(zones.manage(ZoneAction::Open, Some(2 * ZONE)), Err(ZoneError::TooManyOpen));
    assert_eq!(write(&mut zones, 2 * ZONE, 512), Err(ZoneError::TooManyOpen));
    assert_eq!(zones.manage(ZoneAction::Close, Some(0)), Ok(vec![]));
    assert_eq!(write(&mut zones, 2 * ZONE, 512), Ok(()));
    assert_eq!(zones.manage(ZoneAction::Open, None), Err(ZoneError::TooManyOpen));
    assert_eq!(zones.manage(ZoneAction::Open, Some(3 * ZONE)), Err(ZoneError::TooManyActive));
}

#[test]
fn a_reset_says_what_is_to_be_discarded() {
    let mut zones = zones();
    write(&mut zones, 0, CAPACITY).unwrap();
    write(&mut zones, ZONE, 512).unwrap();
    assert_eq!(zones.manage(ZoneAction::Reset, Some(5 * ZONE)), Ok(vec![]));
    assert_eq!(zones.manage(ZoneAction::Reset, Some(0)), Ok(vec![0]));
    assert_eq!(zones.all()[0].write_pointer_bytes, 0);
    assert_eq!(zones.manage(ZoneAction::Finish, Some(2 * ZONE)), Ok(vec![]));
    assert_eq!(zones.manage(ZoneAction::Reset, None), Ok(vec![1, 2]));
    assert!(states(&zones).iter().all(|state| *state == ZoneState::Empty));
    assert_eq!(zones.manage(ZoneAction::Reset, Some(512)), Err(ZoneError::NotAZone));
    assert_eq!(zones.counts().resets, 4);
}

#[test]
fn a_worn_zone_can_be_read_until_it_is_given_up() {
    let mut zones = zones();
    write(&mut zones, 0, 512).unwrap();
    assert!(zones.wear_out(0) && !zones.wear_out(0));
    assert_eq!(zones.changed(), [0]);
    assert_eq!(write(&mut zones, 512, 512), Err(ZoneError::ReadOnly));
    assert_eq!(zones.check_deallocate(0..512), Err(ZoneError::ReadOnly));
    assert_eq!(zones.check_read(0..2 * ZONE), Ok(()));
    for action in [ZoneAction::Open, ZoneAction::Close, ZoneAction::Finish, ZoneAction::Reset] {
        assert_eq!(zones.manage(action, Some(0)), Err(ZoneError::InvalidTransition));
    }
    assert_eq!(zones.manage(ZoneAction::Offline, Some(ZONE)), Err(ZoneError::InvalidTransition));
    assert_eq!(zones.manage(ZoneAction::Offline, Some(0)), Ok(vec![]));
    assert_eq!(zones.check_read(512..1024), Err(ZoneError::Offline));
    assert_eq!(zones.check_read(ZONE..2 * ZONE), Ok(()));
    assert_eq!(write(&mut zones, 512, 512), Err(ZoneError::Offline));
}

#[test]
fn after_a_power_loss_zones_end_where_they_are_durable() {
    let mut zones = zones();
    write(&mut zones, 0, 4096).unwrap();
    write(&mut zones, ZONE, CAPACITY).unwrap();
    write(&mut zones, 2 * ZONE, 4096).unwrap();
    zones.manage(ZoneAction::Finish, Some(2 * ZONE)).unwrap();
    zones.manage(ZoneAction::Open, Some(3 * ZONE)).unwrap();
    zones.set_durable(0, 1024);
    zones.set_durable(1, ZONE + 512);
    let mut lost = Vec::new();
    zones.lose_power(|range| lost.push(range));
    assert_eq!(lost, [1024..4096, ZONE + 512..ZONE + CAPACITY, 2 * ZONE..2 * ZONE + 4096]);
    assert_eq!(states(&zones)[..4], [ZoneState::Closed, ZoneState::Closed, ZoneState::Full, ZoneState::Empty]);
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
    let finished = [ZoneState::Full, ZoneState::Full, ZoneState::Closed];
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
    zones.manage(ZoneAction::Finish, Some(3 * ZONE)).unwrap();
    zones.manage(ZoneAction::Open, Some(4 * ZONE)).unwrap();
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

/// Zones as the specification describes them, by name, each fact kept in the plainest way.
#[derive(Debug, Clone)]
struct Plain {
    state: Vec<&'static str>,
    written: Vec<u64>,
    /// Zones in the order of their latest writes.
    recent: Vec<usize>,
    most_open: usize,
    most_active: usize,
}

impl Plain {
    fn many(&self, states: &[&str]) -> usize {
        self.state.iter().filter(|state| states.contains(state)).count()
    }

    fn takes_resources(&mut self, zone: usize) -> Result<(), ZoneError> {
        let active = ["IO", "EO", "CLOSED"];
        if !active.contains(&self.state[zone]) && self.many(&active) >= self.most_active {
            return Err(ZoneError::TooManyActive);
        }
        if self.many(&["IO", "EO"]) < self.most_open {
            return Ok(());
        }
        let oldest = self.recent.iter().copied().find(|&zone| self.state[zone] == "IO");
        let oldest = oldest.ok_or(ZoneError::TooManyOpen)?;
        self.state[oldest] = "CLOSED";
        Ok(())
    }

    fn write(&mut self, zone: usize, at: u64, length: u64) -> Result<(), ZoneError> {
        let state = self.state[zone];
        match state {
            "FULL" => return Err(ZoneError::Full),
            "RO" => return Err(ZoneError::ReadOnly),
            "OFFLINE" => return Err(ZoneError::Offline),
            _ => {}
        }
        if at != self.written[zone] {
            return Err(ZoneError::InvalidWrite);
        }
        if at + length > CAPACITY {
            return Err(ZoneError::Boundary);
        }
        if !["IO", "EO"].contains(&self.state[zone]) {
            self.takes_resources(zone)?;
            self.state[zone] = "IO";
        }
        self.written[zone] += length;
        self.recent.retain(|&other| other != zone);
        self.recent.push(zone);
        if self.written[zone] == CAPACITY {
            self.state[zone] = "FULL";
        }
        Ok(())
    }

    fn act(&mut self, action: ZoneAction, zone: usize) -> Result<(), ZoneError> {
        let state = self.state[zone];
        let is_gone = state == "RO" || state == "OFFLINE";
        match action {
            ZoneAction::Close if ["IO", "EO", "CLOSED"].contains(&state) => {
                self.state[zone] = "CLOSED";
            }
            ZoneAction::Finish if !is_gone => self.state[zone] = "FULL",
            ZoneAction::Open if ["IO", "EO"].contains(&state) => self.state[zone] = "EO",
            ZoneAction::Open if ["EMPTY", "CLOSED"].contains(&state) => {
                self.takes_resources(zone)?;
                self.state[zone] = "EO";
            }
            ZoneAction::Reset if !is_gone => {
                self.state[zone] = "EMPTY";
                self.written[zone] = 0;
            }
            ZoneAction::Offline if is_gone => self.state[zone] = "OFFLINE",
            _ => return Err(ZoneError::InvalidTransition),
        }
        Ok(())
    }

    fn act_on_all(&mut self, action: ZoneAction) -> Result<(), ZoneError> {
        let concerned: &[&str] = match action {
            ZoneAction::Close => &["IO", "EO"],
            ZoneAction::Finish => &["IO", "EO", "CLOSED"],
            ZoneAction::Open => &["CLOSED"],
            ZoneAction::Reset => &["IO", "EO", "CLOSED", "FULL"],
            ZoneAction::Offline => &["RO"],
        };
        let open = self.many(&["IO", "EO"]);
        if action == ZoneAction::Open && open + self.many(concerned) > self.most_open {
            return Err(ZoneError::TooManyOpen);
        }
        for zone in 0..self.state.len() {
            if concerned.contains(&self.state[zone]) {
                self.act(action, zone)?;
            }
        }
        Ok(())
    }
}

fn name(state: ZoneState) -> &'static str {
    match state {
        ZoneState::Empty => "EMPTY",
        ZoneState::ImplicitlyOpened => "IO",
        ZoneState::ExplicitlyOpened => "EO",
        ZoneState::Closed => "CLOSED",
        ZoneState::ReadOnly => "RO",
        ZoneState::Full => "FULL",
        ZoneState::Offline => "OFFLINE",
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write { zone: usize, off: u64, blocks: u64 },
    Append { zone: usize, blocks: u64 },
    Act { action: ZoneAction, zone: Option<usize> },
    Wear { zone: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let actions = prop_oneof![
        Just(ZoneAction::Close),
        Just(ZoneAction::Finish),
        Just(ZoneAction::Open),
        Just(ZoneAction::Reset),
        Just(ZoneAction::Offline),
    ];
    let blocks = || prop_oneof![4 => 1_u64..64, 1 => Just(CAPACITY / 4096)];
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
        let (most_open, more) = limits;
        let mut zones = Zones::new(geometry(6, most_open, most_open + more));
        let mut plain = Plain {
            state: vec!["EMPTY"; 6],
            written: vec![0; 6],
            recent: Vec::new(),
            most_open: most_open as usize,
            most_active: (most_open + more) as usize,
        };
        for step in steps {
            match step {
                Step::Write { zone, off, blocks } => {
                    let at = plain.written[zone] + off * 4096;
                    let done = write(&mut zones, zone as u64 * ZONE + at, blocks * 4096);
                    prop_assert_eq!(done, plain.write(zone, at, blocks * 4096));
                }
                Step::Append { zone, blocks } => {
                    let at = plain.written[zone];
                    let placed = zones.append_at(zone as u64 * ZONE, blocks * 4096);
                    let wanted = plain.write(zone, at, blocks * 4096);
                    prop_assert_eq!(placed, wanted.map(|()| zone as u64 * ZONE + at));
                    if let Ok(at) = placed {
                        zones.write(at, blocks * 4096);
                    }
                }
                Step::Act { action, zone: Some(zone) } => {
                    let done = zones.manage(action, Some(zone as u64 * ZONE)).map(drop);
                    prop_assert_eq!(done, plain.act(action, zone));
                }
                Step::Act { action, zone: None } => {
                    prop_assert_eq!(zones.manage(action, None).map(drop), plain.act_on_all(action));
                }
                Step::Wear { zone } => {
                    zones.wear_out(zone as u32);
                    if plain.state[zone] != "OFFLINE" {
                        plain.state[zone] = "RO";
                    }
                }
            }
            for (number, zone) in zones.all().iter().enumerate() {
                prop_assert_eq!(name(zone.state), plain.state[number], "zone {}", number);
                let written = zone.write_pointer_bytes - number as u64 * ZONE;
                prop_assert_eq!(written, plain.written[number], "zone {}", number);
            }
            prop_assert!(zones.open <= most_open && zones.active <= most_open + more);
        }
    }
}
