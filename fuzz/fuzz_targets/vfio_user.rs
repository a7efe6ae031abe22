//! Any bytes as what a client of vfio-user does, its memory included: no command leaves the drive's bounds, no answer is
//! lost, a file that is truncated kills no process, and who behaves is served afterwards. What is tried is in
//! `crates/device/tests/it/hostile`.

#![no_main]

#[path = "../../crates/device/tests/it/certificates/mod.rs"]
mod certificates;
#[path = "../../crates/device/tests/it/host/mod.rs"]
mod host;
#[path = "../../crates/device/tests/it/hostile/mod.rs"]
mod hostile;
#[path = "../../crates/device/tests/it/memory_drive/mod.rs"]
mod memory_drive;

libfuzzer_sys::fuzz_target!(|script: &[u8]| hostile::vfio_user(script));
