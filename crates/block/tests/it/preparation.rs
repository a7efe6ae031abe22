//! Prepared traces: what each step does, that it is counted, and what is refused.

use crate::{each, of_each, with, write as request};
use ioassay_block::prepare::{
    Beyond, Changes, Devices, Kinds, Offsets, Preparation, Prepared, Refusal, Shrink, Sizing,
};
use ioassay_block::{Error, Kind, Request, Source};
use proptest::prelude::*;

const PAGE: u64 = 4096;

type Outcome = (Vec<Request>, Changes, Option<Error>);

/// What becomes of requests by a preparation that changes nothing but this.
fn changed(requests: &[Request], change: impl FnOnce(&mut Preparation)) -> Outcome {
    prepared(requests, with(Preparation::default(), change))
}

fn prepared(requests: &[Request], wanted: Preparation) -> Outcome {
    let mut source = Prepared::new(requests, wanted).expect("a preparation that can be");
    let (mut given, mut batch) = (Vec::new(), Vec::new());
    loop {
        if let Err(error) = source.next_batch(&mut batch) {
            return (given, source.changes(), Some(error));
        }
        if batch.is_empty() {
            return (given, source.changes(), None);
        }
        given.extend_from_slice(&batch);
    }
}

fn ranges(requests: &[Request]) -> Vec<(u64, u64)> {
    of_each(requests, |request| (request.offset_bytes, request.length_bytes))
}

fn pages(requests: &[Request]) -> Vec<u64> {
    of_each(requests, |request| request.offset_bytes / PAGE)
}

/// Which request was refused, and why.
fn refusal(error: Option<Error>) -> (u64, Refusal) {
    match error {
        Some(Error::Refused { number, refusal }) => (number, refusal),
        other => panic!("{other:?}"),
    }
}

#[test]
fn by_default_nothing_is_changed() {
    let requests = [request(5, 1, 3), request(2, u64::MAX - 9, 9)];
    let (given, changes, error) = changed(&requests, |_| ());
    assert!(error.is_none());
    assert_eq!(given, requests);
    assert_eq!((changes.seen, changes.given), (2, 2));
    assert_eq!(changes.bytes_given, 12);
}

#[test]
fn kinds_that_are_not_kept_are_dropped_and_the_first_are_counted_after_that() {
    let requests = each(10, |at| Request { kind: [Kind::Read, Kind::Write][(at % 2) as usize], ..request(at, 0, 512) });
    let (given, changes, _) = changed(&requests, |wanted| {
        wanted.keep = Kinds::named(["writes"]).expect("a kind");
        (wanted.skip, wanted.first, wanted.rebase) = (1, Some(2), true);
    });
    let times = of_each(&given, |request| request.at_ns);
    assert_eq!(times, [0, 2]); // written at 3 and 5
    assert_eq!((changes.dropped_kind, changes.skipped), (3, 1));
    assert_eq!(changes.seen, 6);
    assert_eq!((changes.bytes_seen, changes.bytes_kept), (6 * 512, 2 * 512));
}

#[test]
fn pages_are_rounded_cut_and_split() {
    let requests = [request(0, 5000, 100), request(1, 4096, 9000), request(2, 100, 4096)];
    let sized = |sizes| {
        let (given, changes, _) = changed(&requests, |wanted| wanted.sizes = sizes);
        (ranges(&given), changes)
    };
    let (given, changes) = sized(Sizing::RoundOut);
    assert_eq!(given, [(PAGE, PAGE), (PAGE, 3 * PAGE), (0, 2 * PAGE)]);
    let counts = (changes.rounded, changes.lengthened, changes.cut);
    assert_eq!(counts, (2, 3, 0));
    let (given, changes) = sized(Sizing::Cut);
    assert_eq!(given, [(PAGE, PAGE), (PAGE, PAGE), (0, PAGE)]);
    let counts = (changes.lengthened, changes.cut, changes.bytes_given);
    assert_eq!(counts, (1, 1, 3 * PAGE));
    let (given, changes) = sized(Sizing::Split);
    assert_eq!(given, [1, 1, 2, 3, 0, 1].map(|page| (page * PAGE, PAGE)));
    assert_eq!((changes.split, changes.given), (2, 6));
}

