//! Sources of requests that are open: files are opened here, because the pure crates open none.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ioassay_block::container::{self, Input, LeftOut};
use ioassay_block::prepare::{Changes, Preparation, Prepared, Shrink};
use ioassay_block::{Error, Request, Source, trace};
use ioassay_witness::record::Reader;
use pyo3::prelude::*;

use super::cache::{CacheReport, CachedTrace, FromCache, Hashing, Parse, SharedReport};
use super::processors;
use super::progress::{Amount, Progress};
use super::spec::{Origin, SourceSpec, TraceFile};
use crate::containers::files_in;
use crate::errors::{Failure, exception};

/// Between two looks at whether the user wants to stop: a few milliseconds of work.
const BATCHES_BETWEEN_SIGNALS: u32 = 64;

/// An open source, and what is known of it.
pub struct Opened {
    pub source: Box<dyn Source + Send>,
    /// What preparation has done so far.
    pub changes: Arc<Mutex<Changes>>,
    /// The name of the format; None of a trace that is made.
    pub format: Option<&'static str>,
    /// For messages; None of a trace that is made.
    pub path: Option<PathBuf>,
    /// Looks at signals, and tells how much was read.
    pub progress: Progress,
    /// What the cache of parsed traces did.
    cache: SharedReport,
    /// Files of an archive or folder that are no part of the trace.
    left_out: Arc<Mutex<LeftOut>>,
    /// A Ctrl-C that came while a read was waiting.
    interruption: Interruption,
}

type Interruption = Arc<Mutex<Option<PyErr>>>;

/// Opens a source of requests: reads a file's head to find its format, and, where the range is to
/// be shrunk from an end that was not told, the whole trace once to find it.
///
/// `OSError` where the file cannot be opened, `CoreError` for what is wrong with it or the options.
#[allow(dead_code, reason = "for other modules of this crate")]
pub fn open_source(spec: &SourceSpec) -> PyResult<Box<dyn Source + Send>> {
    open(spec).map(|opened| opened.source)
}

/// [`open_source`], with what is known of the source.
pub fn open(spec: &SourceSpec) -> PyResult<Opened> {
    let mut preparation = spec.preparation;
    if let Some(to_bytes) = spec.shrink_to_bytes {
        let from_bytes = end_of(spec)?;
        preparation.shrink = Some(Shrink { from_bytes, to_bytes });
    }
    open_with(spec, preparation)
}

fn open_with(spec: &SourceSpec, preparation: Preparation) -> PyResult<Opened> {
    let interruption = Interruption::default();
    let cache = SharedReport::default();
    let left_out = Arc::default();
    let listener = Python::attach(|py| spec.listener.as_ref().map(|known| known.clone_ref(py)));
    let progress = Progress::new(listener);
    let changes = Arc::new(Mutex::new(Changes::default()));
    let (source, format, path): (Box<dyn Source + Send>, _, _) = match &spec.origin {
        Origin::Made(recipe) => {
            let made = recipe.source().map_err(|error| of_trace(error, None))?;
            (Box::new(made), None, None)
        }
        Origin::Arrays(requests) => (Box::new(InMemory { requests: Arc::clone(requests), given: 0 }), None, None),
        Origin::Recorded { path, selection } => {
            let reader = Reader::open(path, *selection).map_err(|error| of_trace(error, Some(path.as_path())))?;
            (Box::new(reader), Some("recording"), Some(path.clone()))
        }
        Origin::File(file) => {
            let (source, format) = open_file(file, &interruption, &cache, &left_out, &progress.amount)?;
            (source, Some(format), Some(shown(file.path.as_deref())))
        }
    };
    let prepared = Prepared::new(source, preparation).map_err(|error| of_trace(error, path.as_deref()))?;
    Ok(Opened {
        source: Box::new(Counted { prepared, changes: Arc::clone(&changes) }),
        changes,
        format,
        path,
        cache,
        left_out,
        progress,
        interruption,
    })
}

/// The path, standard input as it is called in messages.
fn shown(path: Option<&Path>) -> PathBuf {
    path.map_or_else(|| PathBuf::from("standard input"), Path::to_owned)
}

