//! Several drives in one process, each on a thread of its own.
//!
//! All are prepared before any is calibrated, and all are calibrated, one after the other, before any
//! serves: so that one that cannot be served refuses them all, and none disturbs what another measures.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope, ScopedJoinHandle};

use super::machine::{self, KeepAwake, StopSignal};
use super::options::{Options, Ready};
use super::{Service, Summary, needed_bytes, wanted_size};
use crate::Error;

/// Drives of one process, at most.
pub const MOST_DRIVES: usize = 64;

/// Serves several drives, each until a request stops it, and all until SIGTERM, SIGINT or SIGHUP; `ready` is called
/// once, when clients can connect to all. How each ended, in their order: an error of one leaves the others alone.
pub fn serve_group(options: &[Options], ready: impl FnOnce(&[Ready])) -> Result<Vec<Result<Summary, Error>>, Error> {
    let signal = StopSignal::on_signals()?;
    let stop = signal.flag();
    let options = shared(options)?;
    let pinned: Vec<u32> = options.iter().filter_map(|drive| drive.pin).collect();
    let _awake = options.iter().any(|drive| drive.keep_awake).then(|| KeepAwake::start(&pinned));
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, options) in options.iter().enumerate() {
            let thread = DriveThread::start(scope, options, &stop).map_err(Error::of_drive(number))?;
            thread.wait().map_err(Error::of_drive(number))?;
            threads.push(thread);
        }
        let mut reports = Vec::new();
        for (number, thread) in threads.iter().enumerate() {
            thread.proceed();
            reports.extend(thread.wait().map_err(Error::of_drive(number))?);
        }
        ready(&reports);
        for thread in &threads {
            thread.proceed();
        }
        Ok(threads.into_iter().map(DriveThread::end).collect())
    })
}

/// The thread of one drive, which proceeds from step to step: prepared, calibrated, served. Dropped
/// before the last, it gives all back.
struct DriveThread<'scope> {
    steps: SyncSender<()>,
    replies: Receiver<Result<Option<Ready>, Error>>,
    thread: ScopedJoinHandle<'scope, Option<Result<Summary, Error>>>,
}

impl<'scope> DriveThread<'scope> {
    fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        options: &'env Options,
        stop: &'env AtomicBool,
    ) -> Result<Self, Error> {
        let (steps, next_step) = sync_channel(1);
        let (reply, replies) = sync_channel(1);
        let thread = thread::Builder::new().name("ioassay-drive".into());
        let thread = thread
            .spawn_scoped(scope, move || drive(options, stop, &next_step, &reply))
            .map_err(|error| Error::system("cannot start a thread for the drive", error))?;
        Ok(Self { steps, replies, thread })
    }

    fn proceed(&self) {
        let _ = self.steps.send(()); // one that panicked takes no step, and `end` says so
    }

    /// Waits until the step is done.
    fn wait(&self) -> Result<Option<Ready>, Error> {
        self.replies.recv().unwrap_or_else(|_| Err(panicked()))
    }

    fn end(self) -> Result<Summary, Error> {
        self.thread.join().ok().flatten().unwrap_or_else(|| Err(panicked()))
    }
}

fn panicked() -> Error {
    Error::system("the drive ended", std::io::Error::other("its thread panicked"))
}

/// A drive from its options to its end; `None` where it was not to serve.
fn drive(
    options: &Options,
    stop: &AtomicBool,
    next_step: &Receiver<()>,
    reply: &SyncSender<Result<Option<Ready>, Error>>,
) -> Option<Result<Summary, Error>> {
    let mut service = match Service::prepare(options, &|| !stop.load(Ordering::Relaxed)) {
        Ok(service) => service,
        Err(error) => {
            let _ = reply.send(Err(error)); // somebody waits
            return None;
        }
    };
    reply.send(Ok(None)).ok()?;
    next_step.recv().ok()?;
    let calibrated = service.calibrate();
    let failed = calibrated.is_err();
    reply.send(calibrated.map(Some)).ok()?;
    if failed {
        return None;
    }
    next_step.recv().ok()?;
    Some(service.run(stop))
}

