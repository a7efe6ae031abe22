//! Fault injection: the faults of a drive, and what they make of each command.
//!
//! A fault says which commands it concerns (by operation, address, time, number and probability) and
//! what becomes of them. All is decided when a command arrives, from the fault's own seed, so that the
//! same commands meet the same faults.

mod fault;

pub use fault::{Fault, Kind, Scope};

use fault::common;

use std::collections::BTreeMap;
use std::ops::Range;

use ioassay_block::SplitMix64;
use serde::Serialize;

use crate::Error;
use crate::command::{Command, Op};
use crate::namespace::Namespaces;

/// Faults that a drive has at most.
pub const MOST_FAULTS: usize = 64;
/// Unit of an address for faults, bytes.
pub const PAGE_BYTES: u64 = 4096;
const PS_PER_US: u64 = 1_000_000;
/// Commands that stuck faults hold at most: a host that gives up and comes back must not fill memory.
const MOST_HELD: usize = 4096;

/// What becomes of the answer to a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hold {
    /// It leaves later by this.
    pub delay_ps: u64,
    /// It does not leave before this time.
    pub not_before_ps: u64,
    /// The fault by which the command is stuck, until `not_before_ps`.
    pub stuck: Option<u64>,
}

/// What becomes of one command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effect {
    /// It fails: nothing of it is done.
    pub fails: bool,
    /// It fails because what it would write is worn out.
    pub is_worn: bool,
    pub hold: Hold,
    /// Only this number of its first bytes is written, and it is answered as if all were.
    pub written_bytes: Option<u64>,
    /// Bits of its range that are flipped before it is carried out, and the seed that chooses them.
    pub rot: Option<(u32, u64)>,
    /// It is answered as durable, and is not.
    pub not_durable: bool,
}

/// A fault with its counts.
#[derive(Debug, Clone, Serialize)]
pub struct FaultReport {
    pub id: u64,
    #[serde(flatten)]
    pub fault: Fault,
    pub matched: u64,
    pub fired: u64,
}

#[derive(Debug)]
struct Armed {
    report: FaultReport,
    /// The bytes of the drive that it concerns.
    region: Range<u64>,
    begin_ps: u64,
    /// When the time alone makes it strike next.
    due_ps: Option<u64>,
    /// When the transfers of a throttled drive so far are done.
    free_ps: u64,
    /// Writes of each page, of a worn region.
    writes: BTreeMap<u64, u32>,
}

/// The faults of a drive.
#[derive(Debug, Default)]
pub struct Faults {
    armed: Vec<Armed>,
    last_id: u64,
    /// A controller reset that a command or the time brought about: how long the link is down.
    reset_ps: Option<u64>,
    /// When the link is up again.
    link_up_ps: u64,
    /// Times that faults struck since the counters were reset, of those too that were cleared.
    pub fired: u64,
}

impl Faults {
    /// Whether no fault can concern a command.
    pub fn is_idle(&self) -> bool {
        self.armed.is_empty() && self.link_up_ps == 0
    }

    /// The regions of faults, if all can be armed.
    pub fn check(&self, faults: &[Fault], namespaces: &Namespaces) -> Result<Vec<Range<u64>>, Error> {
        let count = self.armed.len() + faults.len();
        Error::require(count <= MOST_FAULTS, "faults", count, format!("at most {MOST_FAULTS} at a time"))?;
        faults.iter().map(|fault| fault.region(namespaces)).collect()
    }

    /// Arms faults, whose times begin now; their numbers. All or none are taken.
    pub fn arm(&mut self, faults: Vec<Fault>, namespaces: &Namespaces, now_ps: u64) -> Result<Vec<u64>, Error> {
        let regions = self.check(&faults, namespaces)?;
        let first = self.last_id + 1;
        for (fault, region) in faults.into_iter().zip(regions) {
            self.last_id += 1;
            let begin_ps = now_ps.saturating_add(fault.after_us * PS_PER_US);
            self.armed.push(Armed {
                due_ps: fault.strikes_by_time().then_some(begin_ps),
                report: FaultReport { id: self.last_id, fault, matched: 0, fired: 0 },
                region,
                begin_ps,
                free_ps: 0,
                writes: BTreeMap::new(),
            });
        }
        Ok((first..=self.last_id).collect())
    }

