//! The drives of one process: one is served by the thread of the caller, and several have a thread each.
//!
//! All are prepared before any is calibrated, and all are calibrated, one after the other, before any
//! serves: so that one that cannot be served refuses them all, and none disturbs what another measures.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope, ScopedJoinHandle};

use super::machine::{self, StopSignal};
use super::options::{Options, Ready};
use super::{Summary, needed_bytes, serve, serve_drive, stopped, wanted_size};
use crate::Error;

/// Drives of one process, at most.
pub const MOST_DRIVES: usize = 64;

/// Serves drives, each until a request stops it, and all until SIGTERM, SIGINT or SIGHUP; `ready` is called once, when
/// clients can connect to all. How each ended, in their order: an error of one of several leaves the others alone.
pub fn serve_group(options: &[Options], ready: impl FnOnce(&[Ready])) -> Result<Vec<Result<Summary, Error>>, Error> {
    if let [alone] = options {
        let summary = serve(alone, |of_drive| ready(std::slice::from_ref(of_drive)))?;
        return Ok(vec![Ok(summary)]);
    }
    let signal = StopSignal::on_signals()?;
    let options = shared(options)?;
    let pinned: Vec<u32> = options.iter().filter_map(|drive| drive.pin).collect();
    let _awake = options.iter().any(|drive| drive.keep_awake).then(|| machine::keep_awake(&pinned));
    thread::scope(|scope| {
        let prepared = of_each(&options, |drive| DriveThread::start(scope, drive, &signal.flag)?.next_step())?;
        let calibrated = of_each(prepared, |(thread, _)| {
            thread.proceed();
            thread.next_step()
        })?;
        let (threads, reports): (Vec<_>, Vec<_>) = calibrated.into_iter().unzip();
        ready(&reports.into_iter().flatten().collect::<Vec<_>>());
        threads.iter().for_each(DriveThread::proceed);
        Ok(threads.into_iter().map(DriveThread::end).collect())
    })
}

/// What a step makes of each drive. An error says which of several drives it concerns.
fn of_each<D, T>(
    drives: impl IntoIterator<Item = D, IntoIter: ExactSizeIterator>,
    mut step: impl FnMut(D) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let drives = drives.into_iter();
    let is_alone = drives.len() == 1;
    let tagged = drives.enumerate().map(|(number, drive)| match step(drive) {
        Err(error) if !is_alone => Err(Error::OfDrive { number, source: Box::new(error) }),
        other => other,
    });
    tagged.collect()
}

/// The thread of one drive, which proceeds from step to step: prepared, calibrated, served. Dropped
/// before the last, it gives all back.
struct DriveThread<'scope> {
    steps: SyncSender<()>,
    replies: Receiver<Option<Ready>>,
    thread: ScopedJoinHandle<'scope, Result<Summary, Error>>,
}

impl<'scope> DriveThread<'scope> {
    fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        options: &'env Options,
        stop: &'env AtomicBool,
    ) -> Result<Self, Error> {
        let (steps, next_step) = sync_channel(1);
        let (reply, replies) = sync_channel(1);
        let report = move |ready| reply.send(ready).is_ok() && next_step.recv().is_ok();
        let thread = thread::Builder::new().name("ioassay-drive".into());
        let thread = thread
            .spawn_scoped(scope, move || serve_drive(options, stop, report))
            .map_err(|error| Error::system("cannot start a thread for the drive", error))?;
        Ok(Self { steps, replies, thread })
    }

    fn proceed(&self) {
        let _ = self.steps.send(()); // one that panicked takes no step, and `end` says so
    }

    /// Waits until the step is done. The error of the drive, if it ended instead.
    fn next_step(self) -> Result<(Self, Option<Ready>), Error> {
        match self.replies.recv() {
            Ok(ready) => Ok((self, ready)),
            Err(_) => self.end().and_then(|_| Err(stopped("before it was served"))),
        }
    }

    fn end(self) -> Result<Summary, Error> {
        self.thread.join().unwrap_or_else(|_| Err(stopped("its thread panicked")))
    }
}

/// The options of each drive as one of several, if they can be served together.
fn shared(options: &[Options]) -> Result<Vec<Options>, Error> {
    let count = options.len();
    Error::require((1..=MOST_DRIVES).contains(&count), "drives", count, format!("1 to {MOST_DRIVES}"))?;
    check_places(options)?;
    check_processors(options)?;
    let needed = of_each(options, |drive| Ok(needed_bytes(wanted_size(drive)?, &drive.transports)))?;
    let needed_bytes = needed.iter().fold(0_u64, |sum, &of| sum.saturating_add(of));
    let given = options.iter().filter_map(|drive| drive.available_bytes).min();
    let available_bytes = given.or_else(|| machine::available_bytes(Path::new("/"))).unwrap_or(u64::MAX);
    if needed_bytes > available_bytes {
        return Err(Error::MemoryOfAll { drives: count, needed_bytes, available_bytes });
    }
    let each = options.iter().zip(&needed).map(|(drive, needed_of_drive)| Options {
        available_bytes: Some(available_bytes - (needed_bytes - needed_of_drive)),
        keep_awake: false, // the threads for that are shared
        ..drive.clone()
    });
    Ok(each.collect())
}

/// Each thread that polls has a processor of its own where that was asked for, and clients have one.
fn check_processors(options: &[Options]) -> Result<(), Error> {
    let processors = machine::allowed().map_or(usize::MAX, |allowed| allowed.count() as usize);
    let (mut pinned, mut in_realtime) = (Vec::new(), 0);
    of_each(options, |drive| {
        if let Some(processor) = drive.pin {
            let wanted = "a processor that no other drive is pinned to";
            Error::require(!pinned.contains(&processor), "pin", processor, wanted)?;
            pinned.push(processor);
        }
        in_realtime += usize::from(drive.realtime);
        let wanted = format!("fewer than {processors} drives in real time, so that clients run beside them");
        Error::require(!drive.realtime || in_realtime < processors, "realtime", true, wanted)
    })
    .map(drop)
}

/// Checks that no two sockets, mounted files and backing files are one. Opening a file that another
/// drive is mounted on would wait for that drive, which does not serve yet.
pub fn check_places(options: &[Options]) -> Result<(), Error> {
    let mut taken: Vec<PathBuf> = Vec::new();
    of_each(options, |drive| {
        for path in places(drive) {
            let place = resolved(&path);
            let wanted = "one of its own for each socket, mounted file and backing file";
            Error::require(!taken.contains(&place), "path", &*path.to_string_lossy(), wanted)?;
            taken.push(place);
        }
        Ok(())
    })
    .map(drop)
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
    let in_folder = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(in_folder).unwrap_or_else(|| path.to_owned())
}
