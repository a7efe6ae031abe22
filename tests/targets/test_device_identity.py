"""By which names a device may be given up: its own, that nothing else bears."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ioassay.host import block_devices
from ioassay.targets import device_identity

Build = Callable[[Mapping[str, Any]], Path]


def device(name: str, number: str, **files: str | bytes) -> dict[str, Any]:
    home = f"sys/devices/{name}"
    tree = {f"{home}/dev": number, f"{home}/size": "8"}
    tree |= {f"{home}/{key.replace('__', '/')}": value for key, value in files.items()}
    return tree | device_links(name, name, number) | {f"sys/block/{name}": Path(f"../devices/{name}")}


def device_links(name: str, home: str, number: str) -> dict[str, Any]:
    return {
        f"sys/class/block/{name}": Path(f"../../devices/{home}"),
        f"sys/dev/block/{number}": Path(f"../../devices/{home}"),
    }


def partition(of: str, number: str) -> dict[str, Any]:
    home = f"sys/devices/{of}/{of}1"
    return {f"{home}/dev": number, f"{home}/partition": "1", **device_links(f"{of}1", f"{of}/{of}1", number)}


def names(root: Path, name: str) -> list[str]:
    found = block_devices.named(name, root)
    assert found is not None
    return device_identity.consent_names(found, root)


def test_a_disk_answers_to_its_serial_number(fake_root: Build) -> None:
    root = fake_root(
        {
            **device("vda", "254:0", serial="VIRT1\n"),
            **device("nvme0n1", "259:0", device__serial="NVME1   ", wwid="eui.0025"),
            **device("sda", "8:0", device__vpd_pg80=b"\x00\x80\x00\x06ATA 99"),
            **partition("sda", "8:1"),
        }
    )
    assert names(root, "vda") == ["VIRT1"]
    assert names(root, "nvme0n1") == ["NVME1", "eui.0025"]
    assert names(root, "sda") == ["ATA 99"]
    assert names(root, "sda1") == ["ATA 99-part1"], "a disk's number does not give up a partition, nor the reverse"


def test_a_serial_number_that_two_devices_bear_is_no_name(fake_root: Build) -> None:
    root = fake_root(
        {
            **device("nvme0n1", "259:0", device__serial="SAME", wwid="eui.1"),
            **device("nvme0n2", "259:1", device__serial="SAME", wwid="eui.2"),
            **device("sda", "8:0", serial="0123"),
            **device("sdb", "8:16", serial="0123"),
        }
    )
    assert names(root, "nvme0n1") == ["eui.1"]
    assert names(root, "sda") == ["/dev/sda", "sda"]


def test_a_device_without_better_names_answers_to_its_node_and_its_file(fake_root: Build) -> None:
    root = fake_root(device("loop0", "7:0", serial="\n", loop__backing_file="/srv/disk.img\n"))
    assert names(root, "loop0") == ["/dev/loop0", "loop0", "/srv/disk.img"]


@pytest.mark.root
def test_names_by_id_come_first_and_replace_the_kernels(fake_root: Build) -> None:
    root = fake_root({**device("sda", "8:0", serial="SN1"), "dev/disk/by-id/x": Path("../../sda")})
    os.mknod(root / "dev/sda", stat.S_IFBLK | 0o600, os.makedev(8, 0))
    folder = root / "dev/disk/by-id"
    for name in ("wwn-0x5000", "ata-MODEL_SN1"):
        (folder / name).symlink_to("../../sda")
    (folder / "ata-GONE").symlink_to("../../sdz")
    assert names(root, "sda") == ["ata-MODEL_SN1", "x", "wwn-0x5000", "SN1"]


def test_a_name_matches_whole_and_exactly() -> None:
    known = ["ata-MODEL_SN1", "SN1"]
    assert device_identity.consents(known, "SN1") and device_identity.consents(known, "/dev/disk/by-id/ata-MODEL_SN1")
    for other in ("", "SN", "SN11", "sn1", "/dev/sda", "ata-MODEL_SN1-part1", "*"):
        assert not device_identity.consents(known, other)
