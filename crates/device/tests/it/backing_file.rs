//! What a backing file keeps, and what the drive answers when it cannot.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::drives::{Bench, PAGE, Setup};
use crate::hostile::mounted::{FALLOCATE, WRITE, allocation, request, transfer};
use ioassay_device::command::Drive;
use ioassay_device::store::Backing;
use ioassay_device::transport::fuse::{FuseSession, Reply};
use ioassay_device::{Op, Status};
use tempfile::TempDir;

const POLICIES: [(&str, &str); 3] = [("none", "none"), ("reference", "none"), ("reference", "lru")];

/// A folder that lasts as long as the test, and the file's place in it.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("backing");
    (folder, path)
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("a file")
}

fn setup(model: &'static str, policy: &'static str) -> Setup {
    Setup { pages: 64, ..Setup::of(model, policy) }
}

#[test]
fn what_was_written_is_there_after_a_clean_end() {
    for (model, policy) in POLICIES {
        let (_folder, path) = place();
        let setup = setup(model, policy);
        let mut bench = Bench::backed(&setup, &path);
        bench.write(1024, &[7; 8192]);
        bench.settle();
        bench.drive.finish().expect("a file that takes all");
        let content = bench.content();
        drop(bench);
        assert_eq!(read(&path), content);
        let mut again = Bench::backed(&setup, &path);
        again.ask(Op::Read, 0, setup.size_bytes());
        again.settle();
        assert_eq!(again.content(), content);
    }
}

#[test]
fn what_is_flushed_is_in_the_file_and_what_is_volatile_is_not() {
    let (_folder, path) = place();
    let mut bench = Bench::backed(&setup("reference", "lru"), &path);
    bench.write(0, &[1; 4096]);
    bench.settle();
    assert_eq!(read(&path)[0], 0);
    bench.flush();
    bench.settle();
    assert_eq!(read(&path)[0], 1);
    bench.submit(Op::Write, 4096, 512, true, &[2; 512]);
    bench.settle();
    assert_eq!(read(&path)[4096..4608], [2; 512]);
    assert_eq!(read(&path)[4608], 0);
}

#[test]
fn a_new_file_is_sparse_and_private_and_trims_make_holes() {
    let (_folder, path) = place();
    let mut bench = Bench::backed(&Setup { pages: 4096, ..Setup::of("none", "none") }, &path);
    let about = fs::metadata(&path).expect("a file");
    assert_eq!(about.len(), 16 << 20);
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    assert!(blocks(&path) < 64);
    bench.write(0, &vec![1; 1 << 20]);
    bench.flush();
    bench.settle();
    assert!(blocks(&path) >= 2048);
    bench.ask(Op::Trim, 0, 1 << 20);
    bench.settle();
    assert!(blocks(&path) < 64);
}

/// Blocks of 512 bytes that the file takes.
fn blocks(path: &Path) -> u64 {
    fs::metadata(path).expect("a file").blocks()
}

fn refusal(path: &Path, size_bytes: Option<u64>, read_only: bool) -> String {
    Backing::open(path, size_bytes, 0, read_only).err().expect("a refusal").to_string()
}

#[test]
fn one_server_at_a_time_has_the_file() {
    let (_folder, path) = place();
    let first = Backing::open(&path, Some(65536), 0, false).expect("a file");
    for read_only in [false, true] {
        assert!(refusal(&path, None, read_only).contains("served by another process"));
    }
    drop(first);
    let readers = [0; 2].map(|_| Backing::open(&path, None, 0, true).expect("readers"));
    refusal(&path, None, false);
    drop(readers);
    assert_eq!(Backing::open(&path, None, 0, false).expect("a file").size_bytes(), 65536);
}

#[test]
fn what_cannot_back_a_drive_is_refused() {
    let (folder, path) = place();
    let of_a_page = |path: &Path, read_only| refusal(path, Some(4096), read_only);
    assert!(of_a_page(&path, true).contains("cannot be opened"));
    assert!(refusal(&path, None, false).contains("is empty"));
    fs::write(&path, [0; 8192]).expect("a file");
    assert!(of_a_page(&path, false).contains("has 8192 bytes, expected 4096"));
    assert!(of_a_page(folder.path(), false).contains("cannot be opened"));
    assert!(of_a_page(Path::new("/dev/null"), false).contains("no regular file"));
}

#[test]
fn a_drive_over_a_file_that_is_only_read_refuses_writes() {
    let (_folder, path) = place();
    let setup = setup("none", "none");
    fs::write(&path, vec![5; setup.size_bytes() as usize]).expect("a file");
    let mut bench = Bench::over(&setup, Some(Backing::open(&path, None, 0, true).expect("a file")));
    bench.write(0, &[1; 512]);
    bench.ask(Op::Trim, 0, 512);
    bench.ask(Op::Read, 0, 512);
    bench.flush();
    assert_eq!(bench.statuses(), [Status::ReadOnly, Status::ReadOnly, Status::Done, Status::Done]);
    assert_eq!(bench.content()[..512], [5; 512]);
}

#[test]
fn a_file_that_somebody_cut_short_gives_errors_and_no_crash() {
    let (_folder, path) = place();
    for (model, policy) in POLICIES {
        let mut bench = Bench::backed(&setup(model, policy), &path);
        let file = OpenOptions::new().write(true).open(&path).expect("a file");
        file.set_len(PAGE).expect("a shorter file");
        bench.ask(Op::Read, 0, PAGE);
        bench.ask(Op::Read, 8 * PAGE, PAGE);
        bench.submit(Op::Write, 16 * PAGE + 512, 512, false, &[1; 512]);
        let mut answers = bench.settle();
        answers.sort_by_key(|one| one.command.tag.command);
        assert!(answers.iter().map(|one| one.status).eq([Status::Done, Status::Failed, Status::Failed]));
        drop(bench);
        fs::remove_file(&path).expect("a file");
    }
}

