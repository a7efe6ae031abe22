//! NVMe over TCP, byte by byte, without a socket: what is allowed, and what is not.

mod host;
mod serve;

use std::time::{Duration, Instant};

use host::{ENABLED, Entry, Said, configure, connect, connect_data, data, initialize, said, unit};
use ioassay_device::command::{Op, Status};
use ioassay_device::transport::nvme_tcp::{DISCOVERY_NAME, NvmeTcp, Session, Subsystem};
use ioassay_device::transport::socket::{End, Protocol, Then};
use serve::Memory;

const NAME: &str = "nqn.2016-06.io.example:drive";
const HOST: &str = "nqn.2016-06.io.example:host";
const RETRY_IS_VAIN: u16 = 1 << 14;

/// A subsystem and its hosts, whose bytes go in by hand.
struct Scene {
    nvme: NvmeTcp,
    drive: Memory,
    sessions: Vec<Session>,
    start: Instant,
    digests: (bool, bool),
    then: Then,
}

impl Scene {
    fn new() -> Self {
        let nvme = NvmeTcp::new(Subsystem::new(NAME).unwrap());
        let drive = Memory::new(4 << 20, 512);
        let then = Then::Wants(1);
        Self {
            nvme,
            drive,
            sessions: Vec::new(),
            start: Instant::now(),
            digests: (false, false),
            then,
        }
    }

    /// An admin queue (0) and an I/O queue (1) of an enabled controller.
    fn connected() -> Self {
        let mut scene = Self::new();
        scene.admin(NAME, 0);
        scene.io(1, 32);
        scene
    }

    fn open(&mut self) -> usize {
        let at = self.sessions.len();
        let mut out = Vec::new();
        self.sessions
            .push(self.nvme.open(0, at as u32, self.start, &mut out));
        let digests = u8::from(self.digests.0) | u8::from(self.digests.1) << 1;
        self.send(at, &initialize(0, digests));
        at
    }

    fn admin(&mut self, name: &str, keep_alive_ms: u32) -> usize {
        let at = self.open();
        let capsule =
            connect(0, 32, keep_alive_ms).capsule(&connect_data(0xffff, name, HOST), self.digests);
        assert!(matches!(
            self.send(at, &capsule)[..],
            [Said::Completed { status: 0, .. }]
        ));
        assert_eq!(self.ask(at, configure(ENABLED)), (0, 0));
        at
    }

    fn io(&mut self, number: u16, entries: u16) -> usize {
        let at = self.open();
        let capsule =
            connect(number, entries, 0).capsule(&connect_data(1, NAME, HOST), self.digests);
        assert!(matches!(
            self.send(at, &capsule)[..],
            [Said::Completed { status: 0, .. }]
        ));
        at
    }

    /// Sends bytes, lets the drive answer, and gives what came back.
    fn send(&mut self, at: usize, bytes: &[u8]) -> Vec<Said> {
        let mut out = Vec::new();
        let received = self
            .nvme
            .received(&mut self.sessions[at], bytes, &mut out, &mut self.drive);
        self.then = received.then;
        let ended = matches!(received.then, Then::Ends(_));
        assert!(ended || received.consumed == bytes.len(), "{received:?}");
        let mut all = said(&out);
        all.extend(self.answers(at));
        all
    }

    fn answers(&mut self, at: usize) -> Vec<Said> {
        let mut out = Vec::new();
        while let Some(answer) = self.drive.due.pop_front() {
            self.nvme
                .answer(&mut self.sessions[at], answer, &mut out, &self.drive);
        }
        said(&out)
    }

    /// The status and result of a command without data.
    fn ask(&mut self, at: usize, entry: Entry) -> (u16, u64) {
        self.ask_with(at, entry, &[])
    }

    fn ask_with(&mut self, at: usize, entry: Entry, data: &[u8]) -> (u16, u64) {
        let capsule = entry.capsule(data, self.digests);
        match &self.send(at, &capsule)[..] {
            [Said::Completed { status, result, .. }] => (*status, *result),
            other => panic!("{other:?}"),
        }
    }

    fn tick(&mut self, at: usize, after: Duration) -> (Option<End>, Vec<Said>) {
        let mut out = Vec::new();
        let end = self
            .nvme
            .tick(&mut self.sessions[at], self.start + after, &mut out);
        (end, said(&out))
    }

