//! Which processor a worker runs on, where that is asked for.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Error;

/// Whether this process may use the first processor that is asked for.
pub fn check(first: Option<u32>) -> Result<(), Error> {
    let Some(first) = first else { return Ok(()) };
    let allowed = allowed().unwrap_or_default();
    if allowed.contains(&first) {
        return Ok(());
    }
    let names: Vec<_> = allowed.iter().map(u32::to_string).collect();
    let wanted = format!("one of those that this process may use: {}", names.join(", "));
    Err(Error::option("processor (-P)", first.to_string(), wanted))
}

/// Bind this thread to the processor of a worker: the first for worker 0, then the next that the process may use, and
/// round again. Without a first processor the thread stays as it is.
pub fn pin(first: Option<u32>, worker: u32) -> Result<(), Errno> {
    let Some(first) = first else { return Ok(()) };
    let allowed = allowed()?;
    let start = allowed.iter().position(|&processor| processor == first);
    let place = start.ok_or(Errno::INVAL)? + worker as usize;
    let mut own = CpuSet::new();
    own.set(allowed[place % allowed.len()] as usize);
    sched_setaffinity(None, &own)
}

/// The processors that this thread may use, in order.
fn allowed() -> Result<Vec<u32>, Errno> {
    let set = sched_getaffinity(None)?;
    let numbers = (0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor));
    Ok(numbers.map(|processor| processor as u32).collect())
}

#[cfg(test)]
mod tests {
    use super::{allowed, check, pin};

    #[test]
    fn workers_go_round_the_processors_that_are_allowed() {
        let all = allowed().unwrap();
        let first = *all.last().unwrap();
        for (worker, processor) in [(0, first), (1, all[0])] {
            std::thread::spawn(move || {
                pin(Some(first), worker).unwrap();
                assert_eq!(allowed().unwrap(), [processor]);
            })
            .join()
            .unwrap();
        }
        assert_eq!(allowed().unwrap(), all);
    }

    #[test]
    fn a_processor_that_is_not_there_is_refused() {
        let said = check(Some(1 << 20)).unwrap_err().to_string();
        assert!(said.contains("may use: "), "{said}");
        assert!(check(None).is_ok());
    }
}
