//! The kinds of options: what each takes, in the user's units, and what the model keeps of it.

use super::{Given, Kind, LONGEST_US, SIZE};

/// Bytes of a sector, the unit of transfers.
pub const SECTOR_BYTES: u32 = 512;
const SECOND_PS: f64 = 1e12;

impl Given {
    fn number(&self) -> Result<f64, String> {
        match self {
            Self::Whole(number) => Ok(*number as f64),
            Self::Number(number) => Ok(*number),
            _ => Err("a number".into()),
        }
    }

    fn whole<T: TryFrom<u64>>(&self) -> Result<T, String> {
        let whole = match self {
            Self::Whole(number) => Some(*number),
            Self::Number(number) if (0.0..=9e15).contains(number) && number.fract() == 0.0 => Some(*number as u64),
            _ => None,
        };
        let whole = whole.ok_or("a whole number from 0 on")?;
        T::try_from(whole).map_err(|_| format!("at most {}", u64::MAX >> (64 - 8 * size_of::<T>())))
    }

    fn share(&self) -> Result<f64, String> {
        let share = self.number()?;
        if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("a share from 0 to 1".into()) }
    }

    fn picoseconds(&self) -> Result<u64, String> {
        let value_us = self.number()?;
        if (0.0..=LONGEST_US).contains(&value_us) {
            return Ok((value_us * 1e6).round() as u64);
        }
        Err("0 to a second (10^6 microseconds)".into())
    }

    /// Time between events of a rate in `scale` a second; `None` for 0, which is no limit.
    fn interval(&self, scale: f64) -> Result<Option<u64>, String> {
        let rate = self.number()?;
        if rate == 0.0 {
            return Ok(None);
        }
        let interval_ps = SECOND_PS / (rate * scale);
        if rate > 0.0 && interval_ps <= SECOND_PS / 1e3 && rate.is_finite() {
            return Ok(Some(interval_ps.round() as u64));
        }
        Err(format!("0, or at least {}", 1e3 / scale))
    }

    fn times(&self, most: usize) -> Result<Vec<u64>, String> {
        let times = match self {
            Self::Numbers(times) if times.len() <= most => times.clone(),
            Self::Numbers(_) if most == 1 => return Err("one time, or none".into()),
            Self::Numbers(_) => return Err(format!("at most {most} times")),
            Self::Text(_) if self.is_text("none") => Vec::new(),
            _ => vec![self.number()?],
        };
        times.into_iter().map(|time| Self::Number(time).picoseconds()).collect()
    }

    pub(crate) fn text(&self) -> Result<&str, String> {
        match self {
            Self::Text(text) => Ok(text),
            _ => Err("text".into()),
        }
    }

    fn is_text(&self, text: &str) -> bool {
        matches!(self, Self::Text(given) if given == text)
    }
}

macro_rules! kinds {
    ($($(#[$meta:meta])* $Kind:ident: $name:expr, $unit:literal => $Value:ty, $read:expr;)+) => {$(
        $(#[$meta])*
        pub struct $Kind;

        impl Kind for $Kind {
            type Value = $Value;
            const NAME: &'static str = $name;
            const UNIT: &'static str = $unit;

            fn read(given: &Given) -> Result<Self::Value, String> {
                let read: fn(&Given) -> Result<$Value, String> = $read;
                read(given)
            }
        }
    )+};
}

kinds! {
    Flag: "flag", "" => bool, |given| match given {
        Given::Flag(flag) => Ok(*flag),
        _ => Err("true or false".into()),
    };
    Count: "count", "" => u32, Given::whole;
    LongCount: "count", "" => u64, Given::whole;
    Places: "count", "" => usize, Given::whole;
    /// Rows of a time series; more than are kept are as many as are.
    Rows: "count", "" => usize, |given| Ok(given.whole::<usize>()?.min(100_000));
    /// Bytes of a page.
    PageSize: SIZE, "B" => u32, Given::whole;
    Size: SIZE, "B" => u64, Given::whole;
    Share: "share", "share" => f64, Given::share;
    /// A share below 1 that is kept in millionths.
    Millionths: "share", "share" => u64, |given| match given.number()? {
        share if (0.0..1.0).contains(&share) => Ok((share * 1e6).round() as u64),
        _ => Err("a share from 0 up to 1".into()),
    };
    /// A share of which the rest is kept, in millionths.
    Rest: "share", "share" => u64, |given| Ok(((1.0 - given.share()?) * 1e6).round() as u64);
    Microseconds: "number", "us" => u64, Given::picoseconds;
    MicrosecondsPer4KiB: "number", "us/4KiB" => u64, Given::picoseconds;
    MicrosecondsPerByte: "number", "us/B" => u64, Given::picoseconds;
    MicrosecondsPerSector: "number", "us/sector" => u64, Given::picoseconds;
    /// Times by page type; none: those of the specification.
    Times: "numbers", "us" => Vec<u64>, |given| given.times(16);
    /// A time or none, which is as of the specification.
    MaybeTime: "numbers", "us" => Option<u64>, |given| Ok(given.times(1)?.first().copied());
    /// Commands a second at most; the time between them is kept.
    Rate: "number", "commands/s" => u64, |given| Ok(given.interval(1.0)?.unwrap_or(0));
    /// 10^6 bytes a second; the time of a sector is kept.
    Bandwidth: "number", "MB/s" => Option<u64>, |given| given.interval(1e6 / f64::from(SECTOR_BYTES));
    Name: "name", "" => String, |given| given.text().map(str::to_owned);
    AutoShare: "share or auto", "" => Option<f64>, |given| match given {
        _ if given.is_text("auto") => Ok(None),
        _ => given.number().map(Some),
    };
    AutoCount: "count or auto", "" => Option<u32>, |given| match given {
        _ if given.is_text("auto") => Ok(None),
        _ => given.whole().map(Some),
    };
    /// A number; none or 0 is no limit.
    Window: "window", "" => Option<u32>, |given| match given {
        _ if given.is_text("none") => Ok(None),
        _ => given.whole().map(|window| Some(window).filter(|&window| window > 0)),
    };
}

/// Makes an enum the kind of a choice, each of its variants with its name.
macro_rules! choices {
    ($Choice:ident: $($name:literal = $variant:ident),+) => {
        impl $crate::options::Kind for $Choice {
            type Value = Self;
            const NAME: &'static str = "choice";
            const CHOICES: &'static [&'static str] = &[$($name),+];

            fn read(given: &$crate::options::Given) -> Result<Self, String> {
                match given {
                    $($crate::options::Given::Text(text) if text == $name => Ok(Self::$variant),)+
                    _ => Err([$($name),+].join(" or ")),
                }
            }
        }

        impl std::fmt::Display for $Choice {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $name,)+
                })
            }
        }
    };
}
pub(crate) use choices;
