//! Prepared traces: what each step does, that it is counted, and what is refused.

use ioassay_block::prepare::{
    Beyond, Changes, Devices, Kinds, Offsets, Preparation, Prepared, Refusal, Shrink, Sizing,
};
use ioassay_block::{Error, Kind, Request, Source};
use proptest::prelude::*;

const PAGE: u64 = 4096;

fn request(at_ns: u64, offset_bytes: u64, length_bytes: u64) -> Request {
    Request {
        at_ns,
        offset_bytes,
        length_bytes,
        device: 0,
        kind: Kind::Write,
    }
}

fn prepared(requests: &[Request], wanted: Preparation) -> (Vec<Request>, Changes, Option<Error>) {
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
    let range = |request: &Request| (request.offset_bytes, request.length_bytes);
    requests.iter().map(range).collect()
}

#[test]
fn by_default_nothing_is_changed() {
    let requests = [request(5, 1, 3), request(2, u64::MAX - 9, 9)];
    let (given, changes, error) = prepared(&requests, Preparation::default());
    assert!(error.is_none());
    assert_eq!(given, requests);
    assert_eq!(
        (changes.seen, changes.given, changes.bytes_given),
        (2, 2, 12)
    );
}

#[test]
fn kinds_that_are_not_kept_are_dropped_and_the_first_are_counted_after_that() {
    let requests: Vec<Request> = (0..10)
        .map(|at| Request {
            kind: if at % 2 == 0 { Kind::Read } else { Kind::Write },
            ..request(at, 0, 512)
        })
        .collect();
    let wanted = Preparation {
        keep: Kinds::named(["writes"]).expect("a kind"),
        skip: 1,
        first: Some(2),
        rebase: true,
        ..Preparation::default()
    };
    let (given, changes, _) = prepared(&requests, wanted);
    let times: Vec<u64> = given.iter().map(|request| request.at_ns).collect();
    assert_eq!(times, [0, 2], "written at 3 and 5");
    assert_eq!(
        (changes.dropped_kind, changes.skipped, changes.seen),
        (3, 1, 6)
    );
    assert_eq!((changes.bytes_seen, changes.bytes_kept), (6 * 512, 2 * 512));
}

#[test]
fn pages_are_rounded_cut_and_split() {
    let requests = [
        request(0, 5000, 100),
        request(1, 4096, 9000),
        request(2, 100, 4096),
    ];
    let sized = |sizes| {
        let wanted = Preparation {
            sizes,
            ..Preparation::default()
        };
        let (given, changes, _) = prepared(&requests, wanted);
        (ranges(&given), changes)
    };
    let (given, changes) = sized(Sizing::RoundOut);
    assert_eq!(given, [(PAGE, PAGE), (PAGE, 3 * PAGE), (0, 2 * PAGE)]);
    assert_eq!(
        (changes.rounded, changes.lengthened, changes.cut),
        (2, 3, 0)
    );
    let (given, changes) = sized(Sizing::Cut);
    assert_eq!(given, [(PAGE, PAGE), (PAGE, PAGE), (0, PAGE)]);
    assert_eq!(
        (changes.lengthened, changes.cut, changes.bytes_given),
        (1, 1, 3 * PAGE)
    );
    let (given, changes) = sized(Sizing::Split);
    let pages = [
        (PAGE, PAGE),
        (PAGE, PAGE),
        (2 * PAGE, PAGE),
        (3 * PAGE, PAGE),
        (0, PAGE),
        (PAGE, PAGE),
    ];
    assert_eq!(given, pages);
    assert_eq!((changes.split, changes.given), (2, 6));
}

