//! Shows measured repetitions as criterion shows its own: it asks for one sample of each, in turn.
//!
//! `REPETITIONS` names a file of lines `group level nanoseconds…`, a number for each repetition.

use std::cell::Cell;
use std::thread::sleep;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode};

fn main() {
    let path = std::env::var("REPETITIONS").expect("REPETITIONS names the file of repetitions");
    let text = std::fs::read_to_string(path).expect("the file of repetitions is readable");
    let mut criterion = Criterion::default().configure_from_args();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    for study in rows.chunk_by(|row, next| row[0] == next[0]) {
        let mut group = criterion.benchmark_group(study[0][0]);
        for row in study {
            let repetitions: Vec<f64> = row[2..].iter().map(|word| word.parse().expect("a number")).collect();
            // Warm-up takes some too. Samples are as many as repetitions, so each becomes one sample all the same.
            let turn = Cell::new(0);
            group
                .sampling_mode(SamplingMode::Flat)
                .sample_size(repetitions.len())
                .warm_up_time(Duration::from_millis(1))
                .measurement_time(Duration::from_millis(100))
                .bench_function(BenchmarkId::new("depth", row[1]), |bencher| {
                    bencher.iter_custom(|iterations| {
                        let nanoseconds = repetitions[turn.get() % repetitions.len()];
                        turn.set(turn.get() + 1);
                        sleep(Duration::from_millis(2)); // criterion derives the number of iterations from the clock
                        Duration::from_secs_f64(nanoseconds * iterations as f64 / 1e9)
                    });
                });
        }
        group.finish();
    }
    criterion.final_summary();
}
