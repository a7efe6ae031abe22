"""DH-HMAC-CHAP of the served drive with a host that was written from the specification."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .drives import Drive, require_overhead, served
from .nvme_tcp import GROUPS, HASHES, AuthenticatedQueue, Identity, Refused, Secret, prime
from .power_cuts import run

NAME = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000a"
OTHER = NAME[:-1] + "b"
EXAMPLE = Secret("DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:")
"""Of the specification."""
TRANSFORMED = Secret("DHHC-1:03:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:")
AUTHENTICATION_REQUIRED = "0x4191"
NVME = shutil.which("nvme", path=f"{os.environ['PATH']}:/usr/sbin")


@contextmanager
def drive_of(folder: Path, *lines: str, more: str = "", alone: bool = False) -> Iterator[Drive]:
    with served(folder, *words_of(folder, *lines, more=more), "--no-calibrate", alone=alone) as drive:
        yield drive


def words_of(folder: Path, *lines: str, more: str = "") -> tuple[str, ...]:
    path = folder / "secrets"
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o600)
    return "--size", "16MiB", "--model", "none", "--transport", f"nvme-tcp:127.0.0.1:0,secrets={path}{more}"


def admin_of(drive: Drive, host: Identity) -> AuthenticatedQueue:
    return AuthenticatedQueue(drive.told["nvme_tcp"], drive.told["nqn"], host)


def test_the_primes_of_rfc_7919_are_prime() -> None:
    for group in (1, 2):
        modulus = prime(group)
        assert pow(3, modulus - 1, modulus) == 1 == pow(3, modulus // 2 - 1, modulus // 2)
        assert hex(modulus).startswith("0xffffffffffffffffadf85458a2bb4a9a")


def test_every_hash_and_every_group_authenticates_both_sides(tmp_path: Path) -> None:
    with drive_of(tmp_path, f"{NAME} {EXAMPLE.text} {TRANSFORMED.text}") as drive:
        cases = [(which, 0) for which in HASHES] + [(1, group) for group in GROUPS]
        for which, group in cases:
            for controller in (None, TRANSFORMED):
                host = Identity(NAME, EXAMPLE, controller, (which,), (group,))
                with admin_of(drive, host) as admin:
                    assert admin.has_to_authenticate
                    with pytest.raises(Refused, match=AUTHENTICATION_REQUIRED):
                        admin.enable()
                    assert admin.authenticate() == (which, group)
                    admin.enable()


def test_each_queue_is_authenticated_by_itself_and_again(tmp_path: Path) -> None:
    with drive_of(tmp_path, f"{NAME} {TRANSFORMED.text} {EXAMPLE.text}") as drive:
        host = Identity(NAME, TRANSFORMED, EXAMPLE)
        with admin_of(drive, host) as admin:
            assert admin.authenticate() == (1, 1), "what takes least of the time of others"
            admin.enable()
            for number in (1, 2, 3):
                address, subsystem = drive.told["nvme_tcp"], drive.told["nqn"]
                with AuthenticatedQueue(address, subsystem, host, number, admin.controller) as queue:
                    assert queue.has_to_authenticate
                    with pytest.raises(Refused, match=AUTHENTICATION_REQUIRED):
                        queue.read()
                    queue.authenticate()
                    assert queue.read() == bytes(512)
            admin.authenticate()
            admin.enable()


def test_what_is_wrong_ends_that_connection_and_no_other(tmp_path: Path) -> None:
    lines = (f"{NAME} {EXAMPLE.text} {TRANSFORMED.text}", f"{OTHER} {EXAMPLE.text}")
    with drive_of(tmp_path, *lines) as drive, admin_of(drive, Identity(NAME, EXAMPLE)) as known:
        known.authenticate()
        for host, said in (
            (Identity(NAME, TRANSFORMED), "Failure1: 1 1"),
            (Identity(OTHER, EXAMPLE, TRANSFORMED), "Failure1: 1 1"),
            (Identity(NAME, EXAMPLE, EXAMPLE), "the controller's response is wrong"),
            (Identity(NAME, EXAMPLE, hashes=(9,)), "Failure1: 1 4"),
            (Identity(NAME, EXAMPLE, groups=()), "Failure1: 1 5"),
        ):
            with admin_of(drive, host) as admin:
                with pytest.raises(Refused, match=said):
                    admin.authenticate()
                assert admin.is_over()
        with pytest.raises(Refused, match="0x4184"):
            admin_of(drive, Identity(NAME[:-1] + "c", EXAMPLE))
        known.enable()


def test_names_restrict_those_with_secrets(tmp_path: Path) -> None:
    lines = (f"{NAME} {EXAMPLE.text}", f"{OTHER} {EXAMPLE.text}")
    with drive_of(tmp_path, *lines, more=f",host={OTHER}") as drive:
        with admin_of(drive, Identity(OTHER, EXAMPLE)) as admin:
            admin.authenticate()
        with pytest.raises(Refused, match="0x4184"):
            admin_of(drive, Identity(NAME, EXAMPLE))


def test_no_secret_is_visible_among_processes(tmp_path: Path) -> None:
    with drive_of(tmp_path, f"{NAME} {EXAMPLE.text}", alone=True) as drive:
        command = Path(f"/proc/{drive.process.pid}/cmdline").read_bytes()
        assert b"secrets=" in command and b"DHHC" not in command


@pytest.mark.skipif(NVME is None, reason="needs nvme-cli")
def test_keys_of_nvme_cli_are_secrets(tmp_path: Path) -> None:
    for transformation in range(4):
        made = run(NVME, "gen-dhchap-key", f"--hmac={transformation}", f"--nqn={NAME}").strip()
        with drive_of(tmp_path, f"{NAME} {made}") as drive, admin_of(drive, Identity(NAME, Secret(made))) as admin:
            admin.authenticate()
            admin.enable()


def test_the_overhead_is_measured_with_a_secret(tmp_path: Path) -> None:
    require_overhead(tmp_path, *words_of(tmp_path, f"{NAME} {EXAMPLE.text} {TRANSFORMED.text}"))
