//! Which system calls are watched, and where each has its descriptor and its size: the rows behind the table that
//! `bpf/syscalls.h` looks into, by the numbers of the architecture that this is built for.

use crate::shape::SYSCALLS;

/// `enum` of offsets in `bpf/syscalls.h`: where a call that moves data has its own.
#[derive(Clone, Copy)]
enum Offset {
    Nowhere,
    AtPosition,
    At3,
    OrPosition,
}

/// `enum` of shapes in `bpf/syscalls.h`.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "calls that only x86-64 has"))]
enum Shape {
    SizeAt2 = 1,
    Vectors,
    NoSize,
    NoFile,
    PathAt1,
    PathAt0,
    PathMade,
    PathHow,
    Close,
    Replaces,
    IoSubmit,
    IoGetevents,
    CopyOutIn,
    CopyInOut,
    CloseRange,
    Exec,
    Control,
}

/// Not in libc (`arch/x86/entry/syscalls/syscall_64.tbl`, `include/uapi/asm-generic/unistd.h`).
const SYS_IO_PGETEVENTS: libc::c_long = if cfg!(target_arch = "x86_64") { 333 } else { 292 };

const READ: u8 = 0;
const WRITE: u8 = 1;
const SYNC: u8 = 2;
const OTHER: u8 = 5;

/// Writes that are synchronised themselves, counted once more: first, as `SYNCHRONOUS_WRITES` of `bpf/sessions.h`.
const SYNCHRONOUS_WRITES: (&str, &str) = ("writes", "synchronous");

struct Row(libc::c_long, &'static str, Shape, u8);

impl Row {
    fn offset(&self) -> Offset {
        match self.1 {
            "read" | "readv" | "write" | "writev" => Offset::AtPosition,
            "pread64" | "preadv" | "pwrite64" | "pwritev" => Offset::At3,
            "preadv2" | "pwritev2" => Offset::OrPosition,
            _ => Offset::Nowhere,
        }
    }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row(libc::SYS_read, "read", Shape::SizeAt2, READ),
    Row(libc::SYS_pread64, "pread64", Shape::SizeAt2, READ),
    Row(libc::SYS_readv, "readv", Shape::Vectors, READ),
    Row(libc::SYS_preadv, "preadv", Shape::Vectors, READ),
    Row(libc::SYS_preadv2, "preadv2", Shape::Vectors, READ),
    Row(libc::SYS_write, "write", Shape::SizeAt2, WRITE),
    Row(libc::SYS_pwrite64, "pwrite64", Shape::SizeAt2, WRITE),
    Row(libc::SYS_writev, "writev", Shape::Vectors, WRITE),
    Row(libc::SYS_pwritev, "pwritev", Shape::Vectors, WRITE),
    Row(libc::SYS_pwritev2, "pwritev2", Shape::Vectors, WRITE),
    Row(libc::SYS_fsync, "fsync", Shape::NoSize, SYNC),
    Row(libc::SYS_fdatasync, "fdatasync", Shape::NoSize, SYNC),
    Row(libc::SYS_sync_file_range, "sync_file_range", Shape::NoSize, SYNC),
    Row(libc::SYS_syncfs, "syncfs", Shape::NoSize, SYNC),
    Row(libc::SYS_msync, "msync", Shape::NoFile, SYNC),
    Row(libc::SYS_sync, "sync", Shape::NoFile, SYNC),
    Row(libc::SYS_lseek, "lseek", Shape::NoSize, OTHER),
    Row(libc::SYS_openat, "openat", Shape::PathAt1, OTHER),
    Row(libc::SYS_openat2, "openat2", Shape::PathHow, OTHER),
    #[cfg(target_arch = "x86_64")]
    Row(libc::SYS_open, "open", Shape::PathAt0, OTHER),
    #[cfg(target_arch = "x86_64")]
    Row(libc::SYS_creat, "creat", Shape::PathMade, OTHER),
    Row(libc::SYS_fcntl, "fcntl", Shape::Control, OTHER),
    Row(libc::SYS_close, "close", Shape::Close, OTHER),
    #[cfg(target_arch = "x86_64")]
    Row(libc::SYS_dup2, "dup2", Shape::Replaces, OTHER),
    Row(libc::SYS_dup3, "dup3", Shape::Replaces, OTHER),
    Row(libc::SYS_close_range, "close_range", Shape::CloseRange, OTHER),
    Row(libc::SYS_execve, "execve", Shape::Exec, OTHER),
    Row(libc::SYS_execveat, "execveat", Shape::Exec, OTHER),
    Row(libc::SYS_io_submit, "io_submit", Shape::IoSubmit, OTHER),
    Row(libc::SYS_io_getevents, "io_getevents", Shape::IoGetevents, OTHER),
    Row(SYS_IO_PGETEVENTS, "io_pgetevents", Shape::IoGetevents, OTHER),
    Row(libc::SYS_sendfile, "sendfile", Shape::CopyOutIn, READ),
    Row(libc::SYS_copy_file_range, "copy_file_range", Shape::CopyInOut, READ),
    Row(libc::SYS_splice, "splice", Shape::CopyInOut, READ),
];

/// Entry and kind of each class of operations, and the table by number of the system call.
pub(crate) struct Entries {
    /// Name and kind by index of the map `operations`.
    pub(crate) classes: Vec<(&'static str, &'static str)>,
    pub(crate) table: [u8; SYSCALLS * 4],
    /// First of the four classes of `aio`.
    pub(crate) aio: u32,
    /// First of the four classes of `uring`.
    pub(crate) uring: u32,
}

impl Entries {
    pub(crate) fn new() -> Self {
        let mut classes = vec![SYNCHRONOUS_WRITES];
        let mut table = [0; SYSCALLS * 4];
        for row in ROWS {
            let &Row(number, name, shape, kind) = row;
            let place = number as usize * 4;
            let entry = [shape as u8, kind, classes.len() as u8, row.offset() as u8];
            table[place..place + 4].copy_from_slice(&entry);
            classes.push((name, kind_name(kind)));
            if matches!(shape, Shape::CopyOutIn | Shape::CopyInOut) {
                classes.push((name, kind_name(WRITE))); // a copy is a read of one file and a write of another
            }
        }
        let aio = push_four(&mut classes, "aio");
        let uring = push_four(&mut classes, "uring");
        Self { classes, table, aio, uring }
    }
}

fn push_four(classes: &mut Vec<(&'static str, &'static str)>, entry: &'static str) -> u32 {
    let first = classes.len() as u32;
    classes.extend([READ, WRITE, SYNC, OTHER].map(|kind| (entry, kind_name(kind))));
    first
}

fn kind_name(kind: u8) -> &'static str {
    crate::shape::KIND_NAMES[usize::from(kind)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_the_kernel_gives_the_names() {
        for &Row(number, name, ..) in ROWS {
            assert_eq!(crate::names::of(number as u32), name);
        }
    }

    #[test]
    fn every_row_has_a_place_of_its_own() {
        let entries = Entries::new();
        assert!(entries.classes.len() <= 64, "OPS of bpf/shapes.h");
        let place = libc::SYS_pread64 as usize * 4;
        let [shape, kind, class, offset] = entries.table[place..place + 4] else { unreachable!() };
        assert_eq!((shape, kind, offset), (Shape::SizeAt2 as u8, READ, 2));
        assert_eq!(entries.classes[usize::from(class)], ("pread64", "read"));
        let filled = entries.table.chunks(4).filter(|entry| entry[0] != 0).count();
        assert_eq!(filled, ROWS.len());
        assert_eq!(entries.classes[entries.uring as usize + 2], ("uring", "sync"));
    }
}
