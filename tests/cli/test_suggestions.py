"""A wrong name on the command line is refused with the nearest right one, whichever list it is of."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Ask

SERVE = ("device", "serve", "--size", "1GiB")
OVER_NBD = (*SERVE, "--transport", "nbd:unix:x")


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("runn",), "run"),
        (("--versio",), "--version"),
        (("trace", "convrt"), "convert"),
        (("run", "--scal", "quick"), "--scale"),
        (("run", "null.toml", "--log-level", "debgu"), "debug"),
        (("--show-completion", "bsh"), "bash"),
        (("plan", "blok-io"), "block-io"),
        (("plan", "nul.toml"), "null.toml"),
        (("plan", "block-io", "--scale", "quik"), "quick"),
        (("plan", "block-io", "--factor", "numjob=1,2"), "numjobs"),
        (("plan", "null.toml", "--set", "parms.x=1"), "params"),
        (("plan", "null.toml", "--set", "target.knd=null"), "kind"),
        (("run", "null.toml", "--executor", "loca"), "local"),
        (("run", "null.toml", "--executor", "dask:loca"), "dask:local"),
        (("run", "null.toml", "--executor", "slurm:job=2"), "jobs"),
        (("tune", "null.toml", "--trials", "4", "--maximize", "read.iop"), "read.iops"),
        (
            ("tune", "null.toml", "--trials", "4", "--maximize", "value", "--subject-to", "read.latp99 < 1ms"),
            "read.lat.p99",
        ),
        (("simulate", "t.disksim", "--policy", "lur"), "lru"),
        (("simulate", "t.disksim", "--drive", "samsung-980"), "samsung-980-pro"),
        (("simulate", "t.disksim", "--mode", "inlin"), "inline"),
        (("simulate", "t.disksim", "--set", "polcy=lru"), "policy"),
        (("trace", "make", "t.csv", "--addresses", "zipff:1"), "zipf"),
        (("trace", "make", "t.csv", "--arrivals", "poison:100"), "poisson"),
        (("export", "run", "--format", "markdwn"), "markdown"),
        (("drive", "show", "samsung-980"), "samsung-980-pro"),
        ((*OVER_NBD, "--policy", "lur"), "lru"),
        ((*OVER_NBD, "--model", "thesi"), "thesis"),
        ((*OVER_NBD, "--poll", "alway"), "always"),
        ((*OVER_NBD, "--precondition", "stedy"), "steady"),
        ((*OVER_NBD, "--set", "red_us=3"), "read_us"),
        ((*SERVE, "--transport", "ndb:unix:x"), "nbd"),
        (("witness", "--level", "sycalls", "--", "true"), "syscalls"),
        (("witness", "--backend", "bfp", "--", "true"), "bpf"),
        (("witness", "--exit-verdict", "alwys", "--", "true"), "always"),
        (("witness", "--require", "confirm", "--", "true"), "confirmed"),
        (("witness", "--claim", "byte=3", "--", "true"), "bytes"),
        (("filesuite", "--data", "randm"), "random"),
        (("filesuite", "--format", "iozon"), "iozone"),
    ],
)
def test_the_nearest_name_is_suggested(words: tuple[str, ...], near: str, ioassay: Ask, null_study: Path) -> None:
    (null_study.parent / "t.disksim").write_text("0.0 0 8 8 0\n")
    answer = ioassay(*words)
    assert answer.code == 2
    assert f"did you mean '{near}'?" in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize("line", ['until = {metric = "read.bww"}', '[analysis]\nresponses = ["read.bww"]'])
def test_a_metric_that_may_be_of_the_driver_is_warned_of_with_the_nearest(
    line: str, ioassay: Ask, null_study: Path
) -> None:
    table = null_study.read_text().replace("repetitions = 2\n", "")
    null_study.write_text(table.replace("[params]", f"{line}\n[params]"))
    answer = ioassay("plan", "null.toml")
    assert answer.code == 0
    assert "remedy: did you mean 'read.bw'?" in answer.err
