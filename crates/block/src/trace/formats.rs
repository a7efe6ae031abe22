//! All formats, one row each, in the order in which they are listed: sniffing, reading, writing and the documentation
//! follow it. What the columns mean: `docs/traces.md`.

use super::decimal::Unit::{Microseconds, Milliseconds, Seconds};
use super::fields::{SECTOR_BYTES, hexadecimal};
use super::format::{ALL_KINDS, COMMAS, Format, SECTORS};
use super::gate::Head;
use super::table::{Column, Kinds, Point, TableParser, word};
use super::{BlkEvent, OutOfOrder, ReadOptions, blkparse, blktrace, csv, iolog, oracle, order, regex, text, vscsi};
use crate::Fault;
use crate::Kind::{Flush, Read, Trim, Write};

pub static FORMATS: &[Format] = &[
    SPC,
    DISKSIM,
    MSR,
    ALIBABA,
    TENCENT,
    SYSTOR,
    FIU,
    BIOSNOOP,
    FIOLAT,
    SSDSIM,
    MQSIM,
    vscsi::FORMAT,
    oracle::FORMAT,
    blktrace::FORMAT,
    blkparse::FORMAT,
    iolog::V2,
    iolog::V3,
    csv::FORMAT,
    regex::FORMAT,
];

const FIRST_SECTOR: Column = Column::Offset { name: "first sector", unit_bytes: SECTOR_BYTES };
const SECTOR_COUNT: Column = Column::Length { name: "sectors", unit_bytes: SECTOR_BYTES };
const OFFSET: Column = Column::Offset { name: "offset", unit_bytes: 1 };
const SIZE: Column = Column::Length { name: "size", unit_bytes: 1 };
const READ_OR_WRITE: Column = Column::Kind(&READS_AND_WRITES);
static READS_AND_WRITES: Kinds = Kinds {
    name: "type",
    words: &[word("R", Read), word("W", Write)],
    otherwise: |name, field| Err(Fault::field(name, field, "R or W")),
};

/// The Storage Performance Council's traces (SPC Trace File Format Specification, revision 1.0.1). Further columns may
/// follow.
const SPC: Format = Format {
    name: "spc",
    about: "SPC traces such as Financial1 and WebSearch1",
    endings: &[".spc"],
    columns: "ASU, address in 512-byte sectors, size in bytes, opcode R or W, seconds",
    table: &[
        Column::Device("ASU"),
        Column::Offset { name: "address", unit_bytes: SECTOR_BYTES },
        SIZE,
        Column::Kind(&Kinds {
            name: "opcode",
            words: &[word("R", Read), word("W", Write), word("r", Read), word("w", Write)],
            otherwise: |name, field| Err(Fault::field(name, field, "R or W")),
        }),
        Column::Time { name: "timestamp", unit: Seconds, point: Point::Written },
    ],
    open_ended: true,
    offset_grain_bytes: SECTOR_BYTES,
    ..COMMAS
};

/// `DiskSim`'s ascii traces (`iotrace_ascii_get_ioreq_event` of `DiskSim` 4.0). Only bit 0 of the flags is kept. Other
/// formats count nanoseconds in its first column: a decimal point tells them apart.
const DISKSIM: Format = Format {
    name: "disksim",
    about: "DiskSim's ascii traces",
    endings: &[".disksim", ".dis", ".ascii"],
    columns: "arrival ms, device, first sector, sectors, flags (bit 0: 1 = read)",
    table: &[
        Column::Time { name: "arrival", unit: Milliseconds, point: Point::Distinctive },
        Column::Device("device"),
        FIRST_SECTOR,
        SECTOR_COUNT,
        Column::Kind(&Kinds {
            name: "flags",
            words: &[word("1", Read), word("0", Write)],
            otherwise: |name, field| {
                let flags = hexadecimal(field);
                let flags = flags.ok_or_else(|| Fault::field(name, field, "a hexadecimal number below 2^32"))?;
                Ok(if flags & 1 == 1 { Read } else { Write })
            },
        }),
    ],
    ..SECTORS
};

/// Step of a Windows file time.
const FILE_TIME_NS: u64 = 100;

