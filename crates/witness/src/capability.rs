//! Can this process watch on this kernel, and if not, what would mend it?

use std::fs;
use std::io;

use aya::programs::ProgramError;
use aya::{BtfError, EbpfError};

use crate::options::Options;
use crate::program_set::ProgramSet;

/// What is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// Release of the kernel.
    pub kernel: String,
}

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
    #[error(
        "the kernel has no BTF (/sys/kernel/btf/vmlinux is missing): boot one built with CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf,
    /// This process may not.
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
    /// The kernel refused, or lacks what is needed.
    #[error("this kernel cannot ({what}): a Linux of version 5.17 or newer is wanted")]
    Unsupported {
        /// What it said.
        what: String,
        /// Its error number, where it gave one.
        errno: Option<i32>,
    },
    /// A process or file that cannot be watched or written.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// How it failed.
        error: io::Error,
    },
}

/// Whether a [`Witness`](crate::Witness) can be attached here. It loads the program that follows the process tree, and
/// attaches nothing.
///
/// # Errors
/// Why it cannot.
pub fn capability() -> Result<Capability, Unavailable> {
    check()?;
    let options = Options {
        block: false,
        ..Options::default()
    };
    ProgramSet::load(&options)?;
    Ok(Capability { kernel: kernel() })
}

/// What can be known before the kernel is asked to load anything.
pub(crate) fn check() -> Result<(), Unavailable> {
    if crate::object::OBJECT.is_empty() {
        return Err(Unavailable::NotBuilt {
            why: crate::object::NOT_BUILT.to_owned(),
        });
    }
    if fs::metadata("/sys/kernel/btf/vmlinux").is_err() {
        return Err(Unavailable::NoBtf);
    }
    let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    if lockdown.contains("[confidentiality]") {
        return Err(Unavailable::Lockdown);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    match missing_capabilities(&status) {
        Some(what) => Err(Unavailable::NoPermission { what }),
        None => Ok(()),
    }
}

/// Release of the running kernel.
pub(crate) fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

/// Which capabilities the effective set in `/proc/self/status` lacks (`include/uapi/linux/capability.h`).
fn missing_capabilities(status: &str) -> Option<String> {
    const SYS_ADMIN: u32 = 21;
    const WANTED: [(u32, &str); 2] = [(38, "CAP_PERFMON"), (39, "CAP_BPF")];
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(line.trim(), 16).ok()?;
    let has = |bit: u32| effective >> bit & 1 == 1;
    let lacks: Vec<&str> = WANTED
        .iter()
        .filter(|(bit, _)| !has(*bit) && !has(SYS_ADMIN))
        .map(|&(_, name)| name)
        .collect();
    (!lacks.is_empty()).then(|| lacks.join(" and "))
}

impl From<EbpfError> for Unavailable {
    fn from(error: EbpfError) -> Self {
        refused(&error)
    }
}

impl From<ProgramError> for Unavailable {
    fn from(error: ProgramError) -> Self {
        refused(&error)
    }
}

impl From<BtfError> for Unavailable {
    fn from(error: BtfError) -> Self {
        refused(&error)
    }
}

/// What the kernel refused: EPERM is a matter of permission (a container's seccomp filter, mostly).
fn refused(error: &(dyn std::error::Error + 'static)) -> Unavailable {
    let errno = errno_of(error);
    if errno == Some(libc::EPERM) {
        return Unavailable::NoPermission {
            what: "the permission to call bpf(2), CAP_BPF and CAP_PERFMON".to_owned(),
        };
    }
    Unavailable::Unsupported {
        what: in_one_line(error),
        errno,
    }
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
    fn names_the_capabilities_that_are_missing() {
        let with = |bits: u64| missing_capabilities(&format!("Name:\tx\nCapEff:\t{bits:016x}\n"));
        assert_eq!(with(0), Some("CAP_PERFMON and CAP_BPF".to_owned()));
        assert_eq!(with(1 << 39), Some("CAP_PERFMON".to_owned()));
        assert_eq!(with(3 << 38), None);
        assert_eq!(with(1 << 21), None);
    }
}