#[test]
fn requests_are_cut_to_a_block_before_they_are_split_into_pages() {
    let requests = [
        request(0, 5000, 100),
        request(1, PAGE + 1024, 9000),
        request(2, 0, PAGE),
    ];
    let split = |page_bytes| {
        let wanted = Preparation {
            cut_bytes: Some(PAGE),
            sizes: Sizing::Split,
            page_bytes,
            ..Preparation::default()
        };
        prepared(&requests, wanted)
    };
    for pages in [1, 2, 4] {
        let page_bytes = PAGE / pages;
        let (given, changes, error) = split(page_bytes);
        let starts = [PAGE, PAGE, 0].into_iter();
        let expected: Vec<(u64, u64)> = starts
            .flat_map(|start| (0..pages).map(move |page| (start + page * page_bytes, page_bytes)))
            .collect();
        assert!(error.is_none());
        assert_eq!(ranges(&given), expected);
        assert_eq!((changes.given, changes.rounded), (3 * pages, 2));
        assert_eq!((changes.lengthened, changes.cut), (1, 1));
    }
    let (given, ..) = split(2 * PAGE);
    assert_eq!(ranges(&given), [(0, 2 * PAGE); 3], "no page is torn");
}

#[test]
fn a_range_shrinks_by_whole_pages() {
    let shrink = Shrink {
        from_bytes: 10 * PAGE,
        to_bytes: 4 * PAGE,
    };
    assert_eq!(shrink.ratio(), 3);
    let requests: Vec<Request> = (0..10)
        .map(|page| request(0, page * PAGE + 512, 512))
        .collect();
    let wanted = Preparation {
        shrink: Some(shrink),
        ..Preparation::default()
    };
    let (given, changes, _) = prepared(&requests, wanted);
    let pages: Vec<u64> = given
        .iter()
        .map(|request| request.offset_bytes / PAGE)
        .collect();
    assert_eq!(pages, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]);
    assert!(
        given
            .iter()
            .all(|request| request.offset_bytes % PAGE == 512)
    );
    assert_eq!(changes.shrunk, 9);
}

#[test]
fn what_is_out_of_range_is_refused_wrapped_or_dropped() {
    let requests = [
        request(0, 0, PAGE),
        request(1, 9 * PAGE + 512, PAGE),
        request(2, 3 * PAGE, 2 * PAGE),
    ];
    let limited = |beyond| {
        let limit_bytes = Some(4 * PAGE);
        prepared(
            &requests,
            Preparation {
                limit_bytes,
                beyond,
                ..Preparation::default()
            },
        )
    };
    let (given, _, error) = limited(Beyond::Refuse);
    let refusal = Refusal::OutOfRange {
        offset_bytes: 9 * PAGE + 512,
        length_bytes: PAGE,
        limit_bytes: 4 * PAGE,
    };
    assert_eq!(given.len(), 1, "what came before is given");
    assert!(matches!(error, Some(Error::Refused { number: 2, refusal: seen }) if seen == refusal));
    let (given, changes, _) = limited(Beyond::Wrap);
    assert_eq!(
        ranges(&given),
        [(0, PAGE), (PAGE + 512, PAGE), (2 * PAGE, 2 * PAGE)]
    );
    assert_eq!(changes.wrapped, 2);
    let (given, changes, _) = limited(Beyond::Drop);
    assert_eq!((given.len(), changes.dropped_beyond), (1, 2));
}

#[test]
fn devices_are_ignored_chosen_or_put_side_by_side() {
    let requests = [7, 3, 7, 9].map(|device| Request {
        device,
        ..request(0, 512, 512)
    });
    let folded = |devices| {
        prepared(
            &requests,
            Preparation {
                devices,
                ..Preparation::default()
            },
        )
    };
    let (given, ..) = folded(Devices::Ignore);
    assert!(given.iter().all(|request| request.device == 0) && given.len() == 4);
    let (given, changes, _) = folded(Devices::Only(7));
    assert_eq!(
        (given.len(), given[0].device, changes.dropped_device),
        (2, 0, 2)
    );
    let (given, changes, _) = folded(Devices::SideBySide { each_bytes: PAGE });
    let places: Vec<u64> = given
        .iter()
        .map(|request| request.offset_bytes / PAGE)
        .collect();
    assert_eq!((places, changes.folded), (vec![0, 1, 0, 2], 2));
    let (_, _, error) = folded(Devices::SideBySide { each_bytes: 600 });
    assert!(matches!(error, Some(Error::Refused { number: 1, .. })));
}

