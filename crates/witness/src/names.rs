//! Names of system calls, by the numbers of the architecture that this is built for.

#[cfg(target_arch = "aarch64")]
use crate::system_calls::AARCH64 as CALLS;
#[cfg(target_arch = "x86_64")]
use crate::system_calls::X86_64 as CALLS;

/// build.rs has no programs for other architectures either.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CALLS: &[(u32, &str)] = &[];

/// The name of a call; `syscall_511` of one that the table does not have.
pub(crate) fn of(number: u32) -> String {
    match CALLS.binary_search_by_key(&number, |&(number, _)| number) {
        Ok(place) => CALLS[place].1.to_owned(),
        Err(_) => format!("syscall_{number}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::system_calls::{AARCH64, X86_64};

    #[test]
    fn numbers_have_the_names_of_this_architecture() {
        assert_eq!(of(libc::SYS_getpid as u32), "getpid");
        assert_eq!(of(libc::SYS_openat as u32), "openat");
        assert_eq!(of(libc::SYS_io_uring_enter as u32), "io_uring_enter");
        assert_eq!(of(libc::SYS_faccessat2 as u32), "faccessat2");
        assert_eq!(of(9999), "syscall_9999");
        assert_eq!(of(u32::MAX), "syscall_4294967295");
    }

    #[test]
    fn both_architectures_have_each_number_and_each_name_once_in_order() {
        for table in [X86_64, AARCH64] {
            assert!(table.windows(2).all(|pair| pair[0].0 < pair[1].0));
            let names: BTreeSet<_> = table.iter().map(|&(_, name)| name).collect();
            assert_eq!(names.len(), table.len());
        }
    }

    #[test]
    fn calls_since_linux_5_1_have_one_number_on_all_architectures() {
        let newer = |table: &'static [(u32, &'static str)]| -> BTreeSet<_> {
            let calls = table.iter().filter(|&&(number, _)| number >= 424);
            calls.copied().collect()
        };
        let differing: Vec<_> = newer(X86_64).symmetric_difference(&newer(AARCH64)).copied().collect();
        assert_eq!(differing, []);
    }
}
