//! Which file sizes and record sizes are measured: one, given ones, or the automatic matrix.

use crate::error::Error;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Smallest and largest file of the automatic matrix.
pub const AUTO_FILES: (u64, u64) = (64 * KIB, 512 * MIB);
/// Smallest and largest record of the automatic matrix.
pub const AUTO_RECORDS: (u64, u64) = (4 * KIB, 16 * MIB);
/// The file and the record, if neither is given.
pub const SINGLE: (u64, u64) = (512 * KIB, 4 * KIB);
/// Files larger than this leave small records out.
const CROSSOVER_BYTES: u64 = 16 * MIB;
/// The smallest record past the crossover.
const CROSSOVER_RECORD: u64 = 64 * KIB;

/// A file size with a record size, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// Size of the file as it was asked for.
    pub file_bytes: u64,
    pub record_bytes: u64,
}

impl Cell {
    /// Whole records of the file; what is left over is not touched.
    pub fn records(self) -> u64 {
        self.file_bytes / self.record_bytes
    }

    /// Bytes of the whole records.
    pub fn bytes(self) -> u64 {
        self.records() * self.record_bytes
    }
}

/// What is asked for; empty or `None`: not given. All in bytes.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    /// All sizes by doubling, where none are given.
    pub auto: bool,
    pub files: Vec<u64>,
    pub records: Vec<u64>,
    /// Ends of the automatic file sizes.
    pub files_from_to: (Option<u64>, Option<u64>),
    /// Ends of the automatic record sizes.
    pub records_from_to: (Option<u64>, Option<u64>),
    /// Small records are not left out of large files.
    pub no_crossover: bool,
}

impl Matrix {
    /// All cells, by file size, then by record size. No record is larger than its file.
    pub fn cells(&self) -> Result<Vec<Cell>, Error> {
        self.check()?;
        let files = axis(&self.files, self.auto, self.files_from_to, AUTO_FILES, SINGLE.0);
        let records = axis(&self.records, self.auto, self.records_from_to, AUTO_RECORDS, SINGLE.1);
        let crossover = self.has_crossover();
        let mut cells = Vec::new();
        for &file_bytes in &files {
            let least = if crossover && file_bytes > CROSSOVER_BYTES { CROSSOVER_RECORD } else { 1 };
            let fitting = records.iter().filter(|&&record| least <= record && record <= file_bytes);
            cells.extend(fitting.map(|&record_bytes| Cell { file_bytes, record_bytes }));
        }
        if cells.is_empty() {
            let (record, file) = (records.first().unwrap_or(&0), files.last().unwrap_or(&0));
            let wanted = format!("at most the file's size, {file} bytes");
            return Err(Error::option("record", format!("{record} bytes"), wanted));
        }
        Ok(cells)
    }

    /// Whether large files leave small records out: only in a matrix whose records nobody chose.
    pub fn has_crossover(&self) -> bool {
        let chosen = !self.records.is_empty() || !self.files.is_empty() || self.records_from_to != (None, None);
        self.auto && !self.no_crossover && !chosen
    }

    fn check(&self) -> Result<(), Error> {
        let sizes = [("size", &self.files), ("record", &self.records)];
        for (name, given) in sizes {
            if given.contains(&0) {
                return Err(Error::option(name, "0", "at least one byte"));
            }
        }
        let ranges = [
            ("size", self.files_from_to, &self.files, AUTO_FILES),
            ("record", self.records_from_to, &self.records, AUTO_RECORDS),
        ];
        for (name, (from, to), given, usual) in ranges {
            if (from, to) == (None, None) {
                continue;
            }
            if !self.auto {
                let wanted = "with --auto, whose matrix they bound";
                return Err(Error::option(name, "a range", wanted));
            }
            if !given.is_empty() {
                return Err(Error::option(name, "a range and a list", "one of them"));
            }
            let (from, to) = (from.unwrap_or(usual.0), to.unwrap_or(usual.1));
            if from == 0 || from > to {
                let wanted = "a range that begins above 0 and ends no earlier";
                return Err(Error::option(name, format!("{from} to {to} bytes"), wanted));
            }
        }
        Ok(())
    }
}

