//! What no program can see of a call: the way into the kernel up to the program at the entry, and the way back from the
//! one at the exit. Measured by calls of our own on a cached file, whose clock is that of the programs.
//!
//! When all that was seen has been read, the two programs are attached once more and follow the calling thread. Nobody
//! reads the maps again, so these calls are in no observation, and the machine is as warm and as busy as the command
//! left it. It takes about a millisecond, after the command.

use std::fs::File;
use std::os::unix::fs::FileExt;

use aya::maps::Array;

use crate::observation::EntryExit;
use crate::program_set::ProgramSet;
use crate::shape::{
    ACCOUNT_EXIT, ACCOUNT_LAST_TOTAL, ACCOUNT_RETURNED, ACCOUNT_WORDS, OWN_ACCOUNT, TASK_ACCOUNT, TASK_WORDS,
};
use crate::sys;

const CALLS: usize = 256;
const BYTES: usize = 4096;
/// Calls before are the first of their file, and are slow.
const WARM_UP: usize = 32;
const PROGRAMS: [&str; 2] = ["explain_enter", "explain_exit"];

/// None where this thread cannot be followed, and where the calls were not seen. Detaches the programs again.
pub(crate) fn measured(loaded: &mut ProgramSet) -> Option<EntryExit> {
    let file = File::open("/proc/self/exe").ok()?;
    let mut state = [0; TASK_WORDS];
    state[TASK_ACCOUNT] = u64::from(OWN_ACCOUNT);
    loaded.store_for_task(&sys::own_descriptor().ok()?, &state).ok()?;
    loaded.attach_some(|name| PROGRAMS.contains(&name)).ok()?;
    let calls: Option<Vec<_>> = (0..WARM_UP + CALLS).map(|_| call(loaded, &file)).collect();
    loaded.detach();
    summary(&calls?[WARM_UP..])
}

/// Nanoseconds before the entry of one call, and after its exit.
fn call(loaded: &ProgramSet, file: &File) -> Option<(u64, u64)> {
    let mut buffer = [0; BYTES];
    let before_ns = sys::monotonic_ns();
    let read = file.read_at(&mut buffer, 0);
    let after_ns = sys::monotonic_ns();
    read.ok()?;
    let accounts = Array::<_, [u64; ACCOUNT_WORDS]>::try_from(loaded.ebpf.map("accounts")?).ok()?;
    let account = accounts.get(&OWN_ACCOUNT, 0).ok()?;
    let returned_ns = account[ACCOUNT_RETURNED];
    let entered_ns = returned_ns.checked_sub(account[ACCOUNT_LAST_TOTAL])?;
    Some((entered_ns.checked_sub(before_ns)?, after_ns.checked_sub(returned_ns + account[ACCOUNT_EXIT])?))
}

fn summary(calls: &[(u64, u64)]) -> Option<EntryExit> {
    let sorted = |of: fn(&(u64, u64)) -> u64| {
        let mut values: Vec<u64> = calls.iter().map(of).collect();
        values.sort_unstable();
        values
    };
    let both = sorted(|(entry_ns, exit_ns)| entry_ns + exit_ns);
    let middle = calls.len() / 2;
    Some(EntryExit {
        calls: calls.len() as u64,
        entry_ns: *sorted(|call| call.0).get(middle)?,
        exit_ns: *sorted(|call| call.1).get(middle)?,
        p25_ns: both[middle / 2],
        p75_ns: both[middle + middle / 2],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_the_quartiles_of_the_sum() {
        let calls: Vec<_> = (0..8).map(|nth| (10 * nth, 100 + nth)).collect();
        let found = summary(&calls).unwrap();
        assert_eq!((found.calls, found.entry_ns, found.exit_ns), (8, 40, 104));
        assert_eq!((found.p25_ns, found.p75_ns), (122, 166));
        assert_eq!(summary(&[]), None);
    }
}
