//! Any bytes as a histogram log: never a panic, and strict reading fails exactly where lenient
//! reading counts a bad line.

#![no_main]

use ioassay_fiolog::{HistogramLogOptions, read_histogram_log};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|log: &[u8]| {
    for cumulative in [false, true] {
        let options = |strict| HistogramLogOptions { strict, cumulative, ..Default::default() };
        let strict = read_histogram_log(log, &options(true));
        let lenient = read_histogram_log(log, &options(false));
        match (strict, lenient) {
            (Ok(strict), Ok(lenient)) => assert_eq!(strict.lines, lenient.lines),
            (Err(_), Ok(lenient)) => assert!(lenient.bad_lines > 0),
            (Err(_), Err(_)) => {}
            (Ok(_), Err(error)) => panic!("lenient reading is stricter: {error}"),
        }
    }
});