    /// Clears one fault, or all; how many there were. A link that it lost is up again.
    pub fn clear(&mut self, id: Option<u64>) -> usize {
        let before = self.armed.len();
        let cleared = |armed: &Armed| id.is_none_or(|id| armed.report.id == id);
        let lost_link = |armed: &Armed| cleared(armed) && armed.report.fault.kind == Kind::LinkLoss;
        if id.is_none() || self.armed.iter().any(lost_link) {
            self.link_up_ps = 0;
            self.reset_ps = None;
        }
        self.armed.retain(|armed| !cleared(armed));
        before - self.armed.len()
    }

    /// All faults, with their counts.
    pub fn reports(&self) -> Vec<FaultReport> {
        self.armed.iter().map(|armed| armed.report.clone()).collect()
    }

    /// When a fault strikes next without a command, or the link is up again.
    pub fn next_ps(&self, now_ps: u64) -> Option<u64> {
        let due = self.armed.iter().filter_map(|armed| armed.due_ps);
        due.chain((self.link_up_ps > now_ps).then_some(self.link_up_ps)).min()
    }

    /// Lets faults strike that are due without a command.
    pub fn advance(&mut self, now_ps: u64) {
        if self.link_up_ps <= now_ps {
            self.link_up_ps = 0;
        }
        for armed in &mut self.armed {
            if armed.due_ps.is_some_and(|due_ps| due_ps <= now_ps) {
                armed.report.fired += 1;
                self.fired += 1;
                self.reset_ps = self.reset_ps.max(Some(armed.report.fault.down_us * PS_PER_US));
                let every_ps = armed.report.fault.every_us.filter(|_| !armed.is_spent()).map(|us| us * PS_PER_US);
                armed.due_ps = every_ps.map(|every_ps| now_ps + every_ps - (now_ps - armed.begin_ps) % every_ps);
            }
        }
    }

    /// Whether the controller is to be reset now; from then on the link is down as long as it was wanted.
    pub fn take_reset(&mut self, now_ps: u64) -> bool {
        let Some(down_ps) = self.reset_ps.take() else {
            return false;
        };
        if down_ps > 0 {
            self.link_up_ps = self.link_up_ps.max(now_ps.saturating_add(down_ps));
        }
        true
    }

    /// Whether no client can reach the drive.
    pub fn is_link_down(&self, now_ps: u64) -> bool {
        now_ps < self.link_up_ps
    }

    /// What becomes of a command that arrives; `held` commands are stuck already.
    pub fn effect_on(&mut self, command: &Command, held: usize, now_ps: u64) -> Effect {
        let mut effect = Effect::default();
        if self.is_link_down(now_ps) {
            effect.hold.not_before_ps = self.link_up_ps;
        }
        for armed in &mut self.armed {
            let Some(chance) = armed.strikes(command, now_ps) else {
                continue;
            };
            let has_effect = match armed.report.fault.kind {
                Kind::Stuck if held >= MOST_HELD => false,
                Kind::ControllerReset | Kind::LinkLoss => {
                    self.reset_ps = self.reset_ps.max(Some(armed.report.fault.down_us * PS_PER_US));
                    true
                }
                _ => armed.apply(&mut effect, command, chance, now_ps),
            };
            armed.report.fired += u64::from(has_effect);
            self.fired += u64::from(has_effect);
        }
        effect
    }
}

impl Armed {
    fn is_spent(&self) -> bool {
        self.report.fault.count.is_some_and(|count| self.report.fired >= count)
    }

    /// The end of the present active phase, if the fault is active.
    fn active_until_ps(&self, now_ps: u64) -> Option<u64> {
        let since_ps = now_ps.checked_sub(self.begin_ps)?;
        let Some(for_us) = self.report.fault.for_us else {
            return Some(u64::MAX);
        };
        let length_ps = for_us * PS_PER_US;
        let phase_ps = match self.report.fault.every_us {
            Some(every_us) => since_ps % (every_us * PS_PER_US),
            None => since_ps,
        };
        (phase_ps < length_ps).then(|| now_ps - phase_ps + length_ps)
    }

