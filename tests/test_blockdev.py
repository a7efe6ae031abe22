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

Tree = dict[str, Any]
Build = Callable[[Mapping[str, Any]], Path]


def disk(name: str, number: str, size_sectors: int = 2048, **files: str) -> Tree:
    """A whole device as sysfs shows it: its folder, and the links that lead to it."""
    home = f"sys/devices/{name}"
    tree: Tree = {f"{home}/dev": f"{number}\n", f"{home}/size": f"{size_sectors}\n", f"{home}/ro": "0\n"}
    tree |= {f"{home}/{key.replace('__', '/')}": f"{value}\n" for key, value in files.items()}
    return tree | links(name, name, number) | {f"sys/block/{name}": Path(f"../devices/{name}")}


def partition(of: str, index: int, number: str) -> Tree:
    home = f"sys/devices/{of}/{of}{index}"
    tree: Tree = {f"{home}/dev": f"{number}\n", f"{home}/size": "1024\n", f"{home}/partition": f"{index}\n"}
    return tree | links(f"{of}{index}", f"{of}/{of}{index}", number)


def links(name: str, home: str, number: str) -> Tree:
    return {
        f"sys/class/block/{name}": Path(f"../../devices/{home}"),
        f"sys/dev/block/{number}": Path(f"../../devices/{home}"),
    }


def built(upper: str, *lower: str) -> Tree:
    """`upper` is built on each of `lower` (a disk, or disk/partition)."""
    tree: Tree = {}
    for below in lower:
        ups = "../" * (2 + below.count("/"))
        tree[f"sys/devices/{below}/holders/{upper}"] = Path(f"{ups}{upper}")
        tree[f"sys/devices/{upper}/slaves/{below.split('/')[-1]}"] = Path(f"../../{below}")
    return tree


def family(root: Path, name: str) -> dict[str, tuple[str, bool]]:
    """Name -> relation and whether it overlaps, of every member."""
    target = block_devices.named(name, root)
    assert target is not None
    found = block_devices.family(target, root)
    assert found[0].device == target
    return {member.device.name: (member.relation, member.overlaps) for member in found}


LAPTOP: Tree = {
    **disk("sda", "8:0", 4096, diskseq="7"),
    **partition("sda", 1, "8:1"),
    **partition("sda", 2, "8:2"),
    **partition("sda", 3, "8:3"),
    **disk("dm-0", "253:0", dm__name="crypt", dm__uuid="CRYPT-LUKS2-0123-crypt"),
    **disk("dm-1", "253:1", dm__name="vg-home", dm__uuid="LVM-abcdef"),
    **built("dm-0", "sda/sda2"),
    **built("dm-1", "dm-0"),
}


def test_a_device_is_what_sysfs_says(fake_root: Build) -> None:
    root = fake_root(LAPTOP)
    whole, part = block_devices.device(Number(8, 0), root), block_devices.device(Number(8, 2), root)
    assert whole is not None and part is not None
    assert (whole.name, whole.size_bytes, whole.partition, whole.diskseq) == ("sda", 4096 * 512, 0, 7)
    assert (part.name, part.partition, part.diskseq) == ("sda2", 2, 7), "the medium is its disk's"
    assert block_devices.disk_of(part) == whole == block_devices.disk_of(whole)
    assert block_devices.device(Number(9, 9), root) is None and block_devices.named("sdz", root) is None


def test_the_family_of_a_disk_is_all_that_is_built_on_it(fake_root: Build) -> None:
    assert family(fake_root(LAPTOP), "sda") == {
        "sda": ("", True),
        "sda1": ("a partition of sda", True),
        "sda2": ("a partition of sda", True),
        "dm-0": ("built on sda2", True),
        "dm-1": ("built on dm-0", True),
        "sda3": ("a partition of sda", True),
    }


def test_the_other_partitions_of_its_disk_lie_beside_a_partition(fake_root: Build) -> None:
    found = family(fake_root(LAPTOP), "sda3")
    assert found["sda"] == ("the disk of sda3", True)
    beside = {name for name, (_, overlaps) in found.items() if not overlaps}
    assert beside == {"sda1", "sda2", "dm-0", "dm-1"}


