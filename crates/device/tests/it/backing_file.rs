//! What a backing file keeps, and what the drive answers when it cannot.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::drives::{Bench, Made, PAGE};
use ioassay_device::command::Drive;
use ioassay_device::store::Backing;
use ioassay_device::{Op, Status};

const POLICIES: [(&str, &str); 3] = [("none", "none"), ("thesis", "none"), ("thesis", "lru")];

fn made(model: &'static str, policy: &'static str) -> Made {
    Made {
        pages: 64,
        model,
        policy,
        ..Made::default()
    }
}

#[test]
fn what_was_written_is_there_after_a_clean_end() {
    for (model, policy) in POLICIES {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("backing");
        let made = made(model, policy);
        let mut bench = Bench::backed(&made, &path);
        bench.write(1024, &[7; 8192]);
        bench.settle();
        bench.drive.finish().expect("a file that takes all");
        let content = bench.content();
        drop(bench);
        assert_eq!(fs::read(&path).expect("a file"), content);
        let mut again = Bench::backed(&made, &path);
        again.submit(Op::Read, 0, made.size_bytes(), false, &[]);
        again.settle();
        assert_eq!(again.content(), content);
    }
}

#[test]
fn what_is_flushed_is_in_the_file_and_what_is_volatile_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("backing");
    let mut bench = Bench::backed(&made("thesis", "lru"), &path);
    bench.write(0, &[1; 4096]);
    bench.settle();
    assert_eq!(fs::read(&path).expect("a file")[0], 0);
    bench.flush();
    bench.settle();
    assert_eq!(fs::read(&path).expect("a file")[0], 1);
    bench.submit(Op::Write, 4096, 512, true, &[2; 512]);
    bench.settle();
    assert_eq!(
        fs::read(&path).expect("a file")[4096..4609],
        [[2; 512].as_slice(), &[0]].concat()
    );
}

#[test]
fn a_new_file_is_sparse_and_private_and_trims_make_holes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("backing");
    let made = Made {
        pages: 4096,
        model: "none",
        ..Made::default()
    };
    let mut bench = Bench::backed(&made, &path);
    let about = fs::metadata(&path).expect("a file");
    assert_eq!(
        (about.len(), about.permissions().mode() & 0o777),
        (16 << 20, 0o600)
    );
    assert!(about.blocks() < 64);
    bench.write(0, &vec![1; 1 << 20]);
    bench.flush();
    bench.settle();
    assert!(fs::metadata(&path).expect("a file").blocks() >= 2048);
    bench.submit(Op::Trim, 0, 1 << 20, false, &[]);
    bench.settle();
    assert!(fs::metadata(&path).expect("a file").blocks() < 64);
}

#[test]
fn one_server_at_a_time_has_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("backing");
    let first = Backing::open(&path, Some(65536), false).expect("a file");
    for read_only in [false, true] {
        let error = Backing::open(&path, None, read_only)
            .err()
            .expect("a lock")
            .to_string();
        assert!(error.contains("served by another process"), "{error}");
    }
    drop(first);
    let readers = [0; 2].map(|_| Backing::open(&path, None, true).expect("readers"));
    assert!(Backing::open(&path, None, false).is_err());
    drop(readers);
    assert_eq!(
        Backing::open(&path, None, false)
            .expect("a file")
            .size_bytes(),
        65536
    );
}

#[test]
fn what_cannot_back_a_drive_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("backing");
    let message = |path: &Path, size, read_only| {
        let error = Backing::open(path, size, read_only)
            .err()
            .expect("a refusal");
        error.to_string()
    };
    assert!(message(&path, Some(4096), true).contains("cannot be opened"));
    assert!(message(&path, None, false).contains("is empty"));
    fs::write(&path, [0; 8192]).expect("a file");
    assert!(message(&path, Some(4096), false).contains("has 8192 bytes, wanted 4096"));
    assert!(message(folder.path(), Some(4096), false).contains("cannot be opened"));
    assert!(message(Path::new("/dev/null"), Some(4096), false).contains("no regular file"));
}

#[test]
fn a_drive_over_a_file_that_is_only_read_refuses_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("backing");
    let made = made("none", "none");
    fs::write(&path, vec![5; made.size_bytes() as usize]).expect("a file");
    let backing = Backing::open(&path, None, true).expect("a file");
    let mut bench = Bench::over(&made, Some(backing));
    bench.write(0, &[1; 512]);
    bench.submit(Op::Trim, 0, 512, false, &[]);
    bench.submit(Op::Read, 0, 512, false, &[]);
    bench.flush();
    let statuses: Vec<Status> = bench.settle().iter().map(|one| one.status).collect();
    assert_eq!(
        statuses,
        [
            Status::ReadOnly,
            Status::ReadOnly,
            Status::Done,
            Status::Done
        ]
    );
    assert_eq!(bench.content()[..512], [5; 512]);
}

