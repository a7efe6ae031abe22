//! Why nothing can be watched: the errors of the kernel, in words and with a remedy.

use std::{fs, io};

use aya::programs::ProgramError;
use aya::{BtfError, EbpfError};

use crate::sys::{BTF, kernel};

/// Why nothing can be watched; each says the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The programs are not in this build.
    #[error("{why}: install clang and build ioassay again")]
    NotBuilt {
        /// What happened when it was built.
        why: String,
    },
    /// The kernel does not describe its own types.
    #[error("the kernel has no BTF (/sys/kernel/btf/vmlinux is missing): boot one built with CONFIG_DEBUG_INFO_BTF")]
    NoBtf,
    #[error("missing {what}: run as root, or give the process these capabilities")]
    NoPermission {
        /// The capabilities that are missing.
        what: String,
    },
    /// Lockdown keeps BPF from reading kernel memory.
    #[error(
        "the kernel is locked down for confidentiality (/sys/kernel/security/lockdown): \
         boot with lockdown=integrity or less"
    )]
    Lockdown,
    /// The kernel has no maps that belong to tasks, by which the process tree is followed.
    #[error("Linux {kernel} is too old for the BPF programs: boot 6.1 or newer, as Debian 12 has")]
    TooOld { kernel: String },
    /// The kernel refused, or lacks what is needed.
    #[error("this kernel cannot ({what}): a Linux of version 5.17 or newer is wanted")]
    Unsupported {
        what: String,
        /// Its error number, where it gave one.
        errno: Option<i32>,
    },
    /// A process or file that cannot be watched or written.
    #[error("{what}: {error}")]
    Io { what: String, error: io::Error },
}

macro_rules! refused {
    ($($error:ty),*) => {
        $(impl From<$error> for Unavailable {
            fn from(error: $error) -> Self {
                refused(&error)
            }
        })*
    };
}

refused!(EbpfError, ProgramError, BtfError);

/// What the kernel refused: EPERM is a matter of permission (a container's seccomp filter, mostly), but before Linux 5.11
/// also of `RLIMIT_MEMLOCK`, which maps counted against.
fn refused(error: &(dyn std::error::Error + 'static)) -> Unavailable {
    if fs::read(BTF).is_ok_and(|types| !has_task_storage(&types)) {
        return Unavailable::TooOld { kernel: kernel() };
    }
    let errno = errno_of(error);
    if errno == Some(libc::EPERM) {
        return Unavailable::NoPermission { what: "the permission to call bpf(2), CAP_BPF and CAP_PERFMON".to_owned() };
    }
    Unavailable::Unsupported { what: in_one_line(error), errno }
}

/// Whether the kernel that describes its types so has the kind of map (since Linux 5.11).
fn has_task_storage(types: &[u8]) -> bool {
    const NAME: &[u8] = b"\0BPF_MAP_TYPE_TASK_STORAGE\0";
    types.windows(NAME.len()).any(|found| found == NAME)
}

/// The error number at the root of an error.
fn errno_of(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return error.raw_os_error();
        }
        at = error.source();
    }
    None
}

/// An error and its causes, without the verifier's log.
pub(crate) fn in_one_line(error: &(dyn std::error::Error + 'static)) -> String {
    let mut said = error.to_string();
    let mut at = error.source();
    while let Some(cause) = at {
        let cause_said = cause.to_string();
        if !said.contains(&cause_said) {
            said = format!("{said}: {cause_said}");
        }
        at = cause.source();
    }
    let said = said.split(" Verifier output").next().unwrap_or_default();
    said.lines().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_too_old_where_its_types_lack_the_map() {
        assert!(has_task_storage(b"\0int\0BPF_MAP_TYPE_TASK_STORAGE\0long\0"));
        assert!(!has_task_storage(b"\0BPF_MAP_TYPE_INODE_STORAGE\0")); // Linux 5.10
        if crate::capability().is_ok() {
            assert!(has_task_storage(&fs::read(BTF).unwrap()));
        }
    }
}