/// The options of each drive as one of several, if they can be served together.
fn shared(options: &[Options]) -> Result<Vec<Options>, Error> {
    let count = options.len();
    Error::require((1..=MOST_DRIVES).contains(&count), "drives", count, format!("1 to {MOST_DRIVES}"))?;
    check_places(options)?;
    check_processors(options)?;
    let mut needed = Vec::new();
    for (number, drive) in options.iter().enumerate() {
        let size_bytes = wanted_size(drive).map_err(Error::of_drive(number))?;
        needed.push(needed_bytes(size_bytes, &drive.transports));
    }
    let needed_of_all = needed.iter().fold(0_u64, |sum, &of| sum.saturating_add(of));
    let given = options.iter().filter_map(|drive| drive.available_bytes).min();
    let available_bytes = given.or_else(|| machine::available_bytes(Path::new("/"))).unwrap_or(u64::MAX);
    if needed_of_all > available_bytes {
        return Err(Error::MemoryOfAll { drives: options.len(), needed_bytes: needed_of_all, available_bytes });
    }
    let each = options.iter().zip(&needed).map(|(drive, needed_bytes)| {
        let of_others = needed_of_all - needed_bytes;
        Options {
            available_bytes: Some(available_bytes - of_others),
            keep_awake: false, // the threads for that are shared
            ..drive.clone()
        }
    });
    Ok(each.collect())
}

/// Each thread that polls has a processor of its own where that was asked for, and clients have one.
fn check_processors(options: &[Options]) -> Result<(), Error> {
    let mut pinned: Vec<u32> = Vec::new();
    for (number, drive) in options.iter().enumerate() {
        let Some(processor) = drive.pin else { continue };
        let wanted = "a processor that no other drive is pinned to";
        Error::require(!pinned.contains(&processor), "pin", processor, wanted).map_err(Error::of_drive(number))?;
        pinned.push(processor);
    }
    let processors = machine::allowed().map_or(usize::MAX, |allowed| allowed.count() as usize);
    let mut in_realtime = options.iter().enumerate().filter(|(_, of)| of.realtime);
    if let Some((number, _)) = in_realtime.nth(processors.saturating_sub(1)) {
        let wanted = format!("fewer than {processors} drives in real time, so that clients run beside them");
        let error = Error::option("realtime", true, wanted);
        return Err(Error::of_drive(number)(error));
    }
    Ok(())
}

/// Checks that no two sockets, mounted files and backing files are one. Opening a file that another
/// drive is mounted on would wait for that drive, which does not serve yet.
pub fn check_places(options: &[Options]) -> Result<(), Error> {
    let mut taken: Vec<PathBuf> = Vec::new();
    for (number, drive) in options.iter().enumerate() {
        for path in places(drive) {
            let place = resolved(&path);
            if taken.contains(&place) {
                let error = Error::Option {
                    name: "path",
                    value: path.display().to_string(),
                    wanted: "one of its own for each socket, mounted file and backing file".to_owned(),
                };
                return Err(match options.len() {
                    1 => error,
                    _ => Error::of_drive(number)(error),
                });
            }
            taken.push(place);
        }
    }
    Ok(())
}

fn places(options: &Options) -> impl Iterator<Item = PathBuf> {
    let of_transports = options.transports.iter().filter_map(|asked| {
        let (name, place) = asked.split_once(':')?;
        let path = match name {
            "fuse" => place.rsplit_once(",namespace=").map_or(place, |(path, _)| path),
            _ => place.strip_prefix("unix:")?,
        };
        Some(PathBuf::from(path))
    });
    of_transports.chain([&options.stats_socket, &options.backing_file].into_iter().flatten().cloned())
}

/// Without links; nothing may be there yet.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| {
        let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
        match (folder, path.file_name()) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => path.to_owned(),
        }
    })
}