/// The variable with the folder that the child fills.
const CHILD: &str = "IOASSAY_TEST_SMALL_FILE";

/// Runs one test of this program again, in a child that may write no large files.
#[test]
fn a_file_that_takes_no_more_is_a_full_drive() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return fill(Path::new(&folder));
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (model, policy) in POLICIES {
        // Of its full size already: what is written behind the limit fails, and nothing else.
        let file = File::create(folder.path().join(format!("{model}-{policy}"))).expect("a file");
        file.set_len(setup(model, policy).size_bytes()).expect("a sparse file");
    }
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "backing_file::a_file_that_takes_no_more_is_a_full_drive"])
        .env(CHILD, folder.path())
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

/// A write that the drive may lose is answered; the flush is what has to tell.
fn says_that_it_is_full(bench: &mut Bench, policy: &str) {
    let mut statuses = bench.statuses();
    assert_eq!(statuses.contains(&Status::NoSpace), policy == "none", "{policy}");
    bench.flush();
    statuses.extend(bench.statuses());
    assert!(statuses.contains(&Status::NoSpace), "{statuses:?}");
}

/// The file may have 32 or 64 KiB (the shell's blocks are of 512 or 1024 bytes); the drive has 256.
fn fill(folder: &Path) {
    for (model, policy) in POLICIES {
        let path = folder.join(format!("{model}-{policy}"));
        let mut bench = Bench::backed(&setup(model, policy), &path);
        bench.write(128 << 10, &[1; 4096]);
        says_that_it_is_full(&mut bench, policy);
        // What lies below the limit works on; a flush tells that not all is durable.
        bench.write(0, &[2; 4096]);
        bench.ask(Op::Read, 128 << 10, 4096);
        assert!(bench.settles_well());
        assert!(bench.drive.finish().is_err());
    }
}

/// A file system of one MiB, gone when this is dropped.
struct Small<'a>(&'a Path);

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_is_a_full_drive_until_there_is_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = rustix::mount::MountFlags::empty();
    if rustix::mount::mount("ioassay-test", folder.path(), "tmpfs", flags, c"size=1m").is_err() {
        eprintln!("skipped: only root can mount a file system");
        return;
    }
    let small = Small(folder.path());
    for (model, policy) in POLICIES {
        let (path, other) = (small.0.join("backing"), small.0.join("other"));
        let mut bench = Bench::backed(&setup(model, policy), &path);
        fs::write(&other, vec![1; 2 << 20]).expect_err("a full disk");
        bench.write(0, &[1; 8192]);
        says_that_it_is_full(&mut bench, policy);
        fs::remove_file(&other).expect("a file");
        assert!(bench.drive.trouble().unreliable);
        // With room again, the next flush makes all durable.
        bench.flush();
        assert_eq!(bench.settle()[0].status, Status::Done);
        assert!(!bench.drive.trouble().unreliable);
        assert_eq!(read(&path)[..8192], [1; 8192]);
        drop(bench);
        fs::remove_file(&path).expect("a file");
    }
}

#[test]
fn a_worn_out_drive_flushes_and_ends_with_all_in_its_file() {
    let (_folder, path) = place();
    let setup = Setup { pages: 256, ..Setup::of("reference", "lru") };
    let geometry = setup.geometry().with("endurance", 2);
    let backing = Backing::open(&path, Some(setup.size_bytes()), 0, false).expect("a file");
    let mut bench = Bench::with(&setup, &geometry, Some(backing));
    let mut page = 0;
    while !bench.drive.trouble().worn_out {
        page = (page * 5 + 3) % setup.pages;
        bench.write(page * PAGE, &[page as u8; PAGE as usize]);
        let flush = bench.flush();
        let flushed = bench.settle().into_iter().find(|one| one.command.tag.command == flush);
        assert_eq!(flushed.expect("an answer").status, Status::Done);
    }
    bench.drive.finish().expect("a file that takes all");
    assert!(read(&path) == bench.content());
}

// The file that is mounted

/// A write of `wx` at byte 5 and a hole of 9 bytes at 1 to a drive that was never read.
fn change(bench: &mut Bench) {
    let (mut session, mut out) = (FuseSession::new(0, (0, 0)), Vec::new());
    for (opcode, body) in [(WRITE, transfer(4096 + 5, 2, 0, b"wx")), (FALLOCATE, allocation(8192 + 1, 9, 1 | 2))] {
        session.received(&request(opcode, 0, &body), &mut bench.drive, &mut out);
    }
    assert!(out.is_empty());
    for one in bench.settle() {
        assert_eq!(one.status, Status::Done);
        assert!(matches!(session.answered(&one.command, one.status), Some(Reply::Short(_))));
    }
}

#[test]
fn what_lies_beside_a_write_or_a_hole_stays_as_the_backing_file_has_it() {
    for (model, policy) in POLICIES {
        let (_folder, path) = place();
        let setup = Setup::of(model, policy);
        let mut wanted = vec![7; setup.size_bytes() as usize];
        fs::write(&path, &wanted).expect("a file");
        let mut bench = Bench::backed(&setup, &path);
        change(&mut bench);
        bench.drive.finish().expect("a file that takes all");
        wanted[4096 + 5..4096 + 7].copy_from_slice(b"wx");
        wanted[8192 + 1..8192 + 10].fill(0);
        assert!(read(&path) == wanted, "{model}, {policy}");
        bench.drive.load(0, setup.size_bytes()).expect("content");
        assert!(bench.content() == wanted, "{model}, {policy}");
    }
}
