//! The cache of parsed traces: one file of columns for each content of a trace and way to read it.
//!
//! A file of the cache is named by a key (parser, format, options of reading), the size of the trace and the hash of
//! its content. So a trace that changed has another name. The content is hashed while it is parsed, at no further read;
//! for a look-up it is read again only where a file of the same key and size exists. The content is taken for
//! unchanged, without a look at it, only where device, inode, size, and times of modification and change are those of
//! an earlier hash, under three conditions: the file system is a local one whose kernel sets the time of change with
//! each write (no program can set it), it was last changed a minute before that hash began (a mapping of the file may
//! be written to for as long as the kernel writes back, 35 s by default, without a further change of the time), and it
//! did not change while it was hashed.
//!
//! Files are written beside their place and renamed, so that others see whole ones only; those in use
//! may be removed at any time. Nothing here fails a run: what goes wrong becomes a note.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::progress::Amount;
use ioassay_block::container::LeftOut;
use ioassay_block::trace::ReadOptions;
use ioassay_block::trace::columns::{ColumnReader, ColumnWriter, PARSER};
use ioassay_block::{Error, Request, Source};
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

/// Smaller traces are parsed as fast as a cache is looked up.
const SMALLEST_BYTES: u64 = 1 << 20;
/// What the cache leaves free of its file system.
const FREE_BYTES: u64 = 1 << 29;
/// Between two looks at what is free.
const BYTES_BETWEEN_LOOKS: u64 = 1 << 26;
const HASHED_AT_ONCE: usize = 1 << 20;
/// See the top of this file.
const SETTLED: Duration = Duration::from_secs(60);
/// An unfinished file that was not written to for so long has lost its writer.
const ABANDONED: Duration = Duration::from_secs(3600);
const ENDING: &str = "columns";
const UNFINISHED: &str = "unfinished";
const IDENTITY: &str = "same";

/// Where the cache is, and how large it may become.
#[derive(Debug, Clone)]
pub struct CacheSpec {
    pub folder: PathBuf,
    pub limit_bytes: u64,
}

/// What the cache did for one trace.
#[derive(Debug, Default, Clone)]
pub struct CacheReport {
    /// Requests came from it.
    pub read: bool,
    /// A file was added to it.
    pub written: bool,
    /// What went wrong, for the user.
    pub note: Option<String>,
    /// Which files of the trace's archive or folder are no part of it, for the user.
    pub left_out: Option<String>,
}

pub type SharedReport = Arc<Mutex<CacheReport>>;

fn report(shared: &SharedReport, change: impl FnOnce(&mut CacheReport)) {
    change(&mut shared.lock().unwrap_or_else(PoisonError::into_inner));
}

/// A trace that the cache is asked for.
pub struct CachedTrace {
    spec: CacheSpec,
    path: PathBuf,
    status: Metadata,
    /// Parser, format and options of reading.
    key: u64,
    report: SharedReport,
}

/// A hash of content, as it goes on.
pub type Hashing = Arc<Mutex<(Xxh3, u64)>>;

impl CachedTrace {
    /// The place of a trace in the cache; none of what is no regular file, or small.
    pub fn of(
        spec: &CacheSpec,
        path: &Path,
        format: Option<&str>,
        options: &ReadOptions,
        report: &SharedReport,
    ) -> Option<Self> {
        let status = fs::metadata(path).ok()?;
        if !status.is_file() || status.len() < SMALLEST_BYTES {
            return None;
        }
        // Where the format is to be recognised, the file's name has a say.
        let hint = format.map_or_else(|| path.file_name(), |_| None);
        let key = format!("{PARSER} {format:?} {hint:?} {options:?}");
        Some(Self {
            spec: spec.clone(),
            path: path.to_owned(),
            status,
            key: xxh3_64(key.as_bytes()),
            report: Arc::clone(report),
        })
    }

