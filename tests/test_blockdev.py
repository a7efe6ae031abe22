"""The family of a device: what shares its bytes, and what lies beside it, in a made-up /sys."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ioassay.host import block_devices
from ioassay.host.block_devices import Number

from .corpora import cases, files

Tree = dict[str, Any]
Build = Callable[[Mapping[str, Any]], Path]
LAPTOP: Tree = {
    "disks": {
        "sda": {"number": "8:0", "size": "4096", "diskseq": "7", "partitions": ["8:1", "8:2", "8:3"]},
        "dm-0": {"number": "253:0", "dm/name": "crypt", "dm/uuid": "CRYPT-LUKS2-0123-crypt"},
        "dm-1": {"number": "253:1", "dm/name": "vg-home", "dm/uuid": "LVM-abcdef"},
    },
    "built": {"dm-0": ["sda/sda2"], "dm-1": ["dm-0"]},
}


def sysfs(case: Tree) -> Tree:
    """The files and links of the disks of a case, with their partitions and what is built on them."""
    tree: Tree = files(case.get("files", {}))
    for name, given in case["disks"].items():
        about = {"size": "2048", "ro": "0"} | {key: text for key, text in given.items() if isinstance(text, str)}
        tree |= folder(name, about.pop("number"), about) | {f"sys/block/{name}": Path(f"../devices/{name}")}
        for index, number in enumerate(given.get("partitions", ()), 1):
            tree |= folder(f"{name}/{name}{index}", number, {"size": "1024", "partition": str(index)})
    for upper, lower in case.get("built", {}).items():
        for below in lower:
            ups = "../" * (2 + below.count("/"))
            tree[f"sys/devices/{below}/holders/{upper}"] = Path(f"{ups}{upper}")
            tree[f"sys/devices/{upper}/slaves/{below.split('/')[-1]}"] = Path(f"../../{below}")
    return tree


def folder(home: str, number: str, about: Mapping[str, str]) -> Tree:
    """A device as sysfs shows it: its folder, and the links that lead to it."""
    link = Path(f"../../devices/{home}")
    tree: Tree = {f"sys/devices/{home}/{key}": f"{text}\n" for key, text in {"dev": number, **about}.items()}
    return tree | {f"sys/class/block/{home.split('/')[-1]}": link, f"sys/dev/block/{number}": link}


def test_a_device_is_what_sysfs_says(fake_root: Build) -> None:
    root = fake_root(sysfs(LAPTOP))
    whole, part = block_devices.device(Number(8, 0), root), block_devices.device(Number(8, 2), root)
    assert whole is not None and part is not None
    assert (whole.name, whole.size_bytes, whole.partition, whole.diskseq) == ("sda", 4096 * 512, 0, 7)
    assert (part.name, part.partition, part.diskseq) == ("sda2", 2, 7), "the medium is its disk's"
    assert block_devices.disk_of(part) == whole == block_devices.disk_of(whole)
    assert block_devices.device(Number(9, 9), root) is None and block_devices.named("sdz", root) is None


@cases("block_devices", "families")
def test_the_family_of_a_device_is_what_shares_its_bytes_and_what_lies_beside_it(
    case: dict[str, Any], fake_root: Build
) -> None:
    root = fake_root(sysfs(LAPTOP if case.get("laptop") else case))
    target = block_devices.named(case["of"], root)
    assert target is not None
    found = block_devices.family(target, root)
    assert found[0].device == target
    for overlaps, wanted in ((True, case["overlaps"]), (False, case["beside"])):
        assert {one.device.name: one.relation for one in found if one.overlaps == overlaps} == wanted
    if "loops" in case:
        assert [loop.device.name for loop in block_devices.loops(root)] == case["loops"]


def test_names_with_a_slash_are_found(fake_root: Build) -> None:
    root = fake_root(sysfs({"disks": {"cciss!c0d0": {"number": "104:0"}}}))
    found = block_devices.named("cciss/c0d0", root)
    assert found is not None and found.name == "cciss/c0d0"


def test_an_empty_system_has_no_devices(tmp_path: Path) -> None:
    assert block_devices.loops(tmp_path) == [] and list(block_devices.disks(tmp_path)) == []


def test_a_file_is_no_device() -> None:
    assert block_devices.number_of(Path(__file__)) is None
    assert block_devices.number_of(Path("/nowhere")) is None and block_devices.file_id(Path("/nowhere")) is None
    assert block_devices.file_id(Path(__file__)) is not None
    with pytest.raises(ValueError):
        Number.parse("8")


@pytest.mark.root
def test_a_device_is_its_number_under_any_name(tmp_path: Path) -> None:
    node = tmp_path / "any name"
    os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(8, 300))
    (tmp_path / "link").symlink_to(node)
    assert block_devices.number_of(tmp_path / "link") == Number(8, 300)


@pytest.mark.root
def test_a_real_loop_device_knows_its_file_after_it_lost_its_name(
    loop_device: Callable[..., Path], tmp_path: Path
) -> None:
    backing = tmp_path / "disk.img"
    backing.write_bytes(bytes(1 << 20))
    identity = block_devices.file_id(backing)
    node = loop_device(backing=backing)
    backing.rename(tmp_path / "hidden")
    loop = next(loop for loop in block_devices.loops() if loop.device.name == node.name)
    assert loop.file == identity and loop.block is None
    (tmp_path / "hidden").unlink()
    loop = next(loop for loop in block_devices.loops() if loop.device.name == node.name)
    assert loop.file == identity and loop.backing.endswith("(deleted)")
