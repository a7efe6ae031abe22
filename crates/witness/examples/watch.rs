//! Watches a command and prints what was seen as JSON: `watch LEVEL COMMAND…`, LEVEL being `block`, `syscalls`,
//! `explain` or `record=FILE`, with `oldest-` before it by the programs for older kernels. Meant for trying the programs on another kernel, where nothing but this file and a shell is at hand.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ioassay_witness::{Options, Witness};

fn main() -> Result<(), Box<dyn Error>> {
    let level = env::args().nth(1).ok_or("usage: watch LEVEL COMMAND…")?;
    let (oldest, level) = match level.strip_prefix("oldest-") {
        Some(level) => (true, level.to_owned()),
        None => (false, level),
    };
    let record = level.strip_prefix("record=").map(PathBuf::from);
    let options = Options {
        syscalls: level == "syscalls" || level == "explain",
        explain: level == "explain",
        record,
        oldest,
        ..Options::default()
    };
    let mut witness = Witness::attach(&options)?;
    // The shell waits for a line, so that nothing of the command is missed.
    let mut child = Command::new("/bin/sh")
        .args(["-c", "read line; exec \"$@\"", "sh"])
        .args(env::args().skip(2))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    witness.follow(i32::try_from(child.id())?)?;
    child.stdin.take().ok_or("no pipe")?.write_all(b"\n")?;
    let status = child.wait()?;
    println!("{}", witness.finish(&BTreeMap::new()).to_json());
    eprintln!("{status}");
    Ok(())
}
