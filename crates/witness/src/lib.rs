//! What the kernel saw of a process tree: calls, open files, `io_uring` and `libaio` requests, and requests to block
//! devices, counted by BPF programs in the kernel and read once at the end.
//!
//! - [`capability()`]: can it be done here, and if not, what would mend it?
//! - [`Witness`]: attach, follow a held child, finish; [`Options`] say what is watched, [`Seen`] what was seen.
//! - [`record`]: every block request in a file, read again as a trace of `ioassay-block`.
//!
//! It judges nothing, starts no process and prints nothing. The programs are C (`bpf/`), compiled by `build.rs` where
//! there is a clang; without one the crate is built all the same and says so.
//!
//! # Why it is as it is
//!
//! Measured on a virtual machine of four cores with Linux 6.18; reads of 512 bytes from the page cache take 480 ns
//! there.
//!
//! - **BTF tracepoints only.** Kernels refuse kprobes and fentry where they are hardened; tracepoints with BTF need no
//!   more than `CAP_BPF` and `CAP_PERFMON`, and CO-RE moves every access to where the running kernel has the field, so
//!   neither kernel headers nor a vmlinux.h are needed. What a tracepoint's arguments are is checked by the verifier:
//!   a kernel that has others refuses the program, and the layer is left out with the reason rather than wrong.
//! - **The tree by task storage**, given to each task when it is made (`task_newtask`). `sched_process_fork` leaves
//!   out the threads that the kernel makes for `io_uring` (iou-wrk, iou-sqp), and a set of process ids costs a hash
//!   look-up on each call of the whole machine.
//! - **Counts and bytes from the issue side.** When an interrupt arrives while another BPF program runs, the kernel
//!   skips the programs of the interrupt, and says so nowhere: up to 1.25 % of completions were lost so, in bursts,
//!   and never an issue. Latencies are of the completions seen; `completed` beside `calls` is their coverage, and
//!   `missed` counts the requests that ended unseen (their entry was still open when its request was used again, or
//!   when the device had nothing left to do).
//! - **Bytes of block requests at their dispatch**, because they grow by merging after they were started: a batch of
//!   sixteen sequential reads is one request whose first sixteenth is all that its start knows.
//! - **Nothing is sent while a command runs.** Counters are per CPU, sessions lie in an array that is read at the end.
//!   A wake-up at each close lay inside the interval of a benchmark that times its close (9.79 ms instead of 9.60).
//! - **The last file is remembered** in the task's storage, so that the usual call finds its session with one read of
//!   kernel memory and no hash: a watched call costs 0.37 µs, histogram and session included. Level block attaches
//!   nothing to system calls, and costs a cached read nothing.
//! - **Every call is counted by its number**, in an array per CPU, and where it fails once more; a call that is not about
//!   files and succeeds costs one look at its task, one addition, and nothing when it returns.
//! - **Offsets are counted while the calls are made**: order, stride and extremes in a few words, what was touched in a
//!   bitmap whose segments are taken from one pool when they are used (`bpf/pattern.h`). A call marks one word of it, with
//!   neither a hash nor an event.
//! - **Threads share a session**: its sums are atomic, and its first and last times are raised by compare-and-exchange
//!   (first times as complements, so that zeroed memory is right to begin with).
//! - **The verifier's time is the start's time.** A loop over the results of `io_getevents`, unrolled 64 times, took it
//!   half a second; with `bpf_loop` and global functions, each verified once, all layers are attached in 0.1 s.
//! - **Programs stay loaded** in the process that has watched a command, detached and with empty maps (`spare.rs`): the
//!   next attachment there takes 10 ms. They hold up to 87 MB of the kernel's memory until the process ends.
//! - **The recording wakes nobody**: see [`record`]. One and a half million events a second from one thread, two and a
//!   half from two, were written without a loss.
//!
//! # What it cannot see
//!
//! Reads and writes of mapped memory (their page faults show in the page cache and on the device); who wrote what the
//! kernel writes back later; `libaio` completions that a program reaps from the ring without a call; opens and closes
//! by `io_uring`; the offsets of calls on mapped memory; 32-bit programs (their calls are counted together, and as lost). Of registered files of `io_uring` the order of first and second
//! request is that of their completion before 6.13, because the file is known only then.
//!
//! # Older kernels
//!
//! Linux 6.5 and later have all layers, 6.0 all but `explain`. Before, the tracepoints of `io_uring` do not name the
//! request's type, and before 5.17 there is no `bpf_loop` for the system calls. Each layer has its programs for older
//! kernels; [`Options::oldest`] takes them where the newer would do, which is how they are tested. On Debian 12's 6.1
//! (`NVMe`, virtio, loop, device-mapper and RAID 0 in a virtual machine) the counts and bytes of `psync`, `libaio`,
//! `io_uring` and buffered I/O were those of the devices' own statistics, and their offsets those of the programs.
//!
//! Before 6.5 the kernel does not tell when a block request starts, and who dispatches it may be anyone. There its owner
//! is who submitted the first of its bios, and the layer `bios` beside `block` says so. Requests are then counted when
//! they are dispatched: one that still waits in a scheduler at the end is in no count, nor are commands that programs
//! send to a drive past the block layer.

mod capability;
mod entries;
mod entry_exit;
mod error;
mod gather;
mod histogram;
mod layer;
mod listing;
mod names;
pub mod observation;
mod options;
mod pattern;
mod program_set;
mod programs;
pub mod record;
mod ring_reader;
mod shape;
mod spare;
mod sys;
mod witness;

pub use capability::{Capability, capability};
pub use error::Unavailable;
pub use listing::{Listed, ListedFile, Listing};
pub use observation::Seen;
pub use options::Options;
pub use witness::Witness;
