//! What each transport takes by itself: reads at depth one, answered at once, and then when the model
//! would.

use std::thread;
use std::time::{Duration, Instant};

use super::event_loop::Serving;
use super::machine;
use super::options::Warning;
use crate::Error;
use crate::emulated_drive::Floor;

/// How long each transport is asked, and how long again on a machine that is busy with others.
const ASKED_MS: [u64; 2] = [50, 400];
/// How long the client may take altogether before it is left alone.
const PATIENCE: Duration = Duration::from_secs(5);
/// Reads of slower models are not waited for.
const LONGEST_WAIT_NS: u64 = 500_000;
/// Fewer reads say nothing.
const FEWEST: usize = 20;

/// What each transport takes by itself; `None` where it could not be measured, which is a warning.
/// `model_ns` is how long a read takes the model.
///
/// # Errors
/// [`Error::System`] when a transport fails altogether.
pub fn measure(
    serving: &mut Serving,
    model_ns: Option<u64>,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Option<Floor>>, Error> {
    let mut floors = Vec::new();
    for number in 0..serving.transports.len() {
        let floor = match measure_both(serving, number, model_ns)? {
            Ok(floor) => Some(floor),
            Err(why) => {
                let name = serving.transports[number].name();
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
        floors.push(floor);
    }
    serving.served.answer_after(None);
    serving.served.begin_counting();
    Ok(floors)
}

/// With answers at once, and with answers after what a read of the model takes: a client that waits
/// so long may sleep.
fn measure_both(
    serving: &mut Serving,
    number: usize,
    model_ns: Option<u64>,
) -> Result<Result<Floor, Unknown>, Error> {
    let busy_ns = match measure_one(serving, number, 0)? {
        Ok(busy_ns) => busy_ns,
        Err(why) => return Ok(Err(why)),
    };
    let Some(wait_ns) = wait_ns(model_ns, busy_ns) else {
        let alone_ns = busy_ns;
        return Ok(Ok(Floor { busy_ns, alone_ns }));
    };
    Ok(measure_one(serving, number, wait_ns)?.map(|took_ns| Floor {
        busy_ns,
        alone_ns: took_ns.saturating_sub(wait_ns),
    }))
}

/// How long a client waits for a read of the model where the transport takes `busy_ns` by itself;
/// `None` where that is all there is to wait for, as on a machine that is very busy with others.
fn wait_ns(model_ns: Option<u64>, busy_ns: u64) -> Option<u64> {
    let model_ns = model_ns.filter(|_| busy_ns <= LONGEST_WAIT_NS)?;
    Some(model_ns.clamp(busy_ns, LONGEST_WAIT_NS))
}

/// The outer error ends the drive.
fn measure_one(
    serving: &mut Serving,
    number: usize,
    answer_ns: u64,
) -> Result<Result<u64, Unknown>, Error> {
    serving.served.answer_after(Some(answer_ns));
    let slow = answer_ns > 0;
    let measured = ask(serving, number, ASKED_MS[0], slow)?;
    if matches!(measured, Err(Unknown::TooFew(_))) {
        return ask(serving, number, ASKED_MS[1], slow);
    }
    Ok(measured)
}

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
enum Unknown {
    #[error("it has no client of its own")]
    NoClient,
    #[error("no answer in {} s", PATIENCE.as_secs())]
    NoAnswer,
    #[error("only {0} reads")]
    TooFew(usize),
    #[error("its client failed: {0}")]
    Failed(String),
}

fn ask(
    serving: &mut Serving,
    number: usize,
    asked_ms: u64,
    slow: bool,
) -> Result<Result<u64, Unknown>, Error> {
    let Some(mut probe) = serving.transports[number].probe() else {
        return Ok(Err(Unknown::NoClient));
    };
    let allowed = serving.allowed;
    let client = thread::Builder::new()
        .name("ioassay-floor".into())
        .spawn(move || {
            machine::spread(allowed.as_ref());
            probe.run(asked_ms, slow)
        })
        .map_err(|error| Error::system("cannot start a client", error))?;
    let begin = Instant::now();
    while !client.is_finished() {
        serving.turn()?;
        if begin.elapsed() > PATIENCE {
            return Ok(Err(Unknown::NoAnswer));
        }
    }
    // Its connection ends here and not among those of others.
    for _ in 0..100 {
        serving.turn()?;
    }
    Ok(match client.join() {
        Ok(Ok(took_ns)) => floor_of(&took_ns),
        Ok(Err(error)) => Err(Unknown::Failed(error.to_string())),
        Err(_) => Err(Unknown::Failed("it panicked".into())),
    })
}

/// The least median of four stretches of the reads: what others do to the machine comes in bursts,
/// and a floor that is too high would let answers leave before the model says.
fn floor_of(took_ns: &[u64]) -> Result<u64, Unknown> {
    if took_ns.len() < FEWEST {
        return Err(Unknown::TooFew(took_ns.len()));
    }
    let medians = took_ns.chunks(took_ns.len().div_ceil(4)).map(|stretch| {
        let mut stretch = stretch.to_vec();
        stretch.sort_unstable();
        stretch[stretch.len() / 2]
    });
    medians.min().ok_or(Unknown::TooFew(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_slower_than_any_wait_is_asked_once() {
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
        assert_eq!(floor_of(&took_ns).ok(), Some(10));
        took_ns[..70].fill(900);
        assert_eq!(floor_of(&took_ns).ok(), Some(10));
        took_ns.fill(900);
        assert_eq!(floor_of(&took_ns).ok(), Some(900));
        assert!(matches!(floor_of(&took_ns[..19]), Err(Unknown::TooFew(19))));
    }
}
