//! Any bytes as a histogram log: never a panic.

#![no_main]

use ioassay_fiolog::read_histogram_log;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|log: &[u8]| {
    let _ = read_histogram_log(log);
});
