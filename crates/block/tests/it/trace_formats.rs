//! Lines of each format, computed by hand, and what stands in errors.

use crate::{all_of, of_each, with};
use ioassay_block::Kind::{Flush, Read, Trim, Write};
use ioassay_block::trace::ZeroLength;
use ioassay_block::trace::{self, BlkEvent, CsvColumns, KindCode, OutOfOrder, ReadOptions, Unit};
use ioassay_block::{Error, Kind, Request, Source};

fn read_with(format: &str, text: &[u8], options: &ReadOptions) -> Result<Vec<Request>, Error> {
    let input = std::io::Cursor::new(text.to_vec());
    all_of(trace::read(trace::format(format)?, input, options)?)
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
    Request { at_ns, kind, device, offset_bytes: offset, length_bytes: length }
}

/// The requests that lines are, in the order of the columns of `trace_requests.tsv`.
#[test]
fn lines_of_each_format_are_the_requests_that_the_table_has() {
    for row in include_str!("trace_requests.tsv").lines().skip(1) {
        let (format, row) = row.split_once('\t').unwrap();
        let (text, wanted) = row.split_once('\t').unwrap();
        let text = text.replace("\\n", "\n").replace("\\r", "\r");
        let read = read(format, &text.replace("\\t", "\t"));
        let told = |one: &Request| {
            let range = format!("{}+{}", one.offset_bytes, one.length_bytes);
            format!("{} {:?} {} {range}", one.at_ns, one.kind, one.device)
        };
        let told: Vec<String> = read.iter().map(told).collect();
        assert_eq!(told.join("; "), wanted, "{format} {text:?}");
    }
}

fn vscsi_record(version: u8, command: u8, length: u32, sector: u64, at_us: u64) -> Vec<u8> {
    let command = [command, 0, 0, version];
    let sizes = [&7_u32.to_le_bytes()[..], &length.to_le_bytes(), &1_u32.to_le_bytes()].concat();
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
        let records = (5..).zip(commands);
        let records = records.flat_map(|(time, of)| vscsi_record(version, of, 1024, 3, time));
        let records: Vec<u8> = records.collect();
        let wanted = [
            request(5000, Read, 0, 1536, 1024),
            request(6000, Write, 0, 1536, 1024),
            request(7000, Trim, 0, 1536, 1024),
            request(8000, Flush, 0, 0, 0),
        ];
        let usual = ReadOptions::default();
        assert_eq!(read_with("vscsi", &records, &usual).unwrap(), wanted);
        let cut = &records[..records.len() - 1];
        let one = records.len() / 4;
        let wanted = format!("byte {}: the trace ends {} bytes into a record of {one}", 3 * one, one - 1);
        let error = read_with("vscsi", cut, &usual).unwrap_err();
        assert_eq!(error.to_string(), wanted);
    }
}

/// A record of blktrace: time, action with its category, first sector, bytes, and what follows it.
fn blk_record(version: u8, is_big: bool, at_ns: u64, action: u32, sector: u64, bytes: u32, more: &[u8]) -> Vec<u8> {
    let of_4 = |number: u32| if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
    let of_8 = |number: u64| if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
    let of_2 = |number: u16| if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
    let begin = [&of_4(0x6561_7400 | u32::from(version))[..], &of_4(1), &of_8(at_ns), &of_8(sector), &of_4(bytes)];
    let middle = match version {
        7 => [of_4(action), of_4(5)].concat(),
        _ => [&of_4(5)[..], &of_8(u64::from(action) | (1 << 40))].concat(),
    };
    let end =
        [&of_4(8 << 20)[..], &of_4(0), &of_2(0), &of_2(more.len() as u16), if version == 7 { &[] } else { &[7; 12] }];
    [begin.concat(), middle, end.concat(), more.to_vec()].concat()
}