    fn identify(&mut self, what: u32, namespace: u32) -> Result<Vec<u8>, u16> {
        let entry = Entry::new(6, 9)
            .namespace(namespace)
            .word(10, what)
            .pointer(0x5a, 0, 4096);
        match &self.send(0, &entry.capsule(&[], self.digests))[..] {
            [Said::Data { data, .. }, Said::Completed { status: 0, .. }] => Ok(data.clone()),
            [Said::Completed { status, .. }] => Err(*status),
            other => panic!("{other:?}"),
        }
    }

    fn log(&mut self, page: u32, length: u32, offset: u32) -> Result<Vec<u8>, u16> {
        let entry = Entry::new(2, 9).pointer(0x5a, 0, length).word(12, offset);
        let entry = entry.word(10, page | (length / 4 - 1) << 16);
        match &self.send(0, &entry.capsule(&[], self.digests))[..] {
            [Said::Data { data, .. }, Said::Completed { status: 0, .. }] => Ok(data.clone()),
            [Said::Completed { status, .. }] => Err(*status),
            other => panic!("{other:?}"),
        }
    }
}

fn read(id: u16, first: u64, blocks: u32) -> Entry {
    Entry::new(2, id)
        .blocks(first, blocks)
        .pointer(0x5a, 0, blocks * 512)
}

fn write(id: u16, first: u64, blocks: u32) -> Entry {
    Entry::new(1, id)
        .blocks(first, blocks)
        .pointer(0x01, 0, blocks * 512)
}

fn vain(status: u16) -> u16 {
    status | RETRY_IS_VAIN
}

#[test]
fn the_initialization_agrees_on_digests_and_the_length_of_data() {
    for digests in 0..4 {
        let mut scene = Scene::new();
        scene
            .sessions
            .push(scene.nvme.open(0, 0, scene.start, &mut Vec::new()));
        assert_eq!(
            scene.send(0, &initialize(0, digests)),
            [Said::Initialized {
                digests,
                most_data: 128 << 10
            }]
        );
    }
}

#[test]
fn units_that_must_not_be_end_the_connection_and_say_why() {
    let capsule = read(1, 0, 1).capsule(&[], (false, false));
    let with = |at: usize, value: u8| {
        let mut bytes = capsule.clone();
        bytes[at] = value;
        bytes
    };
    let long = {
        let mut bytes = with(6, 1);
        bytes.resize(72 + (1 << 16), 0);
        bytes
    };
    let cases = [
        (with(0, 5), 1, 0),    // a response from a host
        (with(0, 77), 1, 0),   // no such type
        (with(1, 1), 1, 1),    // a digest that was not agreed on
        (with(1, 0x80), 1, 1), // no such flag
        (with(2, 24), 1, 2),   // a header of another length
        (with(4, 71), 1, 4),   // shorter than its header
        (long, 1, 4),
        (initialize(0, 0), 2, 0),                // a second initialization
        (data(1, 0, 0, true, &[0; 512]), 1, 10), // data that were not asked for
    ];
    for (bytes, status, about) in cases {
        let mut scene = Scene::connected();
        assert_eq!(
            scene.send(1, &bytes),
            [Said::Ends { status, about }],
            "{:?}",
            &bytes[..8]
        );
        assert_eq!(scene.then, Then::Ends(End::Now));
    }
}

#[test]
fn nothing_but_an_initialization_may_come_first_and_it_has_to_be_possible() {
    let mut other_format = initialize(0, 0);
    other_format[8] = 1;
    let cases = [
        (read(1, 0, 1).capsule(&[], (false, false)), 2, 0),
        (initialize(32, 0), 1, 10),
        (other_format, 6, 8),
    ];
    for (bytes, status, about) in cases {
        let mut scene = Scene::new();
        scene
            .sessions
            .push(scene.nvme.open(0, 0, scene.start, &mut Vec::new()));
        assert_eq!(scene.send(0, &bytes), [Said::Ends { status, about }]);
    }
}

#[test]
fn a_host_that_ends_the_connection_gets_no_answer() {
    let mut scene = Scene::connected();
    assert_eq!(
        scene.send(1, &unit(2, 0, &[0; 16], &[0; 24], (false, false))),
        []
    );
    assert_eq!(scene.then, Then::Ends(End::Now));
}

