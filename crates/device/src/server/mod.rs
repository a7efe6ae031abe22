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
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

pub use control::ControlRequest;
pub use drive_group::{MOST_DRIVES, serve_group};
pub use machine::available_bytes;
pub use options::{NamespaceSize, Options, Poll, PreconditioningReport, Ready, TransportReport, Warning};

use crate::Error;
use crate::clock::Clock;
use crate::command::{Drive, DriveInfo, Status};
use crate::emulated_drive::{EmulatedDrive, TransportOverhead};
use crate::model::Model;
use crate::namespace::Namespaces;
use crate::report::Report;
use crate::store::{NewFile, Store};
use crate::transport;
use crate::transport::socket::SharedMemory;
use crate::zones::Zones;
use control::Control;
use event_loop::{DriveServer, LoopOptions};
use machine::{KeepAwake, StopSignal};
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
    pub lost: Option<String>,
}

/// Serves a drive until SIGTERM, SIGINT, SIGHUP or a request to stop; `ready` is called once, when clients can connect.
pub fn serve(options: &Options, ready: impl FnOnce(&Ready)) -> Result<Summary, Error> {
    let signal = StopSignal::on_signals()?;
    let stop = signal.flag();
    drive_group::check_places(std::slice::from_ref(options))?;
    let mut service = Service::prepare(options, &|| !stop.load(Ordering::Relaxed))?;
    ready(&service.calibrate()?);
    service.run(&stop)
}

/// One drive from its options to its end, in one thread.
struct Service<'a> {
    options: &'a Options,
    // Dropped in this order: `device stop` waits until the control socket is gone, and nothing of the
    // drive is mounted then.
    server: DriveServer,
    control: Option<Control>,
    guards: Option<(Option<KeepAwake>, Option<Realtime>)>,
    new_file: Option<NewFile>,
}

impl<'a> Service<'a> {
    /// Opens its transports and its control socket. No client is answered yet.
    fn prepare(options: &'a Options, proceed: &dyn Fn() -> bool) -> Result<Self, Error> {
        let (server, new_file) = prepare(options, proceed)?;
        // Its threads are not to share the processor of this one.
        let control = match &options.stats_socket {
            Some(path) => Some(Control::listen(path, server.wakeup()?)?),
            None => None,
        };
        Ok(Self { options, server, control, guards: None, new_file })
    }

    /// Measures its transports on the processor that serves, and says how clients reach it.
    fn calibrate(&mut self) -> Result<Ready, Error> {
        let options = self.options;
        let except: Vec<u32> = options.pin.into_iter().collect();
        let awake = options.keep_awake.then(|| KeepAwake::start(&except));
        if let Some(processor) = options.pin {
            machine::pin(processor)?;
        }
        let realtime = options.realtime.then(|| Realtime::start(self.server.heartbeat())).transpose()?;
        self.guards = Some((awake, realtime));
        self.server.realtime = options.realtime;
        let mut warnings = Vec::new();
        if options.calibrate {
            calibrate(&mut self.server, &mut warnings)?;
        }
        self.server.poll_once()?; // a mount has been greeted then, with or without a calibration
        warn_about_disk(options, &mut warnings);
        warn_about_steady_state(&self.server, &mut warnings);
        self.server.drive.check_faults(&options.faults)?;
        Ok(ready_report(options, &self.server, warnings))
    }