    /// The parsed trace, if the cache has it: its requests, the file's place, and its format.
    ///
    /// Hashing a large file takes a while; `proceed` says now and then whether to go on.
    pub fn look_up(&self, proceed: &mut dyn FnMut() -> bool) -> Option<Hit> {
        let stem = match self.same_as_before() {
            Some(stem) => stem,
            None => self.same_content(proceed)?,
        };
        let place = self.place(&stem);
        let reader = File::open(&place).map_err(Error::from);
        match reader.and_then(ColumnReader::new) {
            Ok(reader) => {
                touch(&place);
                report(&self.report, |report| report.read = true);
                Some(Hit { format: reader.head().format, reader, place })
            }
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                self.discard(&place, &error);
                None
            }
        }
    }

    /// A file of the cache that cannot be read is removed, and the user is told.
    pub fn discard(&self, place: &Path, error: &Error) {
        let _ = fs::remove_file(place);
        let what = format!("{}: the cached trace is damaged ({error}); the trace is parsed anew", place.display());
        report(&self.report, |report| {
            report.read = false;
            report.note = Some(what);
        });
    }

    fn place(&self, stem: &str) -> PathBuf {
        self.spec.folder.join(format!("{stem}.{ENDING}"))
    }

    fn prefix(&self) -> String {
        format!("{:016x}-{:x}-", self.key, self.status.len())
    }

    /// The name that says: this very file, unchanged, has the content that is hashed behind it.
    fn identity(&self) -> Option<String> {
        let status = &self.status;
        if !times_are_reliable(&self.path) {
            return None;
        }
        let identity = [
            status.dev(),
            status.ino(),
            status.len(),
            status.mtime() as u64,
            status.mtime_nsec() as u64,
            status.ctime() as u64,
            status.ctime_nsec() as u64,
        ];
        let bytes: Vec<u8> = identity.iter().flat_map(|word| word.to_le_bytes()).collect();
        Some(format!("{:032x}", xxh3_128(&bytes)))
    }

    /// The file of the cache for an unchanged trace.
    fn same_as_before(&self) -> Option<String> {
        let identity = self.identity()?;
        let ending = format!(".{identity}.{IDENTITY}");
        names(&self.spec.folder, &self.prefix()).find_map(|name| name.strip_suffix(&ending).map(str::to_owned))
    }

    /// The file of the cache for a trace of the same content.
    fn same_content(&self, proceed: &mut dyn FnMut() -> bool) -> Option<String> {
        let ending = format!(".{ENDING}");
        names(&self.spec.folder, &self.prefix()).find(|name| name.ends_with(&ending))?;
        let begin = SystemTime::now();
        let (mut hash, mut bytes) = (Xxh3::new(), 0_u64);
        let mut file = File::open(&self.path).ok()?;
        let mut buffer = vec![0; HASHED_AT_ONCE];
        loop {
            match file.read(&mut buffer).ok()? {
                0 => break,
                read => {
                    hash.update(&buffer[..read]);
                    bytes += read as u64;
                }
            }
            if !proceed() {
                return None;
            }
        }
        if bytes != self.status.len() || !self.is_unchanged() {
            return None;
        }
        let stem = format!("{}{:032x}", self.prefix(), hash.digest128());
        if self.place(&stem).exists() {
            self.remember(&stem, begin);
            return Some(stem);
        }
        None
    }

    /// Whether the trace is still the file that it was.
    fn is_unchanged(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|now| {
            let of = |status: &Metadata| {
                let (changed, modified) =
                    ((status.ctime(), status.ctime_nsec()), (status.mtime(), status.mtime_nsec()));
                (status.dev(), status.ino(), status.len(), changed, modified)
            };
            of(&now) == of(&self.status)
        })
    }

    /// Notes that this very file has this content, if it had settled before the hash began.
    fn remember(&self, stem: &str, begin: SystemTime) {
        let changed = Duration::new(self.status.ctime().max(0) as u64, self.status.ctime_nsec() as u32);
        let age = begin.duration_since(SystemTime::UNIX_EPOCH + changed);
        if !age.is_ok_and(|age| age >= SETTLED) {
            return;
        }
        if let Some(identity) = self.identity() {
            // Without it, the content is hashed again the next time.
            let _ = File::create(self.spec.folder.join(format!("{stem}.{identity}.{IDENTITY}")));
        }
    }

    /// What reads the trace while it is hashed.
    pub fn hashed<R: Read>(input: R, hashing: &Hashing) -> Hashed<R> {
        Hashed { input, hashing: Arc::clone(hashing) }
    }

    /// `source`, which is written into the cache while it is read.
    pub fn recorded(
        self,
        source: Box<dyn Source + Send>,
        format: &'static str,
        hashing: Hashing,
        left_out: Arc<Mutex<LeftOut>>,
    ) -> Box<dyn Source + Send> {
        match Recording::begin(&self, format) {
            Ok(recording) => Box::new(Recorded {
                source,
                trace: self,
                hashing,
                left_out,
                begin: SystemTime::now(),
                recording: Some(recording),
            }),
            Err(error) => {
                self.note(&error);
                source
            }
        }
    }

    fn note(&self, error: &io::Error) {
        let what =
            format!("{}: the parsed trace is not kept in the cache: {error} (--no-cache)", self.spec.folder.display());
        report(&self.report, |report| report.note = Some(what));
    }
}

