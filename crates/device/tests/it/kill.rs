//! A drive that is killed at any instant: what was flushed is in its backing file.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::drives::runs;
use crate::served::{Writer, options_text, write_of};
use ioassay_block::SplitMix64;
use ioassay_device::client::nbd::Client;
use ioassay_device::client::{Initiator, Waiting};
use ioassay_device::server::{Options, serve};
use ioassay_device::transport::socket::Endpoint;

/// The variable with the options of the drive that the child serves.
const CHILD: &str = "IOASSAY_TEST_SERVES";
const BLOCKS: u64 = 256;
const BLOCK: u64 = 4096;

/// The child: serves, and is killed.
#[test]
fn serves_as_a_child() {
    let Ok(text) = std::env::var(CHILD) else {
        return; // a test of its own it is not
    };
    let options: Options = serde_json::from_str(&text).expect("options");
    // Straight to the descriptor: the tests' own output is captured.
    let out = std::fs::OpenOptions::new().write(true).open("/proc/self/fd/1").expect("the output");
    let told = serve(&options, |ready| {
        let line = serde_json::to_string(ready).expect("JSON") + "\n";
        std::io::Write::write_all(&mut &out, line.as_bytes()).expect("a reader");
    });
    told.expect("a clean end");
}

struct EmulatedDrive {
    child: Child,
    socket: PathBuf,
    /// Kept open: the tests' own summary is written to it.
    _out: BufReader<ChildStdout>,
}

impl EmulatedDrive {
    fn start(folder: &Path, model: &str, policy: &str) -> Self {
        let changes = serde_json::json!({
            "size_bytes": BLOCKS * BLOCK,
            "model": model,
            "buffer": {"policy": policy, "buffer": 64 * BLOCK},
            "geometry": {"elements": 4, "planes": 1, "dies": 1, "pages_per_block": 16},
            "backing_file": "FOLDER/backing",
        });
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "kill::serves_as_a_child", "--nocapture"])
            .env(CHILD, options_text(folder, "drive", &changes))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let mut out = BufReader::new(child.stdout.take().expect("its output"));
        let ready = out.by_ref().lines().map_while(Result::ok).any(|line| line.contains("\"ways\""));
        assert!(ready, "the drive did not start");
        Self { child, socket: folder.join("drive.sock"), _out: out }
    }

    fn client(&self) -> Client {
        let at = Endpoint::Unix(self.socket.clone());
        Client::connect(&at, "", true, Waiting::Sleeps).expect("a drive that serves")
    }
}

impl Drop for EmulatedDrive {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes and flushes until the drive is killed.
fn load(drive: &mut EmulatedDrive, writer: &mut Writer, chance: &mut SplitMix64) {
    let mut client = drive.client();
    let until = Instant::now() + Duration::from_micros(chance.below_wide(60_000));
    while Instant::now() < until {
        match chance.below_wide(6) {
            0 => writer.flush(&mut client, 0, true),
            _ => writer.write(&mut client, 0, (chance.below_wide(BLOCKS), 1), chance.below_wide(8) == 0),
        }
        assert_eq!(writer.finish(&mut client), [0]);
    }
    // Some more that nobody waits for, so that it dies at work.
    for tag in 0..16 {
        writer.write(&mut client, tag, (chance.below_wide(BLOCKS), 1), false);
    }
    writer.flush(&mut client, 16, false);
    let _ = client.push();
    std::thread::sleep(Duration::from_micros(chance.below_wide(2000)));
    drive.child.kill().expect("a child");
    drive.child.wait().expect("a child");
}

#[test]
fn what_was_flushed_outlives_a_kill() {
    let seed = 11;
    println!("seed {seed}");
    let mut chance = SplitMix64(seed);
    for (model, policy) in [("none", "none"), ("reference", "none"), ("reference", "lru")] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut writer = Writer::new(BLOCKS, policy != "none");
        for _ in 0..4 {
            let mut drive = EmulatedDrive::start(folder.path(), model, policy);
            load(&mut drive, &mut writer, &mut chance);
            writer.check(&std::fs::read(folder.path().join("backing")).expect("the backing file"));
        }
    }
}

#[test]
fn a_clean_end_keeps_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut drive = EmulatedDrive::start(folder.path(), "reference", "lru");
    let mut client = drive.client();
    let data = vec![7; BLOCK as usize];
    for block in 0..8 {
        client.call(write_of(block * BLOCK, &data, false)).expect("a write");
    }
    let pid = rustix::process::Pid::from_child(&drive.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a child");
    assert!(drive.child.wait().expect("a child").success());
    assert!(!drive.socket.exists());
    let content = std::fs::read(folder.path().join("backing")).expect("the file");
    assert_eq!(runs(&content), [(7, 8 * BLOCK as usize), (0, (BLOCKS - 8) as usize * BLOCK as usize)]);
}