#[test]
fn damaged_headers_are_fatal_and_damaged_data_are_the_commands_affair() {
    let mut scene = Scene::new();
    scene.digests = (true, true);
    scene.admin(NAME, 0);
    scene.io(1, 32);
    let mut capsule = write(1, 0, 1).capsule(&[3; 512], (true, true));
    capsule[100] ^= 1;
    assert!(matches!(
        scene.send(1, &capsule)[..],
        [Said::Completed { status: 0x22, .. }]
    ));
    assert_eq!(scene.ask_with(1, write(1, 0, 1), &[3; 512]), (0, 0));
    let mut capsule = read(1, 0, 1).capsule(&[], (true, true));
    capsule[50] ^= 1;
    assert!(matches!(
        scene.send(1, &capsule)[..],
        [Said::Ends { status: 3, .. }]
    ));
}

#[test]
fn connect_refuses_what_it_does_not_have_and_says_where() {
    let cases = [
        (
            connect(0, 32, 0),
            connect_data(0xffff, "nqn.2016-06.io.example:other", HOST),
            0x182,
            256 | 1 << 16,
        ),
        (
            connect(0, 32, 0),
            connect_data(5, NAME, HOST),
            0x182,
            16 | 1 << 16,
        ),
        (
            connect(0, 32, 0),
            connect_data(0xffff, NAME, ""),
            0x182,
            512 | 1 << 16,
        ),
        (
            connect(0, 1, 0),
            connect_data(0xffff, NAME, HOST),
            0x182,
            44,
        ),
        (
            connect(0, 1025, 0),
            connect_data(0xffff, NAME, HOST),
            0x182,
            44,
        ),
        (
            connect(0, 32, 0).word(10, 1),
            connect_data(0xffff, NAME, HOST),
            0x180,
            0,
        ),
        (
            connect(1, 32, 0),
            connect_data(1, NAME, "nqn.2016-06.io.example:thief"),
            0x182,
            512 | 1 << 16,
        ),
        (
            connect(1, 32, 0),
            connect_data(9, NAME, HOST),
            0x182,
            16 | 1 << 16,
        ),
        (connect(17, 32, 0), connect_data(1, NAME, HOST), 0x182, 42),
        (connect(2, 32, 0), connect_data(1, NAME, HOST), 0x181, 0),
        (connect(0, 32, 0), vec![0; 100], 0x16, 0),
    ];
    let mut scene = Scene::connected();
    scene.io(2, 32);
    for (entry, data, status, result) in cases {
        let at = scene.open();
        let said = scene.send(at, &entry.capsule(&data, (false, false)));
        let [
            Said::Completed {
                status: came,
                result: where_,
                ..
            },
        ] = said[..]
        else {
            panic!("{said:?}")
        };
        assert_eq!((came, where_), (vain(status), result));
    }
    let at = scene.open();
    assert_eq!(
        scene.ask(at, read(3, 0, 1)).0,
        vain(0x0c),
        "nothing but Connect comes first"
    );
}

#[test]
fn more_hosts_than_controllers_are_refused_until_one_leaves() {
    let mut scene = Scene::new();
    for _ in 0..16 {
        scene.admin(NAME, 0);
    }
    let at = scene.open();
    let capsule = connect(0, 32, 0).capsule(&connect_data(0xffff, NAME, HOST), (false, false));
    assert!(matches!(
        scene.send(at, &capsule)[..],
        [Said::Completed { status: 0x4181, .. }]
    ));
    scene.nvme.closed(&mut scene.sessions[3]);
    assert!(matches!(
        scene.send(at, &capsule)[..],
        [Said::Completed {
            status: 0,
            result: 4,
            ..
        }]
    ));
}

#[test]
fn properties_say_what_the_controller_can_and_is() {
    let mut scene = Scene::connected();
    let get = |offset: u32, wide: u32| {
        Entry::new(0x7f, 2)
            .namespace(4)
            .word(10, wide)
            .word(11, offset)
    };
    assert_eq!(
        scene.ask(0, get(0, 1)),
        (0, 1023 | 1 << 16 | 10 << 24 | 1 << 37)
    );
    assert_eq!(scene.ask(0, get(8, 0)), (0, 0x0001_0400));
    assert_eq!(scene.ask(0, get(0x1c, 0)), (0, 1));
    assert_eq!(scene.ask(0, get(0, 0)).0, vain(2));
    assert_eq!(scene.ask(0, get(0x30, 0)).0, vain(2));
    assert_eq!(
        scene.ask(0, configure(ENABLED | 1 << 14)),
        (0, 0),
        "a shutdown"
    );
    assert_eq!(scene.ask(0, get(0x1c, 0)), (0, 1 | 2 << 2));
    assert_eq!(scene.ask(0, configure(0)), (0, 0));
    assert_eq!(scene.ask(0, get(0x1c, 0)), (0, 0));
    assert_eq!(scene.ask(1, read(1, 0, 1)).0, vain(0x0c), "it is not ready");
    assert_eq!(
        scene.ask(0, configure(ENABLED | 7 << 4)),
        (0, 0),
        "a command set that there is not"
    );
    assert_eq!(scene.ask(0, get(0x1c, 0)), (0, 2));
}

