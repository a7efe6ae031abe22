//! Serving a drive from its options to its end, in the thread of the caller; or several, each in its own.

mod control;
mod drive_group;
mod event_loop;
mod machine;
mod options;
mod realtime;
mod transport_overhead;
mod zones;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ioassay_sim::Preconditioned;
use serde::Serialize;

pub use control::ControlRequest;
pub use drive_group::{MOST_DRIVES, serve_group};
pub use machine::available_bytes;
pub use options::{NamespaceSize, Options, Poll, PreconditioningReport, Ready, TransportReport, Warning};

use crate::Error;
use crate::clock::Clock;
use crate::command::{Drive, DriveInfo, Status};
use crate::emulated_drive::EmulatedDrive;
use crate::model::Model;
use crate::namespace::Namespaces;
use crate::report::Report;
use crate::store::{NewFile, Store};
use crate::transport;
use crate::transport::socket::SharedMemory;
use crate::zones::Zones;
use control::Control;
use event_loop::DriveServer;
use machine::StopSignal;
use realtime::Realtime;

/// Memory besides the content, one part in this many: tables, copies of volatile pages, buffers.
const CONTENT_PER_OVERHEAD: u64 = 20;

/// The result of serving a drive.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// All counters at the end.
    #[serde(rename = "statistics")]
    pub report: Report,
    /// Why the backing file is incomplete, if it is.
    pub lost: Option<&'static str>,
}

/// Serves a drive until SIGTERM, SIGINT, SIGHUP or a request to stop; `ready` is called once, when clients can connect.
pub fn serve(options: &Options, ready: impl FnOnce(&Ready)) -> Result<Summary, Error> {
    let signal = StopSignal::on_signals()?;
    drive_group::check_places(std::slice::from_ref(options))?;
    let mut ready = Some(ready);
    serve_drive(options, &signal.flag, |calibrated| {
        if let Some(calibrated) = calibrated {
            ready.take().into_iter().for_each(|ready| ready(&calibrated));
        }
        true
    })
}

/// A drive from its options to its end, in this thread, until it is stopped, or all drives are: `stop`. `report` is
/// called when it is prepared, and no client is answered yet, and when its transports are calibrated, with how clients
/// reach it; it returns whether to go on.
fn serve_drive(
    options: &Options,
    stop: &AtomicBool,
    mut report: impl FnMut(Option<Ready>) -> bool,
) -> Result<Summary, Error> {
    let (server, new_file) = prepare(options, &|| !stop.load(Ordering::Relaxed))?;
    // Its threads are not to share the processor of this one.
    let control = options.stats_socket.as_deref().map(|path| Control::listen(path, server.wakeup()?)).transpose()?;
    // Dropped before that: `device stop` waits until the control socket is gone, and nothing of the drive is mounted then.
    let mut server = server;
    if !report(None) {
        return Err(stopped("before it was calibrated"));
    }
    // Transports are measured on the processor that serves.
    let except: Vec<u32> = options.pin.into_iter().collect();
    let awake = options.keep_awake.then(|| machine::keep_awake(&except));
    if let Some(processor) = options.pin {
        machine::pin(processor)?;
    }
    let realtime = options.realtime.then(|| Realtime::start(Arc::clone(&server.heartbeat))).transpose()?;
    server.realtime = options.realtime;
    let mut warnings = Vec::new();
    if options.calibrate {
        calibrate(&mut server, &mut warnings)?;
    }
    server.poll_once()?; // a mount has been greeted then, with or without a calibration
    warnings.extend(disk_warning(options));
    let preconditioned = server.drive.model().and_then(|model| model.preconditioned.as_ref());
    warnings.extend(preconditioned.and_then(steady_state_warning));
    server.drive.check_faults(&options.faults)?;
    if !report(Some(ready_report(options, &server, warnings))) {
        return Err(stopped("before it was served"));
    }
    server.drive.arm_faults(options.faults.clone())?;
    if let Some(file) = new_file {
        file.keep();
    }
    let ended = server.run(options, stop, control.as_ref().map(|control| &control.requests));
    drop((awake, realtime));
    let lost = server.drive.finish().err().map(loss_message);
    ended?;
    Ok(Summary { report: server.drive.report(), lost })
}

fn stopped(why: &str) -> Error {
    Error::system("the drive ended", std::io::Error::other(why))
}

/// The message for a backing file that is incomplete at the end.
fn loss_message(status: Status) -> &'static str {
    match status {
        Status::NoSpace => "the disk is full: what was written last is not in it; free space before it is served again",
        _ => "it could not be written: what was written last is not in it",
    }
}

