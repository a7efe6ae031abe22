"""Several drives in one file, as the core takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay.errors import InputError
from ioassay.virtual_drive import drive_config

DRIVE = 'transport = "nbd:unix:a"\nsize = "1MiB"\n'


def read(folder: Path, text: str) -> list[dict[str, object]]:
    path = folder / "drives.toml"
    path.write_text(text)
    return drive_config.read(path)


def test_each_table_has_the_options_of_one_drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faults.toml").write_text('[[fault]]\nkind = "stuck"\nnamespace = 2\n')
    first, second = read(
        tmp_path,
        """
        [[drive]]
        transport = ["nbd:unix:a.sock,fuse:a.img", "fuse:b.img,namespace=2"]
        namespaces = "1GiB,512MiB"
        block-size = 4096
        policy = "epo"
        buffer = "16MiB"
        set = { read_us = 100, copy_back = false }
        faults = "faults.toml"
        pin = 1
        serial = "S1"
        stats = "a.stats"
        [[drive]]
        transport = "nbd:unix:b.sock"
        size = 1048576
        drive = "qlc-client"
        read_only = true
        set = ["read_us=70"]
        """,
    )
    assert first == {
        "transports": [f"nbd:unix:{tmp_path}/a.sock", f"fuse:{tmp_path}/a.img", f"fuse:{tmp_path}/b.img,namespace=2"],
        "namespaces_bytes": [2**30, 2**29],
        "block_bytes": 4096,
        "model": "thesis",
        "buffer": {"policy": "epo", "bytes": 16 * 2**20},
        "geometry": {"read_us": 100.0, "copy_back": False},
        "faults": [{"kind": "stuck", "namespace": 2}],
        "pin": 1,
        "serial": "S1",
        "stats_socket": f"{tmp_path}/a.stats",
        "read_only": False,
        **dict.fromkeys(("keep_awake", "realtime", "prefault"), False),
        "poll": "adaptive",
        "calibrate": True,
    }
    assert (second["size_bytes"], second["profile"], second["read_only"]) == (2**20, "qlc-client", True)
    assert second["serial"] == "IOASSAY2", "hosts tell drives apart by it"
    geometry = second["geometry"]
    assert isinstance(geometry, dict)
    assert geometry["read_us"] == 70.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no drive"),
        ("drive = 1", "has no drive"),
        ("[[drives]]", "drives: unknown key; wanted tables [[drive]]"),
        ("[[drive]\n", "line 1"),
        ("[[drive]]\n" + DRIVE + "[[drive]]\nsize = 1", "drive[1].transport: is missing"),
        ("[[drive]]\ntransport = []", "drive[0].transport: "),
        ('[[drive]]\ntransport = "nbd:unix:a"', "drive[0].size: is missing; wanted one, such as '1GiB'"),
        ("[[drive]]\n" + DRIVE + "sice = 1", "drive[0].sice: unknown key; did you mean 'size'?"),
        ("[[drive]]\n" + DRIVE + 'pin = "x"', "drive[0].pin: "),
        ("[[drive]]\n" + DRIVE + "pin = -1", "drive[0].pin: "),
        ("[[drive]]\n" + DRIVE + "read-only = 3", "drive[0].read-only: "),
        ("[[drive]]\n" + DRIVE + 'set = ["read_us"]', "drive[0].set: 'read_us' sets nothing"),
        ("[[drive]]\n" + DRIVE + "set = { read_us = [1] }", "drive[0].set"),
        ("[[drive]]\n" + DRIVE + 'namespaces = "1MiB,x"', "drive[0]: namespaces: 'x' is not a size"),
        ("[[drive]]\n" + DRIVE + 'drive = "none-such"', "drive[0]: no drive is called 'none-such'"),
        ("[[drive]]\n" + DRIVE + 'model = "none"\npolicy = "lru"', "drive[0]: policy: not used by model 'none'"),
        ("[[drive]]\n" + DRIVE + 'poll = "rarely"', "drive[0]: poll is 'rarely'"),
        ("[[drive]]\n" + DRIVE + 'faults = "none-such"', "none-such: No such file"),
    ],
)
def test_what_is_wrong_is_told_with_its_table_and_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)
    assert said in str(refused.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory; wanted a file with drives"):
        drive_config.read(tmp_path / "none")
    (tmp_path / "long").write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(InputError, match="has more than 1 MiB"):
        drive_config.read(tmp_path / "long")
