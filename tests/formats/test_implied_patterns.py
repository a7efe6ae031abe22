"""Where operations go, as options and tests imply it: what is plain is read, and the rest is left open."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay.errors import UsageError
from ioassay.formats import filesuite_json, iozone_claims, stated_claim
from ioassay.formats.fio_job_options import JobFacts, job_facts
from ioassay.formats.fio_results import Job

MIB = 1 << 20
GOLDEN = Path(__file__).parents[1] / "golden"


def facts(*jobs: str) -> JobFacts:
    """Of jobs that are options in fio's words; their name is `name`."""
    tables = [{option.partition("=")[0]: option.partition("=")[2] for option in job.split()} for job in jobs]
    return job_facts([Job(table.pop("name", "job"), 0, 0, {}, options=table) for table in tables])


@pytest.mark.parametrize(
    ("options", "read", "write"),
    [
        ("rw=randread", "random", "random"),
        ("readwrite=randrw", "random", "random"),
        ("rw=read", "sequential", "sequential"),
        ("rw=rw bs=4k", "sequential", "sequential"),
        ("bs=4k", "sequential", "sequential"),
        ("rw=randread norandommap random_distribution=zipf:1.1", "random", "random"),
        ("rw=randread:8", "", ""),
        ("rw=randread:4 rw_sequencer=identical", "", ""),
        ("rw=read zonemode=strided zonesize=64k", "", ""),
        ("rw=randrw percentage_random=50,0", "", ""),
        ("rw=randtrimwrite", "", ""),
        ("rw=read read_iolog=log", "", ""),
        ("rw=randwrite verify=crc32c", "", "random"),
    ],
)
def test_patterns_of_fio(options: str, read: str, write: str) -> None:
    assert facts(options).patterns == {"read": read, "write": write}


def test_jobs_with_different_patterns_imply_none() -> None:
    assert facts("rw=read", "rw=randread").patterns == {"read": "", "write": ""}
    assert facts("rw=randread", "rw=randread norandommap=1").patterns["read"] == "random"


@pytest.mark.parametrize(
    ("jobs", "working_set_bytes"),
    [
        (["size=16m filename=data"], 16 * MIB),
        (["size=16m io_size=2m filename=data time_based"], 16 * MIB),
        (["size=16m filename=data numjobs=4"] * 4, 16 * MIB),
        (["size=16m filename=a:b"], 16 * MIB),
        (["size=16m filename=a", "size=16m filename=b"], None),
        (["size=16m"], 16 * MIB),
        (["size=16m nrfiles=8"], 16 * MIB),
        (["size=16m numjobs=3"], 48 * MIB),
        (["size=16m numjobs=3"] * 3, 48 * MIB),
        (["size=16m name=a", "size=16m name=b numjobs=2"], 48 * MIB),
        (["size=16m filename=a", "size=16m"], None),
        (["size=16m filename=a", "size=8m filename=a"], None),
        (["filename=/dev/sdx"], None),
        (["size=50% filename=data"], None),
        *(
            ([f"size=16m filename=data {option}"], None)
            for option in (
                "offset=4m",
                "offset_increment=4m",
                "filesize=8m",
                "file_service_type=zipf",
                "random_distribution=pareto:0.9",
                "blockalign=512",
                "io_size=32k loops=1000",
            )
        ),
    ],
)
def test_the_working_set_of_fio(jobs: list[str], working_set_bytes: int | None) -> None:
    assert facts(*jobs).working_set_bytes == working_set_bytes


def test_passes_of_iozone() -> None:
    text = (GOLDEN / "iozone" / "3.471" / "every-test.txt").read_text()
    claims = {claim.test: claim for claim in iozone_claims.read(text)}
    wanted = {"write": "sequential", "reread": "sequential", "random-read": "random",
              "backward-read": "backward", "record-rewrite": "", "stride-read": "", "fread": ""}  # fmt: skip
    assert {test: claims[test].pattern for test in wanted} == wanted
    for claim in claims.values():
        assert claim.working_set_bytes == (claim.bytes if claim.pattern else None)
    jumping = iozone_claims.read(text.replace("Command line used: ", "Command line used: iozone -K ", 1))
    assert not any(claim.pattern or claim.working_set_bytes for claim in jumping)


def test_passes_of_filesuite() -> None:
    claims = filesuite_json.read(next((GOLDEN / "filesuite").glob("*/passes.json")).read_text())
    patterns = {claim.test: claim.pattern for claim in claims}
    wanted = {"write": "sequential", "random-read": "random", "backward-read": "backward", "stride-read": ""}
    assert {test: patterns.get(test, wanted[test]) for test in wanted} == wanted
    assert any(claim.pattern for claim in claims)


def test_a_stated_pattern_is_a_claim_by_itself() -> None:
    claim = stated_claim.parse("pattern=random,working_set=16MiB")
    assert (claim.pattern, claim.working_set_bytes, claim.kind) == ("random", 16 * MIB, "read")
    assert stated_claim.parse("working_set=1g").working_set_bytes
    for wrong in ("pattern=zigzag", "pattern=", "working_set=-1", "pattern=random,pattern=random", "path=/a"):
        with pytest.raises(UsageError, match="--claim"):
            stated_claim.parse(wrong)