/// A trace that the cache has.
pub struct Hit {
    reader: ColumnReader<File>,
    pub format: &'static str,
    place: PathBuf,
}

/// Parses a trace again.
pub type Parse = Box<dyn FnMut() -> Result<Box<dyn Source + Send>, Error> + Send>;

/// A trace out of the cache. Where the cache's file turns out to be damaged, the trace itself is
/// parsed, and the requests that were given are left out.
pub struct FromCache {
    source: Box<dyn Source + Send>,
    trace: CachedTrace,
    place: PathBuf,
    given: u64,
    amount: Arc<Amount>,
    parse: Option<Parse>,
}

impl FromCache {
    pub fn new(trace: CachedTrace, hit: Hit, amount: &Arc<Amount>, parse: Parse) -> Self {
        let requests = hit.reader.head().requests;
        amount.total.store(requests, Ordering::Relaxed);
        Self {
            amount: Arc::clone(amount),
            source: Box::new(hit.reader),
            trace,
            place: hit.place,
            given: 0,
            parse: Some(parse),
        }
    }
}

impl Source for FromCache {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        let mut done = self.source.next_batch(batch);
        if let (Err(error), Some(parse)) = (&done, &mut self.parse) {
            self.trace.discard(&self.place, error);
            self.source = parse()?;
            self.parse = None;
            let mut skipped = 0;
            loop {
                done = self.source.next_batch(batch);
                let before = skipped;
                skipped += batch.len() as u64;
                if done.is_err() || batch.is_empty() || skipped > self.given {
                    batch.drain(..(self.given.saturating_sub(before) as usize).min(batch.len()));
                    break;
                }
            }
        }
        self.given += batch.len() as u64;
        if self.parse.is_some() {
            self.amount.done.store(self.given, Ordering::Relaxed);
        }
        done
    }

    fn only_writes(&self) -> bool {
        self.source.only_writes()
    }
}

/// An input that is hashed as it is read.
pub struct Hashed<R> {
    input: R,
    hashing: Hashing,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        let mut hashing = self.hashing.lock().unwrap_or_else(PoisonError::into_inner);
        hashing.0.update(&into[..read]);
        hashing.1 += read as u64;
        Ok(read)
    }
}

/// A file of the cache that is being written.
struct Recording {
    writer: ColumnWriter<BufWriter<File>>,
    unfinished: Unfinished,
    spec: CacheSpec,
    next_look_bytes: u64,
}

/// The place of a file that is removed with it; once it is renamed, nothing is there any more.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Recording {
    fn begin(trace: &CachedTrace, format: &'static str) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let folder = &trace.spec.folder;
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{}-{number}.{UNFINISHED}", trace.prefix(), std::process::id());
        let place = folder.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place)?;
        let unfinished = Unfinished(place);
        Ok(Self {
            writer: ColumnWriter::new(BufWriter::with_capacity(1 << 18, file), format)?,
            unfinished,
            spec: trace.spec.clone(),
            next_look_bytes: 0,
        })
    }

    fn put(&mut self, batch: &[Request]) -> io::Result<()> {
        if self.writer.bytes >= self.next_look_bytes {
            self.next_look_bytes += BYTES_BETWEEN_LOOKS;
            self.check_size()?;
            let there = rustix::fs::statvfs(&self.spec.folder)?;
            if there.f_bavail.saturating_mul(there.f_frsize) < FREE_BYTES {
                return Err(io::Error::other("less than 512 MiB are free there"));
            }
        }
        self.writer.put(batch)
    }

    fn check_size(&self) -> io::Result<()> {
        if self.writer.bytes > self.spec.limit_bytes {
            return Err(io::Error::other("it is larger than the cache may be"));
        }
        Ok(())
    }
}