def test_what_a_device_is_built_on_overlaps_it(fake_root: Build) -> None:
    found = family(fake_root(LAPTOP), "dm-1")
    assert {name for name, (_, overlaps) in found.items() if overlaps} == {"dm-1", "dm-0", "sda2", "sda"}
    assert found["dm-0"] == ("what dm-1 is built on", True)
    assert found["sda1"] == ("a partition of sda", False)


def test_a_raid_member_leads_to_the_array_and_not_to_the_other_members(fake_root: Build) -> None:
    root = fake_root(
        {
            **disk("sdb", "8:16"),
            **disk("sdc", "8:32"),
            **disk("md0", "9:0", md__level="raid1"),
            **built("md0", "sdb", "sdc"),
        }
    )
    assert family(root, "sdb") == {"sdb": ("", True), "md0": ("built on sdb", True)}
    assert set(family(root, "md0")) == {"md0", "sdb", "sdc"}


def test_another_volume_of_the_same_group_lies_beside(fake_root: Build) -> None:
    tree = {**disk("sdb", "8:16"), **disk("dm-0", "253:0"), **disk("dm-1", "253:1")}
    root = fake_root({**tree, **built("dm-0", "sdb"), **built("dm-1", "sdb")})
    assert family(root, "dm-0") == {
        "dm-0": ("", True),
        "sdb": ("what dm-0 is built on", True),
        "dm-1": ("built on sdb", False),
    }


def test_loop_devices_over_one_file_are_one_family(fake_root: Build) -> None:
    tree = {
        **disk("loop0", "7:0", loop__backing_file="/srv/disk.img"),
        **disk("loop1", "7:1", loop__backing_file="/srv/link.img"),
        **disk("loop2", "7:2", loop__backing_file="/srv/other.img"),
        **disk("loop3", "7:3"),
        **partition("loop1", 1, "259:0"),
        "srv/disk.img": "x",
        "srv/other.img": "x",
        "srv/link.img": Path("disk.img"),
    }
    root = fake_root(tree)
    assert family(root, "loop0") == {
        "loop0": ("", True),
        "loop1": ("another way to the data of loop0", True),
        "loop1" + "1": ("a partition of loop1", True),
    }
    assert [loop.device.name for loop in block_devices.loops(root)] == ["loop0", "loop1", "loop2"]


def test_loop_devices_whose_file_is_out_of_sight_are_told_apart_by_its_path(fake_root: Build) -> None:
    tree = {
        **disk("loop0", "7:0", loop__backing_file="/elsewhere/disk.img (deleted)"),
        **disk("loop1", "7:1", loop__backing_file="/elsewhere/disk.img (deleted)"),
        **disk("loop2", "7:2", loop__backing_file="/elsewhere/two.img"),
    }
    assert set(family(fake_root(tree), "loop0")) == {"loop0", "loop1"}


def test_two_paths_to_one_drive_are_one_family(fake_root: Build) -> None:
    wwid = "naa.600508b400105e210000900000490000"
    tree = {
        **disk("sdb", "8:16", device__wwid=wwid),
        **disk("sdc", "8:32", device__wwid=wwid),
        **partition("sdb", 1, "8:17"),
        **partition("sdc", 1, "8:33"),
        **disk("sdd", "8:48", device__wwid="t10.ATA     QEMU HARDDISK"),
        **disk("sde", "8:64", device__wwid="t10.ATA     QEMU HARDDISK"),
    }
    root = fake_root(tree)
    assert family(root, "sdb")["sdc1"] == ("a partition of sdc", True)
    assert family(root, "sdb1")["sdc1"] == ("a partition of sdc", True), "also from a partition"
    assert set(family(root, "sdd")) == {"sdd"}, "vendor text is no identity"


def test_names_with_a_slash_are_found(fake_root: Build) -> None:
    root = fake_root(disk("cciss!c0d0", "104:0"))
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