#[test]
fn blktrace_has_two_versions_in_either_byte_order() {
    const QUEUED_READ: u32 = 0x11_0001;
    const QUEUED_WRITE: u32 = 0x12_0101;
    const QUEUED_FLUSH: u32 = 0x16_0001;
    const QUEUED_DISCARD: u32 = 0x2012_0001;
    const NOTE: u32 = 1 << 26;
    for (version, is_big) in [(7, false), (7, true), (8, false), (8, true)] {
        let record = |at_ns, action, bytes, more: &[u8]| blk_record(version, is_big, at_ns, action, 3, bytes, more);
        let records = [
            record(0, NOTE, 0, b"dd\0\0"),
            record(5, QUEUED_READ, 1024, b""),
            record(6, QUEUED_WRITE, 512, &[1; 8]),
            record(7, QUEUED_FLUSH, 0, &[2; 6_000].repeat(10)),
            record(8, QUEUED_DISCARD, 512, b""),
            record(9, QUEUED_READ + 6, 1024, b""),
        ];
        let wanted = [
            request(5, Read, 8 << 20, 1536, 1024),
            request(6, Write, 8 << 20, 1536, 512),
            request(7, Flush, 8 << 20, 0, 0),
            request(8, Trim, 8 << 20, 1536, 512),
        ];
        let all = records.concat();
        let usual = ReadOptions::default();
        assert_eq!(read_with("blktrace", &all, &usual).unwrap(), wanted);
        assert_eq!(trace::sniff(&all, None).unwrap().format.name, "blktrace");
        let issued = with(usual.clone(), |options| options.event = BlkEvent::Issued);
        assert_eq!(read_with("blktrace", &all, &issued).unwrap(), [request(9, Read, 8 << 20, 1536, 1024)]);
        // Within the head of a record, within its end that only version 8 has, and within what follows.
        for (end, seen, of) in
            [(records[0].len() + 47, 47, 48), (all.len() - 1, records[5].len() - 1, records[5].len())]
        {
            let error = read_with("blktrace", &all[..end], &usual).unwrap_err().to_string();
            assert!(error.ends_with(&format!("the trace ends {seen} bytes into a record of {of}")), "{error}");
        }
        let completed = with(usual, |options| options.event = BlkEvent::Completed);
        let error = read_with("blktrace", &all, &completed).unwrap_err().to_string();
        assert_eq!(error, "event is completed, which the trace lacks, expected --event queued or issued");
    }
    let error = fault("blktrace", &"x".repeat(48));
    assert_eq!(error, "byte 0: `xxxx` is not a record of blktrace's version 7 or 8 (0x65617407 or 0x65617408)");
}

