//! The overhead of each transport: reads at queue depth 1, first answered at once, then after the time
//! of the model.

use std::thread;
use std::time::{Duration, Instant};

use super::event_loop::DriveServer;
use super::machine;
use super::options::Warning;
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

/// The overhead of each transport; `None`, with a warning, where it cannot be measured. `model_ns` is
/// the model's time of a read.
///
/// # Errors
/// [`Error::System`] when a transport fails altogether.
pub fn measure(
    server: &mut DriveServer,
    model_ns: Option<u64>,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Option<TransportOverhead>>, Error> {
    let mut overheads = Vec::new();
    for number in 0..server.transports.len() {
        let overhead = match measure_transport(server, number, model_ns)? {
            Ok(overhead) => Some(overhead),
            Err(why) => {
                let name = server.transports[number].name();
                warnings.push(Warning {
                    kind: "floor-unknown",
                    text: format!(
                        "what {name} takes by itself could not be measured ({why}): its answers come later than the \
                         model says"
                    ),
                });
                None
            }
        };
        overheads.push(overhead);
    }
    server.drive.set_fixed_latency(None);
    server.drive.reset_all_counters();
    Ok(overheads)
}

/// Measures with immediate answers, then with answers after the model's time of a read: a client that
/// waits so long may sleep.
fn measure_transport(
    server: &mut DriveServer,
    number: usize,
    model_ns: Option<u64>,
) -> Result<Result<TransportOverhead, ProbeError>, Error> {
    let busy_ns = match measure_at(server, number, 0)? {
        Ok(busy_ns) => busy_ns,
        Err(why) => return Ok(Err(why)),
    };
    let Some(wait_ns) = wait_ns(model_ns, busy_ns) else {
        let alone_ns = busy_ns;
        return Ok(Ok(TransportOverhead { busy_ns, alone_ns }));
    };
    Ok(
        measure_at(server, number, wait_ns)?.map(|took_ns| TransportOverhead {
            busy_ns,
            alone_ns: took_ns.saturating_sub(wait_ns),
        }),
    )
}

/// How long a client waits for a read of the model, given the transport's overhead `busy_ns`; `None`
/// where a second measurement is pointless, as on a very busy machine.
fn wait_ns(model_ns: Option<u64>, busy_ns: u64) -> Option<u64> {
    let model_ns = model_ns.filter(|_| busy_ns <= LONGEST_WAIT_NS)?;
    Some(model_ns.clamp(busy_ns, LONGEST_WAIT_NS))
}

/// Measures with answers after `answer_ns`. The outer error stops the server.
fn measure_at(
    server: &mut DriveServer,
    number: usize,
    answer_ns: u64,
) -> Result<Result<u64, ProbeError>, Error> {
    server.drive.set_fixed_latency(Some(answer_ns));
    let slow = answer_ns > 0;
    let measured = run_probe(server, number, PROBE_MS[0], slow)?;
    if matches!(measured, Err(ProbeError::TooFew(_))) {
        return run_probe(server, number, PROBE_MS[1], slow);
    }
    Ok(measured)
}

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
enum ProbeError {
    #[error("it has no client of its own")]
    NoClient,
    #[error("no answer in {} s", PATIENCE.as_secs())]
    NoAnswer,
    #[error("only {0} reads")]
    TooFew(usize),
    #[error("its client failed: {0}")]
    Failed(String),
}

fn run_probe(
    server: &mut DriveServer,
    number: usize,
    probe_ms: u64,
    slow: bool,
) -> Result<Result<u64, ProbeError>, Error> {
    let Some(mut probe) = server.transports[number].probe() else {
        return Ok(Err(ProbeError::NoClient));
    };
    let allowed = server.allowed;
    let client = thread::Builder::new()
        .name("ioassay-floor".into())
        .spawn(move || {
            machine::spread(allowed.as_ref());
            probe.run(probe_ms, slow)
        })
        .map_err(|error| Error::system("cannot start a client", error))?;
    let begin = Instant::now();
    while !client.is_finished() {
        server.poll_once()?;
        if begin.elapsed() > PATIENCE {
            return Ok(Err(ProbeError::NoAnswer));
        }
    }
    // Its connection ends here and not among those of others.
    for _ in 0..100 {
        server.poll_once()?;
    }
    Ok(match client.join() {
        Ok(Ok(took_ns)) => overhead_of(&took_ns),
        Ok(Err(error)) => Err(ProbeError::Failed(error.to_string())),
        Err(_) => Err(ProbeError::Failed("it panicked".into())),
    })
}

/// The smallest median of four parts of the reads: other load on the machine comes in bursts,
/// and an overhead that is too high would send answers before the model's time.
fn overhead_of(took_ns: &[u64]) -> Result<u64, ProbeError> {
    if took_ns.len() < FEWEST {
        return Err(ProbeError::TooFew(took_ns.len()));
    }
    let medians = took_ns.chunks(took_ns.len().div_ceil(4)).map(|stretch| {
        let mut stretch = stretch.to_vec();
        stretch.sort_unstable();
        stretch[stretch.len() / 2]
    });
    medians.min().ok_or(ProbeError::TooFew(0))
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
        let mut took_ns = vec![10; 100];
        assert_eq!(overhead_of(&took_ns).ok(), Some(10));
        took_ns[..70].fill(900);
        assert_eq!(overhead_of(&took_ns).ok(), Some(10));
        took_ns.fill(900);
        assert_eq!(overhead_of(&took_ns).ok(), Some(900));
        assert!(matches!(
            overhead_of(&took_ns[..19]),
            Err(ProbeError::TooFew(19))
        ));
    }
}
