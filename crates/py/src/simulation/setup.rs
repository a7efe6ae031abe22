//! What Python says of a simulation: a dictionary with `drive`, `buffer`, `precondition`, `feed`
//! and `available_bytes`. What is absent is as in the reference drive. Times are in microseconds.

use std::collections::BTreeMap;

use ioassay_sim::drive::{Controller, GcPolicy, Overlap, Pool, Spec, WearLevelling};
use ioassay_sim::engine::{BufferMode, Destaging, End, IssueMode, RunOptions, Scheduler};
use ioassay_sim::engine::{Unaligned, WriteBehind};
use ioassay_sim::policy::{BlockBy, Layout, Settings};
use ioassay_sim::{BufferSpec, Preconditioning, Setup};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::state_file::{StateSource, StateTarget};
use crate::errors::{Failure, exception};
use crate::fields::Fields;

/// A simulation, and the files of its states.
pub struct Run {
    pub setup: Setup,
    pub state: Option<StateSource>,
    pub save: Option<StateTarget>,
    /// Whether Ctrl-C ends it like the end of its trace.
    pub partial: bool,
}

pub fn of(dictionary: &Bound<'_, PyDict>) -> PyResult<Run> {
    let mut fields = Fields::of("setup", dictionary)?;
    let drive = fields.fields("drive")?.map(read_drive).transpose()?;
    let drive = drive.unwrap_or_default();
    let buffer = fields.fields("buffer")?;
    let preconditioning = fields.fields("precondition")?;
    let run_options = fields.fields("feed")?;
    let available_bytes = fields.whole("available_bytes")?.unwrap_or(u64::MAX);
    let state = fields.fields("state")?;
    let save = fields.fields("save")?;
    let partial = fields.flag("partial")?.unwrap_or(false);
    fields.finish()?;
    let setup = Setup {
        buffer: buffer.map(|fields| read_buffer(fields, &drive)).transpose()?,
        preconditioning: preconditioning.map(read_preconditioning).transpose()?,
        run: run_options.map(read_run_options).transpose()?.unwrap_or_default(),
        drive,
        available_bytes,
    };
    Ok(Run { setup, state: state.map(read_state).transpose()?, save: save.map(read_save).transpose()?, partial })
}

fn read_state(mut fields: Fields<'_>) -> PyResult<StateSource> {
    let path = fields.text("path")?.unwrap_or_default().into();
    let resumed = fields.flag("resumed")?.unwrap_or(false);
    fields.finish()?;
    Ok(StateSource { path, resumed })
}

fn read_save(mut fields: Fields<'_>) -> PyResult<StateTarget> {
    let path = fields.text("path")?.unwrap_or_default().into();
    let label = fields.text("label")?.unwrap_or_default();
    fields.finish()?;
    Ok(StateTarget { path, label })
}

fn read_drive(mut fields: Fields<'_>) -> PyResult<Spec> {
    let mut spec = Spec::default();
    for (key, place) in [
        ("elements", &mut spec.elements),
        ("dies", &mut spec.dies),
        ("planes", &mut spec.planes),
        ("blocks", &mut spec.blocks_per_plane),
        ("pages_per_block", &mut spec.pages_per_block),
        ("page_bytes", &mut spec.page_bytes),
        ("spare_bytes", &mut spec.spare_bytes_per_sector),
        ("channels", &mut spec.channels),
        ("endurance", &mut spec.endurance),
    ] {
        small(&mut fields, key, place)?;
    }
    for (key, place) in [
        ("read_us", &mut spec.read_ps),
        ("program_us", &mut spec.program_ps),
        ("erase_us", &mut spec.erase_ps),
        ("transfer_us_per_byte", &mut spec.transfer_ps_per_byte),
        ("channel_us_per_sector", &mut spec.channel_ps_per_sector),
    ] {
        duration(&mut fields, key, place)?;
    }
    set(&mut spec.reserve, fields.number("reserve")?);
    set(&mut spec.min_free, fields.number("min_free")?);
    set(&mut spec.copy_back, fields.flag("copy_back")?);
    set(&mut spec.read_priority, fields.flag("read_priority")?);
    let pools = [("element", Pool::Element), ("plane", Pool::Plane)];
    one_of(&mut fields, "pool", &pools, &mut spec.pool)?;
    let cleanings = [("greedy", GcPolicy::Greedy), ("cost-benefit", GcPolicy::CostBenefit)];
    one_of(&mut fields, "cleaning", &cleanings, &mut spec.gc_policy)?;
    let overlaps = [("off", Overlap::Off), ("dies", Overlap::Dies), ("planes", Overlap::Planes)];
    one_of(&mut fields, "overlap", &overlaps, &mut spec.overlap)?;
    let mut spread = 8;
    small(&mut fields, "wear_spread", &mut spread)?;
    let levellings =
        [("off", WearLevelling::Off), ("dynamic", WearLevelling::Dynamic), ("static", WearLevelling::Static(spread))];
    one_of(&mut fields, "wear_levelling", &levellings, &mut spec.wear_levelling)?;
    if let Some(options) = fields.item("controller")? {
        spec.controller = read_controller(&options)?;
    }
    fields.finish()?;
    Ok(spec)
}

