//! `trace_write`: requests into a file or to standard output.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use ioassay_block::trace::{self, Format, Loss, WriteOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::info::cache_report;
use super::open::{Opened, of_trace, open};
use super::spec::SourceSpec;
use crate::errors::{Failure, exception};

/// Write the requests of a source as a trace.
#[pyfunction]
#[pyo3(signature = (source, path, format, *, compress=None, lose=None))]
#[expect(clippy::needless_pass_by_value, reason = "the types of Python arguments are owned")]
pub fn trace_write<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyDict>,
    path: Option<PathBuf>,
    format: &str,
    compress: Option<&str>,
    lose: Option<Vec<String>>,
) -> PyResult<Bound<'py, PyDict>> {
    let spec = SourceSpec::from_dict(source)?;
    let format = trace::format(format).map_err(|error| of_trace(error, None))?;
    let options = write_options(&lose.unwrap_or_default())?;
    let packing = Packing::named(compress)?;
    let path = path.as_deref();
    let (from, changes, cache) = py.detach(|| -> PyResult<_> {
        let mut opened = open(&spec)?;
        write(&mut opened, path, format, &options, packing)?;
        Ok((opened.format, opened.changes(), opened.cache()))
    })?;
    let counts = PyDict::new(py);
    for (name, count) in changes.counts() {
        counts.set_item(name, count)?;
    }
    let written = PyDict::new(py);
    written.set_item("from", from)?;
    written.set_item("to", format.name)?;
    written.set_item("changes", counts)?;
    written.set_item("cache", cache_report(py, cache)?)?;
    Ok(written)
}

fn write(
    opened: &mut Opened,
    path: Option<&Path>,
    format: &'static Format,
    options: &WriteOptions,
    packing: Packing,
) -> PyResult<()> {
    // Without a path the command line knows that its own output failed, not a file.
    let failed = |error: ioassay_block::Error| of_trace(error, path);
    let output: Box<dyn Write> = match path {
        Some(path) => Box::new(File::create(path).map_err(|error| failed(error.into()))?),
        None => Box::new(io::stdout()),
    };
    let mut packed = packing.over(output).map_err(|error| failed(error.into()))?;
    let mut sink = trace::write(format, &mut packed, options).map_err(|error| of_trace(error, None))?;
    opened.each(|batch| sink.put(batch).map_err(failed))?;
    sink.finish().map_err(failed)?;
    drop(sink);
    packed.finish().map_err(|error| failed(error.into()))
}

fn write_options(lose: &[String]) -> PyResult<WriteOptions> {
    let mut options = WriteOptions::default();
    for what in lose {
        match what.as_str() {
            "alignment" => options.unaligned = Loss::Accept,
            "devices" => options.devices = Loss::Accept,
            "kinds" => options.kinds = Loss::Accept,
            _ => {
                let wanted = "alignment, devices or kinds";
                let message = format!("lose is {what}, expected {wanted}");
                return Err(exception(Failure::Argument(message)));
            }
        }
    }
    Ok(options)
}

/// How the output is compressed.
#[derive(Clone, Copy)]
enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    fn named(name: Option<&str>) -> PyResult<Self> {
        match name {
            None => Ok(Self::None),
            Some("gzip") => Ok(Self::Gzip),
            Some("zstd") => Ok(Self::Zstd),
            Some(other) => {
                let message = format!("compress is {other}, expected gzip or zstd");
                Err(exception(Failure::Argument(message)))
            }
        }
    }

    /// Both leave out name and time, so that the same trace gives the same bytes.
    fn over(self, output: Box<dyn Write>) -> io::Result<Packed> {
        Ok(match self {
            Self::None => Packed::Plain(output),
            Self::Gzip => Packed::Gzip(GzEncoder::new(output, Compression::default())),
            Self::Zstd => Packed::Zstd(zstd::stream::write::Encoder::new(output, 0)?),
        })
    }
}

/// An output, compressed or not.
enum Packed {
    Plain(Box<dyn Write>),
    Gzip(GzEncoder<Box<dyn Write>>),
    Zstd(zstd::stream::write::Encoder<'static, Box<dyn Write>>),
}

impl Packed {
    fn inner(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(output) => output,
            Self::Gzip(output) => output,
            Self::Zstd(output) => output,
        }
    }

    /// Writes what compression holds back.
    fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(output) => output.flush(),
            Self::Gzip(output) => {
                output.try_finish()?;
                output.get_mut().flush()
            }
            Self::Zstd(output) => {
                output.do_finish()?;
                output.get_mut().flush()
            }
        }
    }
}

impl Write for Packed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner().write(bytes)
    }

    /// A sink flushes at its end; a compressor would end a block for it.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