/// Traces of MSR Cambridge's servers, as the SNIA's repository has them. The disk is the device; a trace has one host,
/// and its name and the response times are not kept.
const MSR: Format = Format {
    name: "msr",
    about: "MSR Cambridge traces",
    endings: &[".msr"],
    columns: "file time in 100 ns, host, disk, Read or Write, offset and size in bytes, response in 100 ns",
    table: &[
        Column::Ticks { name: "file time", tick_ns: FILE_TIME_NS },
        Column::Host,
        Column::Device("disk"),
        Column::Kind(&Kinds {
            name: "type",
            words: &[word("Read", Read), word("Write", Write)],
            otherwise: |name, field| Err(Fault::field(name, field, "Read or Write")),
        }),
        OFFSET,
        SIZE,
        Column::Number("response time"),
    ],
    header: "timestamp,hostname,disknumber,type,offset,size,responsetime",
    resolution_ns: FILE_TIME_NS,
    ..COMMAS
};

/// Block traces of Alibaba's cloud (2020).
const ALIBABA: Format = Format {
    name: "alibaba",
    about: "block traces of Alibaba's cloud",
    columns: "device, R or W, offset and length in bytes, microseconds",
    table: &[
        Column::Device("device"),
        Column::Kind(&Kinds {
            name: "opcode",
            words: &[word("R", Read), word("W", Write)],
            otherwise: |name, field| Err(Fault::field(name, field, "R or W")),
        }),
        OFFSET,
        Column::Length { name: "length", unit_bytes: 1 },
        Column::Time { name: "timestamp", unit: Microseconds, point: Point::Absent },
    ],
    header: "device_id,opcode,offset,length,timestamp",
    resolution_ns: 1_000,
    ..COMMAS
};

/// Block traces of Tencent's cloud (2018), in the SNIA's repository. Many requests share a second: what happens within
/// one is not known.
const TENCENT: Format = Format {
    name: "tencent",
    about: "block traces of Tencent's cloud",
    columns: "seconds, first sector, sectors, 0 (read) or 1 (write), volume",
    table: &[
        Column::Ticks { name: "timestamp", tick_ns: Seconds.nanoseconds() },
        FIRST_SECTOR,
        SECTOR_COUNT,
        Column::Kind(&Kinds {
            name: "type",
            words: &[word("0", Read), word("1", Write)],
            otherwise: |name, field| Err(Fault::field(name, field, "0 (read) or 1 (write)")),
        }),
        Column::Device("volume"),
    ],
    header: "timestamp,offset,size,iotype,volumeid",
    resolution_ns: Seconds.nanoseconds(),
    offset_grain_bytes: SECTOR_BYTES,
    length_grain_bytes: SECTOR_BYTES,
    ..COMMAS
};

/// Traces of a virtual desktop infrastructure (SYSTOR 2017), in the SNIA's repository. The response time, in seconds, is
/// not kept. Neither are lines without a type: no response was seen, and their README says to ignore them.
const SYSTOR: Format = Format {
    name: "systor",
    about: "SYSTOR '17 traces of virtual desktops",
    columns: "seconds, response in seconds, R or W, LUN, offset and size in bytes",
    table: &[
        Column::Time { name: "timestamp", unit: Seconds, point: Point::Distinctive },
        Column::Ignored,
        Column::KindOrNothing(&READS_AND_WRITES),
        Column::Device("LUN"),
        OFFSET,
        SIZE,
    ],
    header: "timestamp,response,iotype,lun,offset,size",
    resolution_ns: 1_000,
    ..COMMAS
};

/// Traces of Florida International University (FIU), in the SNIA's repository: with process, numbers of the device and
/// hashes of the content (MD5 of 4096 bytes, of 512 in the traces of homes), which are not kept.
const FIU: Format = Format {
    name: "fiu",
    about: "FIU traces such as homes and web-vm",
    columns: "nanoseconds, process id, process, first sector, sectors, W or R, major, minor device number, hash",
    table: &[
        Column::Ticks { name: "timestamp", tick_ns: 1 },
        Column::Number("process id"),
        Column::Ignored,
        FIRST_SECTOR,
        SECTOR_COUNT,
        READ_OR_WRITE,
        Column::Major("major number"),
        Column::Minor("minor number"),
    ],
    open_ended: true,
    ..SECTORS
};

