//! What each transport takes by itself: reads at depth one while the drive answers at once.

use std::thread;
use std::time::{Duration, Instant};

use super::machine;
use super::options::Warning;
use super::run::Serving;
use crate::Error;

/// How long each transport is asked, and how long again on a machine that is busy with others.
const ASKED_MS: [u64; 2] = [50, 400];
/// How long the client may take altogether before it is left alone.
const PATIENCE: Duration = Duration::from_secs(5);
/// Fewer reads say nothing.
const FEWEST: usize = 20;

/// Median time of a read at best through each transport, nanoseconds; `None` where it could not be measured,
/// which is a warning.
///
/// # Errors
/// [`Error::System`] when a transport fails altogether.
pub fn measure(
    serving: &mut Serving,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Option<u64>>, Error> {
    serving.served.set_at_once(true);
    let mut floors = Vec::new();
    for number in 0..serving.transports.len() {
        let name = serving.transports[number].name();
        let mut measured = measure_one(serving, number, ASKED_MS[0])?;
        if matches!(measured, Err(Unknown::TooFew(_))) {
            measured = measure_one(serving, number, ASKED_MS[1])?;
        }
        let floor = match measured {
            Ok(floor_ns) => Some(floor_ns),
            Err(why) => {
                warnings.push(Warning {
                    kind: "floor_unknown",
                    text: format!(
                        "what {name} takes by itself could not be measured ({why}): its answers come later than the model says"
                    ),
                });
                None
            }
        };
        floors.push(floor);
    }
    serving.served.set_at_once(false);
    serving.served.reset_figures();
    Ok(floors)
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

/// The outer error ends the drive.
fn measure_one(
    serving: &mut Serving,
    number: usize,
    asked_ms: u64,
) -> Result<Result<u64, Unknown>, Error> {
    let Some(mut probe) = serving.transports[number].probe() else {
        return Ok(Err(Unknown::NoClient));
    };
    let allowed = serving.allowed;
    let client = thread::Builder::new()
        .name("ioassay-floor".into())
        .spawn(move || {
            machine::spread(allowed.as_ref());
            probe.run(asked_ms)
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
