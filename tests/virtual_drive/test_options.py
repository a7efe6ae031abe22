"""What people write about a served drive, as the core takes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay.errors import UsageError
from ioassay.virtual_drive import drive_options


def test_a_list_of_ways_is_split_where_a_transport_begins() -> None:
    text = "nbd:unix:a.sock,nvme-tcp:127.0.0.1:4420,nqn=nqn.2026-01.org.example:a,host=nqn.h,host=nqn.i,fuse:b,c.img"
    text += ",vfio-user:d"
    assert drive_options.transports(text) == [
        "nbd:unix:a.sock",
        "nvme-tcp:127.0.0.1:4420,nqn=nqn.2026-01.org.example:a,host=nqn.h,host=nqn.i",
        "fuse:b,c.img",
        "vfio-user:d",
    ]


def test_paths_are_absolute_and_sizes_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = drive_options.described(
        {"policy": "epo", "buffer": "16MiB", "page": "8KiB", "read_us": "100", "copy_back": "no"},
        size="1GiB",
        block_size="4096",
        transports=["nbd:unix:a.sock", "fuse:b.img", "nbd:tcp:127.0.0.1:1", "nbd:unix:d.sock,tls=a,b"],
        backing_file=Path("c.img"),
        pin=None,
    )
    assert told == {
        "size_bytes": 2**30,
        "block_bytes": 4096,
        "transports": [
            *(f"nbd:unix:{tmp_path}/a.sock", f"fuse:{tmp_path}/b.img", "nbd:tcp:127.0.0.1:1"),
            f"nbd:unix:{tmp_path}/d.sock,tls=a,b",
        ],
        "backing_file": f"{tmp_path}/c.img",
        "geometry": {"page_bytes": 8192, "read_us": 100.0, "copy_back": False},
        "buffer": {"policy": "epo", "bytes": 16 * 2**20},
    }


def test_vfio_user_names_a_socket_or_the_folder_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "drive").mkdir()
    told = drive_options.described({}, transports=["vfio-user:drive", "vfio-user:a.sock"])
    assert told["transports"] == [f"vfio-user:{tmp_path}/drive/cntrl", f"vfio-user:{tmp_path}/a.sock"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"size": "much"}, "size: "),
        ({"transports": ["nbd"]}, "transport is 'nbd', wanted nbd:unix:PATH"),
        ({"transports": ["iscsi:x"]}, "transport is 'iscsi:x'"),
        ({"transports": ["vfio-user:"]}, "transport is 'vfio-user:', wanted .* or vfio-user:PATH"),
        ({"transports": ["nbd:unix:"]}, "transport is 'nbd:unix:', wanted nbd:unix:PATH"),
        ({"size": "99999999999999999999"}, "size is 99999999999999999999, wanted less than 8 EiB"),
        ({"serial": "x" * 21}, "wanted 1 to 20 printable characters"),
        ({"serial": "a\n"}, "printable"),
        ({"poll": "sometimes"}, "poll is 'sometimes', wanted adaptive or always"),
    ],
)
def test_what_cannot_be_is_told_with_what_was_wanted(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        drive_options.described({}, **given)


@pytest.mark.parametrize("name", ["feed", "window", "mode", "precondition", "slices"])
def test_an_option_of_feeding_a_trace_is_none_of_a_drive(name: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}' says how a trace is simulated"):
        drive_options.described({name: "1"})


def test_an_unknown_option_has_its_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean 'read_us'"):
        drive_options.described({"read_uss": 1})


def test_settings_are_words_with_an_equals_sign() -> None:
    assert drive_options.settings(["read-us=100", "elements = 8"]) == {"read_us": "100", "elements": "8"}
    with pytest.raises(UsageError, match="'read_us' sets nothing"):
        drive_options.settings(["read_us"])


@pytest.mark.parametrize(
    ("model", "of_model", "precondition", "said"),
    [
        ("thesis", {"policy": "none"}, 0.5, ""),
        ("thesis", {"policy": "lru", "buffer": "1MiB", "read_us": "3"}, None, ""),
        ("none", {"policy": "none"}, None, ""),
        ("none", {"policy": "lru", "read_us": "3"}, 1.0, "policy, read_us, precondition: not used by model 'none'"),
        ("none", {"policy": "none"}, "full", "precondition: not used by model 'none'"),
        ("none", {"policy": "none"}, "none", ""),
    ],
)
def test_what_has_no_effect_is_told(
    model: str, of_model: dict[str, str], precondition: float | str | None, said: str
) -> None:
    found = drive_options.unused(model, of_model, precondition)
    assert found.startswith(said) and bool(found) == bool(said)


@pytest.mark.parametrize(
    ("state", "share", "used"),
    [("none", 0.0, False), ("0", 0.0, False), ("full", 0.0, True), ("steady", 1.0, True), (0.5, 0.5, True)],
)
def test_the_state_of_a_drive_is_a_word_or_a_share(state: float | str, share: float, used: bool) -> None:
    assert (drive_options.preconditioned(state), drive_options.is_used(state)) == (share, used)
    assert drive_options.described({}, precondition=state)["precondition"] == share


@pytest.mark.parametrize("state", ["worn", "", "2", -0.5, float("nan"), True])
def test_another_state_is_refused(state: float | str) -> None:
    with pytest.raises(UsageError, match="wanted none, full, steady, or a share up to 1"):
        drive_options.preconditioned(state)


def test_zones_are_a_size_and_what_follows() -> None:
    assert drive_options.zones("64MiB") == {"zone_bytes": 64 << 20}
    assert drive_options.described({}, zones="64MiB,capacity=48MiB,open=14,active=20,append=128KiB")["zones"] == {
        "zone_bytes": 64 << 20,
        "capacity_bytes": 48 << 20,
        "open": 14,
        "active": 20,
        "append_bytes": 128 << 10,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "zones: "),
        ("64MiB,size=1", "wanted SIZE,capacity=SIZE"),
        ("64MiB,open", "wanted SIZE,capacity=SIZE"),
        ("64MiB,open=0", "zones: open is '0', wanted a number of zones"),
        ("64MiB,active=-1", "zones: active is '-1'"),
        ("64MiB,capacity=much", "zones: capacity: "),
        ("64MiB,open=1,open=2", "zones: open is given twice"),
    ],
)
def test_zones_that_cannot_be_read_are_told(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        drive_options.zones(text)


def test_what_is_given_twice_is_told() -> None:
    assert drive_options.together({"policy": "none"}, {"policy": "lru", "read_us": "1"}) == {
        "policy": "lru",
        "read_us": "1",
    }
    with pytest.raises(UsageError, match="policy is given twice, as --policy lru and --set policy=none"):
        drive_options.together({"policy": "lru"}, {"policy": "none"})
    with pytest.raises(UsageError, match="'read_us=2' sets read_us a second time, after 1"):
        drive_options.settings(["read-us=1", "read_us=2"])


def test_options_of_a_buffer_that_is_not_there_are_told() -> None:
    assert drive_options.unbuffered({"policy": "lru", "buffer": "1MiB", "padding": "yes"}) == ""
    assert drive_options.unbuffered({"read_us": "1"}) == ""
    found = drive_options.unbuffered({"policy": "none", "read_us": "1", "buffer": "1MiB", "padding": "yes"})
    assert found == "buffer, padding: not used by policy 'none', which has no write buffer"
