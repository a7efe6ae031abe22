//! A call as a line, in the form of `strace -f -y -T`: data are left out, and a file has its path behind its number.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::event::{AIO, Event, URING};
use crate::names;
use crate::observation::File;
use crate::shape::NONE;

/// Paths of the files behind the slots of sessions.
pub(crate) struct Paths {
    by_file: BTreeMap<u32, String>,
    by_slot: Vec<u32>,
}

impl Paths {
    /// `by_slot` has the file of each session, by its slot; `known` are paths by device and inode that /proc has.
    pub(crate) fn new(files: &[File], by_slot: Vec<u32>, known: &BTreeMap<(String, u64), String>) -> Self {
        let path = |file: &File| known.get(&(file.dev.clone(), file.inode)).cloned().unwrap_or_else(|| whole(file));
        let by_file = files.iter().map(|file| (file.id, path(file))).collect();
        Self { by_file, by_slot }
    }

    /// The path of a slot's file; none where there is no session.
    pub(crate) fn of(&self, slot: u32) -> Option<&str> {
        let file = self.by_slot.get(slot as usize)?;
        self.by_file.get(file).map(String::as_str)
    }
}

/// A path as it was opened, absolute if it leads to that file from here. A file without a path is called by its kind.
fn whole(file: &File) -> String {
    if file.path.is_empty() {
        return file.kind.to_owned();
    }
    let from_here = std::env::current_dir().map(|here| here.join(&file.path));
    match from_here {
        Ok(path) if leads_to(&path, file.inode) => path.to_string_lossy().into_owned(),
        _ => file.path.clone(),
    }
}

fn leads_to(path: &Path, inode: u64) -> bool {
    path.metadata().is_ok_and(|found| found.ino() == inode)
}

/// `42    pread64(3</data>, …, 4096, 8192) = 4096 <0.000012>`
pub(crate) fn line(event: &Event, paths: &Paths) -> String {
    let name = name(event.number);
    let mut line = format!("{:<5} {name}({}) = ", event.task, arguments(&name, event, paths));
    let is_descriptor = event.path.is_some() || name.starts_with("dup");
    line.push_str(&result(event, is_descriptor, paths));
    if event.number < AIO {
        let took_us = event.took_ns / 1000;
        let _ = write!(line, " <{}.{:06}>", took_us / 1_000_000, took_us % 1_000_000);
    }
    line
}

fn name(number: u32) -> String {
    let (way, opcodes, opcode) = match number {
        URING.. => ("uring", URING_NAMES, number - URING),
        AIO.. => ("aio", AIO_NAMES, number - AIO),
        _ => return names::of(number),
    };
    match opcodes.iter().find(|(known, _)| *known == opcode) {
        Some((_, name)) => format!("{way}_{name}"),
        None => format!("{way}_{opcode}"),
    }
}

/// `IOCB_CMD_*` of `include/uapi/linux/aio_abi.h`, and `IORING_OP_*` of `include/uapi/linux/io_uring.h`.
const AIO_NAMES: &[(u32, &str)] =
    &[(0, "pread"), (1, "pwrite"), (2, "fsync"), (3, "fdsync"), (7, "preadv"), (8, "pwritev")];
const URING_NAMES: &[(u32, &str)] = &[
    (1, "readv"),
    (2, "writev"),
    (3, "fsync"),
    (4, "read_fixed"),
    (5, "write_fixed"),
    (8, "sync_file_range"),
    (22, "read"),
    (23, "write"),
];