#[test]
fn ids_of_objects_are_addresses_in_the_unit_that_is_given() {
    let record = |time: u32, id: u64, size: u32, next: i64| {
        [&time.to_le_bytes()[..], &id.to_le_bytes(), &size.to_le_bytes(), &next.to_le_bytes()].concat()
    };
    let records = [record(1, 8, 4096, 2), record(1, 9, 512, -1), record(3, 8, 4096, i64::MAX)].concat();
    let mut options = ReadOptions::default();
    options.csv.offset_unit_bytes = Some(512);
    options.csv.kinds = KindCode::Writes;
    let at_s = |seconds: u64, offset, length| request(seconds * 1_000_000_000, Write, 0, offset, length);
    let wanted = [at_s(1, 4096, 4096), at_s(1, 4608, 512), at_s(3, 4096, 4096)];
    assert_eq!(read_with("oraclegeneral", &records, &options).unwrap(), wanted);
    assert_eq!(trace::sniff(&records, None).unwrap().format.name, "oraclegeneral");
    for unlikely in [record(0, 8, 4096, 1), record(4, 8, 0, -1), record(4, 8, 1, -2), vec![0; 23]] {
        let sniffed = trace::sniff(&[&records[..], &unlikely].concat(), None);
        assert!(sniffed.is_err(), "{unlikely:?}");
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
    let wanted = [
        request(1829, Write, 8 << 20, 223_490 * 512, 4096),
        request(3000, Flush, 8 << 20, 0, 0),
        request(5000, Trim, 8 << 20, 4096 * 512, 8192),
        request(1_000_006_000, Read, (8 << 20) + 16, 0, 512),
    ];
    assert_eq!(read("blkparse", BLKPARSE), wanted);
    for (event, at_ns) in [(BlkEvent::Issued, 4000), (BlkEvent::Completed, 1_500_000_000)] {
        let options = with(ReadOptions::default(), |options| {
            options.event = event;
        });
        let read = read_with("blkparse", BLKPARSE.as_bytes(), &options);
        let wanted = request(at_ns, Write, 8 << 20, 223_490 * 512, 4096);
        assert_eq!(read.unwrap(), [wanted]);
    }
}

#[test]
fn csv_columns_are_named() {
    let names = ["-", "time", "op", "length", "lbn"];
    let csv = CsvColumns {
        names: names.map(String::from).to_vec(),
        skip_header: true,
        time_unit: Some(Unit::Seconds),
        length_unit_bytes: Some(4096),
        kinds: KindCode::WriteIsOne,
        ..CsvColumns::default()
    };
    let options = with(ReadOptions::default(), |options| options.csv = csv);
    let read = read_with("csv", b"a,b,c,d,e\n1,2,1,3,4", &options);
    let wanted = request(2_000_000_000, Write, 0, 2048, 3 * 4096);
    assert_eq!(read.unwrap(), [wanted]);
}

#[test]
fn csv_with_a_header_takes_scsi_commands_where_told() {
    let text = "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633899,28,512,1\n";
    assert!(fault("csv", text).contains("a time with its unit"));
    let mut options = ReadOptions::default();
    options.csv.time_unit = Some(Unit::Seconds);
    options.csv.kinds = KindCode::Scsi;
    let wanted = [
        request(5_633_898_000_000_000, Write, 0, 42_932_745 * 512, 512),
        request(5_633_899_000_000_000, Read, 0, 512, 512),
    ];
    let read = read_with("csv", text.as_bytes(), &options);
    assert_eq!(read.unwrap(), wanted);
}

#[test]
fn errors_name_line_column_and_value() {
    let rows = include_str!("trace_faults.tsv").lines().skip(1);
    for row in rows.map(|row| row.split('\t').collect::<Vec<_>>()) {
        let [format, text, wanted] = row[..] else { panic!("{row:?} is no row") };
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
    let changed = |change: &dyn Fn(&mut ReadOptions)| with(ReadOptions::default(), change);
    let times = |order| {
        let options = changed(&|options| {
            (options.out_of_order, options.zero_length) = (order, ZeroLength::Skip);
        });
        let all = read_with("disksim", text.as_bytes(), &options)?;
        Ok::<_, Error>(of_each(&all, |request| request.at_ns / 1_000_000))
    };
    assert_eq!(times(OutOfOrder::Keep).unwrap(), [3, 1, 3]);
    assert_eq!(times(OutOfOrder::Sort(1)).unwrap(), [1, 3, 3]);
    assert!(times(OutOfOrder::Sort(0)).is_err());
    let sorted = changed(&|options| options.out_of_order = OutOfOrder::Sort(1));
    let late = "3 0 8 1 1\n4 0 8 1 1\n5 0 8 1 1\n1 0 8 1 1\n";
    assert!(fault_with("disksim", late, &sorted).starts_with("request 4: goes back in time"));
    let skipping = changed(&|options| options.zero_length = ZeroLength::Skip);
    assert!(fault_with("disksim", "3 0 8 0 1\n", &skipping).contains("parses to nothing: 1 lines"));
    let bad = "x\n3 0 8 1 1\ny\n";
    let skip = |lines| changed(&|options| options.bad_lines = lines);
    let read = read_with("disksim", bad.as_bytes(), &skip(2));
    assert_eq!(read.unwrap().len(), 1);
    assert!(fault_with("disksim", bad, &skip(1)).starts_with("line 3: "));
}

#[test]
fn an_unknown_format_is_answered_with_the_nearest() {
    let error = trace::format("diskism").unwrap_err().to_string();
    assert!(error.contains("perhaps disksim?"), "{error}");
    let error = trace::format("parquet").unwrap_err().to_string();
    assert!(error.contains("one of spc, disksim"), "{error}");
}

#[test]
fn a_trace_that_no_format_fits_is_answered_with_why() {
    let heads: [(&[u8], _); 4] = [
        (b"242.504709548 0 123456 8 1\n", "disksim: line 1: arrival is `242.504709548`, expected a time of whole nano"),
        (b"TIME(ms)  DISK    COMM  PID  LAT(ms)\n611 sda dd 4179 10\n", "biosnoop.bt prints no addresses"),
        (b"TIME(ms)  DISK ID COMM  PID  LAT(ms)\n611 8 0 dd 4179 10\n", "biosnoop.bt prints no addresses"),
        (b"\x07tae\x01\0\0\0", "none of spc, disksim,"),
    ];
    for (head, why) in heads {
        let error = trace::sniff(head, None).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn every_format_is_documented_and_named_once() {
    let text = include_str!("../../../../docs/traces.md");
    for format in trace::FORMATS {
        let name = format!("`{}`", format.name);
        let is_row =
            |line: &str| line.starts_with('|') && line.split('|').nth(1).is_some_and(|cell| cell.contains(&name));
        assert!(text.lines().any(is_row), "docs/traces.md: a row of {name}");
        assert!(std::ptr::eq(trace::format(format.name).unwrap(), format));
        assert!(!format.kinds.is_empty() && format.resolution_ns > 0);
    }
}
