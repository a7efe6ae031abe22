"""What a run stores of its host: what matters for performance, and nobody's name."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import cases

from ioassay import host as hosts
from ioassay.host import privacy
from ioassay.host.privacy import NAME, Pseudonyms, shown_parameters
from ioassay.packs.comparison.comparison_text import warning
from ioassay.packs.comparison.run_comparison import _fact_differences
from ioassay.store import run_folder
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite, make_study

from .conftest import CMDLINE, HOSTNAME, SECRETS, SERIAL

KEY, OTHER = Pseudonyms(bytes(32)), Pseudonyms(bytes(range(32)))


def raw(**changes: Any) -> dict[str, Any]:
    """Facts as `host.facts` gives them, and as old runs stored them."""
    return {
        "kernel": {"release": "6.1.0", "cmdline": CMDLINE, "hostname": HOSTNAME},
        "identity": {"machine_id": "0123456789abcdef0123456789abcde0"},
        "disk": {
            "path": "/dev/disk/by-id/ata-Disk_krypton-7_QX99",
            "mount": {
                "point": "/home/jürgen/mnt",
                "source": "//krypton-7/share",
                "options": ["rw", "vers=3.0", "username=jürgen", "addr=192.0.2.17"],
            },
            "devices": [{"name": "sda", "model": "Example", "serial": SERIAL, "wwid": "naa.5000c500a1b2c3d4"}],
        },
        **changes,
    }


def shown(cmdline: str) -> str:
    return shown_parameters(cmdline, lambda value: f"#{KEY.of('parameter', value)[:8]}")


def test_facts_are_published_without_what_identifies() -> None:
    text = json.dumps(privacy.published(raw(), KEY), ensure_ascii=False)
    assert [secret for secret in SECRETS if secret.lower() in text.lower()] == []
    assert all(kept in text for kept in ("Example", "6.1.0", "vers=3.0"))


def test_facts_of_each_of_several_hosts_are_published_alike() -> None:
    facts = privacy.published(raw(hosts={"a": raw(), "b": privacy.published(raw(), OTHER)}), KEY)
    text = json.dumps(facts, ensure_ascii=False)
    assert [secret for secret in SECRETS if secret.lower() in text.lower()] == []
    assert facts["hosts"]["a"]["identity"] == facts["identity"] != facts["hosts"]["b"]["identity"]
    # Nor do facts that are published already shield those of hosts that are not.
    again = privacy.published({**privacy.published(raw(), KEY), "hosts": {"a": raw()}}, KEY)
    assert SERIAL not in json.dumps(again)


def test_parameters_that_matter_are_shown_and_all_others_hashed() -> None:
    words = shown(CMDLINE).split()
    for kept in ("ro", "quiet", "mitigations=off", "isolcpus=managed_irq,2-7", "nvme.poll_queues=4"):
        assert kept in words
    assert "init-arguments=2" in words
    hashed = [word.partition("=")[0] for word in words if "#" in word]
    assert [name for name in hashed if name and name[0] != "#"] == [
        "root",
        "cryptdevice",
        "ip",
        "systemd.set_credential",
    ]
    assert shown(" ".join(words)) == " ".join(words)


@cases("privacy", "parameters")
def test_parameters(case: dict[str, str]) -> None:
    """A name of the table does not let any value through."""
    said = shown(case["word"])
    assert "#" in said and case["hidden"] not in said


def test_published_facts_stay_as_they_are() -> None:
    once = privacy.published(raw(), KEY)
    assert privacy.published(once, OTHER) == once
    assert privacy.published({"cpu": {"model": "x"}}, KEY) == {"cpu": {"model": "x"}}


def test_the_key_stays_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    first, second = Pseudonyms.of_user(tmp_path), Pseudonyms.of_user(tmp_path)
    assert first.of("name", "a") == second.of("name", "a")
    assert first.key_id == second.key_id
    (file,) = tmp_path.rglob(NAME)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert first.of("name", "a") != Pseudonyms.of_user(tmp_path / "other").of("name", "a")
    file.write_text("damaged")
    assert Pseudonyms.of_user(tmp_path).of("name", "a") == Pseudonyms.of_user(tmp_path).of("name", "a")


def test_a_key_that_cannot_be_kept_is_used_once(tmp_path: Path) -> None:
    (tmp_path / "var").write_text("a file where the folder would be")
    assert Pseudonyms.of_user(tmp_path).key_id != Pseudonyms.of_user(tmp_path).key_id


def suite() -> Suite:
    return Suite(name="s", title="S", studies=[make_study({"name": "s", "title": "S", "driver": "null"}, "s.toml")])


def test_a_run_stores_and_an_old_run_gives_no_identity_but_where_it_began(tmp_path: Path, host: Path) -> None:
    facts = hosts.facts(None, host, observe_s=0.0)
    assert facts["kernel"]["hostname"] == HOSTNAME
    store = RunStore.create(tmp_path / "run", suite(), {**facts, "working_directory": "/home/jürgen/my bench"})
    text = (store.root / "host.json").read_text()
    assert [secret for secret in SECRETS if secret in text] == []
    assert store.working_directory() == Path("/home/jürgen/my bench")
    assert set(store.host()["identity"]) == {"key", "machine", "name"}
    # An old run, which had them and its folder beside them, is read without them.
    (store.root / run_folder.PLACE).unlink()
    old = raw(working_directory="/home/jürgen/old bench")
    del old["identity"]
    (store.root / "host.json").write_text(json.dumps(old))
    text = json.dumps(store.host(), ensure_ascii=False)
    assert [secret for secret in SECRETS if secret in text] == []
    assert store.working_directory() == Path("/home/jürgen/old bench")


def differences(a: dict[str, Any], b: dict[str, Any]) -> str:
    return "\n".join(str(warning(one)) for one in _fact_differences(a, b))  # type: ignore[arg-type]


def test_compare_still_knows_the_machine_and_its_drives() -> None:
    here = privacy.published(raw(), KEY)
    assert differences(here, privacy.published(raw(), KEY)) == ""
    moved = raw(identity={"machine_id": "ffffffffffffffffffffffffffffffff"})
    assert "different machines" in differences(here, privacy.published(moved, KEY))
    drive = raw()
    drive["disk"]["devices"][0]["serial"] = "another"
    assert differences(here, privacy.published(drive, KEY)) == "host: A and B were measured on different drives"
    parameter = raw(kernel={**raw()["kernel"], "cmdline": CMDLINE.replace("vault-9x", "vault-9y")})
    assert "kernel.cmdline" in differences(here, privacy.published(parameter, KEY))
    assert differences(here, privacy.published(raw(), OTHER)) == ""  # hashes of two keys are not compared


@pytest.mark.parametrize("odd", [5, "text", ["list"], None, {"devices": [5]}])
def test_facts_of_a_damaged_run_end_in_no_traceback(odd: Any) -> None:
    damaged = {"identity": odd, "kernel": odd, "disk": odd, "leftovers": odd}
    assert differences(privacy.published(damaged, KEY), privacy.published(damaged, KEY)) == ""