/// What biosnoop of bcc prints; times are those of completions. Further columns may follow.
const BIOSNOOP: Format = Format {
    name: "biosnoop",
    about: "output of bcc's biosnoop",
    columns: "seconds, command, process id, disk, R or W, first sector, bytes, latency in ms",
    table: &[
        Column::Time { name: "time", unit: Seconds, point: Point::Written },
        Column::Ignored,
        Column::Ignored,
        Column::DeviceName,
        Column::Kind(&Kinds {
            name: "type",
            words: &[word("R", Read), word("W", Write), word("D", Trim), word("F", Flush)],
            otherwise: |name, field| match field.first() {
                Some(b'R') => Ok(Read),
                Some(b'W') => Ok(Write),
                Some(b'D') => Ok(Trim),
                Some(b'F') => Ok(if field.get(1) == Some(&b'W') { Write } else { Flush }),
                _ => Err(Fault::field(name, field, "R, W, D or F")),
            },
        }),
        FIRST_SECTOR,
        Column::Length { name: "bytes", unit_bytes: 1 },
        Column::Ignored,
    ],
    header: "time(s) comm pid disk t sector bytes lat(ms)",
    open_ended: true,
    resolution_ns: 1_000,
    length_grain_bytes: 1,
    kinds: ALL_KINDS,
    ..SECTORS
};

/// fio's log of latencies with offsets: `write_lat_log` with `log_offset=1` ("Log File Formats" of its HOWTO). An entry is
/// written when a request completes, in that order; the time of issue is so much earlier as it took, or the last column
/// (`log_issue_time=1`). Logs of fio before 3.19 have no priority, others without an offset the same five columns.
const FIOLAT: Format = Format {
    name: "fiolat",
    about: "fio's latency logs with offsets",
    columns: "ms, latency in ns, 0 (read), 1 (write) or 2 (trim), length and offset in bytes, priority, perhaps issue in ns",
    table: &[
        Column::Ticks { name: "time", tick_ns: Milliseconds.nanoseconds() },
        Column::Elapsed("latency"),
        Column::Kind(&Kinds {
            name: "direction",
            words: &[word("0", Read), word("1", Write), word("2", Trim)],
            otherwise: |name, field| Err(Fault::field(name, field, "0 (read), 1 (write) or 2 (trim)")),
        }),
        Column::Length { name: "block size", unit_bytes: 1 },
        OFFSET,
        Column::Ignored,
        Column::IfMore("issue time"),
    ],
    devices_up_to: 0,
    kinds: &[Read, Write, Trim],
    reader: |format, input, options| {
        let mut parser = TableParser::<b','>::of(format, false);
        parser.reader.at_completion = options.event == BlkEvent::Completed;
        if parser.reader.at_completion || options.out_of_order != OutOfOrder::Refuse {
            return Ok(text::source(format, input, parser, options));
        }
        let kept = ReadOptions { out_of_order: OutOfOrder::Keep, ..options.clone() };
        order::ordered(text::source(format, input, parser, &kept), OutOfOrder::Sort(LATE_REQUESTS))
    },
    writer: None,
    // Only fio's commas are followed by a blank.
    probe: |format, head| {
        let mut parser = TableParser::<b','>::of(format, true);
        parser.reader.at_completion = true;
        let is_like_fio = memchr::memmem::find(head.bytes, b", ").is_some();
        text::probe(format, Head { bytes: if is_like_fio { head.bytes } else { b"" }, ..head }, parser)
    },
    ..COMMAS
};

/// How many requests may complete between a request's issue and its entry in fio's log.
const LATE_REQUESTS: usize = 1 << 16;

/// `SSDSim`'s ascii traces.
const SSDSIM: Format = Format {
    name: "ssdsim",
    about: "SSDSim's ascii traces",
    endings: &[".ssdsim"],
    columns: "arrival in nanoseconds, device, first sector, sectors, 1 (read) or 0 (write)",
    table: &[
        Column::Ticks { name: "arrival", tick_ns: 1 },
        Column::Device("device"),
        FIRST_SECTOR,
        SECTOR_COUNT,
        Column::Kind(&Kinds {
            name: "type",
            words: &[word("1", Read), word("0", Write)],
            otherwise: |name, field| Err(Fault::field(name, field, "1 (read) or 0 (write)")),
        }),
    ],
    ..SECTORS
};

/// `MQSim`'s ascii traces have the columns of `SSDSim`'s with the same meaning (`ASCIITraceReadCode` and
/// `ASCIITraceWriteCode` in its sources).
const MQSIM: Format =
    Format { name: "mqsim", about: "MQSim's ascii traces", endings: &[".mqsim"], same_as: Some("ssdsim"), ..SSDSIM };
