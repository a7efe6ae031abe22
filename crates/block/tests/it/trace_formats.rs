//! Lines of each format, computed by hand, and what stands in errors.

use ioassay_block::trace::{self, BlkEvent, CsvColumns, KindCode, OutOfOrder, ReadOptions, Unit};
use ioassay_block::trace::{BadLines, ZeroLength};
use ioassay_block::{Error, Kind, Request, Source};

fn read_with(format: &str, text: &[u8], options: &ReadOptions) -> Result<Vec<Request>, Error> {
    let input = std::io::Cursor::new(text.to_vec());
    all_of(trace::read(trace::format(format)?, input, options)?)
}

/// All requests that a source gives.
pub fn all_of(mut source: impl Source) -> Result<Vec<Request>, Error> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.next_batch(&mut batch)?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&batch);
    }
}

fn read(format: &str, text: &str) -> Vec<Request> {
    read_with(format, text.as_bytes(), &ReadOptions::default()).expect("a right trace")
}

fn fault(format: &str, text: &str) -> String {
    fault_with(format, text, &ReadOptions::default())
}

fn fault_with(format: &str, text: &str, options: &ReadOptions) -> String {
    let read = read_with(format, text.as_bytes(), options);
    read.expect_err("a wrong trace").to_string()
}

fn request(at_ns: u64, kind: Kind, device: u32, offset: u64, length: u64) -> Request {
    Request {
        at_ns,
        kind,
        device,
        offset_bytes: offset,
        length_bytes: length,
    }
}

use Kind::{Flush, Read, Trim, Write};

#[test]
fn disksim_counts_milliseconds_and_sectors() {
    assert_eq!(
        read(
            "disksim",
            "0.5 0 8 16 1\r\n\n# note\n 1.000001\t2  0 1 0  \n3 0 0 1 0x43"
        ),
        [
            request(500_000, Read, 0, 4096, 8192),
            request(1_000_001, Write, 2, 0, 512),
            request(3_000_000, Read, 0, 0, 512),
        ]
    );
}

#[test]
fn spc_counts_sectors_bytes_and_seconds() {
    assert_eq!(
        read(
            "spc",
            "0,20941264,8192,W,0.551706\n1, 3, 1000, r, 0.551706,more,fields\n"
        ),
        [
            request(551_706_000, Write, 0, 20_941_264 * 512, 8192),
            request(551_706_000, Read, 1, 1536, 1000),
        ]
    );
}

#[test]
fn msr_counts_file_times() {
    assert_eq!(
        read(
            "msr",
            "128166372003061629,hm,1,Read,383496192,32768,113736\n"
        ),
        [request(
            12_816_637_200_306_162_900,
            Read,
            1,
            383_496_192,
            32_768
        )]
    );
    assert_eq!(
        fault("msr", "1,a,1,Read,0,512,1\n2,b,1,Read,0,512,1\n"),
        "line 2: host is `b`, wanted the host of the first line (one trace has one host)"
    );
}

#[test]
fn clouds_count_microseconds_or_seconds() {
    assert_eq!(
        read("alibaba", "419,W,31862140928,4096,1577808144360767\n"),
        [request(
            1_577_808_144_360_767_000,
            Write,
            419,
            31_862_140_928,
            4096
        )]
    );
    assert_eq!(
        read("tencent", "1538323200,8,2,1,1283\n1538323200,8,2,0,1283\n"),
        [
            request(1_538_323_200_000_000_000, Write, 1283, 4096, 1024),
            request(1_538_323_200_000_000_000, Read, 1283, 4096, 1024),
        ]
    );
}

#[test]
fn mqsim_and_ssdsim_read_the_same() {
    for format in ["ssdsim", "mqsim"] {
        assert_eq!(
            read(format, "0 0 303567 7 0\n26214000 1 240840 6 1\n"),
            [
                request(0, Write, 0, 303_567 * 512, 3584),
                request(26_214_000, Read, 1, 240_840 * 512, 3072),
            ]
        );
    }
}

fn vscsi_record(version: u8, command: u8, length: u32, sector: u64, at_us: u64) -> Vec<u8> {
    let command = [command, 0, 0, version];
    let sizes = [
        &7_u32.to_le_bytes()[..],
        &length.to_le_bytes(),
        &1_u32.to_le_bytes(),
    ]
    .concat();
    let place = [sector.to_le_bytes(), at_us.to_le_bytes()].concat();
    if version == 1 {
        [&sizes[..], &command, &place].concat()
    } else {
        [&command[..], &sizes, &place, &9_u64.to_le_bytes()].concat()
    }
}

