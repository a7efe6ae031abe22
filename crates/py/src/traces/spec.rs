//! What Python says of a source of requests: a dictionary with
//!
//! - `path` (`-` is standard input), `format` (absent: it is found) and `read`
//!   (`out_of_order`, `zero_length`, `bad_lines`, `member`) and `cache` (`folder`, `limit_bytes`; absent: none), or `make` (a recipe), or `recording` (`path` of
//!   what the witness recorded, `own`, `device` as `major:minor`), or `arrays` (of equal length: `kind`, 0 read, 1 write,
//!   2 trim, 3 flush; `offset_bytes`; `bytes`; `at_us`, absent: all 0), and
//! - `prepare` (a preparation), and
//! - `progress`, which is called with what was read and all there is (0: unknown): bytes of a file as
//!   it is on disk, or requests of the cache.

use std::path::PathBuf;
use std::sync::Arc;

use ioassay_block::make::{Addresses, Arrivals, Recipe, Sizes};
use ioassay_block::prepare::{Beyond, Devices, Kinds, Offsets, Preparation, Shrink, Sizing};
use ioassay_block::trace::{BlkEvent, CsvColumns, KindCode, OutOfOrder, ReadOptions, Unit, ZeroLength};
use ioassay_block::{Kind, Request};
use ioassay_witness::record::Selection;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::cache::CacheSpec;
use crate::columns::{numbers, whole_numbers};
use crate::errors::{Failure, exception};
use crate::fields::Fields;

/// A source of requests, described.
pub struct SourceSpec {
    pub(super) origin: Origin,
    pub(super) preparation: Preparation,
    /// Shrink to so many bytes from where the trace ends, which a first pass finds.
    pub(super) shrink_to_bytes: Option<u64>,
    /// What is told how much was read.
    pub(super) listener: Option<Py<PyAny>>,
}

/// Where the requests come from.
pub(super) enum Origin {
    Made(Recipe),
    Arrays(Arc<[Request]>),
    Recorded { path: PathBuf, selection: Selection },
    File(TraceFile),
}

/// A trace that is a file, and how it is read.
#[derive(Clone)]
pub(super) struct TraceFile {
    /// None is standard input.
    pub path: Option<PathBuf>,
    pub format: Option<String>,
    pub read: ReadOptions,
    pub cache: Option<CacheSpec>,
}

impl SourceSpec {
    /// Whether it gives the same requests each time: a pipe does not.
    pub fn is_repeatable(&self) -> bool {
        match &self.origin {
            Origin::File(file) => {
                file.path.as_ref().is_some_and(|path| path.is_file() || path.is_dir())
                    || super::processors::files(file.path.as_deref(), file.format.as_deref()).is_some()
            }
            Origin::Made(_) | Origin::Arrays(_) | Origin::Recorded { .. } => true,
        }
    }

    /// From its dictionary.
    pub fn from_dict(dictionary: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut fields = Fields::of("trace", dictionary)?;
        let make = fields.fields("make")?;
        let path: Option<PathBuf> = fields.item("path")?.map(|item| item.extract()).transpose()?;
        let format = fields.text("format")?;
        let read = fields.fields("read")?;
        let recording = fields.fields("recording")?;
        let cache = fields.fields("cache")?;
        let arrays = fields.fields("arrays")?;
        let listener = fields.item("progress")?.map(Bound::unbind);
        let prepare = fields.fields("prepare")?;
        fields.finish()?;
        let origin = match (make, path, recording, arrays) {
            (Some(make), None, None, None) => Origin::Made(recipe(make)?),
            (None, None, Some(recording), None) => recorded(recording)?,
            (None, None, None, Some(arrays)) => Origin::Arrays(arrays_of(arrays)?),
            (None, Some(path), None, None) => Origin::File(TraceFile {
                path: (path.as_os_str() != "-").then_some(path),
                format,
                read: read.map(read_options).transpose()?.unwrap_or_default(),
                cache: cache.map(cache_spec).transpose()?,
            }),
            _ => {
                let message = "trace has to have one of path, make, recording and arrays".to_owned();
                return Err(exception(Failure::Argument(message)));
            }
        };
        let (preparation, shrink_to_bytes) = prepare.map(preparation).transpose()?.unwrap_or_default();
        Ok(Self { origin, preparation, shrink_to_bytes, listener })
    }
}

fn recorded(mut fields: Fields<'_>) -> PyResult<Origin> {
    let mut selection = Selection::default();
    set(&mut selection.own_only, fields.flag("own")?);
    if let Some(item) = fields.item("device")? {
        let text: String = item.extract()?;
        let number = text.split_once(':').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let wanted = "numbers as in 8:0";
        selection.device = Some(number.ok_or_else(|| fields.wrong("device", &item, wanted))?);
    }
    let Some(path) = fields.text("path")? else {
        let message = "recording has to have a path".to_owned();
        return Err(exception(Failure::Argument(message)));
    };
    fields.finish()?;
    Ok(Origin::Recorded { path: path.into(), selection })
}

