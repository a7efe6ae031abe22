//! Sources of requests that are open: files are opened here, because the pure crates open none.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use ioassay_block::prepare::{Changes, Preparation, Prepared, Shrink};
use ioassay_block::{Error, Request, Source, trace};
use ioassay_witness::record::Reader;
use pyo3::prelude::*;

use super::cache::{CacheReport, CachedTrace, FromCache, Parse, SharedReport};
use super::processors;
use super::progress::{Amount, Progress};
use super::spec::{Origin, SourceSpec, TraceFile};
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
    let listener = Python::attach(|py| spec.listener.as_ref().map(|known| known.clone_ref(py)));
    let progress = Progress::new(listener);
    let changes = Arc::new(Mutex::new(Changes::default()));
    let (source, format, path): (Box<dyn Source + Send>, _, _) = match &spec.origin {
        Origin::Made(recipe) => {
            let made = recipe.source().map_err(|error| of_trace(error, None))?;
            (Box::new(made), None, None)
        }
        Origin::Recorded { path, selection } => {
            let reader = Reader::open(path, *selection).map_err(|error| of_trace(error, Some(path.as_path())))?;
            (Box::new(reader), Some("recording"), Some(path.clone()))
        }
        Origin::File(file) => {
            let (source, format) = open_file(file, &interruption, &cache, &progress.amount)?;
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
    amount: &Arc<Amount>,
) -> PyResult<(Box<dyn Source + Send>, &'static str)> {
    let path = file.path.as_deref();
    let failed = |error| match taken(interruption) {
        Some(stopped) => stopped,
        None => of_trace(error, Some(&shown(path))),
    };
    if let Some(paths) = processors::files(path, file.format.as_deref()) {
        let mut total = 0;
        let merged = processors::merged(paths, &file.read, |path| {
            let input = input_of(Some(path), interruption, amount)?;
            total += amount.total.load(Ordering::Relaxed);
            Ok(input)
        });
        amount.total.store(total, Ordering::Relaxed);
        return merged.map_err(failed);
    }
    let in_cache = path
        .zip(file.cache.as_ref())
        .and_then(|(path, cache)| CachedTrace::of(cache, path, file.format.as_deref(), &file.read, report));
    let Some(trace) = in_cache else {
        let input = input_of(path, interruption, amount).map_err(failed)?;
        return parse(input, file).map_err(failed);
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
        let of_file = Arc::clone(amount);
        let parse_anew: Parse = Box::new(move || {
            let input = input_of(file.path.as_deref(), &interruption, &of_file)?;
            parse(input, &file).map(|(source, _)| source)
        });
        return Ok((Box::new(FromCache::new(trace, hit, amount, parse_anew)), format));
    }
    let input = input_of(path, interruption, amount).map_err(failed)?;
    let (input, hashing) = CachedTrace::hashed(input);
    let (source, format) = parse(input, file).map_err(failed)?;
    Ok((trace.recorded(source, format, hashing), format))
}

fn input_of(path: Option<&Path>, interruption: &Interruption, amount: &Arc<Amount>) -> Result<Interruptible, Error> {
    let mut total = 0;
    let input: Box<dyn Read + Send> = match path {
        Some(path) => {
            let file = File::open(path)?;
            total = file.metadata()?.len();
            Box::new(file)
        }
        None => Box::new(io::stdin()),
    };
    amount.done.store(0, Ordering::Relaxed);
    amount.total.store(total, Ordering::Relaxed);
    Ok(Interruptible { input, amount: Arc::clone(amount), interruption: Arc::clone(interruption) })
}

/// The requests of a file's content, compressed or not, and the name of their format.
fn parse<R: Read + Send + 'static>(
    input: R,
    file: &TraceFile,
) -> Result<(Box<dyn Source + Send>, &'static str), Error> {
    let mut input = trace::decompressed(input)?;
    if let Some(name) = &file.format {
        let format = trace::format(name)?;
        return Ok((trace::read(format, input, &file.read)?, format.name));
    }
    let mut head = Vec::new();
    (&mut input).take(trace::SNIFF_BYTES as u64).read_to_end(&mut head)?;
    let hint = file.path.as_deref().and_then(Path::file_name);
    let format = trace::sniff(&head, hint.and_then(|name| name.to_str()))?.format;
    let whole = Cursor::new(head).chain(input);
    Ok((trace::read(format, whole, &file.read)?, format.name))
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
        Origin::File(_) | Origin::Recorded { .. } => {}
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
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What preparation has done so far.
    pub fn changes(&self) -> Changes {
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner)
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
