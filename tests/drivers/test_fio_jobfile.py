"""Users' job files: read as fio reads them, run as they are."""

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioassay.drivers.fio import Fio, jobfile
from ioassay.errors import StudyError
from ioassay.roles import Command, Load, Outcome, Trial
from ioassay.study.model import make_study

NOTHING_TO_LOAD = Load("null", None, 0, False)


def parse(text: str, folder: Path = Path("/nowhere"), **environment: str) -> jobfile.JobFile:
    return jobfile.parse(text, folder, environment, folder / "my.fio")


def command(text: str, folder: Path, **params: Any) -> Command:
    """The command of a trial of this job file, whose results go to folder/raw."""
    params = {"job": text, "job_path": str(folder / "my.fio"), **params}
    return Fio().command(Trial("id", "s", "fio", {}, params, {}, {}, 0, 9, 0), NOTHING_TO_LOAD, folder / "raw")


def test_sections_inherit_what_global_has_said_so_far() -> None:
    text = "[global]\nbs=4k\nrw=read\n[a]\nbs=8k\n[global]\niodepth=4\n[b]\n"
    first, second = parse(text).sections
    assert (first.name, dict(first.options)) == ("a", {"rw": "read", "bs": "8k"})
    assert (second.name, dict(second.options)) == ("b", {"bs": "4k", "rw": "read", "iodepth": "4"})


def test_every_section_whose_name_begins_with_global_is_global() -> None:
    (only,) = parse("[global_writes]\nrw=write\n[a]\n").sections
    assert only.pattern == "write"


def test_comments_begin_anywhere_and_flags_need_no_value() -> None:
    (only,) = parse("; first\n# second\n[a] ; third\nbs=4k # why\ntime_based\n\tsize = 1m;x\n").sections
    assert dict(only.options) == {"bs": "4k", "time_based": "1", "size": "1m"}
    assert only.flag("time_based")


def test_aliases_are_read_as_fios_first_names() -> None:
    (only,) = parse("[a]\nblocksize=4k\nreadwrite=randrw:8\ntimeout=90\n").sections
    assert (only.options["bs"], only.pattern, only.seconds("runtime")) == ("4k", "randrw", 90)


def test_environment_variables_are_put_in() -> None:
    (only,) = parse("[a]\nfilename=${DISK}/x${UNSET}\n", DISK="/dev").sections
    assert [option.value for option in only.files] == ["/dev/x"]


def test_included_files_are_read_relative_to_the_job_file(tmp_path: Path) -> None:
    (tmp_path / "common.inc").write_text("rw=randwrite ; everywhere\ninclude deeper.inc\n")
    (tmp_path / "deeper.inc").write_text("bs=16k\n")
    (only,) = parse("[a]\ninclude common.inc\nsize=1m\n", tmp_path).sections
    assert dict(only.options) == {"rw": "randwrite", "bs": "16k", "size": "1m"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bs=4k\n[a]\n", r"my\.fio, line 1: 'bs=4k' stands before the first \[section\]"),
        ("[global]\nbs=4k\n", "has no job"),
        ("", "has no job"),
        ("[a]\ninclude none.inc\n", "line 2: cannot include /nowhere/none.inc"),
    ],
)
def test_a_broken_job_file_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        parse(text)


@pytest.mark.parametrize("end", ["\v", "\f", "\r", "\x85", "\u2028", "\u2029", "\x1c", "\0", "\x1b"])
def test_characters_at_which_only_some_readers_end_a_line_are_refused(end: str, tmp_path: Path) -> None:
    text = f"[a]\nrw=write\ndescription=x{end}ioengine=null\nfilename=precious\n"
    with pytest.raises(StudyError, match=r"line 3: 'description' contains a control character"):
        parse(text, tmp_path)
    (tmp_path / "in.inc").write_bytes(f"bs=4k\ndescription=x{end}ioengine=null\n".encode())
    with pytest.raises(StudyError, match=r"in\.inc, line 2: 'description' contains a control character"):
        parse("[a]\ninclude in.inc\n", tmp_path)


def test_a_line_longer_than_fios_buffer_is_refused_and_one_that_fits_is_read() -> None:
    """What lies behind byte 8190 of a line is a line of its own to fio (OPT_LEN_MAX)."""
    hidden = "description=" + "x" * (8191 - len("description=")) + "filename=/precious"
    with pytest.raises(StudyError, match=r"line 2: 'description' is 8209 bytes long; wanted at most 8190"):
        parse(f"[a]\n{hidden}\n")
    (only,) = parse(f"[a]\n{hidden[:8190]}\n").sections
    assert len(only.options["description"]) == 8178


