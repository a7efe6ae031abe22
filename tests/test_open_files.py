"""What processes have open: of this process, and of a small fake of /proc."""

from __future__ import annotations

import os
from pathlib import Path

from ioassay.process import open_files

MOUNTS = "30 1 254:1 / / rw - ext4 /dev/vda1 rw\n31 30 0:45 / /data rw - btrfs /dev/vdb rw\n"


def fake(root: Path, descriptors: dict[int, tuple[str, str]]) -> Path:
    """A process 7 with these descriptors: the link and the lines of fdinfo of each."""
    process = root / "proc/7"
    for name in ("fd", "fdinfo"):
        (process / name).mkdir(parents=True)
    (process / "mountinfo").write_text(MOUNTS)
    for number, (link, lines) in descriptors.items():
        (process / "fd" / str(number)).symlink_to(link)
        (process / "fdinfo" / str(number)).write_text(lines)
    return root


def test_a_file_has_the_device_of_its_mount_and_the_inode_of_the_open_file(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.touch()
    root = fake(tmp_path / "root", {3: (str(data), "pos:\t0\nflags:\t02\nmnt_id:\t31\nino:\t77\n")})
    found = open_files.read([7, 8], root)
    assert found.paths == {("0:45", 77): str(data)}
    assert (found.descriptors, found.uring_requests, found.unreadable) == (1, 0, {})


def test_requests_of_each_ring_are_counted_once(tmp_path: Path) -> None:
    ring = "mnt_id:\t15\nino:\t9\nCachedSqHead:\t12\nCachedCqTail:\t9\n"
    root = fake(tmp_path, {4: ("anon_inode:[io_uring]", ring), 5: ("anon_inode:[io_uring]", ring), 6: ("pipe:[5]", "")})
    assert open_files.read([7], root).uring_requests == 3


def test_the_files_of_this_process_are_those_that_stat_names(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.touch()
    with path.open() as file:
        found = open_files.read([os.getpid()])
        status = os.fstat(file.fileno())
    [identity] = [identity for identity, name in found.paths.items() if name == str(path)]
    assert identity[1] == status.st_ino


def test_a_process_that_has_ended_has_nothing_open(tmp_path: Path) -> None:
    assert open_files.read([7], tmp_path) == open_files.OpenFiles()


def test_what_may_not_be_looked_at_is_stated(tmp_path: Path) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/fd").touch()  # no folder: the error is another one, and is treated the same
    assert open_files.read([7], tmp_path).unreadable == {7: "Not a directory"}
