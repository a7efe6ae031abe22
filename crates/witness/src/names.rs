//! Names of system calls and of errors, by the numbers of the architecture that this is built for.

use syscalls::{Errno, Sysno};

/// Calls that the library does not know, or by another name than the kernel's headers. From 424 on each call has one
/// number on all architectures.
const OTHERS: &[(u32, &str)] = &[
    #[cfg(target_arch = "aarch64")]
    (79, "newfstatat"),
    (470, "listns"),
    (471, "rseq_slice_yield"),
    (472, "fchroot"),
];

/// The name of a call; `syscall_511` of one that is not known.
pub(crate) fn of(number: u32) -> String {
    let other = OTHERS.iter().find(|(known, _)| *known == number).map(|&(_, name)| name);
    let name = other.or_else(|| Sysno::new(number as usize).map(|call| call.name()));
    name.map_or_else(|| format!("syscall_{number}"), str::to_owned)
}

/// The name of an error, such as `ENOENT`; `E4000` of one that is not known.
pub(crate) fn of_error(number: i32) -> String {
    Errno::new(number).name().map_or_else(|| format!("E{number}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_names_of_this_architecture() {
        for (number, name) in [
            (libc::SYS_getpid as u32, "getpid"),
            (libc::SYS_newfstatat as u32, "newfstatat"),
            (libc::SYS_io_uring_enter as u32, "io_uring_enter"),
            (libc::SYS_faccessat2 as u32, "faccessat2"),
            (470, "listns"),
            (9999, "syscall_9999"),
            (u32::MAX, "syscall_4294967295"),
        ] {
            assert_eq!(of(number), name);
        }
        assert_eq!([libc::ENOENT, libc::EOPNOTSUPP, 4000].map(of_error), ["ENOENT", "EOPNOTSUPP", "E4000"]);
    }

    #[test]
    fn names_are_those_of_the_kernels_headers_where_there_are_some() {
        let path = format!("/usr/include/{}-linux-gnu/asm/unistd_64.h", std::env::consts::ARCH);
        let text = std::fs::read_to_string(path).unwrap_or_default();
        for line in text.lines().filter_map(|line| line.strip_prefix("#define __NR_")) {
            let (name, number) = line.split_once(' ').unwrap();
            let said = of(number.parse().unwrap());
            assert!(said == name || said.starts_with("syscall_"), "{number} is {name}, not {said}");
        }
    }
}