#[test]
fn vscsi_has_two_versions_of_records() {
    for version in [1, 2] {
        let commands = [0x28, 0x8a, 0x42, 0x35];
        let records: Vec<u8> = (5..)
            .zip(commands)
            .flat_map(|(time, command)| vscsi_record(version, command, 1024, 3, time))
            .collect();
        assert_eq!(
            read_with("vscsi", &records, &ReadOptions::default()).unwrap(),
            [
                request(5000, Read, 0, 1536, 1024),
                request(6000, Write, 0, 1536, 1024),
                request(7000, Trim, 0, 1536, 1024),
                request(8000, Flush, 0, 0, 0),
            ]
        );
        let cut = &records[..records.len() - 1];
        let wanted = records.len() / 4;
        assert_eq!(
            read_with("vscsi", cut, &ReadOptions::default())
                .unwrap_err()
                .to_string(),
            format!(
                "byte {}: the trace ends {} bytes into a record of {wanted}",
                3 * wanted,
                wanted - 1
            )
        );
    }
}

const BLKPARSE: &str = "\
  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  Q   W 223490 + 8 [kjournald]
  8,0    0        0     0.000002000     0  m   N cfq697 insert_request
  8,0    3        3     0.000003000   697  Q FWFSM [jbd2/sda1]
  8,0    3        4     0.000004000   697  D   W 223490 + 8 [kjournald]
  8,0    3        5     0.000005000   697  Q  DS 4096 + 16 [mkfs.ext4]
  8,16   1        6     1.000006000   697  Q  RA 0 + 1 [my prog]
  8,0    3        7     1.500000000     0  C   W 223490 + 8 [0]
CPU3 (sda):
 Reads Queued:           0,        0KiB\t Writes Queued:           1,        4KiB
Total (sda):
Throughput (R/W): 0KiB/s / 0KiB/s
";

#[test]
fn blkparse_gives_one_event_of_each_request() {
    assert_eq!(
        read("blkparse", BLKPARSE),
        [
            request(1829, Write, 8 << 20, 223_490 * 512, 4096),
            request(3000, Flush, 8 << 20, 0, 0),
            request(5000, Trim, 8 << 20, 4096 * 512, 8192),
            request(1_000_006_000, Read, (8 << 20) + 16, 0, 512),
        ]
    );
    for (event, at_ns) in [
        (BlkEvent::Issued, 4000),
        (BlkEvent::Completed, 1_500_000_000),
    ] {
        let options = ReadOptions {
            blkparse_event: event,
            ..ReadOptions::default()
        };
        let wanted = [request(at_ns, Write, 8 << 20, 223_490 * 512, 4096)];
        assert_eq!(
            read_with("blkparse", BLKPARSE.as_bytes(), &options).unwrap(),
            wanted
        );
    }
}

#[test]
fn iologs_number_files_by_first_use() {
    let log = "fio version 3 iolog\n18 /a add\n19 /b add\n20 /b open\n212 /b read 61440 4096\n\
               300 /a trim 0 512\n301 /b sync 954368 0\n400 /b close\n";
    assert_eq!(
        read("iolog3", log),
        [
            request(212_000, Read, 0, 61_440, 4096),
            request(300_000, Trim, 1, 0, 512),
            request(301_000, Flush, 0, 0, 0),
        ]
    );
    let log = "fio version 2 iolog\n/a add\n/a open\n/a write 0 4096\n/a wait 100 0\nwait 20\n\
               /a datasync 0 0\n/a close\n";
    assert_eq!(
        read("iolog2", log),
        [
            request(0, Write, 0, 0, 4096),
            request(120_000, Flush, 0, 0, 0)
        ]
    );
    assert_eq!(
        fault("iolog3", "fio version 2 iolog\n"),
        "line 1: `fio version 2 iolog` is not the header `fio version 3 iolog`"
    );
}

#[test]
fn csv_columns_are_named() {
    let text = "device,note,time_us,op,lba,size_sectors\n3,,7.5,Read,8,1\n3,x,8,f,0,0\n";
    assert_eq!(
        read("csv", text),
        [
            request(7_500, Read, 3, 4096, 512),
            request(8_000, Flush, 3, 0, 0)
        ]
    );
    let options = ReadOptions {
        csv: CsvColumns {
            names: ["-", "time", "op", "length", "lbn"]
                .map(String::from)
                .to_vec(),
            skip_header: true,
            time_unit: Some(Unit::Seconds),
            length_unit_bytes: Some(4096),
            kinds: KindCode::WriteIsOne,
            ..CsvColumns::default()
        },
        ..ReadOptions::default()
    };
    assert_eq!(
        read_with("csv", b"a,b,c,d,e\n1,2,1,3,4", &options).unwrap(),
        [request(2_000_000_000, Write, 0, 2048, 3 * 4096)]
    );
}