/// Opens a file: out of the cache of parsed traces, or parsed, and then written into it.
fn open_file(
    file: &TraceFile,
    interruption: &Interruption,
    report: &SharedReport,
    left_out: &Arc<Mutex<LeftOut>>,
    amount: &Arc<Amount>,
) -> PyResult<(Box<dyn Source + Send>, &'static str)> {
    let path = file.path.as_deref();
    let failed = |error| match taken(interruption) {
        Some(stopped) => stopped,
        None => of_trace(error, Some(&shown(path))),
    };
    // The files of several processors are one trace, of which the path names one.
    let processors = processors::files(path, file.format.as_deref());
    let in_cache = path
        .zip(file.cache.as_ref().filter(|_| processors.is_none()))
        .and_then(|(path, cache)| CachedTrace::of(cache, path, file.format.as_deref(), &file.read, report));
    let Some(trace) = in_cache else {
        let inputs = inputs_of(path, processors.as_deref(), interruption, amount, None).map_err(failed)?;
        return parse(&inputs, file, left_out).map_err(failed);
    };
    let mut stopped = None;
    let hit = trace.look_up(&mut || {
        stopped = Python::attach(|py| py.check_signals()).err();
        stopped.is_none()
    });
    if let Some(stopped) = stopped {
        return Err(stopped);
    }
    if let Some(hit) = hit {
        let format = hit.format;
        let (file, interruption) = (file.clone(), Arc::clone(interruption));
        let (of_file, left_out) = (Arc::clone(amount), Arc::clone(left_out));
        let parse_anew: Parse = Box::new(move || {
            let inputs = inputs_of(file.path.as_deref(), None, &interruption, &of_file, None)?;
            parse(&inputs, &file, &left_out).map(|(source, _)| source)
        });
        return Ok((Box::new(FromCache::new(trace, hit, amount, parse_anew)), format));
    }
    let hashing = Hashing::default();
    let inputs = inputs_of(path, None, interruption, amount, Some(&hashing)).map_err(failed)?;
    let (source, format) = parse(&inputs, file, left_out).map_err(failed)?;
    Ok((trace.recorded(source, format, hashing, Arc::clone(left_out)), format))
}

/// The file, those of several `processors`, or of a folder by their names; what is read of the file first is hashed.
fn inputs_of(
    path: Option<&Path>,
    processors: Option<&[PathBuf]>,
    interruption: &Interruption,
    amount: &Arc<Amount>,
    hashing: Option<&Hashing>,
) -> Result<Vec<Input>, Error> {
    amount.done.store(0, Ordering::Relaxed);
    amount.total.store(0, Ordering::Relaxed);
    let mut paths = Vec::new();
    let folder = match (path, processors) {
        (Some(path), Some(files)) => {
            paths.extend(files.iter().cloned().map(Some));
            path.parent()
        }
        (Some(folder), None) if folder.is_dir() => {
            paths.extend(files_in(folder)?.into_iter().map(Some));
            Some(folder)
        }
        _ => {
            paths.push(path.map(Path::to_owned));
            None
        }
    };
    let input = |file: Option<PathBuf>| {
        let inside = file.as_ref().zip(folder).map(|(file, folder)| file.strip_prefix(folder).unwrap_or(file));
        let name = inside.unwrap_or(Path::new("")).to_string_lossy().into_owned();
        let (interruption, amount) = (Arc::clone(interruption), Arc::clone(amount));
        let (hashing, opened) = (hashing.cloned(), AtomicBool::new(false));
        let open = move || -> io::Result<Box<dyn Read + Send>> {
            let again = opened.swap(true, Ordering::Relaxed);
            let input = input_of(file.as_deref(), again, &interruption, &amount)?;
            Ok(match &hashing {
                Some(hashing) if !again => Box::new(CachedTrace::hashed(input, hashing)),
                _ => Box::new(input),
            })
        };
        Input { name, open: Arc::new(open) }
    };
    Ok(paths.into_iter().map(input).collect())
}

fn input_of(
    path: Option<&Path>,
    again: bool,
    interruption: &Interruption,
    amount: &Arc<Amount>,
) -> io::Result<Interruptible> {
    let input: Box<dyn Read + Send> = match path {
        Some(path) => {
            let file = File::open(path)?;
            amount.total.fetch_add(file.metadata()?.len(), Ordering::Relaxed);
            Box::new(file)
        }
        None if again => {
            let message = "the files of an archive are merged by time (--out-of-order sort:N) from a file on disk, \
                           not from standard input, which can be read only once";
            return Err(io::Error::other(message));
        }
        None => Box::new(io::stdin()),
    };
    Ok(Interruptible { input, amount: Arc::clone(amount), interruption: Arc::clone(interruption) })
}

