//! Names of system calls, by the numbers of the architecture that this is built for.

use syscalls::Sysno;

/// The name of a call; `syscall_467` of one that this build does not know.
pub(crate) fn of(number: u32) -> String {
    match Sysno::new(number as usize) {
        Some(call) => call.name().to_owned(),
        None => format!("syscall_{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_names_of_this_architecture() {
        assert_eq!(of(libc::SYS_getpid as u32), "getpid");
        assert_eq!(of(libc::SYS_openat as u32), "openat");
        assert_eq!(of(libc::SYS_io_uring_enter as u32), "io_uring_enter");
        assert_eq!(of(9999), "syscall_9999");
        assert_eq!(of(u32::MAX), "syscall_4294967295");
    }
}
