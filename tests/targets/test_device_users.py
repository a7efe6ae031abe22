"""Who uses a device and by which names it may be given up: in a made-up /proc and /sys, as no machine has them all."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import cases, files, tree

from ioassay.errors import SafetyRefusal
from ioassay.host import block_devices, mounts
from ioassay.host.block_devices import Number
from ioassay.roles import WRITE, Consent
from ioassay.targets import device_users, safety

Build = Callable[[Mapping[str, Any]], Path]
Tree = dict[str, Any]
VOLUME = {"number": "253:0", "on": "sdf", "dm/name": "vg-home", "dm/uuid": "LVM-abc"}


def device(name: str, number: str, on: str = "", **held: str) -> Tree:
    """A disk, or a partition of the disk that is its folder: `sda/sda1`."""
    node, home = name.rpartition("/")[2], f"sys/devices/{name}"
    made: Tree = {f"{home}/dev": number, f"{home}/size": "2048"}
    made |= {f"{home}/{file}": text.encode("latin-1") for file, text in held.items()}
    made |= {
        f"sys/class/block/{node}": Path("../../devices", name),
        f"sys/dev/block/{number}": Path("../../devices", name),
    }
    if "/" not in name:
        made |= {f"sys/block/{node}": Path("../devices", name)}
    if on:
        made |= {f"sys/devices/{on}/holders/{name}": Path("../..", name), f"{home}/slaves/{on}": Path("../..", on)}
    return made


def devices(described: Mapping[str, Mapping[str, str]]) -> Tree:
    return {path: held for name, words in described.items() for path, held in device(name, **words).items()}


MACHINE: Tree = {**tree("safety", "machine"), **device("vda", "254:0")}
for minor, disk in enumerate(("sdb", "sdc", "sdd", "sde", "sdf"), 1):
    MACHINE |= device(disk, f"8:{16 * minor}")
POOL = {f"sys/fs/btrfs/uuid/devices/{name}": Path("../../../../devices", name) for name in ("sdb", "sdf")}


def users(root: Path, name: str) -> list[Any]:
    target = block_devices.named(name, root)
    assert target is not None
    return device_users.uses(device_users.family(target, root / "dev" / name, root))


def texts(root: Path, name: str) -> list[str]:
    return [found.text for found in users(root, name)]


@cases("safety", "users")
def test_users(fake_root: Build, case: Tree) -> None:
    pool = POOL if case.get("pool") else {}
    root = fake_root({**MACHINE, **pool, **devices(case.get("devices", {})), **files(case.get("files", {}))})
    found = users(root, case["disk"])
    assert sorted(one.text for one in found) == sorted(case["users"]) and all(one.in_use for one in found)
    if "remedies" in case:
        assert [remedy for one in found for remedy in one.remedies] == case["remedies"]


@cases("safety", "consent_names")
def test_names_to_consent_by(fake_root: Build, case: Tree) -> None:
    parts = {
        f"{disk}/{disk}1": {"number": number, "partition": "1"} for disk, number in case.get("partitions", {}).items()
    }
    root = fake_root({**devices(case["devices"]), **devices(parts)})
    for name, names in case["names"].items():
        found = block_devices.named(name, root)
        assert found is not None and safety.consent_names(found, root) == names


@pytest.mark.root
def test_names_by_id_come_first_and_replace_the_kernels(fake_root: Build) -> None:
    links = {f"dev/disk/by-id/{name}": Path("../../sda") for name in ("x", "wwn-0x5000", "ata-MODEL_SN1")}
    root = fake_root({**device("sda", "8:0", serial="SN1"), **links, "dev/disk/by-id/ata-GONE": Path("../../sdz")})
    os.mknod(root / "dev/sda", stat.S_IFBLK | 0o600, os.makedev(8, 0))
    found = block_devices.named("sda", root)
    assert found is not None
    assert safety.consent_names(found, root) == ["ata-MODEL_SN1", "x", "wwn-0x5000", "SN1"]


def test_a_name_matches_whole_and_exactly() -> None:
    known = ["ata-MODEL_SN1", "SN1"]
    assert all(safety.consents(known, Consent((name,))) for name in ("SN1", "/dev/disk/by-id/ata-MODEL_SN1"))
    for other in ("", "SN", "SN11", "sn1", "/dev/sda", "ata-MODEL_SN1-part1", "*"):
        assert not safety.consents(known, Consent((other,)))


def test_each_namespace_is_read_once_and_a_path_lies_on_the_topmost_mount(fake_root: Build) -> None:
    root = fake_root(MACHINE)
    assert [mount.point for mount in mounts.mounts(root)] == ["/", "/home", "/mnt/a b", "/net", "/inside"]
    for path, point in (("/home/me/x", "/home"), ("/homer", "/"), ("/mnt/a b/c", "/mnt/a b")):
        mount = mounts.mount_of(Path(path), root)
        assert mount is not None and mount.point == point


def test_a_swap_file_is_known_by_its_identity(fake_root: Build) -> None:
    root = fake_root(MACHINE)
    assert mounts.swaps(root)[1].file == block_devices.file_id(root / "swap file")
    findings = safety.file_findings(root / "swap file", root)
    assert "is an active swap file (/swap file)" in findings[0].text and findings[0].in_use


@pytest.mark.root
def test_a_refusal_names_holder_remedy_and_serial(fake_root: Build, tmp_path: Path) -> None:
    """The whole way, with a node whose number no driver answers to: nothing could be written even by mistake."""
    sdf, node = {"number": "8:4080", "serial": "SN123"}, tmp_path / "sdf"
    root = fake_root({**MACHINE, **devices({"sdf": sdf, "dm-0": VOLUME})})
    os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(8, 4080))
    for consent in (Consent(), Consent(("SN123",))):
        with pytest.raises(SafetyRefusal) as refused:
            safety.inspect_path(node, WRITE, consent, root)
        message = str(refused.value)
        assert "/dev/dm-0 (device mapper LVM vg-home) is built on sdf" in message
        assert "dmsetup remove vg-home" in message
        assert "cannot be read, so what it holds is not known" in message
        assert ("--destroy-data=SN123" in message) is (consent == Consent())
    with pytest.raises(SafetyRefusal, match="no block device 8:4080"):  # sysfs does not know it
        safety.inspect_path(node, WRITE, Consent(), tmp_path)


@pytest.mark.root
def test_a_device_that_is_served_to_other_machines_is_found(fake_root: Build) -> None:
    space = "sys/kernel/config/nvmet/subsystems/nqn.x/namespaces/1"
    root = fake_root({**MACHINE, f"{space}/device_path": "/dev/sdf\n", f"{space}/enable": "1\n", "dev": None})
    os.mknod(root / "dev/sdf", stat.S_IFBLK | 0o600, os.makedev(8, 80))
    assert texts(root, "sdf") == ["/dev/sdf is served to other machines as nqn.x (NVMe over Fabrics)"]


def test_what_goes_while_it_is_looked_at_is_no_error(fake_root: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of /sys that were listed may be gone when they are read: a pool is no more, a holder still is one."""
    root = fake_root({**MACHINE, **device("dm-0", **VOLUME), "sys/fs/btrfs/uuid/devices/sdb/dev": "8:16\n"})
    assert mounts.pooled(root) == {Number(8, 16): "btrfs"}
    read_text, missing = Path.read_text, {"name", "uuid"}

    def read(path: Path, **options: Any) -> str:
        if path.name in missing:
            raise FileNotFoundError(2, os.strerror(2), str(path))
        return read_text(path, **options)

    monkeypatch.setattr(Path, "read_text", read)
    assert any(text.startswith("/dev/dm-0 (device mapper") for text in texts(root, "sdf"))
    missing.add("dev")
    assert mounts.pooled(root) == {}


@pytest.mark.parametrize(
    ("comm", "said"),
    [
        ("qemu\n", ["/dev/sdf is open for writing in process 99 (qemu)"]),
        ("\n", ["/dev/sdf is open for writing in process 99 ()"]),
        (None, []),
    ],
)
def test_a_program_that_writes_is_named_whatever_its_name_unless_it_has_ended(
    fake_root: Build, monkeypatch: pytest.MonkeyPatch, comm: str | None, said: list[str]
) -> None:
    monkeypatch.setattr(device_users, "_writers", lambda root: [(99, Number(8, 80))])
    assert texts(fake_root({**MACHINE, **({} if comm is None else {"proc/99/comm": comm})}), "sdf") == said