#[test]
fn csv_with_a_header_takes_scsi_commands_where_told() {
    let text = "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633899,28,512,1\n";
    assert!(
        fault("csv", text).contains("a time with its unit"),
        "{}",
        fault("csv", text)
    );
    let mut options = ReadOptions::default();
    options.csv.time_unit = Some(Unit::Seconds);
    options.csv.kinds = KindCode::Scsi;
    assert_eq!(
        read_with("csv", text.as_bytes(), &options).unwrap(),
        [
            request(5_633_898_000_000_000, Write, 0, 42_932_745 * 512, 512),
            request(5_633_899_000_000_000, Read, 0, 512, 512),
        ]
    );
}

#[test]
fn errors_name_line_column_and_value() {
    let rows = include_str!("trace_faults.tsv").lines().skip(1);
    for row in rows.map(|row| row.split('\t').collect::<Vec<_>>()) {
        let [format, text, wanted] = row[..] else {
            panic!("{row:?} is no row")
        };
        let text = text.replace("\\n", "\n").replace("\\0", "\0");
        let seen = fault(format, &text);
        assert!(seen.starts_with(wanted), "{format} {text:?}: {seen}");
    }
}

#[test]
fn a_line_without_end_is_refused() {
    let text = "1".repeat(1 << 20);
    assert!(fault("disksim", &text).starts_with("line 1: longer than 65536 bytes"));
    assert!(fault("vscsi", &text).starts_with("byte 0: "));
}

#[test]
fn requests_before_an_error_are_given() {
    let text = std::io::Cursor::new("1 0 8 16 1\n2 0 8 1 1\nx".as_bytes());
    let format = trace::format("disksim").unwrap();
    let mut source = trace::read(format, text, &ReadOptions::default()).unwrap();
    let mut batch = Vec::new();
    source.next_batch(&mut batch).unwrap();
    assert_eq!(batch.len(), 2);
    assert!(source.next_batch(&mut batch).is_err());
    assert!(source.next_batch(&mut batch).is_ok() && batch.is_empty());
}

#[test]
fn what_is_refused_can_be_accepted() {
    let text = "3 0 8 1 1\n1 0 8 1 0\n2 0 8 0 1\n3 0 9 1 1\n";
    let times = |order| {
        let options = ReadOptions {
            out_of_order: order,
            zero_length: ZeroLength::Skip,
            ..ReadOptions::default()
        };
        read_with("disksim", text.as_bytes(), &options).map(|all| {
            all.iter()
                .map(|request| request.at_ns / 1_000_000)
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(times(OutOfOrder::Keep).unwrap(), [3, 1, 3]);
    assert_eq!(times(OutOfOrder::Sort(1)).unwrap(), [1, 3, 3]);
    assert!(times(OutOfOrder::Sort(0)).is_err());
    let options = ReadOptions {
        out_of_order: OutOfOrder::Sort(1),
        ..ReadOptions::default()
    };
    let late = "3 0 8 1 1\n4 0 8 1 1\n5 0 8 1 1\n1 0 8 1 1\n";
    assert!(fault_with("disksim", late, &options).starts_with("request 4: goes back in time"));
    let options = ReadOptions {
        zero_length: ZeroLength::Skip,
        ..ReadOptions::default()
    };
    assert!(fault_with("disksim", "3 0 8 0 1\n", &options).contains("parses to nothing: 1 lines"));
    let options = |lines| ReadOptions {
        bad_lines: BadLines::SkipAtMost(lines),
        ..ReadOptions::default()
    };
    let bad = "x\n3 0 8 1 1\ny\n";
    assert_eq!(
        read_with("disksim", bad.as_bytes(), &options(2))
            .unwrap()
            .len(),
        1
    );
    assert!(fault_with("disksim", bad, &options(1)).starts_with("line 3: "));
}

#[test]
fn an_unknown_format_is_answered_with_the_nearest() {
    let error = trace::format("diskism").unwrap_err().to_string();
    assert!(error.contains("perhaps disksim?"), "{error}");
    let error = trace::format("parquet").unwrap_err().to_string();
    assert!(error.contains("one of spc, disksim"), "{error}");
}

#[test]
fn every_format_is_documented_and_named_once() {
    let text = include_str!("../../../../docs/traces.md");
    for format in trace::FORMATS {
        assert!(
            text.contains(&format!("\n### {}\n", format.name)),
            "docs/traces.md: {}",
            format.name
        );
        assert!(std::ptr::eq(trace::format(format.name).unwrap(), format));
        assert!(!format.kinds.is_empty() && format.resolution_ns > 0);
    }
}