fn axis(given: &[u64], auto: bool, (from, to): (Option<u64>, Option<u64>), usual: (u64, u64), single: u64) -> Vec<u64> {
    if !given.is_empty() {
        let mut sizes = given.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        return sizes;
    }
    if !auto {
        return vec![single];
    }
    let last = to.unwrap_or(usual.1);
    std::iter::successors(Some(from.unwrap_or(usual.0)), |size| size.checked_mul(2))
        .take_while(|&size| size <= last)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Cell, KIB, MIB, Matrix};

    fn auto() -> Matrix {
        Matrix { auto: true, ..Matrix::default() }
    }

    fn count(cells: &[Cell], wanted: impl Fn(u64) -> bool) -> usize {
        cells.iter().filter(|cell| wanted(cell.file_bytes)).count()
    }

    #[test]
    fn the_automatic_matrix_has_126_cells() {
        let cells = auto().cells().unwrap();
        assert_eq!(count(&cells, |file| file <= 16 * MIB), 81);
        assert_eq!(count(&cells, |file| file > 16 * MIB), 45);
        assert_eq!(cells.len(), 126);
    }

    #[test]
    fn small_records_are_left_out_from_32_mib_on() {
        let least = |matrix: &Matrix, file| {
            let cells = matrix.cells().unwrap();
            cells.iter().filter(|cell| cell.file_bytes == file).map(|cell| cell.record_bytes).min()
        };
        assert_eq!(least(&auto(), 16 * MIB), Some(4 * KIB));
        assert_eq!(least(&auto(), 32 * MIB), Some(64 * KIB));
        let kept = [
            Matrix { no_crossover: true, ..auto() },
            Matrix { files: vec![32 * MIB], ..auto() },
            Matrix { records: vec![4 * KIB], ..auto() },
            Matrix { records_from_to: (Some(4 * KIB), None), ..auto() },
            Matrix { records_from_to: (None, Some(MIB)), ..auto() },
        ];
        for matrix in kept {
            assert_eq!(least(&matrix, 32 * MIB), Some(4 * KIB), "{matrix:?}");
        }
        let bounded = Matrix { files_from_to: (Some(8 * MIB), Some(64 * MIB)), ..auto() };
        assert_eq!(bounded.cells().unwrap().len(), 12 + 13 + 9 + 9);
    }

    #[test]
    fn without_anything_given_it_is_one_cell() {
        let cells = Matrix::default().cells().unwrap();
        assert_eq!(cells, [Cell { file_bytes: 512 * KIB, record_bytes: 4 * KIB }]);
        assert_eq!((cells[0].records(), cells[0].bytes()), (128, 512 * KIB));
    }

    #[test]
    fn lists_are_crossed_and_an_odd_end_is_dropped() {
        let matrix = Matrix { files: vec![10_000, 64 * KIB], records: vec![4096, 16_384], ..auto() };
        let cells = matrix.cells().unwrap();
        assert_eq!(cells.len(), 3);
        assert_eq!((cells[0].records(), cells[0].bytes()), (2, 8192));
    }

    #[test]
    fn what_cannot_be_is_said() {
        let said = |matrix: Matrix| matrix.cells().unwrap_err().to_string();
        let none = Matrix::default;
        assert!(said(Matrix { files: vec![0], ..none() }).contains("at least one byte"));
        assert!(said(Matrix { files: vec![4096], records: vec![8192], ..none() }).contains("at most the file"));
        assert!(said(Matrix { files_from_to: (Some(1), None), ..none() }).contains("--auto"));
        assert!(said(Matrix { files_from_to: (Some(MIB), Some(KIB)), ..auto() }).contains("ends no earlier"));
        assert!(said(Matrix { files: vec![1], files_from_to: (Some(1), None), ..auto() }).contains("one of them"));
    }
}