#[test]
fn a_file_that_somebody_cut_short_gives_errors_and_no_crash() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("backing");
    for (model, policy) in POLICIES {
        let mut bench = Bench::backed(&made(model, policy), &path);
        let file = OpenOptions::new().write(true).open(&path).expect("a file");
        file.set_len(PAGE).expect("a shorter file");
        bench.submit(Op::Read, 0, PAGE, false, &[]);
        bench.submit(Op::Read, 8 * PAGE, PAGE, false, &[]);
        bench.submit(Op::Write, 16 * PAGE + 512, 512, false, &[1; 512]);
        let mut statuses = Vec::new();
        for one in bench.settle() {
            statuses.push((one.command.tag.command, one.status));
        }
        statuses.sort_by_key(|one| one.0);
        let statuses: Vec<Status> = statuses.into_iter().map(|one| one.1).collect();
        assert_eq!(statuses, [Status::Done, Status::Failed, Status::Failed]);
        drop(bench);
        fs::remove_file(&path).expect("a file");
    }
}

/// Says the child what it is.
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
        file.set_len(made(model, policy).size_bytes())
            .expect("a sparse file");
    }
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "backing_file::a_file_that_takes_no_more_is_a_full_drive",
        ])
        .env(CHILD, folder.path())
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

/// The file may have 32 or 64 KiB (the shell's blocks are of 512 or 1024 bytes); the drive has 256.
fn fill(folder: &Path) {
    for (model, policy) in POLICIES {
        let path = folder.join(format!("{model}-{policy}"));
        let made = made(model, policy);
        let mut bench = Bench::backed(&made, &path);
        bench.write(128 << 10, &[1; 4096]);
        // A write that the drive may lose is answered; the flush is what has to tell.
        let mut statuses: Vec<Status> = bench.settle().iter().map(|one| one.status).collect();
        assert_eq!(
            statuses.contains(&Status::NoSpace),
            policy == "none",
            "{model}, {policy}"
        );
        bench.flush();
        statuses.extend(bench.settle().iter().map(|one| one.status));
        assert!(statuses.contains(&Status::NoSpace), "{statuses:?}");
        // What lies below the limit works on; a flush tells that not all is durable.
        bench.write(0, &[2; 4096]);
        bench.submit(Op::Read, 128 << 10, 4096, false, &[]);
        assert!(bench.settle().iter().all(|one| one.status == Status::Done));
        assert!(bench.drive.finish().is_err());
    }
}

/// A file system of one MiB, gone when this is dropped.
struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("ioassay-test", at, "tmpfs", flags, c"size=1m").ok()?;
        Some(Self(at))
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_is_a_full_drive_until_there_is_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(small) = Small::mount(folder.path()) else {
        eprintln!("skipped: only root can mount a file system");
        return;
    };
    for (model, policy) in POLICIES {
        let (path, other) = (small.0.join("backing"), small.0.join("other"));
        let made = made(model, policy);
        let mut bench = Bench::backed(&made, &path);
        fs::write(&other, vec![1; 2 << 20]).expect_err("a full disk");
        bench.write(0, &[1; 8192]);
        // A write that the drive may lose is answered; the flush is what has to tell.
        let mut statuses: Vec<Status> = bench.settle().iter().map(|one| one.status).collect();
        assert_eq!(
            statuses.contains(&Status::NoSpace),
            policy == "none",
            "{model}, {policy}"
        );
        bench.flush();
        statuses.extend(bench.settle().iter().map(|one| one.status));
        assert!(statuses.contains(&Status::NoSpace), "{statuses:?}");
        fs::remove_file(&other).expect("a file");
        assert!(bench.drive.trouble().unreliable);
        // With room again, the next flush makes all durable.
        bench.flush();
        assert_eq!(bench.settle()[0].status, Status::Done);
        assert!(!bench.drive.trouble().unreliable);
        assert_eq!(fs::read(&path).expect("a file")[..8192], [1; 8192]);
        drop(bench);
        fs::remove_file(&path).expect("a file");
    }
}

#[test]
fn a_worn_out_drive_flushes_and_ends_with_all_in_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("backing");
    let made = Made {
        pages: 256,
        policy: "lru",
        ..Made::default()
    };
    let mut geometry = made.geometry();
    geometry.endurance = Some(2);
    let backing = Backing::open(&path, Some(made.size_bytes()), false).expect("a file");
    let mut bench = Bench::with(&made, &geometry, Some(backing));
    let mut page = 0;
    while !bench.drive.trouble().worn_out {
        page = (page * 5 + 3) % made.pages;
        bench.write(page * PAGE, &[page as u8; PAGE as usize]);
        let flush = bench.flush();
        let answers = bench.settle();
        let flushed = answers.iter().find(|one| one.command.tag.command == flush);
        assert_eq!(flushed.expect("an answer").status, Status::Done);
    }
    bench.drive.finish().expect("a file that takes all");
    assert!(fs::read(&path).expect("a file") == bench.content());
}
