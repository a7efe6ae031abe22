//! Results of other tools out of what they are packed in (`ioassay_block::container`): onto a disk, since their readers
//! look at names, and at the files next to them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use ioassay_block::Error;
use ioassay_block::container::{Files, Input};
use pyo3::prelude::*;

use crate::errors::{Failure, exception};

/// Between two looks at whether the user wants to stop.
const BLOCK_BYTES: usize = 1 << 20;

/// The files in paths and in folders of them, each packed into nothing: how it is called in messages, and where it is.
/// What has to be unpacked is put below `folder`. A path of no file is given as it is.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "the types of Python arguments are owned")]
pub fn unpack(py: Python<'_>, paths: Vec<PathBuf>, folder: PathBuf) -> PyResult<Vec<(String, PathBuf)>> {
    py.detach(|| {
        let mut unpacker = Unpacker { folder, homes: HashMap::new(), found: Vec::new() };
        for path in &paths {
            let files = if path.is_dir() { files_in(path) } else { Ok(vec![path.clone()]) };
            for file in files.map_err(|error| exception(Failure::Trace(Error::from(error), Some(path))))? {
                unpacker.add(&file)?;
            }
        }
        Ok(unpacker.found)
    })
}

/// The files of a folder and of those in it, in the order of their paths, without hidden ones.
pub fn files_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if entry.file_type()?.is_dir() {
            paths.extend(files_in(&entry.path())?);
        } else if entry.path().is_file() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

struct Unpacker {
    folder: PathBuf,
    /// Files that lay together, in a folder or an archive, lie together afterwards.
    homes: HashMap<PathBuf, PathBuf>,
    found: Vec<(String, PathBuf)>,
}

impl Unpacker {
    fn add(&mut self, path: &Path) -> PyResult<()> {
        let failed = |error: Error| exception(Failure::Trace(error, Some(path)));
        let name = path.display().to_string();
        let opened = path.to_owned();
        let open = Arc::new(move || Ok(Box::new(File::open(&opened)?) as Box<dyn io::Read + Send>));
        // A device or a pipe is no file of results, and would be read without an end.
        let inputs = if path.is_file() { vec![Input { name: String::new(), open }] } else { Vec::new() };
        if inputs.is_empty() {
            self.found.push((name.clone(), path.to_owned()));
        }
        let mut files = Files::of(inputs);
        while let Some(mut file) = files.next_file().map_err(failed)? {
            if file.is_plain {
                self.found.push((name.clone(), path.to_owned()));
                continue;
            }
            let (near, inside, shown) = if file.name.is_empty() {
                (path.parent(), path.file_name().map(Path::new), name.clone())
            } else {
                (Some(path), Some(Path::new(&file.name)), format!("{name}: {}", file.name))
            };
            let mut inside = inside.unwrap_or(Path::new("")).to_owned();
            for _ in 0..file.compressions {
                inside.set_extension("");
            }
            let target = self.place(near.unwrap_or(path), &inside).map_err(|error| failed(error.into()))?;
            let mut output = File::create(&target).map_err(|error| failed(error.into()))?;
            let mut block = Vec::with_capacity(BLOCK_BYTES);
            loop {
                block.clear();
                let read = (&mut file.content).take(BLOCK_BYTES as u64).read_to_end(&mut block);
                read.map_err(|error| failed(Error::from(error).inside(&file.name)))?;
                if block.is_empty() {
                    break;
                }
                output.write_all(&block).map_err(|error| failed(error.into()))?;
                Python::attach(|py| py.check_signals())?;
            }
            self.found.push((shown, target));
        }
        Ok(())
    }

    /// A path for a file that lay `near` others; nowhere outside of ours.
    fn place(&mut self, near: &Path, name: &Path) -> io::Result<PathBuf> {
        let next = self.folder.join(self.homes.len().to_string());
        let home = self.homes.entry(near.to_owned()).or_insert_with(|| next.clone());
        let inside: PathBuf = name.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let mut target = home.join(if inside.as_os_str().is_empty() { Path::new("file") } else { &inside });
        let taken =
            |target: &Path| target.exists() || target.parent().is_some_and(|above| fs::create_dir_all(above).is_err());
        if taken(&target) {
            // It is twice in an archive, or below what is a file there.
            let apart = self.folder.join(format!("{}-apart", self.found.len()));
            target = apart.join(target.file_name().unwrap_or_default());
            fs::create_dir_all(&apart)?;
        }
        Ok(target)
    }
}
