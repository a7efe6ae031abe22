//! Options as people give them. The tables of drive, controller, SLC region, buffer and run say of each its name, kind,
//! range, default and help, all once; Python, the command line, drive files and served drives follow from them.
//! How texts such as `4KiB` are read is left to Python, and which values go together to the checks of the tables.

pub mod kinds;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::de::{Deserialize, Deserializer, Error as _};

use crate::Error;
use crate::error::require;

const SIZE: &str = "size";
/// Of a time that an option gives.
const LONGEST_US: f64 = 1e6;

/// A value as it is given.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Given {
    Flag(bool),
    Whole(u64),
    Number(f64),
    Text(String),
    Numbers(Vec<f64>),
}

macro_rules! given {
    ($($From:ty => $Given:ident),+) => {
        $(impl From<$From> for Given {
            fn from(value: $From) -> Self {
                Self::$Given(value.into())
            }
        })+
    };
}

given!(bool => Flag, u64 => Whole, f64 => Number, &str => Text, Vec<f64> => Numbers);

impl std::fmt::Display for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Whole(number) => number.fmt(f),
            Self::Number(number) => f.write_str(&crate::error::shown(number)),
            Self::Text(text) => text.fmt(f),
            Self::Numbers(numbers) => {
                let shown: Vec<String> = numbers.iter().map(crate::error::shown).collect();
                f.write_str(&shown.join("/"))
            }
        }
    }
}

/// A row of a table of options.
#[derive(Debug, Clone, serde::Serialize)]
pub struct OptionRow {
    pub name: &'static str,
    /// How a value is read: count, number, numbers, share, size, flag, choice, …
    pub kind: &'static str,
    /// Of a number; empty for counts, flags and choices.
    pub unit: &'static str,
    pub default: Given,
    /// The least and the most, where they do not depend on other options.
    pub range: Option<(f64, f64)>,
    pub choices: &'static [&'static str],
    /// Whether it only decides when things are done, so that a drive with a state may change it.
    pub is_timing: bool,
    /// One line of help.
    pub about: String,
}

/// Options that only decide when things are done, beside times, rates and bandwidths.
const RULES_OF_TIMING: [&str; 5] =
    ["read_priority", "flash_channels", "link_duplex", "program_suspensions", "erase_suspensions"];
/// The only time that decides more: a program unit has pages of one type with it.
const STRUCTURAL_TIME: &str = "page_type_program_us";

/// Options that belong together, each with its default at first.
pub trait OptionSet: Default {
    /// What they are options of, for messages.
    const OF: &'static str;

    fn rows() -> Vec<OptionRow>;

    /// Sets an option by its name; false for a name that there is not.
    fn set(&mut self, name: &str, given: &Given) -> Result<bool, Error>;

    /// Sets options by their names.
    fn set_all<'a>(&mut self, options: impl IntoIterator<Item = (&'a str, &'a Given)>) -> Result<(), Error> {
        for (name, given) in options {
            if !self.set(name, given)? {
                return Err(Error::UnknownOption { name: name.to_owned(), of: Self::OF });
            }
        }
        Ok(())
    }
}

/// Options that may all be absent: with their defaults they are.
impl<T: OptionSet + PartialEq> OptionSet for Option<T> {
    const OF: &'static str = T::OF;

    fn rows() -> Vec<OptionRow> {
        Vec::new()
    }

    fn set(&mut self, name: &str, given: &Given) -> Result<bool, Error> {
        let mut options = self.take().unwrap_or_default();
        let known = options.set(name, given)?;
        *self = Some(options).filter(|options| *options != T::default());
        Ok(known)
    }
}

/// Reads a mapping from names to values; what is absent or null has its default.
pub(crate) fn deserialize<'de, T: OptionSet, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let given = BTreeMap::<String, Option<Given>>::deserialize(deserializer)?;
    let mut options = T::default();
    let given = given.iter().filter_map(|(name, given)| Some((name.as_str(), given.as_ref()?)));
    options.set_all(given).map_err(D::Error::custom)?;
    Ok(options)
}

