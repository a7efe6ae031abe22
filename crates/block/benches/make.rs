//! Requests made and surveyed a second. `cargo bench -p ioassay-block --bench make`

use std::hint::black_box;
use std::time::Instant;

use ioassay_block::info::Survey;
use ioassay_block::make::{Addresses, Arrivals, Recipe, Sizes};
use ioassay_block::prepare::{Preparation, Prepared, Sizing};
use ioassay_block::{Request, Source};

const REQUESTS: u64 = 20_000_000;

fn main() {
    let usual = Recipe { requests: REQUESTS, reads: 0.3, ..Recipe::default() };
    let of = |addresses| Recipe { addresses, ..usual.clone() };
    report("uniform, Poisson", &usual);
    report("normal, Poisson", &of(Addresses::Normal));
    report("zipf 0.99, Poisson", &of(Addresses::Zipf { theta: 0.99 }));
    let mixed = Recipe {
        sizes: Sizes::Exponential { mean_bytes: 8192 },
        arrivals: Arrivals::Bursts { per_second: 1e3, length: 8.0, peak_per_second: 1e5 },
        ..usual.clone()
    };
    report("uniform, bursts, exponential sizes", &mixed);
    let source = usual.source().expect("a recipe that can be");
    let preparation =
        Preparation { sizes: Sizing::RoundOut, limit_bytes: Some(1 << 30), rebase: true, ..Preparation::default() };
    let prepared = Prepared::new(source, preparation).expect("a preparation that can be");
    timed("uniform, Poisson, prepared", prepared, |batch| {
        black_box(batch);
    });
    let mut survey = Survey::new(4096);
    let source = usual.source().expect("a recipe that can be");
    timed("uniform, Poisson, surveyed", source, |batch| {
        survey.take(batch);
    });
}

fn report(name: &str, recipe: &Recipe) {
    let source = recipe.source().expect("a recipe that can be");
    timed(name, source, |batch| {
        black_box(batch);
    });
}

fn timed(name: &str, mut source: impl Source, mut take: impl FnMut(&[Request])) {
    let mut batch = Vec::new();
    let begun = Instant::now();
    loop {
        source.next_batch(&mut batch).expect("making cannot fail");
        if batch.is_empty() {
            break;
        }
        take(&batch);
    }
    let rate = REQUESTS as f64 / begun.elapsed().as_secs_f64() / 1e6;
    println!("{rate:6.1} M requests/s  {name}");
}