#[test]
fn empty_requests_are_refused_or_dropped_and_flushes_are_neither() {
    let flush = Request {
        kind: Kind::Flush,
        ..request(1, 0, 0)
    };
    let requests = [flush, request(2, 0, 0)];
    let (given, _, error) = prepared(&requests, Preparation::default());
    assert_eq!(given, [flush]);
    assert!(matches!(
        error,
        Some(Error::Refused {
            number: 2,
            refusal: Refusal::Empty
        })
    ));
    let wanted = Preparation {
        drop_empty: true,
        ..Preparation::default()
    };
    let (given, changes, error) = prepared(&requests, wanted);
    assert_eq!(
        (given.len(), changes.dropped_empty, error.is_none()),
        (1, 1, true)
    );
}

#[test]
fn offsets_within_a_page_are_refused_where_asked() {
    let wanted = Preparation {
        offsets: Offsets::Refuse,
        ..Preparation::default()
    };
    let (_, _, error) = prepared(&[request(0, 512, 512)], wanted);
    assert!(matches!(
        error,
        Some(Error::Refused {
            refusal: Refusal::Unaligned { .. },
            ..
        })
    ));
    let wanted = Preparation {
        offsets: Offsets::Down,
        ..Preparation::default()
    };
    let (given, ..) = prepared(&[request(0, 512, 512)], wanted);
    assert_eq!(ranges(&given), [(0, 512)]);
}

#[test]
fn a_request_of_a_wrong_unit_is_refused_where_it_would_become_pages() {
    let huge = request(0, 0, 172_000_000_000);
    let sized = |request, sizes, page_bytes| {
        let wanted = Preparation {
            sizes,
            page_bytes,
            ..Preparation::default()
        };
        Prepared::new(&[request][..], wanted)
            .and_then(|mut source| source.next_batch(&mut Vec::new()))
    };
    let refused = |done: Result<(), Error>| match done {
        Err(Error::Refused { refusal, .. }) => Some(refusal),
        _ => None,
    };
    let refusal = Refusal::TooManyPages {
        length_bytes: 172_000_000_000,
        page_bytes: PAGE,
        pages: 41_992_188,
    };
    assert_eq!(refused(sized(huge, Sizing::Split, PAGE)), Some(refusal));
    assert!(
        refusal
            .to_string()
            .contains("at most 8388608 to split them")
    );
    for sizes in [Sizing::Keep, Sizing::Cut, Sizing::RoundOut] {
        assert!(
            sized(huge, sizes, PAGE).is_ok(),
            "{sizes:?} makes one request"
        );
    }
    let largest = request(0, 0, 1 << 32);
    assert!(sized(largest, Sizing::Split, 512).is_ok());
    assert!(refused(sized(largest, Sizing::Split, 511)).is_some());
}

#[test]
fn times_are_scaled_from_the_first() {
    let requests = [request(1000, 0, 1), request(1101, 0, 1), request(900, 0, 1)];
    let wanted = Preparation {
        rebase: true,
        time_scale: 0.5,
        ..Preparation::default()
    };
    let (given, ..) = prepared(&requests, wanted);
    let times: Vec<u64> = given.iter().map(|request| request.at_ns).collect();
    assert_eq!(times, [0, 51, 0]);
}

#[test]
fn an_option_that_cannot_be_is_named() {
    type Spoil = fn(&mut Preparation);
    let cases: [(&str, Spoil); 6] = [
        ("page", |wanted| wanted.page_bytes = 0),
        ("shrink", |wanted| {
            wanted.shrink = Some(Shrink {
                from_bytes: 1,
                to_bytes: 0,
            });
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
        let error = Prepared::new(&[][..], wanted).err();
        assert!(
            matches!(error, Some(Error::Option { name: seen, .. }) if seen == name),
            "{name}"
        );
    }
}

fn any_request() -> impl Strategy<Value = Request> {
    let place = prop_oneof![0_u64..100_000, any::<u64>()];
    let length = prop_oneof![0_u64..20_000, 0_u64..1_000_000];
    let kind = prop_oneof![Just(Kind::Read), Just(Kind::Write), Just(Kind::Trim)];
    (any::<u64>(), place, length, 0_u32..4, kind).prop_map(
        |(at_ns, offset_bytes, length_bytes, device, kind)| Request {
            at_ns,
            offset_bytes,
            length_bytes,
            device,
            kind,
        },
    )
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