fn arguments(name: &str, event: &Event, paths: &Paths) -> String {
    let [first, second, third, fourth, fifth] = event.arguments;
    let file = || descriptor(first, paths.of(event.slot));
    let bytes = event.requested_bytes;
    match name {
        "read" | "write" => format!("{}, …, {third}", file()),
        "pread64" | "pwrite64" => format!("{}, …, {third}, {fourth}", file()),
        "readv" | "writev" => format!("{}, [{bytes} bytes], {third}", file()),
        "preadv" | "pwritev" | "preadv2" | "pwritev2" => {
            format!("{}, [{bytes} bytes], {third}, {fourth}", file())
        }
        "fsync" | "fdatasync" | "syncfs" | "close" => file(),
        "sync_file_range" => format!("{}, {second}, {third}, {fourth}", file()),
        "lseek" => format!("{}, {}, {}", file(), signed(second), whence(third)),
        "openat" => format!("{}, {}, {}", folder(first), path(event), open_flags(third, fourth)),
        "openat2" => format!("{}, {}, …", folder(first), path(event)),
        "open" => format!("{}, {}", path(event), open_flags(second, third)),
        "creat" => format!("{}, 0{second:o}", path(event)),
        "sendfile" => {
            let out = descriptor(first, paths.of(event.other_slot));
            let input = descriptor(second, paths.of(event.slot));
            format!("{out}, {input}, {}, {fourth}", offset_at(third))
        }
        "copy_file_range" | "splice" => {
            let out = descriptor(third, paths.of(event.other_slot));
            let (from, to) = (offset_at(second), offset_at(fourth));
            format!("{}, {from}, {out}, {to}, {fifth}", file())
        }
        // The only command that is listed. These flags make no file, and have no mode.
        "fcntl" => format!("{}, F_SETFL, {}", file(), open_flags(third, 0)),
        "dup2" | "dup3" => format!("{}, {second}", file()),
        "close_range" => format!("{first}, {second}"),
        "io_submit" => format!("{first:#x}, {}, […]", signed(second)),
        "io_getevents" | "io_pgetevents" => {
            format!("{first:#x}, {}, {}, […]", signed(second), signed(third))
        }
        "msync" => format!("{first:#x}, {second}, {third:#x}"),
        "sync" => String::new(),
        _ if event.number >= AIO && name.ends_with("sync") => file(),
        _ if event.number >= AIO => format!("{}, …, {bytes}, {}", file(), signed(fourth)),
        _ => "…".to_owned(),
    }
}

fn descriptor(number: u64, path: Option<&str>) -> String {
    let number = number_of(number);
    path.map_or_else(|| number.to_string(), |path| format!("{number}<{path}>"))
}

/// An int, of which a register holds whatever above it.
fn number_of(register: u64) -> i32 {
    i32::from_ne_bytes((register as u32).to_ne_bytes())
}

fn signed(register: u64) -> i64 {
    i64::from_ne_bytes(register.to_ne_bytes())
}

fn folder(number: u64) -> String {
    match number_of(number) {
        libc::AT_FDCWD => "AT_FDCWD".to_owned(),
        number => number.to_string(),
    }
}

/// Quoted, without control characters: a terminal may show it.
fn path(event: &Event) -> String {
    format!("{:?}", event.path.as_deref().unwrap_or_default())
}

/// Behind a pointer that is not followed.
fn offset_at(address: u64) -> &'static str {
    if address == 0 { "NULL" } else { "[…]" }
}

fn whence(number: u64) -> String {
    let names = ["SEEK_SET", "SEEK_CUR", "SEEK_END", "SEEK_DATA", "SEEK_HOLE"];
    let name = names.get(number as usize);
    name.map_or_else(|| number.to_string(), |&name| name.to_owned())
}

fn open_flags(flags: u64, mode: u64) -> String {
    let bits = number_of(flags);
    let mut text = match bits & libc::O_ACCMODE {
        libc::O_RDONLY => "O_RDONLY",
        libc::O_WRONLY => "O_WRONLY",
        libc::O_RDWR => "O_RDWR",
        _ => "O_ACCMODE",
    }
    .to_owned();
    let mut left = bits & !libc::O_ACCMODE;
    for &(bit, name) in OPEN_FLAGS {
        if left & bit == bit {
            left &= !bit;
            text.push('|');
            text.push_str(name);
        }
    }
    if left != 0 {
        let _ = write!(text, "|{left:#x}");
    }
    if bits & libc::O_CREAT != 0 || bits & libc::O_TMPFILE == libc::O_TMPFILE {
        let _ = write!(text, ", 0{mode:o}");
    }
    text
}