/// A dictionary from the controller's options, by name, to lists of numbers.
fn read_controller(options: &Bound<'_, PyAny>) -> PyResult<Option<Controller>> {
    let options: BTreeMap<String, Vec<f64>> = options.extract()?;
    let options = options.iter().map(|(name, values)| (name.as_str(), values.as_slice()));
    Controller::of(options).map_err(|error| exception(Failure::Simulation(error, None)))
}

fn read_buffer(mut fields: Fields<'_>, drive: &Spec) -> PyResult<BufferSpec> {
    let layout = Layout {
        elements: drive.elements,
        pages_per_block: drive.pages_per_block,
        pages: 0, // that of the checked drive counts
    };
    let policy = fields.text("policy")?.unwrap_or_else(|| "none".into());
    let pages = fields.whole("pages")?.unwrap_or(0);
    let mut settings = Settings::new(layout, pages as usize);
    set(&mut settings.padding, fields.flag("padding")?);
    set(&mut settings.compensation, fields.flag("compensation")?);
    set(&mut settings.block_requests, fields.flag("block_requests")?);
    let blocks = [("lba", BlockBy::Lba), ("element", BlockBy::Element)];
    one_of(&mut fields, "block_by", &blocks, &mut settings.block_by)?;
    let mut mode = BufferMode::Reshape;
    let modes = [("reshape", BufferMode::Reshape), ("inline", BufferMode::Inline)];
    one_of(&mut fields, "mode", &modes, &mut mode)?;
    let pad_reads = fields.flag("pad_reads")?.unwrap_or(true);
    let destaging = read_destaging(&mut fields)?;
    fields.finish()?;
    Ok(BufferSpec { policy, settings, mode, pad_reads, destaging })
}

fn read_destaging(fields: &mut Fields<'_>) -> PyResult<Destaging> {
    let mut destaging = Destaging {
        high_watermark: fields.number("high_watermark")?,
        low_watermark: fields.number("low_watermark")?,
        ..Destaging::default()
    };
    let mut depth = u32::MAX;
    small(fields, "destage_depth", &mut depth)?;
    destaging.depth = (depth < u32::MAX).then_some(depth);
    one_of(fields, "write_behind", &WriteBehind::NAMES, &mut destaging.write_behind)?;
    Ok(destaging)
}

fn read_preconditioning(mut fields: Fields<'_>) -> PyResult<Preconditioning> {
    let mut how = Preconditioning::default();
    set(&mut how.share, fields.number("share")?);
    set(&mut how.tolerance, fields.number("tolerance")?);
    set(&mut how.rounds, fields.whole("rounds")?.map(|rounds| rounds as usize));
    set(&mut how.most_rounds, fields.whole("most_rounds")?.map(|rounds| rounds as usize));
    set(&mut how.seed, fields.whole("seed")?);
    fields.finish()?;
    Ok(how)
}

