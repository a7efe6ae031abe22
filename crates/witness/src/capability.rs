//! Can this process watch on this kernel, and if not, what would mend it?

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Unavailable;
use crate::options::Options;
use crate::program_set::{NOT_BUILT, OBJECT, ProgramSet};
use crate::spare;
use crate::sys::{BTF, kernel};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    pub kernel: String,
}

/// Whether the kernel has taken the programs from this process, or from the one that it is a fork of.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether a [`Witness`](crate::Witness) can be attached here. The first time it loads the program that follows the
/// process tree, which takes a tenth of a second, unless this process has programs loaded. It attaches nothing.
pub fn capability() -> Result<Capability, Unavailable> {
    check()?;
    if !TAKEN.load(Ordering::Relaxed) && !spare::is_there() {
        ProgramSet::load(&Options { block: false, ..Options::default() })?;
        TAKEN.store(true, Ordering::Relaxed);
    }
    Ok(Capability { kernel: kernel() })
}

/// What can be known before the kernel is asked to load anything.
pub(crate) fn check() -> Result<(), Unavailable> {
    if OBJECT.is_empty() {
        return Err(Unavailable::NotBuilt { why: NOT_BUILT.to_owned() });
    }
    if fs::metadata(BTF).is_err() {
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

/// Which capabilities the effective set in `/proc/self/status` lacks (`include/uapi/linux/capability.h`).
fn missing_capabilities(status: &str) -> Option<String> {
    const SYS_ADMIN: u32 = 21;
    const WANTED: [(u32, &str); 2] = [(38, "CAP_PERFMON"), (39, "CAP_BPF")];
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(line.trim(), 16).ok()?;
    let has = |bit: u32| (effective >> bit) & 1 == 1;
    let lacks: Vec<&str> =
        WANTED.iter().filter(|(bit, _)| !has(*bit) && !has(SYS_ADMIN)).map(|&(_, name)| name).collect();
    (!lacks.is_empty()).then(|| lacks.join(" and "))
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