#[test]
fn requests_are_cut_to_a_block_before_they_are_split_into_pages() {
    let requests = [request(0, 5000, 100), request(1, PAGE + 1024, 9000), request(2, 0, PAGE)];
    let split = |page_bytes| {
        changed(&requests, |wanted| {
            (wanted.sizes, wanted.page_bytes) = (Sizing::Split, page_bytes);
            wanted.cut_bytes = Some(PAGE);
        })
    };
    for pages in [1, 2, 4] {
        let page_bytes = PAGE / pages;
        let (given, changes, error) = split(page_bytes);
        let starts = [PAGE, PAGE, 0].into_iter();
        let of_start = |start| (0..pages).map(move |page| (start + page * page_bytes, page_bytes));
        let expected: Vec<(u64, u64)> = starts.flat_map(of_start).collect();
        assert!(error.is_none());
        assert_eq!(ranges(&given), expected);
        assert_eq!((changes.given, changes.rounded), (3 * pages, 2));
        assert_eq!((changes.lengthened, changes.cut), (1, 1));
    }
    let (given, ..) = split(2 * PAGE);
    assert_eq!(ranges(&given), [(0, 2 * PAGE); 3]); // no page is torn
}

#[test]
fn a_range_shrinks_by_whole_pages() {
    let shrink = Shrink { from_bytes: 10 * PAGE, to_bytes: 4 * PAGE };
    assert_eq!(shrink.ratio(), 3);
    let requests = each(10, |page| request(0, page * PAGE + 512, 512));
    let (given, changes, _) = changed(&requests, |wanted| wanted.shrink = Some(shrink));
    assert_eq!(pages(&given), [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]);
    let within = of_each(&given, |request| request.offset_bytes % PAGE);
    assert_eq!(within, [512; 10]);
    assert_eq!(changes.shrunk, 9);
}

#[test]
fn what_is_out_of_range_is_refused_wrapped_or_dropped() {
    let requests = [request(0, 0, PAGE), request(1, 9 * PAGE + 512, PAGE), request(2, 3 * PAGE, 2 * PAGE)];
    let limited = |beyond| {
        changed(&requests, |wanted| {
            (wanted.limit_bytes, wanted.beyond) = (Some(4 * PAGE), beyond);
        })
    };
    let (given, _, error) = limited(Beyond::Refuse);
    let refusal = Refusal::OutOfRange { offset_bytes: 9 * PAGE + 512, length_bytes: PAGE, limit_bytes: 4 * PAGE };
    assert_eq!(given.len(), 1, "what came before is given");
    assert_eq!(self::refusal(error), (2, refusal));
    let (given, changes, _) = limited(Beyond::Wrap);
    let wrapped = [(0, PAGE), (PAGE + 512, PAGE), (2 * PAGE, 2 * PAGE)];
    assert_eq!(ranges(&given), wrapped);
    assert_eq!(changes.wrapped, 2);
    let (given, changes, _) = limited(Beyond::Drop);
    assert_eq!((given.len(), changes.dropped_beyond), (1, 2));
}

#[test]
fn devices_are_ignored_chosen_or_put_side_by_side() {
    let requests = [7, 3, 7, 9].map(|device| with(request(0, 512, 512), |one| one.device = device));
    let folded = |devices| changed(&requests, |wanted| wanted.devices = devices);
    let (given, ..) = folded(Devices::Ignore);
    assert!(given.iter().all(|request| request.device == 0) && given.len() == 4);
    let (given, changes, _) = folded(Devices::Only(7));
    assert_eq!((given.len(), given[0].device), (2, 0));
    assert_eq!(changes.dropped_device, 2);
    let (given, changes, _) = folded(Devices::SideBySide { each_bytes: PAGE });
    assert_eq!((pages(&given), changes.folded), (vec![0, 1, 0, 2], 2));
    let (_, _, error) = folded(Devices::SideBySide { each_bytes: 600 });
    assert!(matches!(error, Some(Error::Refused { number: 1, .. })));
}

#[test]
fn empty_requests_are_refused_or_dropped_and_flushes_are_neither() {
    let flush = with(request(1, 0, 0), |one| one.kind = Kind::Flush);
    let requests = [flush, request(2, 0, 0)];
    let (given, _, error) = changed(&requests, |_| ());
    assert_eq!((given, refusal(error)), (vec![flush], (2, Refusal::Empty)));
    let (given, changes, error) = changed(&requests, |wanted| wanted.drop_empty = true);
    assert_eq!((given.len(), changes.dropped_empty), (1, 1));
    assert!(error.is_none());
}

#[test]
fn offsets_within_a_page_are_refused_where_asked() {
    let requests = [request(0, 512, 512)];
    let (_, _, error) = changed(&requests, |wanted| wanted.offsets = Offsets::Refuse);
    assert!(matches!(refusal(error).1, Refusal::Unaligned { .. }));
    let (given, ..) = changed(&requests, |wanted| wanted.offsets = Offsets::Down);
    assert_eq!(ranges(&given), [(0, 512)]);
}