def test_line_ends_of_windows_are_read_as_fio_reads_them() -> None:
    (only,) = parse("[a]\r\nbs=4k\r\nfilename=x\r\n").sections
    assert dict(only.options) == {"bs": "4k", "filename": "x"}


def test_variables_stand_for_names_of_options_too_and_hide_nothing() -> None:
    (only,) = parse("[a]\n${OPTION}\n${KEY}=y\n", OPTION="filename=x", KEY="filename").sections
    assert [option.value for option in only.files] == ["x", "y"]
    for value in ("x\nfilename=y", "x\v", "x;y", "x#y"):
        with pytest.raises(StudyError, match="line 2: the environment variable DISK contains"):
            parse("[a]\nfilename=${DISK}\n", DISK=value)


def test_variables_that_differ_in_a_trial_are_read_as_they_will_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial has a TMPDIR of its own, and a variable that marks its processes."""
    monkeypatch.setenv("TMPDIR", "/mine")
    assert command("[a]\nioengine=null\nfilename=${TMPDIR}/x\n", tmp_path).env == {"TMPDIR": "/mine"}
    monkeypatch.delenv("TMPDIR")
    assert command("[a]\nioengine=null\nfilename=${TMPDIR}/x\n", tmp_path).env == {"TMPDIR": ""}
    with pytest.raises(StudyError, match="line 2: the lab sets IOASSAY_TRIAL anew"):
        parse("[a]\nfilename=${IOASSAY_TRIAL}\n")


def test_fios_sums_are_done_where_they_are_plain() -> None:
    (only,) = parse("[a]\nbs=$pagesize\nsize=4*$pagesize-1\nnumjobs=$ncpus/1\noffset=1k*$pagesize\n").sections
    page_bytes, processors = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_NPROCESSORS_ONLN")
    assert only.number("bs", 0) == page_bytes
    assert only.number("size", 0) == 4 * page_bytes - 1
    assert only.numjobs == processors
    assert only.bytes("offset") is None


@pytest.mark.parametrize("heading", ["[a", "[]", "[" + "a" * 255 + "]"])
def test_a_heading_that_fio_would_cut_is_refused(heading: str) -> None:
    with pytest.raises(StudyError, match=r"my\.fio, line 1"):
        parse(f"{heading}\nbs=4k\n")


def test_a_section_in_an_included_file_and_a_file_that_includes_itself_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.inc").write_text("[x]\n")
    (tmp_path / "self.inc").write_text("include self.inc\n")
    with pytest.raises(StudyError, match="begins a section"):
        parse("[a]\ninclude bad.inc\n", tmp_path)
    with pytest.raises(StudyError, match="ten times over"):
        parse("[a]\ninclude self.inc\n", tmp_path)


WORDS = r"""
[a] [global] [b ] [ bs=4k bs bs= bssplit=4k/50:/ rw=randrw:8 rw numjobs=$ncpus*2 numjobs=x runtime=10m size=50% size=4z
size=99999999999999999999999 iodepth=0 direct buffered=1 rwmixread=101 ioengine=libaio filename=:: filename=a\:b unlink
directory=: nrfiles=0 stonewall wait_for=a ;c #d =1 == kb_base=1000 write_bw_log= offset=0x10 loops=0 runtime=-1
rate=,1m startdelay=1-2 time_based=1 mem=mmap: filename_format=$jobname name=\x
"""
words = st.sampled_from(WORDS.split())


@settings(max_examples=300)
@given(lines=st.lists(st.lists(words, max_size=3).map(" ".join), max_size=12))
def test_any_text_is_read_or_refused(lines: list[str]) -> None:
    """Whatever stands in a job file, the answer is an answer or a StudyError."""
    params = {"job": "\n".join(lines), "job_path": "/nowhere/my.fio"}
    fio = Fio()
    with contextlib.suppress(StudyError):
        fio.validate(params, {"kind": "null"})
    with contextlib.suppress(StudyError):
        fio.access(params), fio.touches(params), fio.estimate(params, {})


def test_a_stonewall_begins_a_new_stage() -> None:
    text = "[global]\nruntime=10\ntime_based\n[a]\n[b]\nruntime=20\n[c]\nstonewall\n[d]\nwait_for=c\n"
    stages = parse(text).stages()
    assert [[job.name for job in stage] for stage in stages] == [["a", "b"], ["c"], ["d"]]
    found = Fio().estimate({"job": text, "job_path": "/x/my.fio"}, {})
    assert 40 <= found.seconds < 41


def test_a_job_file_without_factors_is_run_unchanged(tmp_path: Path) -> None:
    text = "; mine\n[a]\nrw = randread\nbs=4k\nioengine=null\nsize=1m"
    made = command(text, tmp_path)
    assert made.files["job.fio"] == text
    assert made.cwd == tmp_path
    assert made.argv[-1] == str(tmp_path / "raw" / "job.fio")
    assert f"--output={tmp_path / 'raw' / 'fio.json'}" in made.argv
    assert "--randseed=9" in made.argv


def test_a_seed_in_the_job_file_is_left_alone(tmp_path: Path) -> None:
    made = command("[a]\nrandrepeat=1\nioengine=null\nsize=1m\n", tmp_path)
    assert not [word for word in made.argv if "rand" in word]


def test_a_factor_replaces_the_option_in_every_section_that_sets_it(tmp_path: Path) -> None:
    text = "[global]\nblocksize=4k\n[a]\nbs=8k ; large\n[b]\nbssplit=4k/50:8k/50\n[c]\n"
    changed = command(text, tmp_path, bs="16KiB").files["job.fio"]
    assert changed == "[global]\nbs=16384\n[a]\nbs=16384\n[b]\nbs=16384\n[c]\n"


def test_a_factor_that_no_section_sets_goes_to_a_global_section_of_its_own(tmp_path: Path) -> None:
    changed = command("[a]\nrw=read\n[global]\nbs=4k\n", tmp_path, iodepth=4, ioengine="null").files["job.fio"]
    assert changed == "[global]\niodepth=4\nioengine=null\n[a]\nrw=read\n[global]\nbs=4k\n"


def test_a_factor_replaces_its_opposite_too(tmp_path: Path) -> None:
    assert command("[a]\nbuffered=1\nioengine=null\n", tmp_path, direct=1).files["job.fio"].count("direct=1") == 1
    assert "rwmixread" not in command("[a]\nrwmixread=70\nioengine=null\n", tmp_path, rwmixwrite=5).files["job.fio"]


def test_a_factor_that_an_included_file_sets_is_refused(tmp_path: Path) -> None:
    (tmp_path / "common.inc").write_text("bs=4k\n")
    with pytest.raises(StudyError, match="an included file sets bs"):
        command("[a]\ninclude common.inc\nioengine=null\n", tmp_path, bs="8k")


def test_logs_go_to_the_trials_folder_and_nothing_else_changes(tmp_path: Path) -> None:
    text = "[a]\nrw=read\nwrite_bw_log=../logs/mine ; here\nwrite_lat_log\nioengine=null\n"
    raw = tmp_path / "raw"
    changed = command(text, tmp_path).files["job.fio"]
    assert changed == f"[a]\nrw=read\nwrite_bw_log={raw}/mine\nwrite_lat_log={raw}/a\nioengine=null\n"


def test_logs_of_ours_are_asked_for_on_the_command_line(tmp_path: Path) -> None:
    made = command("[a]\nioengine=null\nsize=1m\n", tmp_path, logs=["bw"])
    assert f"--write_bw_log={tmp_path / 'raw' / 'log'}" in made.argv


def test_a_job_that_only_reads_what_is_there_is_run_read_only(tmp_path: Path) -> None:
    text = "[a]\nfilename=data\nrw=read\nsize=4k\n"
    assert "--readonly" not in command(text, tmp_path).argv  # fio must lay its file out first
    (tmp_path / "data").write_bytes(bytes(4096))
    assert "--readonly" in command(text, tmp_path).argv


def test_binary_suffixes_that_fio_reads_as_decimal_are_warned_about() -> None:
    def codes(text: str) -> list[str]:
        return [warning.code for warning in jobfile.warnings(parse(text))]

    assert codes("[a]\nbs=4KiB\nsize=1g\n") == ["kib-suffix"]
    assert codes("[a]\nkb_base=1000\nbs=4KiB\n") == []
    (warning,) = jobfile.warnings(parse("[a]\nbs=4KiB\n"))
    assert warning.remedy == "write K instead of KiB, or set kb_base=1000"


def test_a_job_file_is_a_study_that_asks_about_its_own_directions(tmp_path: Path) -> None:
    text = "[random reads]\nrw=randread\nbs=4k\niodepth=32\nioengine=libaio\n"
    study = make_study(jobfile.job_study(text, tmp_path / "my disk.fio"), "my disk.fio")
    assert study.name == "my-disk"
    place = str(tmp_path / "my disk.fio")
    assert study.params == {"job": text, "job_path": place, "job_folder": str(Path.cwd())}
    assert study.analysis.responses == ["read.bw", "read.iops", "read.lat.p99"]
    assert study.description == "random reads: randread 4 KiB, libaio, depth 32"
    assert {figure.kind for figure in study.figures} == {"cdf", "order"}


def test_sections_of_a_job_file_are_asked_about_apart(tmp_path: Path) -> None:
    table = jobfile.job_study("[in]\nrw=write\n[out]\nstonewall\nrw=read\n", tmp_path / "my.fio")
    assert table["analysis"]["responses"][0] == "in/write.bw"
    assert "out/read.lat.p99" in table["analysis"]["responses"]


@pytest.mark.fio
def test_names_start_where_the_user_stands_and_includes_beside_the_file_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, here = tmp_path / "jobs", tmp_path / "here"
    jobs.mkdir()
    here.mkdir()
    (jobs / "inner.fio").write_text("size=64k\nbs=4k\n")
    (jobs / "my.fio").write_text("[a]\nrw=write\ninclude inner.fio\n")
    monkeypatch.chdir(here)
    study = make_study(jobfile.job_study((jobs / "my.fio").read_text(), jobs / "my.fio"), "my.fio")
    trial = Trial("x", "s", "fio", {}, study.params, {}, {}, 0, 1, 0)
    raw = tmp_path / "raw"
    raw.mkdir()
    assert [touch.path for touch in Fio().touches(study.params)] == [here / "a.0.0"]
    command = Fio().command(trial, Load("null", None, 0, False), raw)
    assert command.cwd == here
    for name, text in command.files.items():
        (raw / name).write_text(text)
    subprocess.run(command.argv, cwd=command.cwd, check=True, capture_output=True)
    assert (here / "a.0.0").stat().st_size == 65536


def test_group_reporting_is_turned_off_unless_a_steady_state_is_looked_for(tmp_path: Path) -> None:
    text = "[global]\ngroup_reporting\nioengine=null\nsize=1m\n[a]\nrw=read\n[b]\nrw=write\n"
    assert "group_reporting=0\n" in command(text, tmp_path).files["job.fio"]
    steady = text.replace("[a]", "steadystate=iops:1%\n[a]")
    assert command(steady, tmp_path).files["job.fio"] == steady


@pytest.mark.fio
def test_sections_of_a_group_keep_their_own_results(tmp_path: Path) -> None:
    text = "[global]\ngroup_reporting\nioengine=null\nsize=1m\n[a]\nrw=read\n[b]\nrw=write\n"
    found = command(text, tmp_path)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/job.fio").write_text(found.files["job.fio"])
    subprocess.run(list(found.argv), check=True, cwd=tmp_path)
    trial = Trial("id", "s", "fio", {}, {"job": text, "job_path": str(tmp_path / "my.fio")}, {}, {}, 0, 9, 0)
    ended = Outcome(0, None, False, 0.0, 1.0, tmp_path / "stdout", tmp_path / "stderr")
    metrics = Fio().parse(trial, ended, tmp_path / "raw").metrics
    assert metrics["a/read.bytes"] == metrics["b/write.bytes"] == 2**20
    assert "a/write.bytes" not in metrics


@pytest.mark.parametrize(
    ("lines", "name", "value"),
    [
        ("iodepth=4\n[a]\n[b]", "iodepth", "4"),
        ("[a]\nblocksize=8k\n[b]\nbs=8k", "bs", "8k"),
        ("[a]\nbs=16KiB", "bs", "16000"),
        ("[a]\nrw=read", "iodepth", None),
    ],
)
def test_what_a_job_file_fixes_is_told_as_a_study_would_write_it(lines: str, name: str, value: str | None) -> None:
    params = {"job": f"[global]\n{lines}", "job_path": "/nowhere/my.fio", "job_folder": "/nowhere"}
    assert jobfile.fixed(params, name) == value


def test_jobs_that_differ_fix_nothing_and_a_study_is_no_job_file() -> None:
    params = {"job": "[a]\nbs=4k\n[b]\nrw=read", "job_path": "/nowhere/my.fio", "job_folder": "/nowhere"}
    with pytest.raises(StudyError, match="its jobs set 'bs' to 4k, nothing"):
        jobfile.fixed(params, "bs")
    assert jobfile.fixed({"bs": "4k"}, "bs") is None
