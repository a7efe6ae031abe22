//! The quantity of a log, its unit, and the direction of an I/O.

/// Direction of an I/O, in fio's numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Direction {
    #[default]
    Read,
    Write,
    Trim,
}

impl Direction {
    /// All directions, each at the index that is its number in the log.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Trim];

    /// The direction of that number in the log.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
        }
    }
}

/// Unit of the values that come out of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Nanoseconds,
    /// Bandwidth. fio logs KiB/s; the reader multiplies by 1024.
    BytesPerSecond,
    Iops,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::BytesPerSecond => "bytes/s",
            Self::Iops => "iops",
        }
    }
}

/// The quantity that a log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// Total latency, from creation to completion.
    Lat,
    /// Completion latency, from submission to completion.
    Clat,
    Slat,
    Bw,
    Iops,
}

impl LogKind {
    /// All kinds. `Lat` comes last of the latencies, because the others' names end like its own.
    pub const ALL: [Self; 5] = [Self::Clat, Self::Slat, Self::Lat, Self::Bw, Self::Iops];

    /// The name that fio uses in file names, and the unit of the values as they are returned.
    const fn facts(self) -> (&'static str, Unit) {
        match self {
            Self::Lat => ("lat", Unit::Nanoseconds),
            Self::Clat => ("clat", Unit::Nanoseconds),
            Self::Slat => ("slat", Unit::Nanoseconds),
            Self::Bw => ("bw", Unit::BytesPerSecond),
            Self::Iops => ("iops", Unit::Iops),
        }
    }

    /// The kind called `lat`, `clat`, `slat`, `bw` or `iops`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind that fio's naming of log files says: `<name>_clat.1.log`, `<name>_bw.log`.
    pub fn from_file_name(file_name: &str) -> Option<Self> {
        let stem = file_name.strip_suffix(".log")?;
        let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('.');
        Self::from_name(stem.rsplit('_').next()?)
    }

    pub fn name(self) -> &'static str {
        self.facts().0
    }

    pub fn unit(self) -> Unit {
        self.facts().1
    }

    /// Factor from a value of a log of fio 3 to [`unit`](Self::unit).
    pub fn scale(self) -> u64 {
        if self == Self::Bw { 1024 } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_of_fio_say_the_kind() {
        for (name, kind) in [
            ("job_clat.1.log", Some(LogKind::Clat)),
            ("job_lat.12.log", Some(LogKind::Lat)),
            ("bw_slat.log", Some(LogKind::Slat)),
            ("agg-read_bw.log", Some(LogKind::Bw)),
            ("a_b_iops.3.log", Some(LogKind::Iops)),
            ("job_clat_hist.1.log", None),
            ("job_clat.1.log.gz", None),
            ("notes.txt", None),
        ] {
            assert_eq!(LogKind::from_file_name(name), kind, "{name}");
        }
    }

    #[test]
    fn directions_have_the_numbers_of_fio() {
        assert_eq!(Direction::from_number(2), Some(Direction::Trim));
        assert_eq!(Direction::from_number(3), None);
        assert_eq!(Direction::from_number(u64::MAX), None);
    }
}
