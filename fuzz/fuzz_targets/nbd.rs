//! Any bytes as what clients of NBD do: no command leaves the drive's bounds, no answer is lost, memory is
//! bounded, and who behaves is served afterwards. What is tried is in `crates/device/tests/it/hostile`.

#![no_main]

#[path = "../../crates/device/tests/it/certificates/mod.rs"]
mod certificates;
#[path = "../../crates/device/tests/it/host/mod.rs"]
mod host;
#[path = "../../crates/device/tests/it/hostile/mod.rs"]
mod hostile;
#[path = "../../crates/device/tests/it/memory_drive/mod.rs"]
mod memory_drive;

libfuzzer_sys::fuzz_target!(|script: &[u8]| hostile::nbd(script));
