"""A device counts as empty only when every byte was read as zero, or the drive says that nothing is allocated."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ioassay.errors import SafetyRefusal
from ioassay.host import block_devices
from ioassay.roles import WRITE, Consent
from ioassay.targets import occupancy, safety
from ioassay.targets.occupancy import Occupancy, scan

from ..conftest import loop_on
from .conftest import MIB

LARGE_BYTES = 600 * MIB
"""More than is sampled in full."""


def device_of(path: Path) -> block_devices.Device:
    number = block_devices.number_of(path)
    assert number is not None
    found = block_devices.device(number)
    assert found is not None
    return found


def unsampled(size_bytes: int) -> int:
    """An offset in the middle of a device that lies in none of the places that are sampled, nor beside one."""
    spans = list(occupancy._spans(size_bytes))
    middle = len(spans) // 2
    end = sum(spans[middle])
    return end + (spans[middle + 1][0] - end) // 2 // 4096 * 4096


def write(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.mark.root
@pytest.mark.parametrize("data", [b"8 bytes.", os.urandom(MIB), b"\xff" * 8], ids=["8 bytes", "1 MiB", "ones"])
@pytest.mark.parametrize("where", ["backing file", "device"])
def test_a_few_bytes_at_a_place_that_no_sample_meets_are_refused(
    loop_device: Callable, data: bytes, where: str
) -> None:
    disk = loop_device(LARGE_BYTES)
    backing = Path(Path("/sys/block", disk.name, "loop/backing_file").read_text().strip())
    offset = unsampled(LARGE_BYTES)
    write(backing if where == "backing file" else disk, offset, data)
    with pytest.raises(SafetyRefusal) as refused:
        safety.inspect_path(disk, WRITE, Consent())
    found = int(str(refused.value).partition("at byte ")[2].split()[0])
    assert offset <= found < offset + len(data)
    assert f"go on with --destroy-data={disk}" in str(refused.value)
    assert [item.code for item in safety.inspect_path(disk, WRITE, Consent((str(disk),)))] == ["loop-device"]


@pytest.mark.root
def test_a_large_device_of_zeros_is_empty_without_reading_its_holes(
    loop_device: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = loop_device(4 << 40)
    write(disk, 3 << 40, bytes(4096))  # written, but zeros
    reads: list[tuple[int, int]] = []
    reader = occupancy._reader

    def counted(handle: int) -> occupancy.Read:
        read = reader(handle)
        return lambda offset, length: (reads.append((offset, length)), read(offset, length))[1]

    monkeypatch.setattr(occupancy, "_reader", counted)
    assert safety.inspect_path(disk, WRITE, Consent())[0].code == "loop-device"
    assert 0 < sum(length for _, length in reads) <= 32 * MIB
    assert occupancy.latest(device_of(disk)).text == "is empty: every byte was read as zero"


@pytest.mark.root
def test_an_offset_of_a_loop_device_moves_its_holes(tmp_path: Path) -> None:
    backing = tmp_path / "shifted.img"
    with backing.open("wb") as file:
        file.truncate(LARGE_BYTES)
    write(backing, 0, b"before the device begins")
    with loop_on(backing, f"--offset={MIB}") as disk:
        assert occupancy.examine(disk, device_of(disk)).empty
        write(backing, MIB + 300 * MIB + 5, b"x")
        assert occupancy.examine(disk, device_of(disk)).data_at_bytes == 300 * MIB + 5


@pytest.mark.root
def test_a_backing_file_without_a_name_is_read_through_the_device(loop_device: Callable, tmp_path: Path) -> None:
    backing = tmp_path / "gone.img"
    with backing.open("wb") as file:
        file.truncate(300 * MIB)
    disk = loop_device(backing=backing)
    backing.unlink()
    assert occupancy.examine(disk, device_of(disk)).empty
    write(disk, unsampled(300 * MIB), b"y")
    assert occupancy.examine(disk, device_of(disk)).data_at_bytes == unsampled(300 * MIB)


@pytest.mark.root
def test_what_cannot_be_read_needs_consent(loop_device: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = loop_device(64 * MIB)
    disk.write_bytes(bytes(64 * MIB))
    reader = occupancy._reader

    def worn(handle: int) -> occupancy.Read:
        read = reader(handle)

        def failing(offset: int, length: int) -> memoryview:
            if offset >= 32 * MIB:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return read(offset, length)

        return failing

    monkeypatch.setattr(occupancy, "_reader", worn)
    with pytest.raises(SafetyRefusal, match=rf"cannot be read in the 8 MiB from byte {32 * MIB} \(Input/output error"):
        safety.inspect_path(disk, WRITE, Consent())
    safety.inspect_path(disk, WRITE, Consent((str(disk),)))


@pytest.mark.root
def test_consent_makes_reading_all_of_it_needless(loop_device: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = loop_device(LARGE_BYTES)
    monkeypatch.setattr(occupancy, "scan", lambda *_: pytest.fail("read whole"))
    safety.inspect_path(disk, WRITE, Consent((str(disk),)))
    assert "was not read whole" in occupancy.latest(device_of(disk)).text


class Clock:
    """Time that passes with what is read."""

    def __init__(self, bytes_per_s: float) -> None:
        self.now_s, self.bytes_per_s = 0.0, bytes_per_s

    def __call__(self) -> float:
        return self.now_s

    def read(self, offset: int, length: int) -> memoryview:
        self.now_s += length / self.bytes_per_s
        return memoryview(bytes(length))


def test_a_device_that_takes_too_long_is_given_up_soon() -> None:
    clock = Clock(100 * MIB)
    size_bytes = 1 << 40
    found = scan(clock.read, size_bytes, [(0, size_bytes)], clock=clock)
    assert not found.empty
    assert clock.now_s < 2 * occupancy._FORECAST_S
    assert found.zero_bytes == pytest.approx(clock.now_s * clock.bytes_per_s)
    assert found.whole_s == pytest.approx(size_bytes / clock.bytes_per_s)
    assert "the first 304 MiB of 1 TiB are zero, reading all of it takes about 2 h 54 min" in found.text


def test_a_device_that_slows_down_is_given_up_at_the_limit() -> None:
    clock = Clock(400 * MIB)
    size_bytes = 10 << 30

    def read(offset: int, length: int) -> memoryview:
        if offset > size_bytes // 2:
            clock.bytes_per_s = 10 * MIB
        return clock.read(offset, length)

    found = scan(read, size_bytes, [(0, size_bytes)], clock=clock)
    assert not found.empty
    assert clock.now_s <= occupancy.LIMIT_S + 1


def test_a_device_that_ends_with_the_limit_is_whole() -> None:
    clock = Clock(8 * MIB / 4)
    assert scan(clock.read, 8 * MIB, [(0, 8 * MIB)], clock=clock).empty


def test_progress_tells_the_share() -> None:
    told: list[float] = []
    clock = Clock(1 << 40)
    assert scan(clock.read, 20 * MIB, [(0, 20 * MIB)], told.append, clock).empty
    assert told == pytest.approx([0.4, 0.8, 1.0])


@pytest.mark.parametrize("at", [0, 1, 8 * MIB - 1, 8 * MIB, 20 * MIB - 1])
def test_every_byte_counts(at: int) -> None:
    def read(offset: int, length: int) -> memoryview:
        data = bytearray(length)
        if offset <= at < offset + length:
            data[at - offset] = 1
        return memoryview(data)

    assert scan(read, 20 * MIB, [(0, 20 * MIB)]).data_at_bytes == at
    assert scan(read, 20 * MIB, []).empty


# The second look


@pytest.fixture
def counting(fake_root: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, ...]]:
    """A fake disk with counters, a file in its place, and the number of times that it was read whole."""
    monkeypatch.setattr(occupancy, "_known", {})
    reads: list[int] = []
    real = occupancy.scan
    monkeypatch.setattr(occupancy, "scan", lambda *given: (reads.append(1), real(*given))[1])
    root = fake_root({"sys/block/sdq/queue/iostats": "1\n", "sys/block/sdq/stat": stat(0, 0)})
    content = tmp_path / "content"
    with content.open("wb") as file:
        file.truncate(300 * MIB)
    yield (
        root,
        content,
        reads,
        block_devices.Device(block_devices.Number(8, 0), "sdq", root / "sys/block/sdq", 0, 300 * MIB, False, 7),
    )


def stat(writes: int, discards: int) -> str:
    return f"9 0 72 1 {writes} 0 {8 * writes} 1 0 2 2 {discards} 0 {8 * discards} 0 0 0\n"


def test_a_device_that_was_not_written_since_is_not_read_again(counting: Any) -> None:
    root, content, reads, device = counting
    for _ in range(3):
        assert occupancy.examine(content, device, root).empty
    assert len(reads) == 1


@pytest.mark.parametrize("change", ["write", "discard", "medium", "no counters", "no diskseq"])
def test_a_device_that_may_have_changed_is_read_again(counting: Any, change: str) -> None:
    root, content, reads, device = counting
    if change == "no diskseq":
        device = replace(device, diskseq=None)
    assert occupancy.examine(content, device, root).empty
    write(content, unsampled(300 * MIB), b"new")
    if change == "medium":
        device = replace(device, diskseq=8)
    elif change == "no counters":
        (root / "sys/block/sdq/queue/iostats").write_text("0\n")
    else:
        (root / "sys/block/sdq/stat").write_text(stat(change == "write", change == "discard"))
    assert occupancy.examine(content, device, root).data_at_bytes == unsampled(300 * MIB)
    assert len(reads) == 2


def test_samples_are_taken_again_all_the_same(counting: Any) -> None:
    root, content, _, device = counting
    assert occupancy.examine(content, device, root).empty
    write(content, 0, b"new")
    assert occupancy.examine(content, device, root).data_at_bytes == 0


def test_a_sample_is_no_answer_where_all_is_to_be_read(counting: Any) -> None:
    root, content, reads, device = counting
    assert not occupancy.examine(content, device, root, whole=False).empty
    assert reads == []
    assert occupancy.examine(content, device, root).empty


# NVMe


def identify(blocks: int, used: int, thin: bool, format_index: int = 1, shift: int = 12) -> bytes:
    """An Identify Namespace data structure."""
    data = bytearray(4096)
    struct.pack_into("<QQQBBB", data, 0, blocks, blocks, used, thin, format_index, format_index)
    data[128 + 4 * format_index + 2] = shift
    return bytes(data)


def drive(answer: bytes | int | OSError) -> Callable[[int, int, Any], int]:
    """An ioctl of a drive with one namespace, number 3."""

    def ioctl(handle: int, request: int, argument: Any) -> int:
        if request == 0x4E40:
            return 3
        assert request == 0xC0484E41
        opcode, identifier = argument[0], struct.unpack_from("=I", argument, 4)[0]
        address, length = struct.unpack_from("=Q", argument, 24)[0], struct.unpack_from("=I", argument, 36)[0]
        assert (opcode, identifier, length, struct.unpack_from("=I", argument, 40)[0]) == (0x06, 3, 4096, 0)
        if isinstance(answer, OSError):
            raise answer
        if isinstance(answer, int):
            return answer
        ctypes.memmove(address, answer, length)
        return 0

    return ioctl


SIZE_BYTES = 300 * MIB


@pytest.mark.parametrize(
    ("answer", "is_empty"),
    [
        (identify(SIZE_BYTES // 4096, 0, thin=True), True),
        (identify(SIZE_BYTES // 512, 0, thin=True, format_index=0, shift=9), True),
        (identify(SIZE_BYTES // 4096, 1, thin=True), False),
        (identify(SIZE_BYTES // 4096, SIZE_BYTES // 4096, thin=True), False),
        (identify(SIZE_BYTES // 4096, 0, thin=False), False),  # not thin: the field means nothing
        (identify(SIZE_BYTES // 4096 - 1, 0, thin=True), False),  # another size: not about this device
        (identify(0, 0, thin=True), False),
        (bytes(4096), False),
        (identify(SIZE_BYTES // 4096, 0, thin=True, shift=3), False),
        (0x2002, False),  # a status of NVMe
        (OSError(errno.ENOTTY, "not a namespace"), False),
        (OSError(errno.EACCES, "no"), False),
    ],
)
def test_a_namespace_is_empty_only_by_a_word_that_means_something(answer: Any, is_empty: bool, tmp_path: Path) -> None:
    node = tmp_path / "node"
    node.touch()
    assert (occupancy.unallocated_blocks(node, SIZE_BYTES, drive(answer)) is not None) is is_empty


def test_a_drive_that_says_nothing_is_allocated_is_not_read(
    counting: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, content, reads, device = counting
    content.write_bytes(b"\xff" * MIB)  # what a drive answers for blocks that are not allocated is its own choice
    namespace_device = replace(device, name="nvme7n1", size_bytes=SIZE_BYTES)
    monkeypatch.setattr(block_devices, "node_of", lambda *_: content)
    monkeypatch.setattr(fcntl, "ioctl", drive(identify(SIZE_BYTES // 4096, 0, thin=True)))
    found = occupancy.examine(content, namespace_device, root)
    assert found.empty and reads == []
    assert "none of its 76800 blocks is allocated" in found.text
    monkeypatch.setattr(fcntl, "ioctl", drive(identify(SIZE_BYTES // 4096, 5, thin=True)))
    assert occupancy.examine(content, namespace_device, root).data_at_bytes == 0


def test_other_devices_are_not_asked_as_namespaces() -> None:
    names = ("nvme0n1", "nvme10n12", "nvme0n1p1", "nvme0c0n1", "sda", "ng0n1", "nvme0")
    assert [bool(occupancy.NAMESPACE.fullmatch(name)) for name in names] == [True, True, *[False] * 5]


def test_what_is_known_reads_as_a_sentence_after_the_name() -> None:
    assert Occupancy(4096).text == "was not read whole, so what it holds is not known: samples of it are zero"
    assert Occupancy(4096, failure="in one of 256 places (Input/output error)").text.startswith("cannot be read in one")
