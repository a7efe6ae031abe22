//! The overhead of each transport: reads at queue depth 1, first answered at once, then after the time of the model.
//! Overheads at larger queue depths are not measured.

use std::thread;
use std::time::{Duration, Instant};

use super::event_loop::DriveServer;
use super::machine;
use super::options::Warning;
use super::{microseconds, realtime};
use crate::Error;
use crate::emulated_drive::TransportOverhead;

/// Time of a measurement, and of a second one on a machine that is too busy for the first.
const PROBE_MS: [u64; 2] = [50, 400];
/// Time after which the client is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest time of an answer during a measurement, for slow models.
const LONGEST_WAIT_NS: u64 = 500_000;
/// Fewest reads of a measurement.
const FEWEST: usize = 20;
/// Share of a measurement in which the server may wait for a processor.
const MOST_WAITED: f64 = 0.1;
/// How far the two smallest medians of the parts of a measurement may lie apart, as a ratio.
const MOST_SPREAD: f64 = 2.0;

/// Measures the overhead of each transport; `None`, with a warning, where it cannot be measured. `model_ns` is
/// the model's time of a read.
pub fn measure(server: &mut DriveServer, model_ns: Option<u64>, warnings: &mut Vec<Warning>) -> Result<(), Error> {
    for number in 0..server.transports.len() {
        let measured = measure_transport(server, number, model_ns);
        let name = server.transports[number].name();
        server.overheads[number] = match measured {
            Ok((overhead, uncertain)) => {
                warnings.extend(uncertain.map(|uncertain| uncertain.warning(name)));
                Some(overhead)
            }
            Err(ProbeError::Server(error)) => return Err(error),
            Err(why) => {
                let text = format!(
                    "what {name} takes by itself could not be measured ({why}): its answers come later than the model \
                     says"
                );
                warnings.push(Warning { kind: "floor-unknown", text });
                None
            }
        };
    }
    server.drive.set_fixed_latency(None);
    server.drive.reset_all_counters();
    Ok(())
}

