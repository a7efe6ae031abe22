//! Any bytes as what comes out of /dev/fuse: no command leaves the drive's bounds, each request has one answer, and the
//! file is what a plain array is. What is tried is in `crates/device/tests/it/hostile/mounted.rs`.

#![no_main]

#[path = "../../crates/device/tests/it/certificates/mod.rs"]
mod certificates;
#[path = "../../crates/device/tests/it/host/mod.rs"]
mod host;
#[path = "../../crates/device/tests/it/hostile/mod.rs"]
mod hostile;
#[path = "../../crates/device/tests/it/memory_drive/mod.rs"]
mod memory_drive;

libfuzzer_sys::fuzz_target!(|script: &[u8]| hostile::fuse(script));