/// Requests by columns.
fn arrays_of(mut fields: Fields<'_>) -> PyResult<Arc<[Request]>> {
    let mut column = |name: &'static str| {
        let absent = || exception(Failure::Argument(format!("trace.arrays has no {name}")));
        fields.item(name)?.ok_or_else(absent)
    };
    let whole = |name: &str, item: &Bound<'_, PyAny>| whole_numbers(&format!("trace.arrays.{name}"), item);
    let kinds = whole("kind", &column("kind")?)?;
    let offsets = whole("offset_bytes", &column("offset_bytes")?)?;
    let lengths = whole("bytes", &column("bytes")?)?;
    let times = fields.item("at_us")?.map(|item| numbers("trace.arrays.at_us", &item)).transpose()?;
    fields.finish()?;
    let wrong = |name: &str, at: usize, seen: &dyn std::fmt::Display, wanted: &str| {
        exception(Failure::Argument(format!("trace.arrays.{name}[{at}] is {seen}, expected {wanted}")))
    };
    let times_len = times.as_ref().map_or(kinds.len(), Vec::len);
    for (name, length) in [("offset_bytes", offsets.len()), ("bytes", lengths.len()), ("at_us", times_len)] {
        if length != kinds.len() {
            let message = format!("trace.arrays.{name} has {length} items, expected {}, as kind has", kinds.len());
            return Err(exception(Failure::Argument(message)));
        }
    }
    let mut last_us = 0.0;
    let request = |at: usize| {
        let kind = match kinds[at] {
            0 => Kind::Read,
            1 => Kind::Write,
            2 => Kind::Trim,
            3 => Kind::Flush,
            other => return Err(wrong("kind", at, &other, "0 (read), 1 (write), 2 (trim) or 3 (flush)")),
        };
        let at_us = times.as_ref().map_or(0.0, |times| times[at]);
        if !(last_us..=LONGEST_US).contains(&at_us) {
            return Err(wrong("at_us", at, &at_us, &format!("{last_us}, the time before it, to {LONGEST_US}")));
        }
        last_us = at_us;
        let (offset_bytes, length_bytes) = (offsets[at], lengths[at]);
        Ok(Request { at_ns: (at_us * 1e3).round() as u64, offset_bytes, length_bytes, device: 0, kind })
    };
    (0..kinds.len()).map(request).collect()
}

/// A hundred days, which is the longest trace of a simulation.
const LONGEST_US: f64 = 8.64e12;

fn cache_spec(mut fields: Fields<'_>) -> PyResult<CacheSpec> {
    let folder = fields.item("folder")?.map(|item| item.extract());
    let limit_bytes = fields.whole("limit_bytes")?;
    fields.finish()?;
    let (Some(folder), Some(limit_bytes)) = (folder.transpose()?, limit_bytes) else {
        let message = "trace.cache has to have folder and limit_bytes".to_owned();
        return Err(exception(Failure::Argument(message)));
    };
    Ok(CacheSpec { folder, limit_bytes })
}

fn recipe(mut fields: Fields<'_>) -> PyResult<Recipe> {
    let mut recipe = Recipe::default();
    set(&mut recipe.requests, fields.whole("requests")?);
    if let Some((name, numbers)) = law(&mut fields, "arrivals")? {
        recipe.arrivals = Arrivals::named(&name, &numbers).map_err(of_option)?;
    }
    if let Some((name, numbers)) = law(&mut fields, "addresses")? {
        recipe.addresses = Addresses::named(&name, &numbers).map_err(of_option)?;
    }
    if let Some((name, numbers)) = law(&mut fields, "sizes")? {
        recipe.sizes = Sizes::named(&name, &numbers).map_err(of_option)?;
    }
    set(&mut recipe.reads, fields.number("reads")?);
    set(&mut recipe.trims, fields.number("trims")?);
    set(&mut recipe.begin_bytes, fields.whole("begin_bytes")?);
    set(&mut recipe.range_bytes, fields.whole("range_bytes")?);
    set(&mut recipe.align_bytes, fields.whole("align_bytes")?);
    set(&mut recipe.seed, fields.whole("seed")?);
    fields.finish()?;
    Ok(recipe)
}

/// A law: its name and its numbers, `("zipf", [0.99])`.
fn law(fields: &mut Fields<'_>, key: &'static str) -> PyResult<Option<(String, Vec<f64>)>> {
    let Some(item) = fields.item(key)? else {
        return Ok(None);
    };
    match item.extract() {
        Ok(law) => Ok(Some(law)),
        Err(_) => Err(fields.wrong(key, &item, "a pair of a name and a list of numbers")),
    }
}