fn prepare(options: &Options, proceed: &dyn Fn() -> bool) -> Result<(DriveServer, Option<NewFile>), Error> {
    let block_bytes = options.block_bytes;
    Error::require([512, 4096].contains(&block_bytes), "block_bytes", block_bytes, "512 or 4096")?;
    Error::require(!options.transports.is_empty(), "transports", 0, "at least one way to the drive")?;
    let available_bytes = options.available_bytes.or_else(|| available_bytes(Path::new("/"))).unwrap_or(u64::MAX);
    let size_bytes = wanted_size(options)?;
    let left_bytes = check_size(options, size_bytes, available_bytes)?;
    let mut model = Model::new(&options.model, size_bytes, &options.geometry, &options.buffer, left_bytes)?;
    let geometry = zones::geometry(options, size_bytes, model.as_ref())?;
    let opened = options.transports.iter().zip(0..).map(|(pending, number)| transport::open(number, pending));
    let mut transports = opened.collect::<Result<Vec<_>, _>>()?;
    let count = options.namespaces_bytes.len().max(1);
    let memory = SharedMemory::default();
    for transport in &mut transports {
        let namespace = transport.namespace();
        let wanted = format!("at most {count}, as the drive has them");
        Error::require(namespace as usize <= count, "namespace", namespace, wanted)?;
        transport.share_memory(&memory);
    }
    let facts = facts(options, size_bytes, options.backing_file.is_some(), model.as_ref());
    let page_bytes = model.as_ref().map_or(0, |model| model.page_bytes).max(4096);
    let namespaces = Namespaces::of_sizes(&facts, &options.namespaces_bytes, page_bytes)?;
    let is_there = options.backing_file.as_ref().is_some_and(|path| path.exists());
    let (backing, zones) = match &options.backing_file {
        Some(path) => zones::open(path, options, size_bytes, geometry)?,
        None => (None, geometry.map(Zones::new)),
    };
    let new_file = backing.as_ref().filter(|_| !is_there).map(NewFile::of);
    let mut store = Store::new(size_bytes, backing)?;
    if options.prefault {
        store.present.grant()?;
    } else if model.is_none() {
        store.present.grant_large_pages(); // no model's time is spoiled by a write that waits for one
    }
    if let Some(model) = model.as_mut().filter(|_| options.precondition > 0.0) {
        model.precondition(options.precondition, &mut || proceed())?;
    }
    let mut drive = EmulatedDrive::new(facts, store, model, Clock::start())?;
    drive.divide(namespaces);
    if let Some(zones) = zones {
        drive.set_zones(zones);
    }
    Ok((DriveServer::new(drive, transports)?, new_file))
}

/// The size that options say, or that of the backing file.
fn wanted_size(options: &Options) -> Result<u64, Error> {
    let of_namespaces = || {
        let sum = options.namespaces_bytes.iter().fold(0_u64, |sum, &of| sum.saturating_add(of));
        (sum > 0).then_some(sum)
    };
    match (options.size_bytes, &options.backing_file) {
        (Some(size_bytes), _) => Ok(size_bytes),
        (None, None) => of_namespaces().ok_or_else(|| Error::option("size", "absent", "a size, or a backing file")),
        (None, Some(path)) => {
            let wrong = |what: String| Error::Backing { path: path.clone(), what };
            match std::fs::metadata(path) {
                Ok(about) if about.len() > 0 => zones::size_of(path, about.len(), options.zones.is_some()),
                Ok(_) => Err(wrong("is empty, expected one that holds a drive, or a size".into())),
                Err(error) => of_namespaces().ok_or_else(|| wrong(format!("{error}; expected a size to make it"))),
            }
        }
    }
}

/// Memory that it takes at most: its content, tables, and what connections have under way.
fn needed_bytes(size_bytes: u64, transports: &[String]) -> u64 {
    let overhead_bytes = size_bytes / CONTENT_PER_OVERHEAD + transport::memory_bytes(transports);
    size_bytes.saturating_add(overhead_bytes)
}

/// Whether the machine has room for it; what is left beside its content.
fn check_size(options: &Options, size_bytes: u64, available_bytes: u64) -> Result<u64, Error> {
    let block = u64::from(options.block_bytes);
    let wanted = format!("whole blocks of {block} bytes, and at least one");
    Error::require(size_bytes > 0 && size_bytes % block == 0, "size", size_bytes, wanted)?;
    let needed_bytes = needed_bytes(size_bytes, &options.transports);
    if needed_bytes > available_bytes {
        return Err(Error::Memory { size_bytes, needed_bytes, available_bytes });
    }
    Ok(available_bytes - size_bytes)
}

