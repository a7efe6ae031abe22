//! Making a zoned drive: whether it can be, and the table of its zones in a backing file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::options::Options;
use crate::Error;
use crate::model::Model;
use crate::store::Backing;
use crate::transport::nvme_tcp::MAX_TRANSFER_BYTES;
use crate::zones::{FOOTER_BYTES, TableError, ZoneGeometry, Zones, read_footer};

/// The zones that are wanted, if all else that is wanted goes with zones.
pub(super) fn geometry(
    options: &Options,
    size_bytes: u64,
    model: Option<&Model>,
) -> Result<Option<ZoneGeometry>, Error> {
    let Some(zones) = &options.zones else {
        return Ok(None);
    };
    if let Some(transport) = options.transports.iter().find(|transport| !transport.starts_with("nvme-tcp:")) {
        let wanted = "nvme-tcp:ADDRESS:PORT for a drive with zones: NBD and FUSE know none";
        return Err(Error::option("transport", transport.as_str(), wanted));
    }
    let namespaces = options.namespaces_bytes.len();
    Error::require(namespaces == 0, "namespaces", namespaces, "none for a drive with zones, which is one namespace")?;
    let wanted = "none for a drive with zones, which cannot be overwritten at random";
    Error::require(options.precondition <= 0.0, "precondition", options.precondition, wanted)?;
    let page_bytes = model.map_or(4096, |model| model.page_bytes);
    ZoneGeometry::new(zones, size_bytes, options.block_bytes, page_bytes, MAX_TRANSFER_BYTES as u64).map(Some)
}

/// The backing file, with room for the table behind the content, and the zones in it: empty ones of a new file.
pub(super) fn open(
    path: &Path,
    options: &Options,
    size_bytes: u64,
    geometry: Option<ZoneGeometry>,
) -> Result<(Option<Backing>, Option<Zones>), Error> {
    let table_bytes = geometry.as_ref().map_or(0, ZoneGeometry::table_bytes);
    if let Ok(about) = std::fs::metadata(path) {
        size_of(path, about.len(), geometry.is_some())?;
    }
    let backing = Backing::open(path, Some(size_bytes), table_bytes, options.read_only)?;
    let wrong = |what| Error::Backing { path: path.to_owned(), what };
    let table = backing.table().map_err(|status| wrong(format!("cannot be read: {status:?}")))?;
    let zones = geometry.map(|geometry| match table {
        Some(table) => Zones::from_table(geometry, &table).map_err(|error| wrong(error.to_string())),
        None => Ok(Zones::new(geometry)),
    });
    Ok((Some(backing), zones.transpose()?))
}

/// The size of the drive in a backing file of this length, which has zones if one with zones is wanted.
pub(super) fn size_of(path: &Path, file_bytes: u64, has_zones: bool) -> Result<u64, Error> {
    let mut footer = vec![0; FOOTER_BYTES as usize];
    let at = file_bytes.checked_sub(FOOTER_BYTES);
    let read = at.zip(File::open(path).ok()).and_then(|(at, file)| file.read_exact_at(&mut footer, at).ok());
    let wrong = |what: String| Error::Backing { path: path.to_owned(), what };
    match read.and_then(|()| read_footer(&footer)) {
        Some([size_bytes, ..]) if has_zones && size_bytes < file_bytes => Ok(size_bytes),
        None if has_zones && file_bytes > 0 => Err(wrong(TableError::Absent.to_string())),
        Some([_, zone_bytes, capacity_bytes]) => Err(wrong(format!(
            "holds a drive with zones; expected zones of {zone_bytes} bytes with a capacity of {capacity_bytes}"
        ))),
        None => Ok(file_bytes),
    }
}