#[test]
fn a_request_of_a_wrong_unit_is_refused_where_it_would_become_pages() {
    let huge = request(0, 0, 172_000_000_000);
    let sized = |request, sizes, page_bytes| {
        let wanted = with(Preparation::default(), |wanted| {
            (wanted.sizes, wanted.page_bytes) = (sizes, page_bytes);
        });
        let requests = [request];
        let mut source = Prepared::new(&requests[..], wanted)?;
        source.next_batch(&mut Vec::new())
    };
    let wanted = Refusal::TooManyPages { length_bytes: 172_000_000_000, page_bytes: PAGE, pages: 41_992_188 };
    let said = wanted.to_string();
    assert!(said.contains("at most 8388608 to split them"), "{said}");
    assert_eq!(refusal(sized(huge, Sizing::Split, PAGE).err()).1, wanted);
    for sizes in [Sizing::Keep, Sizing::Cut, Sizing::RoundOut] {
        assert!(sized(huge, sizes, PAGE).is_ok()); // it makes one request
    }
    let largest = request(0, 0, 1 << 32);
    assert!(sized(largest, Sizing::Split, 512).is_ok());
    refusal(sized(largest, Sizing::Split, 511).err());
}

#[test]
fn times_are_scaled_from_the_first() {
    let requests = [request(1000, 0, 1), request(1101, 0, 1), request(900, 0, 1)];
    let (given, ..) = changed(&requests, |wanted| {
        (wanted.rebase, wanted.time_scale) = (true, 0.5);
    });
    assert_eq!(of_each(&given, |request| request.at_ns), [0, 51, 0]);
}

#[test]
fn an_option_that_cannot_be_is_named() {
    type Spoil = fn(&mut Preparation);
    let cases: [(&str, Spoil); 6] = [
        ("page", |wanted| wanted.page_bytes = 0),
        ("shrink", |wanted| {
            wanted.shrink = Some(Shrink { from_bytes: 1, to_bytes: 0 });
        }),
        ("devices", |wanted| {
            wanted.devices = Devices::SideBySide { each_bytes: 0 };
        }),
        ("sizes", |wanted| wanted.cut_bytes = Some(0)),
        ("limit", |wanted| wanted.limit_bytes = Some(1)),
        ("time_scale", |wanted| wanted.time_scale = f64::NAN),
    ];
    for (name, spoil) in cases {
        let mut wanted = Preparation::default();
        spoil(&mut wanted);
        let Some(Error::Option { name: seen, .. }) = Prepared::new(&[][..], wanted).err() else { panic!("{name}") };
        assert_eq!(seen, name);
    }
}

fn any_request() -> impl Strategy<Value = Request> {
    let place = prop_oneof![0_u64..100_000, any::<u64>()];
    let length = prop_oneof![0_u64..20_000, 0_u64..1_000_000];
    let kind = prop_oneof![Just(Kind::Read), Just(Kind::Write), Just(Kind::Trim)];
    (any::<u64>(), place, length, 0_u32..4, kind).prop_map(|(at_ns, offset_bytes, length_bytes, device, kind)| {
        Request { at_ns, offset_bytes, length_bytes, device, kind }
    })
}

proptest! {
    #[test]
    fn whatever_comes_ends_within_the_limit_and_is_accounted_for(
        requests in prop::collection::vec(any_request(), 0..60),
        limit_pages in 1_u64..300,
        sizes in prop_oneof![
            Just(Sizing::Keep), Just(Sizing::RoundOut), Just(Sizing::Cut), Just(Sizing::Split)
        ],
        beyond in prop_oneof![Just(Beyond::Drop), Just(Beyond::Wrap), Just(Beyond::Refuse)],
        to_bytes in 1_u64..1_000_000,
    ) {
        let wanted = Preparation {
            devices: Devices::Ignore,
            drop_empty: true,
            shrink: Some(Shrink { from_bytes: 1 << 40, to_bytes }),
            sizes,
            beyond,
            limit_bytes: Some(limit_pages * PAGE),
            ..Preparation::default()
        };
        let (given, changes, error) = prepared(&requests, wanted);
        for request in &given {
            prop_assert!(request.end_bytes().is_some_and(|end| end <= limit_pages * PAGE));
        }
        prop_assert_eq!(given.len() as u64, changes.given);
        let bytes: u64 = given.iter().map(|request| request.length_bytes).sum();
        prop_assert_eq!(bytes, changes.bytes_given);
        if error.is_none() && sizes != Sizing::Split {
            let dropped = changes.dropped_beyond + changes.dropped_empty;
            prop_assert_eq!(changes.seen, changes.given + dropped);
        }
    }
}