    /// Whether it strikes this command; if so a number from its seed.
    fn strikes(&mut self, command: &Command, now_ps: u64) -> Option<u64> {
        if self.report.fault.strikes_by_time()
            || self.is_spent()
            || !self.report.fault.concerns(command, &self.region)
            || self.active_until_ps(now_ps).is_none()
        {
            return None;
        }
        self.report.matched += 1;
        if self.report.matched <= self.report.fault.skip {
            return None;
        }
        let seed = self.report.fault.seed;
        let strikes = match self.report.fault.scope {
            Scope::Command => is_below(SplitMix64::at(seed, self.report.matched), self.report.fault.probability),
            Scope::Page => {
                let range = common(&self.region, command);
                let mut pages = range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES);
                pages.any(|page| is_below(SplitMix64::at(seed, page), self.report.fault.probability))
            }
        };
        strikes.then(|| SplitMix64::at(seed ^ 0x5851_f42d_4c95_7f2d, self.report.matched))
    }

    /// Adds its effect to a command's; whether there was any.
    fn apply(&mut self, effect: &mut Effect, command: &Command, chance: u64, now_ps: u64) -> bool {
        let fault = &self.report.fault;
        match fault.kind {
            Kind::ReadError | Kind::WriteError | Kind::FlushError => effect.fails = true,
            Kind::Latency => effect.hold.delay_ps += fault.delay_us * PS_PER_US,
            Kind::Throttle => {
                let bytes = u128::from(command.length_bytes) * 1_000_000_000_000;
                let taken_ps = bytes / u128::from(fault.bytes_per_s.max(1));
                let taken_ps = u64::try_from(taken_ps).unwrap_or(u64::MAX);
                self.free_ps = self.free_ps.max(now_ps).saturating_add(taken_ps);
                effect.hold.not_before_ps = effect.hold.not_before_ps.max(self.free_ps);
            }
            Kind::Stuck => {
                let until_ps = self.active_until_ps(now_ps).unwrap_or(u64::MAX);
                effect.hold.not_before_ps = effect.hold.not_before_ps.max(until_ps);
                effect.hold.stuck = Some(self.report.id);
            }
            Kind::BitRot => effect.rot = Some((fault.bits, chance)),
            Kind::LostWrite => effect.written_bytes = Some(0),
            Kind::TornWrite => {
                // The end is missing, whole sectors of 512 bytes; one sector is never torn.
                let sectors = command.length_bytes / 512;
                if sectors < 2 {
                    return false;
                }
                let kept = 1 + chance % (sectors - 1);
                let written = effect.written_bytes.unwrap_or(u64::MAX);
                effect.written_bytes = Some(written.min(kept * 512));
            }
            Kind::IgnoredFlush => effect.not_durable = true,
            Kind::Worn => return self.wear(effect, command),
            Kind::ControllerReset | Kind::LinkLoss => {}
        }
        true
    }

    /// A worn region: its reads take longer, its pages stop to take writes.
    fn wear(&mut self, effect: &mut Effect, command: &Command) -> bool {
        if command.op == Op::Read {
            effect.hold.delay_ps += self.report.fault.delay_us * PS_PER_US;
            return self.report.fault.delay_us > 0;
        }
        let range = common(&self.region, command);
        let mut fails = false;
        for page in range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES) {
            let writes = self.writes.entry(page).or_insert(0);
            *writes = writes.saturating_add(1);
            fails |= *writes > self.report.fault.endurance;
        }
        effect.fails |= fails;
        effect.is_worn |= fails;
        fails
    }
}

fn is_below(number: u64, probability: f64) -> bool {
    ((number >> 11) as f64) < probability * (1_u64 << 53) as f64
}

/// The places of bits to be flipped within a range of this length: byte and mask.
pub fn rotten_bits(length_bytes: u64, bits: u32, seed: u64) -> impl Iterator<Item = (u64, u8)> {
    (0..u64::from(bits)).map(move |number| {
        let place = SplitMix64::at(seed, number);
        (((u128::from(place) * u128::from(length_bytes)) >> 64) as u64, 1 << (place & 7))
    })
}
