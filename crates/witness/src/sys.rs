//! The few system calls that neither the standard library nor aya has, the only unsafe code of this crate; and which kernel runs.
//!
//! aya knows no maps of task storage, so the root of the tree is entered by `bpf(2)` itself, with a pidfd as the key
//! (`kernel/bpf/bpf_task_storage.c`): that also means the same process in every PID namespace.

#![allow(
    unsafe_code,
    reason = "pidfd_open, bpf, membarrier and clock_gettime are called by number; each call's arguments live here"
)]

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::{fs, io};

const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_NOEXIST: u64 = 1;
/// `include/uapi/linux/pidfd.h`, since Linux 6.9: the descriptor is of the thread, not of its process.
const PIDFD_THREAD: libc::c_int = libc::O_EXCL;

/// `union bpf_attr` of the commands on elements (`include/uapi/linux/bpf.h`).
#[repr(C)]
struct ElementAttributes {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// A descriptor of the process `pid`.
pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    open_descriptor(pid, 0)
}

/// A descriptor of the task `id`; before Linux 6.9 only of one that leads its process.
pub(crate) fn task_descriptor(id: i32) -> io::Result<OwnedFd> {
    match open_descriptor(id, PIDFD_THREAD) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => pidfd_open(id),
        opened => opened,
    }
}

/// A descriptor of the thread that calls this.
pub(crate) fn own_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: takes nothing and returns a number.
    task_descriptor(unsafe { libc::gettid() })
}

/// Whether a descriptor can name a thread on this kernel.
pub(crate) fn can_name_threads() -> bool {
    let own = i32::try_from(std::process::id());
    own.is_ok_and(|pid| open_descriptor(pid, PIDFD_THREAD).is_ok())
}

fn open_descriptor(id: i32, flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes two numbers and returns a descriptor that nobody else owns.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, id, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made, and a descriptor fits into an i32.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Gives the task behind `pidfd` its storage, `value`, in a map of task storage. A task that has some keeps it: EEXIST.
pub(crate) fn store_for_task<const N: usize>(map: BorrowedFd<'_>, pidfd: &OwnedFd, value: &[u64; N]) -> io::Result<()> {
    let key = pidfd.as_raw_fd();
    let attributes = ElementAttributes {
        map_fd: map.as_raw_fd() as u32,
        padding: 0,
        key: (&raw const key) as u64,
        value: std::ptr::from_ref(value) as u64,
        flags: BPF_NOEXIST,
    };
    // SAFETY: key and value outlive the call, and are as long as the map's definition says.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, BPF_MAP_UPDATE_ELEM, &raw const attributes, size_of::<ElementAttributes>())
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Waits until each program that was running when this was called has ended: programs of tracepoints run in a read-side
/// section, for whose end the kernel waits (`kernel/sched/membarrier.c`, `MEMBARRIER_CMD_GLOBAL`).
pub(crate) fn wait_for_running_programs() -> io::Result<()> {
    // SAFETY: takes three numbers and touches no memory of this process.
    match unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Processor time that this thread has used.
pub(crate) fn thread_cpu_s() -> f64 {
    let time = read_clock(libc::CLOCK_THREAD_CPUTIME_ID);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The clock of all times of the witness.
pub(crate) fn monotonic_ns() -> u64 {
    let time = read_clock(libc::CLOCK_MONOTONIC);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn read_clock(clock: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec; these clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time
}

/// Where the kernel describes its types.
pub(crate) const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Release of the running kernel.
pub(crate) fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}
