//! Any bytes as a value log: never a panic, and strict reading fails exactly where lenient reading counts a bad line.

#![no_main]

use ioassay_fiolog::{LogKind, LogOptions, read_log};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|log: &[u8]| {
    let options = LogOptions { window_ms: 7, ..LogOptions::new(LogKind::Bw) };
    let strict = read_log(log, options);
    let lenient = read_log(log, LogOptions { strict: false, ..options });
    match (strict, lenient) {
        (Ok(strict), Ok(lenient)) => assert_eq!(strict, lenient),
        (Err(_), Ok(lenient)) => assert!(lenient.bad_lines > 0),
        (Err(_), Err(_)) => {}
        (Ok(_), Err(error)) => panic!("lenient reading is stricter: {error}"),
    }
});