/// The requests of the inputs, whatever they are packed in, and the name of their format.
fn parse(
    inputs: &[Input],
    file: &TraceFile,
    left_out: &Arc<Mutex<LeftOut>>,
) -> Result<(Box<dyn Source + Send>, &'static str), Error> {
    let format = file.format.as_deref().map(trace::format).transpose()?;
    let hint = file.path.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    let (source, format) = container::read(inputs, format, hint, &file.read, left_out)?;
    Ok((source, format.name))
}

/// Where the furthest of the requests that are kept ends, before anything is moved.
fn end_of(spec: &SourceSpec) -> PyResult<u64> {
    match &spec.origin {
        Origin::Made(recipe) => return Ok(recipe.range_bytes),
        Origin::File(TraceFile { path: None, .. }) => {
            let message = "shrink-from is absent, expected where the trace ends: standard input \
                           cannot be read twice to find it";
            return Err(exception(Failure::Argument(message.to_owned())));
        }
        Origin::File(_) | Origin::Arrays(_) | Origin::Recorded { .. } => {}
    }
    let unmoved = Preparation::default();
    let only_counted = Preparation {
        offsets: unmoved.offsets,
        cut_bytes: None,
        sizes: unmoved.sizes,
        limit_bytes: None,
        ..spec.preparation
    };
    let mut end_bytes = 0;
    let mut opened = open_with(spec, only_counted)?;
    opened.each(|batch| {
        let ends = batch.iter().filter_map(Request::end_bytes);
        end_bytes = end_bytes.max(ends.max().unwrap_or(0));
        Ok(())
    })?;
    Ok(end_bytes)
}

impl Opened {
    /// Gives every batch to `take`, and looks now and then whether the user wants to stop. Call it without the GIL.
    pub fn each(&mut self, mut take: impl FnMut(&[Request]) -> PyResult<()>) -> PyResult<()> {
        let mut batch = Vec::new();
        for number in 0_u32.. {
            let given = self.source.next_batch(&mut batch);
            given.map_err(|error| self.failure(error))?;
            if batch.is_empty() {
                break;
            }
            take(&batch)?;
            if number % BATCHES_BETWEEN_SIGNALS == 0 {
                self.progress.look()?;
            }
        }
        Ok(())
    }

    /// What is to be raised for an error of its source.
    pub fn failure(&self, error: Error) -> PyErr {
        taken(&self.interruption).unwrap_or_else(|| of_trace(error, self.path.as_deref()))
    }

    /// What the cache of parsed traces has done so far.
    pub fn cache(&self) -> CacheReport {
        let mut report = self.cache.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        report.left_out = (left_out.files > 0).then(|| left_out.to_string());
        report
    }

    /// What preparation has done so far.
    pub fn changes(&self) -> Changes {
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests that came as arrays.
struct InMemory {
    requests: Arc<[Request]>,
    given: usize,
}

impl Source for InMemory {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        let mut left = &self.requests[self.given..];
        left.next_batch(batch)?;
        self.given += batch.len();
        Ok(())
    }

    fn only_writes(&self) -> bool {
        (&self.requests[..]).only_writes()
    }
}

/// Publishes what preparation did, batch by batch, to whoever holds no more than a `dyn Source`.
struct Counted {
    prepared: Prepared<Box<dyn Source + Send>>,
    changes: Arc<Mutex<Changes>>,
}

impl Source for Counted {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        let given = self.prepared.next_batch(batch);
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner) = self.prepared.changes();
        given
    }

    fn only_writes(&self) -> bool {
        self.prepared.only_writes()
    }
}

/// An input whose waiting reads end with Ctrl-C: Rust's readers go on after a signal, so Python's
/// handler is asked here.
struct Interruptible {
    input: Box<dyn Read + Send>,
    amount: Arc<Amount>,
    interruption: Interruption,
}

impl Read for Interruptible {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let done = self.input.read(into);
        if let Ok(bytes) = done {
            self.amount.done.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        if !matches!(&done, Err(error) if error.kind() == io::ErrorKind::Interrupted) {
            return done;
        }
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => done,
            Err(stopped) => {
                *self.interruption.lock().unwrap_or_else(PoisonError::into_inner) = Some(stopped);
                Err(io::Error::other("interrupted"))
            }
        }
    }
}

fn taken(interruption: &Interruption) -> Option<PyErr> {
    interruption.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// What is wrong with a trace, as an exception.
pub fn of_trace(error: Error, path: Option<&Path>) -> PyErr {
    exception(Failure::Trace(error, path))
}