#[test]
fn reads_writes_and_the_rest_reach_the_drive() {
    let mut scene = Scene::connected();
    assert_eq!(scene.ask_with(1, write(1, 3, 2), &[7; 1024]), (0, 0));
    assert_eq!(
        scene.ask_with(1, write(1, 5, 1).word(12, 1 << 30), &[8; 512]),
        (0, 0)
    );
    let said = scene.send(1, &read(2, 4, 2).capsule(&[], (false, false)));
    let expected = [vec![7; 512], vec![8; 512]].concat();
    assert_eq!(
        said[0],
        Said::Data {
            id: 2,
            data: expected.clone(),
            success: false
        }
    );
    assert!(matches!(
        said[1],
        Said::Completed {
            id: 2,
            status: 0,
            head: 3,
            ..
        }
    ));
    let compare = Entry::new(5, 3).blocks(4, 2).pointer(0x01, 0, 1024);
    assert_eq!(scene.ask_with(1, compare, &expected), (0, 0));
    assert_eq!(scene.ask_with(1, compare, &[0; 1024]).0, vain(0x285));
    assert_eq!(
        scene.ask(1, Entry::new(0x0c, 3).blocks(0, 8192)),
        (0, 0),
        "verify all"
    );
    assert_eq!(scene.ask(1, Entry::new(0, 3).namespace(1)), (0, 0));
    assert_eq!(scene.ask(1, Entry::new(0, 3).namespace(u32::MAX)), (0, 0));
    assert_eq!(scene.ask(1, Entry::new(8, 3).blocks(0, 4)), (0, 0));
    assert_eq!(
        scene.ask(1, Entry::new(8, 3).blocks(4, 1).word(12, 1 << 25)),
        (0, 0)
    );
    let ranges = [[0, 8, 5u64], [0, 0, 1], [0, 1, 100]].map(|[context, count, first]| {
        [
            &(context as u32).to_le_bytes()[..],
            &(count as u32).to_le_bytes(),
            &first.to_le_bytes(),
        ]
        .concat()
    });
    let deallocate = Entry::new(9, 3).namespace(1).word(10, 2).word(11, 4);
    assert_eq!(
        scene.ask_with(1, deallocate.pointer(0x01, 0, 48), &ranges.concat()),
        (0, 0)
    );
    assert_eq!(
        scene.ask_with(1, deallocate.pointer(0x01, 0, 4096), &[0; 4096]),
        (0, 0),
        "a whole page of them"
    );
    let seen: Vec<_> = scene
        .drive
        .seen
        .iter()
        .map(|command| (command.op, command.length_bytes, command.fua))
        .collect();
    let expected = [
        (Op::Write, 1024, false),
        (Op::Write, 512, true),
        (Op::Read, 1024, false),
        (Op::Read, 1024, false),
        (Op::Read, 1024, false),
        (Op::Read, 4 << 20, false),
        (Op::Flush, 0, false),
        (Op::Flush, 0, false),
        (Op::WriteZeroes, 2048, false),
        (Op::Trim, 512, false),
        (Op::Trim, 4096, false),
        (Op::Trim, 512, false),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn commands_that_cannot_be_are_refused_and_the_connection_goes_on() {
    let mut scene = Scene::connected();
    let mut prp = read(1, 0, 1);
    prp.0[1] = 0;
    let mut fused = read(1, 0, 1);
    fused.0[1] |= 1;
    let cases: [(Entry, usize, u16); 18] = [
        (read(1, 8192, 1), 0, 0x80),
        (read(1, 8191, 2), 0, 0x80),
        (read(1, u64::MAX, 1), 0, 0x80),
        (read(1, 0, 1).namespace(2), 0, 0x0b),
        (read(1, 0, 1).namespace(u32::MAX), 0, 0x0b),
        (read(1, 0, 4096), 0, 0x02), // longer than MDTS
        (read(1, 0, 2).pointer(0x5a, 0, 512), 0, 0x0f),
        (read(1, 0, 1).pointer(0x01, 0, 512), 0, 0x11),
        (read(1, 0, 1).pointer(0x40, 0, 512), 0, 0x11), // keyed
        (prp, 0, 0x02),
        (fused, 0, 0x02),
        (write(1, 0, 1).pointer(0x01, 8, 512), 512, 0x16),
        (write(1, 0, 1).pointer(0x01, u64::MAX, 512), 512, 0x16),
        (write(1, 0, 2), 512, 0x16),
        (write(1, 0, 1).pointer(0x01, 0, 511), 512, 0x0f),
        (Entry::new(0x04, 1).blocks(0, 1), 0, 0x01), // Write Uncorrectable
        (Entry::new(0x7f, 1), 0, 0x01),              // fabrics on an I/O queue
        (
            Entry::new(9, 1)
                .namespace(1)
                .word(11, 4)
                .pointer(0x01, 0, 15),
            16,
            0x0f,
        ),
    ];
    for (at, (entry, bytes, status)) in cases.into_iter().enumerate() {
        assert_eq!(
            scene.ask_with(1, entry, &vec![0; bytes]).0,
            vain(status),
            "case {at}"
        );
    }
    let beyond = [&[0; 4][..], &2u32.to_le_bytes(), &8191u64.to_le_bytes()].concat();
    let deallocate = Entry::new(9, 1)
        .namespace(1)
        .word(11, 4)
        .pointer(0x01, 0, 16);
    assert_eq!(scene.ask_with(1, deallocate, &beyond).0, vain(0x80));
    assert!(scene.drive.seen.is_empty());
    assert_eq!(scene.ask(1, Entry::new(0, 1).namespace(1)), (0, 0));
    assert_eq!(
        scene.log(1, 64, 0).unwrap()[..8],
        (cases.len() as u64 + 1).to_le_bytes(),
        "all are in the error log"
    );
}

#[test]
fn long_writes_are_asked_for_and_come_in_order() {
    let mut scene = Scene::connected();
    let entry = write(7, 0, 512).pointer(0x5a, 0, 256 << 10);
    let asks = Said::Asks {
        id: 7,
        transfer: 0,
        length: 256 << 10,
    };
    assert_eq!(
        scene.send(1, &entry.capsule(&[], (false, false))),
        [asks.clone()]
    );
    assert_eq!(scene.send(1, &data(7, 0, 0, false, &[1; 128 << 10])), []);
    let said = scene.send(1, &data(7, 0, 128 << 10, true, &[2; 128 << 10]));
    assert!(
        matches!(
            said[..],
            [Said::Completed {
                id: 7,
                status: 0,
                ..
            }]
        ),
        "{said:?}"
    );
    assert_eq!((scene.drive.bytes[0], scene.drive.bytes[128 << 10]), (1, 2));
    let wrong = [
        (data(7, 0, 512, false, &[1; 512]), 4),
        (data(7, 0, 0, true, &[1; 512]), 1),
        (data(7, 1, 0, false, &[1; 512]), 1),
        (data(8, 0, 0, false, &[1; 512]), 1),
        (data(7, 0, u32::MAX, false, &[1; 512]), 4),
        (data(7, 0, 0, false, &[]), 1),
    ];
    for (bytes, status) in wrong {
        let mut scene = Scene::connected();
        assert_eq!(
            scene.send(1, &entry.capsule(&[], (false, false))),
            [asks.clone()]
        );
        let said = scene.send(1, &bytes);
        assert!(
            matches!(said[..], [Said::Ends { status: came, .. }] if came == status),
            "{said:?}"
        );
    }
}

#[test]
fn data_of_writes_take_a_bounded_memory() {
    let mut scene = Scene::new();
    scene.admin(NAME, 0);
    scene.io(1, 128);
    let mut asked = Vec::new();
    for id in 0..20 {
        let entry = write(id, 0, 2048).pointer(0x5a, 0, 1 << 20);
        asked.extend(scene.send(1, &entry.capsule(&[], (false, false))));
    }
    assert_eq!(asked.len(), 8, "asked for {asked:?}");
    let mut completed = 0;
    while let Some(ask) = asked.pop() {
        let Said::Asks { id, transfer, .. } = ask else {
            panic!("{ask:?}")
        };
        for part in 0..8u32 {
            let said = scene.send(1, &data(id, transfer, part << 17, part == 7, &[9; 1 << 17]));
            completed += said
                .iter()
                .filter(|said| matches!(said, Said::Completed { status: 0, .. }))
                .count();
            asked.extend(
                said.into_iter()
                    .filter(|said| matches!(said, Said::Asks { .. })),
            );
        }
    }
    assert_eq!(completed, 20);
}

#[test]
fn a_number_in_use_and_more_commands_than_entries_are_noticed() {
    let mut scene = Scene::connected();
    let waits = write(7, 0, 512)
        .pointer(0x5a, 0, 256 << 10)
        .capsule(&[], (false, false));
    scene.send(1, &waits);
    assert!(matches!(
        scene.send(1, &waits)[..],
        [Said::Completed {
            id: 7,
            status: 0x4003,
            ..
        }]
    ));
    let mut ended = false;
    for id in 100..200 {
        let waits = write(id, 0, 512)
            .pointer(0x5a, 0, 256 << 10)
            .capsule(&[], (false, false));
        ended |= matches!(scene.send(1, &waits)[..], [Said::Ends { status: 2, .. }]);
        if ended {
            assert_eq!(id, 131, "32 entries, of which one is in use already");
            break;
        }
    }
    assert!(ended);
}

#[test]
fn reads_in_flight_are_bounded() {
    let mut scene = Scene::new();
    scene.admin(NAME, 0);
    scene.io(1, 128);
    let reads: Vec<u8> = (0..20)
        .flat_map(|id| read(id, 0, 2048).capsule(&[], (false, false)))
        .collect();
    let mut out = Vec::new();
    let received = scene
        .nvme
        .received(&mut scene.sessions[1], &reads, &mut out, &mut scene.drive);
    assert_eq!((received.then, scene.drive.due.len()), (Then::Blocked, 8));
    assert_eq!(received.consumed, 8 * 72);
}

#[test]
fn identify_describes_the_controller_and_its_namespace() {
    let mut scene = Scene::connected();
    let controller = scene.identify(1, 0).unwrap();
    assert_eq!(&controller[4..24], b"IA0001              ");
    assert_eq!(&controller[768..768 + NAME.len()], NAME.as_bytes());
    assert_eq!(
        (controller[77], controller[111], controller[525]),
        (8, 1, 7)
    );
    assert_eq!(controller[1792..1796], 516u32.to_le_bytes());
    let namespace = scene.identify(0, 1).unwrap();
    assert_eq!(namespace[..8], 8192u64.to_le_bytes());
    assert_eq!((namespace[130], namespace[33], namespace[99]), (9, 9, 0));
    assert_eq!(scene.identify(2, 0).unwrap()[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(scene.identify(2, 1).unwrap()[..4], [0; 4]);
    let descriptors = scene.identify(3, 1).unwrap();
    assert_eq!(
        (&descriptors[..2], &descriptors[20..22]),
        (&[2, 16][..], &[3, 16][..])
    );
    assert_eq!(descriptors[4..20], namespace[104..120]);
    for (what, namespace, status) in [
        (0, 2, 0x0b),
        (0, u32::MAX, 0x0b),
        (2, u32::MAX, 0x0b),
        (0x42, 0, 2),
    ] {
        assert_eq!(
            scene.identify(what, namespace),
            Err(vain(status)),
            "{what:#x}"
        );
    }
    scene.drive.facts.read_only = true;
    assert_eq!(scene.identify(0, 1).unwrap()[99], 1);
    assert_eq!(scene.ask_with(1, write(1, 0, 1), &[0; 512]).0, vain(0x20));
}

#[test]
fn features_are_set_and_read_back() {
    let mut scene = Scene::connected();
    let get = |feature: u32| Entry::new(0x0a, 3).word(10, feature);
    let set = |feature: u32, value: u32| Entry::new(9, 3).word(10, feature).word(11, value);
    assert_eq!(scene.ask(0, set(7, 3 << 16 | 5)), (0, 3 << 16 | 3));
    assert_eq!(scene.ask(0, get(7)), (0, 3 << 16 | 3));
    assert_eq!(scene.ask(0, set(7, 500 << 16 | 500)), (0, 15 << 16 | 15));
    assert_eq!(scene.ask(0, set(7, 0xffff)).0, vain(2));
    for (feature, value) in [
        (1, 7),
        (4, 350),
        (5, 9),
        (0x0a, 1),
        (0x0b, 0x100),
        (0x0f, 12_000),
    ] {
        assert_eq!(scene.ask(0, set(feature, value)), (0, 0));
        assert_eq!(
            scene.ask(0, get(feature)),
            (0, value.into()),
            "{feature:#x}"
        );
    }
    assert_eq!(
        scene.ask(0, set(2, 1)).0,
        vain(2),
        "there is one power state"
    );
    assert_eq!(scene.ask(0, set(0x77, 0)).0, vain(2));
    assert_eq!(scene.ask(0, set(1 << 31 | 1, 0)).0, vain(0x10d));
    let timestamp = set(0x0e, 0).pointer(0x01, 0, 8);
    assert_eq!(
        scene.ask_with(0, timestamp, &[1, 2, 3, 4, 5, 6, 0, 0]),
        (0, 0)
    );
    assert_eq!(
        scene.ask(0, get(3 << 8 | 6)),
        (0, 4),
        "the write cache can be switched"
    );
}

#[test]
fn without_its_write_cache_every_write_is_durable() {
    let mut scene = Scene::connected();
    let set = |value: u32| Entry::new(9, 3).word(10, 6).word(11, value);
    for (value, durable) in [(1, false), (0, true), (1, false)] {
        assert_eq!(scene.ask(0, set(value)), (0, 0));
        scene.ask_with(1, write(1, 0, 1), &[0; 512]);
        assert_eq!(scene.drive.seen.last().unwrap().fua, durable);
    }
    scene.drive.facts.volatile_cache = false;
    assert_eq!(scene.ask(0, set(0)).0, vain(2));
}

#[test]
fn log_pages_are_given_in_parts() {
    let mut scene = Scene::connected();
    let health = scene.log(2, 512, 0).unwrap();
    assert_eq!((health[48], health[64], health[144]), (2, 3, 7));
    assert_eq!(scene.log(2, 64, 32).unwrap(), health[32..96]);
    assert_eq!(
        scene.log(3, 512, 0).unwrap()[..9],
        [1, 0, 0, 0, 0, 0, 0, 0, b'1']
    );
    assert_eq!(
        scene.log(5, 4096, 0).unwrap()[1024 + 4..1028 + 4],
        [3, 0, 0, 0]
    );
    assert_eq!(scene.log(2, 512, 1024), Err(vain(2)));
    assert_eq!(scene.log(2, 64, 2), Err(vain(2)));
    assert_eq!(
        scene.log(0x70, 64, 0),
        Err(vain(0x109)),
        "only the discovery service has it"
    );
    let endless = Entry::new(2, 9)
        .pointer(0x5a, 0, u32::MAX)
        .word(10, 0xffff_0002)
        .word(11, 0xffff);
    assert_eq!(scene.ask(0, endless).0, vain(0x0f));
}

#[test]
fn events_are_held_told_once_and_aborted() {
    let mut scene = Scene::connected();
    let request = |id: u16| Entry::new(0x0c, id).capsule(&[], (false, false));
    let notices = Entry::new(9, 3).word(10, 0x0b).word(11, 1 << 8);
    for id in 10..14 {
        assert_eq!(scene.send(0, &request(id)), []);
    }
    assert!(matches!(
        scene.send(0, &request(14))[..],
        [Said::Completed { status: 0x4105, .. }]
    ));
    scene.nvme.namespace_changed();
    assert!(scene.nvme.attention());
    assert_eq!(
        scene.tick(0, Duration::ZERO).1,
        [],
        "the host did not ask for notices"
    );
    assert_eq!(scene.ask(0, notices), (0, 0));
    for (expected, change) in [(1, 10), (0, 0)] {
        scene.nvme.namespace_changed();
        let (_, said) = scene.tick(0, Duration::ZERO);
        assert_eq!(said.len(), expected);
        if let [
            Said::Completed {
                id, status, result, ..
            },
        ] = said[..]
        {
            assert_eq!((id, status, result), (change, 0, 0x0004_0002));
        }
    }
    assert_eq!(scene.log(4, 4096, 0).unwrap()[..4], [1, 0, 0, 0]);
    assert_eq!(scene.log(4, 4096, 0).unwrap()[..4], [0, 0, 0, 0]);
    scene.nvme.namespace_changed();
    assert_eq!(
        scene.tick(0, Duration::ZERO).1.len(),
        1,
        "the log was read: the host is told again"
    );
    let abort = Entry::new(8, 20)
        .word(10, 13 << 16)
        .capsule(&[], (false, false));
    let said = scene.send(0, &abort);
    assert!(matches!(
        said[..],
        [
            Said::Completed {
                id: 13,
                status: 0x4007,
                ..
            },
            Said::Completed {
                id: 20,
                status: 0,
                result: 0,
                ..
            }
        ]
    ));
    assert_eq!(
        scene.ask(0, Entry::new(8, 20).word(10, 99 << 16)),
        (0, 1),
        "nothing to abort"
    );
}

#[test]
fn queues_are_not_made_by_commands_and_unknown_commands_are_refused() {
    let mut scene = Scene::connected();
    for opcode in [0x00, 0x01, 0x04, 0x05, 0x0d, 0x10, 0x80, 0x84, 0xff] {
        assert_eq!(
            scene.ask(0, Entry::new(opcode, 3)).0,
            vain(1),
            "{opcode:#x}"
        );
    }
}

#[test]
fn a_host_that_is_silent_for_too_long_loses_all_its_connections() {
    let mut scene = Scene::new();
    scene.admin(NAME, 5000);
    scene.io(1, 32);
    let s = Duration::from_secs;
    assert_eq!(scene.tick(0, s(0)).0, None);
    assert_eq!(scene.tick(0, s(5)).0, None);
    scene.ask(0, Entry::new(0x18, 3));
    assert_eq!(scene.tick(0, s(8)).0, None);
    assert_eq!(scene.tick(0, s(13)).0, None);
    assert_eq!(scene.tick(0, s(15)).0, Some(End::Now));
    assert!(scene.nvme.attention());
    assert_eq!(scene.tick(1, s(15)).0, Some(End::Now));
}

#[test]
fn a_host_without_a_queue_is_not_waited_for_and_one_that_leaves_takes_its_queues_along() {
    let mut scene = Scene::connected();
    let idle = scene.open();
    assert_eq!(scene.tick(idle, Duration::from_secs(9)).0, None);
    assert_eq!(scene.tick(idle, Duration::from_secs(11)).0, Some(End::Now));
    assert_eq!(
        scene.tick(1, Duration::from_secs(900)).0,
        None,
        "without a keep alive time"
    );
    scene.nvme.closed(&mut scene.sessions[0]);
    assert_eq!(scene.tick(1, Duration::ZERO).0, Some(End::Now));
}

#[test]
fn the_discovery_controller_only_discovers() {
    let mut scene = Scene::new();
    scene.admin(DISCOVERY_NAME, 0);
    assert_eq!(scene.identify(1, 0).unwrap()[111], 2);
    assert_eq!(scene.identify(2, 0), Err(vain(2)));
    assert_eq!(scene.log(2, 512, 0), Err(vain(0x109)));
    assert_eq!(scene.log(0x70, 1024, 0).unwrap()[..8], [0; 8]);
    let at = scene.open();
    let capsule = connect(1, 32, 0).capsule(&connect_data(1, DISCOVERY_NAME, HOST), (false, false));
    assert!(matches!(
        scene.send(at, &capsule)[..],
        [Said::Completed { status: 0x4182, .. }]
    ));
}

#[test]
fn what_the_drive_says_becomes_a_status() {
    let cases = [
        (Status::OutOfRange, vain(0x80)),
        (Status::ReadOnly, vain(0x20)),
        (Status::NoSpace, vain(0x81)),
        (Status::Failed, 0x280),
        (Status::PowerLost, 0x05),
    ];
    for (status, expected) in cases {
        let mut scene = Scene::connected();
        scene.drive.status = status;
        assert_eq!(
            scene.ask_with(1, write(1, 0, 1), &[0; 512]).0,
            expected,
            "{status:?}"
        );
    }
    let mut scene = Scene::connected();
    scene.drive.status = Status::Failed;
    assert_eq!(scene.ask(1, read(1, 0, 1)).0, 0x281);
}
