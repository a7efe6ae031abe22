//! What Python says of a run of the file tests.

use std::path::PathBuf;

use ioassay_filesuite::table::Unit;
use ioassay_filesuite::{Cache, Check, Content, Matrix, Msync, Setup, Shuffle};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::fields::Fields;

const CHECKS: &[(&str, Check)] =
    &[("inside", Check::Inside), ("whole", Check::Whole), ("after", Check::After), ("off", Check::Off)];
const CACHES: &[(&str, Cache)] =
    &[("leave", Cache::Leave), ("drop", Cache::Drop), ("drop-all", Cache::DropAll), ("warm", Cache::Warm)];
const CONTENTS: &[(&str, Content)] =
    &[("random", Content::Random), ("iozone", Content::Iozone), ("zeros", Content::Zeros)];
const MSYNCS: &[(&str, Option<Msync>)] =
    &[("never", Some(Msync::Never)), ("async", Some(Msync::Async)), ("sync", Some(Msync::Sync))];
const SHUFFLES: &[(&str, Shuffle)] = &[("3.471", Shuffle::Swap), ("3.489", Shuffle::Durstenfeld)];
const UNITS: &[(&str, Unit)] =
    &[("kib_per_s", Unit::KibPerS), ("ops_per_s", Unit::OpsPerS), ("us_per_op", Unit::UsPerOp)];

const NUMBERS: &str = "a list of whole numbers";

/// The setup, and what `IOzone`'s table counts in. Absent items have the engine's defaults.
pub fn of(dictionary: &Bound<'_, PyDict>) -> PyResult<(Setup, Unit)> {
    let mut fields = Fields::of("filesuite", dictionary)?;
    let usual = Setup::default();
    let mut setup = Setup {
        tests: list(&mut fields, "tests", NUMBERS)?.unwrap_or(usual.tests),
        matrix: matrix(&mut fields)?,
        path: path(&mut fields, "path")?.unwrap_or(usual.path),
        overwrite: flag(&mut fields, "overwrite")?,
        direct: flag(&mut fields, "direct")?,
        sync: flag(&mut fields, "sync")?,
        fsync: flag(&mut fields, "fsync")?,
        close: flag(&mut fields, "close")?,
        plain: flag(&mut fields, "plain")?,
        repetitions: number(&mut fields, "repetitions", usual.repetitions)?,
        workers: number(&mut fields, "workers", usual.workers)?,
        workers_from: optional(&mut fields, "workers_from")?,
        paths: list(&mut fields, "paths", "a list of paths")?.unwrap_or_default(),
        processor: optional(&mut fields, "processor")?,
        stride: fields.whole("stride")?.unwrap_or(usual.stride),
        jitter: flag(&mut fields, "jitter")?,
        mapped: choice(&mut fields, "mapped", MSYNCS, None)?,
        latencies: flag(&mut fields, "latencies")?,
        keep: flag(&mut fields, "keep")?,
        content: choice(&mut fields, "content", CONTENTS, usual.content)?,
        check: choice(&mut fields, "check", CHECKS, usual.check)?,
        cache: choice(&mut fields, "cache", CACHES, usual.cache)?,
        remount: path(&mut fields, "remount")?,
        shuffle: choice(&mut fields, "shuffle", SHUFFLES, usual.shuffle)?,
        order_key: list(&mut fields, "order_key", NUMBERS)?.unwrap_or(usual.order_key),
        seed: fields.whole("seed")?.unwrap_or(usual.seed),
    };
    if let Some(item) = fields.item("fill")? {
        let byte = item.extract().map_err(|_| fields.wrong("fill", &item, "0 to 255"))?;
        setup.content = Content::Fill(byte);
    }
    let unit = choice(&mut fields, "unit", UNITS, Unit::KibPerS)?;
    fields.finish()?;
    Ok((setup, unit))
}

fn matrix(fields: &mut Fields<'_>) -> PyResult<Matrix> {
    Ok(Matrix {
        auto: flag(fields, "auto")?,
        files: list(fields, "files", NUMBERS)?.unwrap_or_default(),
        records: list(fields, "records", NUMBERS)?.unwrap_or_default(),
        files_from_to: (fields.whole("files_from")?, fields.whole("files_to")?),
        records_from_to: (fields.whole("records_from")?, fields.whole("records_to")?),
        no_crossover: flag(fields, "no_crossover")?,
    })
}

fn flag(fields: &mut Fields<'_>, key: &'static str) -> PyResult<bool> {
    Ok(fields.flag(key)?.unwrap_or_default())
}

fn number(fields: &mut Fields<'_>, key: &'static str, usual: u32) -> PyResult<u32> {
    Ok(optional(fields, key)?.unwrap_or(usual))
}

fn optional(fields: &mut Fields<'_>, key: &'static str) -> PyResult<Option<u32>> {
    let Some(item) = fields.item(key)? else {
        return Ok(None);
    };
    item.extract().map(Some).map_err(|_| fields.wrong(key, &item, "a whole number from 0 to 4294967295"))
}

fn path(fields: &mut Fields<'_>, key: &'static str) -> PyResult<Option<PathBuf>> {
    let Some(item) = fields.item(key)? else {
        return Ok(None);
    };
    item.extract().map(Some).map_err(|_| fields.wrong(key, &item, "a path"))
}

fn list<'py, T>(fields: &mut Fields<'py>, key: &'static str, wanted: &str) -> PyResult<Option<Vec<T>>>
where
    Vec<T>: for<'a> FromPyObject<'a, 'py>,
{
    let Some(item) = fields.item(key)? else {
        return Ok(None);
    };
    match item.extract() {
        Ok(list) => Ok(Some(list)),
        Err(_) => Err(fields.wrong(key, &item, wanted)),
    }
}

fn choice<T: Copy>(fields: &mut Fields<'_>, key: &'static str, known: &[(&str, T)], usual: T) -> PyResult<T> {
    let Some(item) = fields.item(key)? else {
        return Ok(usual);
    };
    let text = item.to_string();
    let found = known.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        fields.wrong(key, &item, &names.join(", "))
    })
}