/// Measures with immediate answers, then with answers after the model's time of a read: a client that
/// waits so long may sleep. The overhead, and why it is uncertain if it is.
fn measure_transport(
    server: &mut DriveServer,
    number: usize,
    model_ns: Option<u64>,
) -> Result<(TransportOverhead, Option<Measured>), ProbeError> {
    let at_once = measure_at(server, number, 0)?;
    let busy_ns = at_once.took_ns;
    let Some(wait_ns) = wait_ns(model_ns, busy_ns) else {
        return Ok((TransportOverhead { busy_ns, alone_ns: busy_ns }, at_once.if_uncertain()));
    };
    let later = measure_at(server, number, wait_ns)?;
    let alone_ns = later.took_ns.saturating_sub(wait_ns);
    Ok((TransportOverhead { busy_ns, alone_ns }, at_once.if_uncertain().or_else(|| later.if_uncertain())))
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Measured {
    /// The smallest median of four parts of the reads: other load on the machine comes in bursts, and
    /// an overhead that is too high would send answers before the model's time.
    took_ns: u64,
    /// The next one, which confirms it or does not.
    next_ns: u64,
    /// Share of the time in which the server was ready to run and had no processor.
    waited: f64,
}

impl Measured {
    /// This measurement, if it cannot be trusted.
    #[allow(clippy::cast_precision_loss)] // below seconds
    fn if_uncertain(self) -> Option<Self> {
        let spread = self.next_ns as f64 / self.took_ns.max(1) as f64;
        (self.waited > MOST_WAITED || spread > MOST_SPREAD).then_some(self)
    }

    fn warning(&self, transport: &str) -> Warning {
        let text = format!(
            "what {transport} takes by itself was measured while the machine was busy: a read took {} µs and then {} \
             µs, and the server waited for a processor {:.0} % of the time. Its answers may come before or after the \
             model's time. Serve it when the machine is idle",
            microseconds(self.took_ns),
            microseconds(self.next_ns),
            self.waited * 100.0
        );
        Warning { kind: "calibration-uncertain", text }
    }
}

/// How long a client waits for a read of the model, given the transport's overhead `busy_ns`; `None`
/// where a second measurement is pointless, as on a very busy machine.
fn wait_ns(model_ns: Option<u64>, busy_ns: u64) -> Option<u64> {
    let model_ns = model_ns.filter(|_| busy_ns <= LONGEST_WAIT_NS)?;
    Some(model_ns.clamp(busy_ns, LONGEST_WAIT_NS))
}

/// Measures with answers after `answer_ns`.
fn measure_at(server: &mut DriveServer, number: usize, answer_ns: u64) -> Result<Measured, ProbeError> {
    server.drive.set_fixed_latency(Some(answer_ns));
    let slow = answer_ns > 0;
    match run_probe(server, number, PROBE_MS[0], slow) {
        Err(ProbeError::TooFew(_)) => run_probe(server, number, PROBE_MS[1], slow),
        measured => measured,
    }
}

#[derive(Debug, thiserror::Error)]
enum ProbeError {
    /// The server failed, and not only the measurement.
    #[error(transparent)]
    Server(#[from] Error),
    #[error("it has no client of its own")]
    NoClient,
    #[error("no answer in {} s", PATIENCE.as_secs())]
    NoAnswer,
    #[error("only {0} reads")]
    TooFew(usize),
    #[error("its client failed: {0}")]
    Failed(String),
}

fn run_probe(server: &mut DriveServer, number: usize, probe_ms: u64, slow: bool) -> Result<Measured, ProbeError> {
    let mut probe = server.transports[number].probe().ok_or(ProbeError::NoClient)?;
    let (allowed, in_realtime) = (server.allowed, server.realtime);
    let client = thread::Builder::new()
        .name("ioassay-floor".into())
        .spawn(move || {
            machine::spread(allowed.as_ref());
            if in_realtime {
                let _ = realtime::enter(0); // it could, so its client can
            }
            probe(probe_ms, slow)
        })
        .map_err(|error| Error::system("cannot start a client", error))?;
    let begin = Instant::now();
    let waited_before_ns = machine::waited_ns();
    while !client.is_finished() {
        server.poll_once()?;
        if begin.elapsed() > PATIENCE {
            return Err(ProbeError::NoAnswer);
        }
    }
    let waited_ns = machine::waited_ns().saturating_sub(waited_before_ns);
    let waited = Duration::from_nanos(waited_ns).as_secs_f64() / begin.elapsed().as_secs_f64();
    // Its connection ends here and not among those of others.
    for _ in 0..100 {
        server.poll_once()?;
    }
    match client.join() {
        Ok(Ok(took_ns)) => measured(took_ns, waited),
        Ok(Err(error)) => Err(ProbeError::Failed(error.to_string())),
        Err(_) => Err(ProbeError::Failed("it panicked".into())),
    }
}

fn measured(mut took_ns: Vec<u64>, waited: f64) -> Result<Measured, ProbeError> {
    let reads = took_ns.len();
    if reads < FEWEST {
        return Err(ProbeError::TooFew(reads));
    }
    let medians = took_ns.chunks_mut(reads.div_ceil(4)).map(|part| *part.select_nth_unstable(part.len() / 2).1);
    let mut medians: Vec<u64> = medians.collect();
    medians.sort_unstable();
    Ok(Measured { took_ns: medians[0], next_ns: medians[1], waited })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_slower_than_any_wait_is_measured_once() {
        assert_eq!(wait_ns(None, 10), None);
        assert_eq!(wait_ns(Some(100), 10), Some(100));
        assert_eq!(wait_ns(Some(100), 200), Some(200));
        assert_eq!(wait_ns(Some(u64::MAX), 200), Some(LONGEST_WAIT_NS));
        assert_eq!(wait_ns(Some(100), LONGEST_WAIT_NS), Some(LONGEST_WAIT_NS));
        assert_eq!(wait_ns(Some(100), LONGEST_WAIT_NS + 1), None);
    }

    #[test]
    fn bursts_of_others_do_not_count() {
        let took = |took_ns: &[u64]| measured(took_ns.to_vec(), 0.0).map(|measured| measured.took_ns).ok();
        let mut took_ns = vec![10; 100];
        assert_eq!(took(&took_ns), Some(10));
        took_ns[..70].fill(900);
        assert_eq!(took(&took_ns), Some(10));
        took_ns.fill(900);
        assert_eq!(took(&took_ns), Some(900));
        assert!(matches!(measured(vec![900; 19], 0.0), Err(ProbeError::TooFew(19))));
    }

    #[test]
    fn a_measurement_on_a_busy_machine_is_uncertain() {
        let steady = vec![10_000; 100];
        let bursts: Vec<u64> = (0..100).map(|read| if read < 80 { 90_000 } else { 10_000 }).collect();
        let uncertain =
            |took_ns: &[u64], waited| measured(took_ns.to_vec(), waited).ok().and_then(Measured::if_uncertain);
        assert!(uncertain(&steady, 0.05).is_none());
        for (took_ns, waited) in [(&steady, 0.5), (&bursts, 0.0)] {
            let text = uncertain(took_ns, waited).expect("a warning").warning("nbd").text;
            assert!(text.starts_with("what nbd takes by itself was measured while"), "{text}");
        }
        let text = uncertain(&bursts, 0.34).expect("a warning").warning("nbd").text;
        assert!(text.contains("10.0 µs and then 90.0 µs") && text.contains(" 34 % "), "{text}");
    }
}