/// Defines a struct by the table of its options, `field ("name"): Kind = default, least..=most;`, in the user's units.
/// The name is the field's where it is absent, and the first paragraph of its documentation is its help. A field
/// behind `with` is a set of options itself.
macro_rules! options {
    (
        $(#[$meta:meta])*
        pub struct $Set:ident of $of:literal {
            $(
                $(#[doc = $about:literal])+
                $field:ident $(($name:literal))?: $Kind:ty = $default:expr $(, $range:expr)?;
            )*
            $(with $(#[$inner_meta:meta])* $inner:ident: $Inner:ty;)?
        }
    ) => {
        $(#[$meta])*
        pub struct $Set {
            $($(#[doc = $about])+ pub $field: <$Kind as $crate::options::Kind>::Value,)*
            $($(#[$inner_meta])* pub $inner: $Inner,)?
        }

        impl Default for $Set {
            fn default() -> Self {
                Self {
                    $($field: $crate::options::default::<$Kind>(&$crate::options::Given::from($default)),)*
                    $($inner: <$Inner>::default(),)?
                }
            }
        }

        impl $crate::options::OptionSet for $Set {
            const OF: &'static str = $of;

            fn rows() -> Vec<$crate::options::OptionRow> {
                #[allow(unused_mut, reason = "a set without another within it")]
                let mut rows = vec![$($crate::options::row::<$Kind>(
                    [$($name,)? stringify!($field)][0],
                    $crate::options::Given::from($default),
                    [$(Some(&$range),)? None][0],
                    concat!($($about, "\n"),+),
                ),)*];
                $(rows.extend(<$Inner>::rows());)?
                rows
            }

            fn set(&mut self, name: &str, given: &$crate::options::Given) -> Result<bool, $crate::Error> {
                match name {
                    $(_ if name == [$($name,)? stringify!($field)][0] => {
                        let name = [$($name,)? stringify!($field)][0];
                        self.$field = $crate::options::read::<$Kind>(name, given)?;
                        Ok(true)
                    })*
                    $(_ if self.$inner.set(name, given)? => Ok(true),)?
                    _ => Ok(false),
                }
            }
        }

        impl $Set {
            /// Checks the ranges that do not depend on other options.
            #[allow(dead_code, reason = "few sets have such ranges")]
            fn check_ranges(&self) -> Result<(), $crate::Error> {
                $(
                    let _name = [$($name,)? stringify!($field)][0];
                    $($crate::options::within(_name, self.$field, &$range)?;)?
                )*
                Ok(())
            }
        }

        impl<'de> serde::Deserialize<'de> for $Set {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::options::deserialize(deserializer)
            }
        }
    };
}
pub(crate) use options;

pub(crate) fn row<K: Kind>(
    name: &'static str,
    default: Given,
    range: Option<&RangeInclusive<u32>>,
    about: &str,
) -> OptionRow {
    let range = range.map(|range| (f64::from(*range.start()), f64::from(*range.end())));
    let range = range.or(match K::UNIT {
        "share" => Some((0.0, 1.0)),
        unit if unit.starts_with("us") => Some((0.0, LONGEST_US)),
        _ => None,
    });
    let default = match default {
        Given::Whole(bytes) if K::NAME == SIZE => size(bytes),
        default => default,
    };
    let help = about.split("\n\n").next().unwrap_or_default().trim().replace("\n ", " ").replace('`', "");
    let (kind, unit, choices) = (K::NAME, K::UNIT, K::CHOICES);
    let is_rate = unit.starts_with("us") || ["MB/s", "commands/s"].contains(&unit);
    let is_timing = (is_rate && name != STRUCTURAL_TIME) || RULES_OF_TIMING.contains(&name);
    OptionRow { name, kind, unit, default, range, choices, is_timing, about: help }
}

/// Bytes as people write them.
fn size(bytes: u64) -> Given {
    match bytes {
        0 => bytes.into(),
        _ if bytes % (1 << 20) == 0 => Given::Text(format!("{}MiB", bytes >> 20)),
        _ if bytes % (1 << 10) == 0 => Given::Text(format!("{}KiB", bytes >> 10)),
        _ => bytes.into(),
    }
}

pub(crate) fn read<K: Kind>(name: &'static str, given: &Given) -> Result<K::Value, Error> {
    K::read(given).map_err(|wanted| Error::Option { name, value: given.to_string(), wanted })
}

/// A value of the table itself.
pub(crate) fn default<K: Kind>(given: &Given) -> K::Value {
    K::read(given).unwrap_or_else(|wanted| unreachable!("{given}, expected {wanted}"))
}

pub(crate) fn within(name: &'static str, value: u32, range: &RangeInclusive<u32>) -> Result<(), Error> {
    require(range.contains(&value), name, value, || format!("{} to {}", range.start(), range.end()))
}

/// What an option takes, and what the model keeps of it.
pub trait Kind {
    type Value;
    const NAME: &'static str;
    const UNIT: &'static str = "";
    const CHOICES: &'static [&'static str] = &[];

    /// The value, or what was expected.
    fn read(given: &Given) -> Result<Self::Value, String>;
}
