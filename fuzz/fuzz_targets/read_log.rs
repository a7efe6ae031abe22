//! Any bytes as a value log: never a panic.

#![no_main]

use ioassay_fiolog::{LogKind, read_log};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|log: &[u8]| {
    let _ = read_log(log, LogKind::Bw, 7);
});