fn facts(options: &Options, size_bytes: u64, backed: bool, model: Option<&Model>) -> DriveInfo {
    let buffered = model.is_some_and(|model| model.simulation.buffer_capacity_pages() > 0);
    let fits = |text: &str, most| text.chars().filter(|&of| (' '..='~').contains(&of)).take(most).collect();
    let name = options.profile.as_ref().unwrap_or(&options.model);
    // A page of the model where hosts can be told of it.
    let page_bytes = model.and_then(|model| u32::try_from(model.page_bytes).ok()).filter(|page| page.is_power_of_two());
    DriveInfo {
        size_bytes,
        block_bytes: options.block_bytes,
        preferred_bytes: page_bytes.unwrap_or(4096).max(options.block_bytes),
        read_only: options.read_only,
        volatile_cache: buffered || backed,
        serial: fits(&options.serial, 20),
        model: fits(&format!("ioassay {name}"), 40),
        firmware: fits(env!("CARGO_PKG_VERSION"), 8),
    }
}

/// Measures the overhead of each transport, to be subtracted from the model's time, and warns where
/// that is not possible.
fn calibrate(server: &mut DriveServer, warnings: &mut Vec<Warning>) -> Result<(), Error> {
    let fastest = server.drive.model().map(Model::fastest).transpose()?;
    let read_ns = fastest.map(|[(_, read_ns), _]| read_ns);
    transport_overhead::measure(server, read_ns, warnings)?;
    if read_ns.is_some() {
        // Without a model no answer has a time that it could leave before.
        server.drive.set_overheads(server.overheads.iter().map(|overhead| overhead.unwrap_or_default()).collect());
    }
    for (what, model_ns) in fastest.into_iter().flatten() {
        for TransportReport { transport, floor_ns, .. } in server.transport_reports() {
            if let Some(alone_ns) = floor_ns.filter(|&alone_ns| alone_ns > model_ns) {
                let (model, alone) = (microseconds(model_ns), microseconds(alone_ns));
                let text = format!(
                    "a {what} of one page takes the model {model} µs and {transport} alone {alone} µs: it will be seen \
                     to take as long as {transport} takes"
                );
                warnings.push(Warning { kind: "faster-than-transport", text });
            }
        }
    }
    Ok(())
}

/// One place after the point.
#[allow(clippy::cast_precision_loss)] // below a second
fn microseconds(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1000.0)
}

/// Whether the disk of the backing file may be full before the drive is.
fn disk_warning(options: &Options) -> Option<Warning> {
    let path = options.backing_file.as_deref().filter(|_| !options.read_only)?;
    let (disk, file) = (rustix::fs::statvfs(path).ok()?, std::fs::metadata(path).ok()?);
    let free_bytes = disk.f_bavail * disk.f_frsize;
    let missing_bytes = file.len().saturating_sub(std::os::unix::fs::MetadataExt::blocks(&file) * 512);
    let text = format!(
        "backing file {}: {missing_bytes} bytes of it are not there yet and its disk has {free_bytes}: when that is \
         full, writes fail as on a full drive",
        path.display()
    );
    (missing_bytes > free_bytes).then_some(Warning { kind: "disk-may-fill", text })
}

fn steady_state_warning(preconditioned: &Preconditioned) -> Option<Warning> {
    let text = format!(
        "the drive is not in its steady state: its write amplification did not settle in {} rounds of preconditioning",
        preconditioned.write_amplification.len()
    );
    (!preconditioned.settled).then_some(Warning { kind: "not-settled", text })
}

fn ready_report(options: &Options, server: &DriveServer, warnings: Vec<Warning>) -> Ready {
    let (facts, model) = (server.drive.facts(), server.drive.model());
    let simulation = model.map(|model| &model.simulation);
    let namespaces = server.drive.namespaces().iter();
    Ready {
        transports: server.transport_reports(),
        stats: options.stats_socket.clone(),
        size_bytes: facts.size_bytes,
        namespaces: namespaces.map(|of| NamespaceSize { id: of.id, size_bytes: of.facts.size_bytes }).collect(),
        memory_bytes: needed_bytes(facts.size_bytes, &options.transports),
        block_bytes: facts.block_bytes,
        read_only: facts.read_only,
        model: options.model.clone(),
        profile: options.profile.clone(),
        model_bytes: simulation.map(|simulation| simulation.drive().spec().capacity_bytes()),
        page_bytes: model.map(|model| model.page_bytes),
        policy: options.buffer.policy.clone(),
        buffer_pages: simulation.map_or(0, ioassay_sim::engine::OnlineDrive::buffer_capacity_pages),
        preconditioned: model.and_then(|model| model.preconditioned.as_ref()).map(PreconditioningReport::from),
        zones: server.drive.zones().map(Zones::counts),
        faults: options.faults.len(),
        warnings,
    }
}