/// Those that hold the bits of others first.
const OPEN_FLAGS: &[(i32, &str)] = &[
    (libc::O_CREAT, "O_CREAT"),
    (libc::O_EXCL, "O_EXCL"),
    (libc::O_NOCTTY, "O_NOCTTY"),
    (libc::O_TRUNC, "O_TRUNC"),
    (libc::O_APPEND, "O_APPEND"),
    (libc::O_NONBLOCK, "O_NONBLOCK"),
    (libc::O_SYNC, "O_SYNC"),
    (libc::O_DSYNC, "O_DSYNC"),
    (libc::O_DIRECT, "O_DIRECT"),
    (libc::O_TMPFILE, "O_TMPFILE"),
    (libc::O_DIRECTORY, "O_DIRECTORY"),
    (libc::O_NOFOLLOW, "O_NOFOLLOW"),
    (libc::O_NOATIME, "O_NOATIME"),
    (libc::O_CLOEXEC, "O_CLOEXEC"),
    (libc::O_PATH, "O_PATH"),
];

fn result(event: &Event, is_descriptor: bool, paths: &Paths) -> String {
    if event.number >= AIO {
        return "?".to_owned(); // submitted: how it ended is in the counts
    }
    if event.result < 0 {
        let number = -event.result as i32;
        let error = std::io::Error::from_raw_os_error(number).to_string();
        let words = error.split(" (os error").next().unwrap_or_default();
        return format!("-1 {} ({words})", names::of_error(number));
    }
    if is_descriptor && event.slot != NONE {
        return descriptor(event.result as u64, paths.of(event.slot));
    }
    event.result.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::event::tests::event;
    use super::*;

    fn paths() -> Paths {
        let file = |id, path: &str| File {
            id,
            dev: "8:1".to_owned(),
            inode: u64::from(id) + 10,
            path: path.to_owned(),
            other_path: String::new(),
            kind: "regular",
            page_cache_bytes: None,
        };
        let known = BTreeMap::from([(("8:1".to_owned(), 11), "/known".to_owned())]);
        Paths::new(&[file(0, "/data"), file(1, "")], vec![0, 1], &known)
    }

    fn shown(number: i64, slot: u32, arguments: [u64; 5], result: i64) -> String {
        line(&event(number, slot, arguments, result), &paths())
    }

    #[test]
    fn calls_have_the_form_of_strace() {
        let at_fdcwd = libc::AT_FDCWD as u64;
        for (number, slot, arguments, result, wanted) in [
            (libc::SYS_pread64, 0, [3, 1, 4096, 8192, 0], 4096, "pread64(3</data>, …, 4096, 8192) = 4096"),
            (libc::SYS_write, 1, [1, 1, 10, 0, 0], 10, "write(1</known>, …, 10) = 10"),
            (libc::SYS_fsync, NONE, [9, 0, 0, 0, 0], -5, "fsync(9) = -1 EIO (Input/output error)"),
            (libc::SYS_lseek, 0, [3, u64::MAX, 2, 0, 0], 99, "lseek(3</data>, -1, SEEK_END) = 99"),
            (libc::SYS_close_range, NONE, [3, 5, 0, 0, 0], 0, "close_range(3, 5) = 0"),
            (libc::SYS_sync, NONE, [0; 5], 0, "sync() = 0"),
        ] {
            let wanted = format!("42    {wanted} <0.000012>");
            assert_eq!(shown(number, slot, arguments, result), wanted);
        }
        let mut opened = event(libc::SYS_openat, 0, [at_fdcwd, 0, 0o101, 0o644, 0], 3);
        opened.path = Some("da\u{1b}ta".to_owned());
        assert_eq!(
            line(&opened, &paths()),
            "42    openat(AT_FDCWD, \"da\\u{1b}ta\", O_WRONLY|O_CREAT, 0644) = 3</data> <0.000012>"
        );
    }

    #[test]
    fn requests_that_are_submitted_have_no_result() {
        let mut read = event(i64::from(URING) + 22, 0, [3, 0, 512, 1024, 0], 0);
        read.requested_bytes = 512;
        assert_eq!(line(&read, &paths()), "42    uring_read(3</data>, …, 512, 1024) = ?");
        let sync = event(i64::from(AIO) + 3, 0, [3, 0, 0, 0, 0], 0);
        assert_eq!(line(&sync, &paths()), "42    aio_fdsync(3</data>) = ?");
    }
}