fn read_run_options(mut fields: Fields<'_>) -> PyResult<RunOptions> {
    let mut options = RunOptions { issue_mode: read_issue_mode(&mut fields)?, ..RunOptions::default() };
    let mut window = 0;
    small(&mut fields, "window", &mut window)?;
    options.window = (window > 0).then_some(window);
    let schedulers = [("fcfs", Scheduler::Fcfs), ("clook", Scheduler::Clook)];
    one_of(&mut fields, "scheduler", &schedulers, &mut options.scheduler)?;
    let ends = [("drained", End::Drained), ("last-issued", End::LastIssued)];
    one_of(&mut fields, "end", &ends, &mut options.end)?;
    let unaligned = [("round", Unaligned::Round), ("refuse", Unaligned::Refuse)];
    one_of(&mut fields, "unaligned", &unaligned, &mut options.unaligned)?;
    let most = fields.whole("max_outstanding")?;
    set(&mut options.max_outstanding, most.map(|most| most as usize));
    let slices = fields.whole("slices")?.map(|slices| slices.min(100_000));
    set(&mut options.series_rows, slices.map(|rows| rows as usize));
    fields.finish()?;
    Ok(options)
}

/// `feeding` is open, scaled, closed or batches, with `factor`, `outstanding`, or `size` and `gap_us`.
fn read_issue_mode(fields: &mut Fields<'_>) -> PyResult<IssueMode> {
    let name = fields.text("feeding")?.unwrap_or_else(|| "open".into());
    let factor = fields.number("factor")?.unwrap_or(1.0);
    let (mut outstanding, mut size, mut gap_ps) = (1, 1, 0);
    small(fields, "outstanding", &mut outstanding)?;
    small(fields, "size", &mut size)?;
    duration(fields, "gap_us", &mut gap_ps)?;
    match name.as_str() {
        "open" => Ok(IssueMode::OpenLoop),
        "scaled" if factor > 0.0 && factor.is_finite() => Ok(IssueMode::ScaledOpenLoop(factor)),
        "scaled" => Err(argument(format!("feed.factor is {factor}, expected a number above 0"))),
        "closed" | "batches" if outstanding == 0 || size == 0 => {
            Err(argument("feed is of 0 requests at a time, expected at least 1".into()))
        }
        "closed" => Ok(IssueMode::ClosedLoop(outstanding)),
        "batches" => Ok(IssueMode::Bursts { size, gap_ps }),
        _ => Err(argument(format!("feed.feeding is {name}, expected open, scaled, closed or batches"))),
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn small(fields: &mut Fields<'_>, key: &'static str, place: &mut u32) -> PyResult<()> {
    if let Some(value) = fields.whole(key)? {
        *place =
            u32::try_from(value).map_err(|_| argument(format!("{key} is {value}, expected at most {}", u32::MAX)))?;
    }
    Ok(())
}

/// Microseconds to picoseconds; a day at most.
fn duration(fields: &mut Fields<'_>, key: &'static str, place: &mut u64) -> PyResult<()> {
    if let Some(value_us) = fields.number(key)? {
        if !(0.0..=8.64e10).contains(&value_us) {
            let shown = if value_us.abs() < 1e16 { value_us.to_string() } else { format!("{value_us:e}") };
            return Err(argument(format!("{key} is {shown}, expected 0 to a day (8.64e10 microseconds)")));
        }
        *place = (value_us * 1e6).round() as u64;
    }
    Ok(())
}

fn one_of<T: Copy>(
    fields: &mut Fields<'_>,
    key: &'static str,
    choices: &[(&'static str, T)],
    place: &mut T,
) -> PyResult<()> {
    let Some(name) = fields.text(key)? else {
        return Ok(());
    };
    let Some((_, choice)) = choices.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = choices.iter().map(|(known, _)| *known).collect();
        return Err(argument(format!("{key} is {name}, expected {}", known.join(" or "))));
    };
    *place = *choice;
    Ok(())
}

fn argument(message: String) -> PyErr {
    exception(Failure::Argument(message))
}