fn read_options(mut fields: Fields<'_>) -> PyResult<ReadOptions> {
    let mut options = ReadOptions::default();
    if let Some(item) = fields.item("out_of_order")? {
        options.out_of_order = match (item.extract::<usize>(), item.extract::<String>().as_deref()) {
            (Ok(places), _) => OutOfOrder::Sort(places),
            (_, Ok("refuse")) => OutOfOrder::Refuse,
            (_, Ok("keep")) => OutOfOrder::Keep,
            _ => {
                let wanted = "refuse, keep, or the number of places over which to sort";
                return Err(fields.wrong("out_of_order", &item, wanted));
            }
        };
    }
    set(
        &mut options.zero_length,
        fields.choice("zero_length", &[("refuse", ZeroLength::Refuse), ("skip", ZeroLength::Skip)])?,
    );
    set(&mut options.bad_lines, fields.whole("bad_lines")?);
    let events = [("queued", BlkEvent::Queued), ("issued", BlkEvent::Issued), ("completed", BlkEvent::Completed)];
    set(&mut options.event, fields.choice("event", &events)?);
    set(&mut options.pattern, fields.text("pattern")?);
    set(&mut options.skip_unmatched, fields.flag("skip_unmatched")?);
    options.csv = csv_columns(&mut fields)?;
    options.member = fields.text("member")?;
    fields.finish()?;
    Ok(options)
}

fn csv_columns(fields: &mut Fields<'_>) -> PyResult<CsvColumns> {
    let mut columns = CsvColumns::default();
    if let Some(item) = fields.item("columns")? {
        columns.names = item.extract()?;
    }
    set(&mut columns.skip_header, fields.flag("skip_header")?);
    let units =
        [("s", Unit::Seconds), ("ms", Unit::Milliseconds), ("us", Unit::Microseconds), ("ns", Unit::Nanoseconds)];
    columns.time_unit = fields.choice("time_unit", &units)?;
    columns.offset_unit_bytes = fields.whole("offset_unit_bytes")?;
    columns.length_unit_bytes = fields.whole("length_unit_bytes")?;
    let kinds = [
        ("words", KindCode::Words),
        ("read-is-1", KindCode::ReadIsOne),
        ("write-is-1", KindCode::WriteIsOne),
        ("scsi", KindCode::Scsi),
        ("rwbs", KindCode::Rwbs),
        ("reads", KindCode::Reads),
        ("writes", KindCode::Writes),
    ];
    set(&mut columns.kinds, fields.choice("kinds", &kinds)?);
    Ok(columns)
}

fn preparation(mut fields: Fields<'_>) -> PyResult<(Preparation, Option<u64>)> {
    let mut wanted = Preparation::default();
    if let Some(item) = fields.item("devices")? {
        wanted.devices = devices(&fields, &item)?;
    }
    if let Some(item) = fields.item("keep")? {
        let names: Vec<String> = item.extract()?;
        wanted.keep = Kinds::named(names.iter().map(String::as_str)).map_err(of_option)?;
    }
    set(&mut wanted.drop_empty, fields.flag("drop_empty")?);
    set(&mut wanted.page_bytes, fields.whole("page_bytes")?);
    if let Some(name) = fields.text("offsets")? {
        wanted.offsets = Offsets::named(&name).map_err(of_option)?;
    }
    if let Some(name) = fields.text("sizes")? {
        wanted.sizes = Sizing::named(&name).map_err(of_option)?;
    }
    wanted.cut_bytes = fields.whole("cut_bytes")?;
    wanted.limit_bytes = fields.whole("limit_bytes")?;
    if let Some(name) = fields.text("beyond")? {
        wanted.beyond = Beyond::named(&name).map_err(of_option)?;
    }
    set(&mut wanted.skip, fields.whole("skip")?);
    wanted.first = fields.whole("first")?;
    set(&mut wanted.rebase, fields.flag("rebase")?);
    set(&mut wanted.time_scale, fields.number("time_scale")?);
    let to_bytes = fields.whole("shrink_to_bytes")?;
    let from_bytes = fields.whole("shrink_from_bytes")?;
    fields.finish()?;
    match (to_bytes, from_bytes) {
        (Some(to_bytes), Some(from_bytes)) => {
            wanted.shrink = Some(Shrink { from_bytes, to_bytes });
            Ok((wanted, None))
        }
        (to_bytes, _) => Ok((wanted, to_bytes)),
    }
}

/// `keep`, `ignore`, `("only", n)` or `("side-by-side", bytes)`.
fn devices(fields: &Fields<'_>, item: &Bound<'_, PyAny>) -> PyResult<Devices> {
    if let Ok(name) = item.extract::<String>() {
        match name.as_str() {
            "keep" => return Ok(Devices::Keep),
            "ignore" => return Ok(Devices::Ignore),
            _ => {}
        }
    } else if let Ok((name, number)) = item.extract::<(String, u64)>() {
        match (name.as_str(), u32::try_from(number)) {
            ("only", Ok(device)) => return Ok(Devices::Only(device)),
            ("side-by-side", _) => return Ok(Devices::SideBySide { each_bytes: number }),
            _ => {}
        }
    }
    let wanted = "keep, ignore, (only, number of the device) or (side-by-side, bytes of each)";
    Err(fields.wrong("devices", item, wanted))
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// An option that cannot be, as an exception.
fn of_option(error: ioassay_block::Error) -> PyErr {
    exception(Failure::Trace(error, None))
}
