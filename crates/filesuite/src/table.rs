//! Results as IOzone shows them: its rows and matrices, with its widths, floors and units. What it would
//! show as zero because it failed is a dash here; only what a matrix leaves out is 0.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::matrix::Cell;
use crate::outcome::Outcome;
use crate::suite::{Pass, RANDOM_MIX, TESTS, Test};

/// What a number of the table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    KibPerS,
    OpsPerS,
    UsPerOp,
}

impl Unit {
    /// The number of a pass, rounded down: of bytes to whole bytes first, and then to KiB.
    pub fn of(self, outcome: &Outcome) -> Option<u64> {
        let interval_ns = u128::from(outcome.nanoseconds()?);
        let (operations, bytes) = (u128::from(outcome.done.operations), u128::from(outcome.done.bytes));
        let number = match self {
            Self::KibPerS => bytes * 1_000_000_000 / interval_ns / 1024,
            Self::OpsPerS => operations * 1_000_000_000 / interval_ns,
            Self::UsPerOp => interval_ns / 1000 / operations.max(1),
        };
        u64::try_from(number).ok()
    }
}

/// Blanks of a test that was not done; its columns are as wide, but for the last of the usual ones.
fn blanks(test: &Test) -> usize {
    test.passes.iter().map(|pass| pass.width).sum()
}

/// The tests with columns that are always there, and those of them that are there when asked for.
fn columns(chosen: &[u8]) -> impl Iterator<Item = &'static Test> + '_ {
    TESTS.iter().filter(|test| test.number != RANDOM_MIX && (test.number < RANDOM_MIX || chosen.contains(&test.number)))
}

/// The two lines above the rows.
pub fn header(chosen: &[u8]) -> String {
    const ABOVE: [&str; 9] = ["", "", "", "", "random", "random", "bkwd", "record", "stride"];
    const NAMES: [&str; 9] = ["write", "rewrite", "read", "reread", "read", "write", "read", "rewrite", "read"];
    let (mut above, mut names) = (" ".repeat(24), format!("{:>16}{:>8}", "kB", "reclen"));
    let passes = columns(chosen).flat_map(|test| test.passes);
    for (place, pass) in passes.enumerate() {
        let name = NAMES.get(place).unwrap_or(&pass.name);
        let width = pass.width;
        let _ = write!(above, "{:>width$}", ABOVE.get(place).unwrap_or(&""));
        let _ = write!(names, "{name:>width$}");
    }
    format!("{}\n{names}\n", above.trim_end())
}

/// The row of a cell. Numbers that are too wide push the rest on, and may touch their neighbours.
pub fn row(cell: Cell, outcomes: &[Outcome], chosen: &[u8], unit: Unit) -> String {
    let mut row = format!("{:>16}{:>8}", cell.file_bytes / 1024, cell.record_bytes / 1024);
    for test in columns(chosen) {
        if !chosen.contains(&test.number) {
            row += &" ".repeat(blanks(test));
            continue;
        }
        for pass in test.passes {
            let width = pass.width;
            let _ = write!(row, "{:>width$}", number(outcomes, cell, pass, unit));
        }
    }
    row + "\n"
}

fn number(outcomes: &[Outcome], cell: Cell, pass: &Pass, unit: Unit) -> String {
    let found = outcomes.iter().find(|outcome| outcome.cell == cell && outcome.pass.name == pass.name);
    let number = found.and_then(|outcome| unit.of(outcome));
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// The latency of each call of a pass: IOzone's columns, with nanoseconds behind the point.
pub fn latencies(outcome: &Outcome) -> String {
    let mut text = String::from("Offset in kBytes   Latency in microseconds  Transfer size in bytes\n");
    for (offset, latency_ns) in outcome.offsets.iter().zip(&outcome.latencies_ns) {
        let _ = writeln!(
            text,
            "{:>10} {:>14.3} {:>10}",
            offset / 1024,
            *latency_ns as f64 / 1e3,
            outcome.cell.record_bytes
        );
    }
    text
}

/// One matrix for each pass: a row for each file size, a column for each record size.
pub fn matrices(outcomes: &[Outcome], unit: Unit) -> String {
    let mut text = String::new();
    for pass in TESTS.iter().flat_map(|test| test.passes) {
        let of = outcomes.iter().filter(|outcome| outcome.pass.name == pass.name);
        let values: BTreeMap<Cell, Option<u64>> = of.map(|outcome| (outcome.cell, unit.of(outcome))).collect();
        if !values.is_empty() {
            matrix(&mut text, pass.title, &values);
        }
    }
    text
}

fn matrix(text: &mut String, title: &str, values: &BTreeMap<Cell, Option<u64>>) {
    let mut records: Vec<u64> = values.keys().map(|cell| cell.record_bytes).collect();
    records.sort_unstable();
    records.dedup();
    let mut files: Vec<u64> = values.keys().map(|cell| cell.file_bytes).collect();
    files.dedup();
    let _ = write!(text, "\"{title} report\"\n      ");
    for record in &records {
        let _ = write!(text, "  \"{}\"", record / 1024);
    }
    text.push('\n');
    for file_bytes in files {
        let _ = write!(text, "\"{}\"  ", file_bytes / 1024);
        for &record_bytes in records.iter().filter(|&&record| record <= file_bytes) {
            let cell = Cell { file_bytes, record_bytes };
            let _ = match values.get(&cell) {
                Some(Some(value)) => write!(text, " {value} "),
                Some(None) => write!(text, " - "),
                // As IOzone has it: beyond the crossover.
                None => write!(text, " 0 "),
            };
        }
        text.push('\n');
    }
    text.push('\n');
}
