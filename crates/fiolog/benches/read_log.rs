//! Speed of `read_log` over a log in memory, of the kinds that fio writes most.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use ioassay_fiolog::{LogKind, read_log};

const LINES: u64 = 200_000;
const ROUNDS: usize = 20;

/// A log whose value and offset change from line to line, by a fixed linear congruence.
fn log(line: impl Fn(&mut String, u64, u64)) -> String {
    let mut text = String::new();
    let mut state = 1_u64;
    for number in 0..LINES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        line(&mut text, number, state >> 33);
    }
    text
}

fn main() {
    let logs = [
        (
            "as in the documentation",
            log(|text, number, random| {
                let (time, value) = (number / 70, 40_000 + random % 90_000);
                let _ = writeln!(text, "{time}, {value}, {}, 4096, 0, 0", (random >> 16) & 1);
            }),
        ),
        (
            "with offsets",
            log(|text, number, random| {
                let (time, value, offset) = (number / 70, 40_000 + random % 90_000, random % (1 << 18) * 4096);
                let _ = writeln!(text, "{time}, {value}, 0, 4096, {offset}, 0");
            }),
        ),
        (
            "mixed block sizes",
            log(|text, number, random| {
                let (time, value) = (number / 70, 40_000 + random % 90_000);
                let _ = writeln!(text, "{time}, {value}, {}, {}, 0", (random >> 16) & 1, 4096 << ((random >> 20) & 7));
            }),
        ),
    ];
    for (name, text) in &logs {
        let seconds = (0..ROUNDS).map(|_| {
            let begun = Instant::now();
            let log = read_log(black_box(text.as_bytes()), LogKind::Lat, 1000);
            assert_eq!(log.expect("a right log").rows(), LINES);
            begun.elapsed().as_secs_f64()
        });
        let rate = text.len() as f64 / seconds.fold(f64::INFINITY, f64::min) / 1e6;
        println!("{rate:7.1} MB/s  {name}");
    }
}
