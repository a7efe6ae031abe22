//! NBD against clients that others wrote. A client that is not installed is skipped, and said.

use std::process::{Command, Output};

use crate::memory_drive::{Memory, Served};

fn served(size_bytes: u64, block_bytes: u32) -> Served {
    Served::start("nbd:unix:FOLDER/drive.sock", Memory::forgetful(size_bytes, block_bytes))
}

/// Runs a program for at most five minutes; `None` if it is not installed. KILL, because fio ignores
/// TERM while it waits for an NBD server.
fn ran(program: &str, arguments: &[&str]) -> Option<Output> {
    if Command::new(program).arg("--version").output().is_err() {
        eprintln!("skipped: {program} is not installed");
        return None;
    }
    let output = Command::new("timeout").args(["-s", "KILL", "300", program]).args(arguments).output().unwrap();
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{program} {arguments:?}: {said:?}");
    Some(output)
}

#[test]
fn fio_verifies_what_concurrent_jobs_wrote() {
    let served = served(64 << 20, 4096);
    let uri = format!("--uri={}", served.address);
    let folder = format!("--aux-path={}", served.folder.path().display());
    let job = "--thread --iodepth=16 --size=8M --offset_increment=8M --numjobs=4 --name=v \
               --rw=randwrite --bsrange=4k-128k --verify=crc32c --verify_fatal=1";
    let mut arguments: Vec<&str> = vec!["--ioengine=nbd", &uri, &folder];
    arguments.extend(job.split_whitespace());
    ran("fio", &arguments);
}

#[test]
fn qemu_writes_trims_and_zeroes() {
    let served = served(64 << 20, 512);
    let commands = [
        "write -P 0xab 0 1M",
        "write -f -P 0xcd 1M 64k",
        "aio_write -P 0x12 8M 16M",
        "aio_flush",
        "read -P 0xab 0 1M",
        "read -P 0xcd 1M 64k",
        "read -P 0x12 8M 16M",
        "write -z 0 4k",
        "write -z -u 8k 4k",
        "discard 16k 4k",
        "flush",
        "read -P 0 0 4k",
        "read -P 0 8k 4k",
        "read -P 0 16k 4k",
        "read -P 0xab 20k 4k",
    ];
    let mut arguments = vec!["-f", "raw", served.address.as_str()];
    arguments.extend(commands.iter().flat_map(|command| ["-c", command]));
    let Some(output) = ran("qemu-io", &arguments) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!said.contains("failed") && !said.contains("rror"), "{said}");
}

#[test]
fn an_image_is_copied_to_the_drive_and_back() {
    let served = served(48 << 20, 4096);
    let [image, back] = ["image", "back"].map(|name| served.folder.path().join(name));
    let bytes: Vec<u8> = (0..48u32 << 20).map(|at| (at / 4096 * 31 % 251) as u8).collect();
    std::fs::write(&image, &bytes).unwrap();
    let (image, back_path, uri) = (image.to_str().unwrap(), back.to_str().unwrap(), &served.address);
    let copy = |from, to| ran("nbdcopy", &["--connections=4", "--flush", from, to]);
    if copy(image, uri).is_none() {
        return;
    }
    copy(uri, back_path);
    assert!(std::fs::read(&back).unwrap() == bytes, "the copy differs");
    let compare = ["compare", "-f", "raw", "-F", "raw", image, uri];
    let convert = ["convert", "-n", "-f", "raw", "-O", "raw", "-W", image, uri];
    for arguments in [&compare[..], &convert, &compare] {
        ran("qemu-img", arguments);
    }
}

#[test]
fn nbdinfo_is_told_what_the_drive_can() {
    let served = served(1 << 20, 4096);
    let Some(output) = ran("nbdinfo", &["--json", "--list", &served.address]) else {
        return;
    };
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["structured"], true);
    let export = &said["exports"][0];
    assert_eq!(export["export-name"], "drive");
    assert_eq!(export["export-size"], 1 << 20);
    assert_eq!(export["block_size_minimum"], 4096);
    for can in "multi_conn fua flush trim zero fast_zero cache df".split(' ') {
        assert_eq!(export[format!("can_{can}")], true, "{can}: {export}");
    }
    assert_eq!(export["is_read_only"], false);
}