    /// Serves clients until it is stopped, or all drives are: `stop`.
    fn run(mut self, stop: &AtomicBool) -> Result<Summary, Error> {
        let options = self.options;
        self.server.drive.arm_faults(options.faults.clone())?;
        if let Some(file) = self.new_file.take() {
            file.keep();
        }
        let ended = self.server.run(&LoopOptions {
            poll: options.poll,
            idle_ms: options.idle_ms,
            stop,
            requests: self.control.as_ref().map(|control| &control.requests),
        });
        drop(self.guards.take());
        let lost = self.server.drive.finish().err();
        ended?;
        Ok(Summary {
            report: self.server.drive.snapshot().report(true),
            lost: lost.map(|status| loss_message(status).to_owned()),
        })
    }
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
    zones::check_transports(options)?;
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
    let namespaces = namespaces(options, &facts, model.as_ref())?;
    let geometry = zones::geometry(options, size_bytes, model.as_ref())?;
    let path = options.backing_file.as_ref();
    let is_there = path.is_some_and(|path| path.exists());
    let backing = path.map(|path| zones::open(path, options, size_bytes, geometry.as_ref())).transpose()?;
    let new_file = backing.as_ref().filter(|_| !is_there).map(NewFile::of);
    let zones = zones::zones(geometry, backing.as_ref())?;
    let mut store = Store::new(size_bytes, backing)?;
    if options.prefault {
        store.grant()?;
    } else if model.is_none() {
        store.grant_large_pages(); // no model's time is spoiled by a write that waits for one
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

/// The namespaces that options say.
fn namespaces(options: &Options, facts: &DriveInfo, model: Option<&Model>) -> Result<Namespaces, Error> {
    let sizes_bytes = &options.namespaces_bytes;
    if sizes_bytes.is_empty() {
        return Ok(Namespaces::whole(facts));
    }
    let page_bytes = model.map_or(0, Model::page_bytes).max(4096);
    Namespaces::of_sizes(facts, sizes_bytes, page_bytes)
}

/// The size that options say, or that of the backing file.
fn wanted_size(options: &Options) -> Result<u64, Error> {
    let of_namespaces = || {
        let sum = options.namespaces_bytes.iter().fold(0_u64, |sum, &of| sum.saturating_add(of));
        (sum > 0).then_some(sum)
    };
    let Some(path) = &options.backing_file else {
        let size_bytes = options.size_bytes.or_else(of_namespaces);
        return size_bytes.ok_or_else(|| Error::option("size", "absent", "a size, or a backing file"));
    };
    if let Some(size_bytes) = options.size_bytes {
        return Ok(size_bytes);
    }
    let wrong = |what: String| Error::Backing { path: path.clone(), what };
    match std::fs::metadata(path) {
        Ok(about) if about.len() > 0 => zones::size_of(path, about.len(), options.zones.is_some()),
        Ok(_) => Err(wrong("is empty, expected one that holds a drive, or a size".into())),
        Err(error) => of_namespaces().ok_or_else(|| wrong(format!("{error}; expected a size to make it"))),
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
    let buffered = model.is_some_and(|model| model.simulation().buffer_capacity_pages() > 0);
    let fits = |text: &str, most| text.chars().filter(|&of| (' '..='~').contains(&of)).take(most).collect();
    let name = options.profile.as_ref().unwrap_or(&options.model);
    DriveInfo {
        size_bytes,
        block_bytes: options.block_bytes,
        preferred_bytes: preferred_bytes(options.block_bytes, model),
        read_only: options.read_only,
        volatile_cache: buffered || backed,
        serial: fits(&options.serial, 20),
        model: fits(&format!("ioassay {name}"), 40),
        firmware: fits(env!("CARGO_PKG_VERSION"), 8),
    }
}

/// A page of the model where hosts can be told of it.
fn preferred_bytes(block_bytes: u32, model: Option<&Model>) -> u32 {
    let page_bytes = model.and_then(|model| u32::try_from(model.page_bytes()).ok());
    page_bytes.filter(|page_bytes| page_bytes.is_power_of_two()).unwrap_or(4096).max(block_bytes)
}

/// Measures the overhead of each transport, to be subtracted from the model's time, and warns where
/// that is not possible.
fn calibrate(server: &mut DriveServer, warnings: &mut Vec<Warning>) -> Result<(), Error> {
    let fastest = server.drive.model().map(Model::fastest).transpose()?;
    let read_ns = fastest.map(|[(_, read_ns), _]| read_ns);
    server.overheads = transport_overhead::measure(server, read_ns, warnings)?;
    let none = TransportOverhead { busy_ns: 0, alone_ns: 0 };
    let overheads = server.overheads.iter().map(|overhead| overhead.unwrap_or(none));
    if read_ns.is_some() {
        // Without a model no answer has a time that it could leave before.
        server.drive.set_overheads(overheads.collect());
    }
    for (what, model_ns) in fastest.into_iter().flatten() {
        for transport in server.transport_reports() {
            let Some(alone_ns) = transport.floor_ns.filter(|&alone_ns| alone_ns > model_ns) else {
                continue;
            };
            warnings.push(Warning {
                kind: "faster-than-transport",
                text: format!(
                    "a {what} of one page takes the model {} µs and {} alone {} µs: it will be seen to take as long as {} \
                     takes",
                    microseconds(model_ns),
                    transport.transport,
                    microseconds(alone_ns),
                    transport.transport
                ),
            });
        }
    }
    Ok(())
}

/// One place after the point.
#[allow(clippy::cast_precision_loss)] // below a second
fn microseconds(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1000.0)
}

fn warn_about_disk(options: &Options, warnings: &mut Vec<Warning>) {
    let Some(path) = options.backing_file.as_deref().filter(|_| !options.read_only) else {
        return;
    };
    let (Ok(disk), Ok(file)) = (rustix::fs::statvfs(path), std::fs::metadata(path)) else {
        return;
    };
    let free_bytes = disk.f_bavail * disk.f_frsize;
    let missing_bytes = file.len().saturating_sub(std::os::unix::fs::MetadataExt::blocks(&file) * 512);
    if missing_bytes > free_bytes {
        warnings.push(Warning {
            kind: "disk-may-fill",
            text: format!(
                "backing file {}: {missing_bytes} bytes of it are not there yet and its disk has {free_bytes}: \
                 when that is full, writes fail as on a full drive",
                path.display()
            ),
        });
    }
}

fn warn_about_steady_state(server: &DriveServer, warnings: &mut Vec<Warning>) {
    let done = server.drive.model().and_then(Model::preconditioned);
    if let Some(done) = done.filter(|done| !done.settled) {
        warnings.push(Warning {
            kind: "not-settled",
            text: format!(
                "the drive is not in its steady state: its write amplification did not settle in {} rounds of \
                 preconditioning",
                done.write_amplification.len()
            ),
        });
    }
}

fn ready_report(options: &Options, server: &DriveServer, warnings: Vec<Warning>) -> Ready {
    let facts = server.drive.facts();
    let simulation = server.drive.model().map(Model::simulation);
    Ready {
        transports: server.transport_reports(),
        stats: options.stats_socket.clone(),
        size_bytes: facts.size_bytes,
        namespaces: server
            .drive
            .namespaces()
            .iter()
            .map(|namespace| NamespaceSize { id: namespace.id, size_bytes: namespace.facts.size_bytes })
            .collect(),
        memory_bytes: needed_bytes(facts.size_bytes, &options.transports),
        block_bytes: facts.block_bytes,
        read_only: facts.read_only,
        model: options.model.clone(),
        profile: options.profile.clone(),
        model_bytes: simulation.map(|simulation| simulation.drive().spec().capacity_bytes()),
        page_bytes: server.drive.model().map(Model::page_bytes),
        policy: options.buffer.policy.clone(),
        buffer_pages: simulation.map_or(0, ioassay_sim::engine::OnlineDrive::buffer_capacity_pages),
        preconditioned: server.drive.model().and_then(Model::preconditioned).map(PreconditioningReport::from),
        zones: server.drive.zones().map(Zones::counts),
        faults: options.faults.len(),
        warnings,
    }
}