/// A source whose requests are written into the cache.
struct Recorded {
    source: Box<dyn Source + Send>,
    trace: CachedTrace,
    hashing: Hashing,
    left_out: Arc<Mutex<LeftOut>>,
    begin: SystemTime,
    recording: Option<Recording>,
}

impl Recorded {
    /// The whole trace was parsed: its file gets its name.
    fn finish(&mut self, recording: Recording) -> io::Result<()> {
        let (hash, bytes) = {
            let hashing = self.hashing.lock().unwrap_or_else(PoisonError::into_inner);
            (hashing.0.digest128(), hashing.1)
        };
        if bytes != self.trace.status.len() || !self.trace.is_unchanged() {
            return Ok(()); // it grows, or changes: what was read has no name
        }
        if self.left_out.lock().unwrap_or_else(PoisonError::into_inner).files > 0 {
            return Ok(()); // what is left out is said each time
        }
        let stem = format!("{}{hash:032x}", self.trace.prefix());
        let place = self.trace.place(&stem);
        recording.check_size()?;
        recording.writer.finish()?;
        fs::rename(&recording.unfinished.0, &place)?;
        self.trace.remember(&stem, self.begin);
        report(&self.trace.report, |report| report.written = true);
        evict(&self.trace.spec, &place)
    }
}

impl Source for Recorded {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        self.source.next_batch(batch)?;
        if let Some(mut recording) = self.recording.take() {
            let done = if batch.is_empty() {
                self.finish(recording)
            } else {
                recording.put(batch).map(|()| self.recording = Some(recording))
            };
            if let Err(error) = done {
                self.trace.note(&error);
            }
        }
        Ok(())
    }

    fn only_writes(&self) -> bool {
        self.source.only_writes()
    }
}

/// Names in a folder that begin so; none of a folder that cannot be read.
fn names(folder: &Path, prefix: &str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(move |name| name.starts_with(prefix))
}

/// Removes what was used longest ago until the cache is within its limit, and what is of no use.
fn evict(spec: &CacheSpec, keep: &Path) -> io::Result<()> {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    let (mut identities, mut total_bytes) = (Vec::new(), 0);
    for entry in fs::read_dir(&spec.folder)?.flatten() {
        let (path, Ok(status)) = (entry.path(), entry.metadata()) else {
            continue; // another run has removed it
        };
        let modified = status.modified()?;
        match path.extension().and_then(|ending| ending.to_str()) {
            Some(ENDING) => {
                total_bytes += status.len();
                files.push((modified, status.len(), path));
            }
            Some(IDENTITY) => identities.push(path),
            Some(UNFINISHED) if modified.elapsed().is_ok_and(|age| age > ABANDONED) => {
                let _ = fs::remove_file(path);
            }
            _ => {}
        }
    }
    files.sort();
    for (_, bytes, path) in files {
        if total_bytes > spec.limit_bytes && path != keep {
            let _ = fs::remove_file(&path);
            total_bytes -= bytes;
        }
    }
    for path in identities {
        let owner = path.with_extension("").with_extension(ENDING);
        if !owner.exists() {
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

/// A last use is the time of modification, by which [`evict`] chooses. Others may own the file.
fn touch(place: &Path) {
    let now = |file: File| file.set_modified(SystemTime::now());
    let _ = OpenOptions::new().append(true).open(place).and_then(now);
}

/// Whether the file is on a local file system whose kernel sets the time of change with each write,
/// through mappings too. Elsewhere the content is hashed each time.
#[allow(clippy::useless_conversion, reason = "the type of f_type depends on the processor")]
fn times_are_reliable(path: &Path) -> bool {
    const EXT: i64 = 0xef53;
    const XFS: i64 = 0x5846_5342;
    const BTRFS: i64 = 0x9123_683e;
    const F2FS: i64 = 0xf2f5_2010;
    rustix::fs::statfs(path).is_ok_and(|of| [EXT, XFS, BTRFS, F2FS].contains(&i64::from(of.f_type)))
}
