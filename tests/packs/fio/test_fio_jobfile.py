"""Users' job files: read as fio reads them, with every path that they touch, and run as they are."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioassay.errors import SafetyRefusal, StudyError
from ioassay.packs.fio.driver import Fio, jobfile, paths
from ioassay.packs.fio.fio_options import Section
from ioassay.roles import WRITE, Command
from ioassay.study.model import make_study

from ...corpora import cases
from ...drivers.trials import NOWHERE, lay_out, run, trial

PROCESSORS = os.sysconf("SC_NPROCESSORS_ONLN")


def parse(text: str, folder: Path = Path("/nowhere"), **environment: str) -> jobfile.JobFile:
    return jobfile.parse(text, folder, environment, folder / "my.fio")


def params_of(text: str, folder: Path, **more: Any) -> dict[str, Any]:
    return {"job": text, "job_path": str(folder / "my.fio"), **more}


def command(text: str, folder: Path, **params: Any) -> Command:
    """The command of a trial of this job file, whose results go to folder/raw."""
    return Fio().command(trial("fio", params_of(text, folder, **params), seed=9), NOWHERE, folder / "raw")


@cases("drivers", "fio_job_files")
def test_a_job_file_is_read_as_fio_reads_it(case: dict[str, Any], tmp_path: Path) -> None:
    lay_out(tmp_path, case.get("files", {}))
    text, environment = case["job"], case.get("environment", {})
    if "refused" in case:
        with pytest.raises(StudyError) as caught:
            parse(text, tmp_path, **environment)
        assert case["refused"] in str(caught.value).replace(f"{tmp_path}/", "")
        return
    found = parse(text, tmp_path, **environment)
    read = [{"name": section.name, "options": dict(section.options)} for section in found.sections]
    assert read == case.get("sections", read)
    opened = [option.value for section in found.sections for option in section.files]
    assert opened == case.get("opens", opened)
    stages = [[job.name for job in stage] for stage in found.stages()]
    assert stages == case.get("stages", stages)
    warnings = list(jobfile.warnings(found))
    codes = [warning.code for warning in warnings]
    assert codes == case.get("warns", codes)
    assert all(warning.remedy == case.get("remedy", warning.remedy) for warning in warnings)
    for name, value in case.get("fixes", {}).items():
        assert (jobfile.fixed(params_of(text, tmp_path, job_folder=str(tmp_path)), name) or "nothing") == value


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
    with pytest.raises(StudyError, match=r"line 2: 'description' is 8209 bytes long; expected at most 8190"):
        parse(f"[a]\n{hidden}\n")
    (only,) = parse(f"[a]\n{hidden[:8190]}\n").sections
    assert len(only.options["description"]) == 8178


def test_variables_that_differ_in_a_trial_are_read_as_they_will_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial has a TMPDIR of its own, and a variable that marks its processes."""
    monkeypatch.setenv("TMPDIR", "/mine")
    assert command("[a]\nioengine=null\nfilename=${TMPDIR}/x\n", tmp_path).env == {"TMPDIR": "/mine"}
    monkeypatch.delenv("TMPDIR")
    assert command("[a]\nioengine=null\nfilename=${TMPDIR}/x\n", tmp_path).env == {"TMPDIR": ""}


def test_fios_sums_are_done_where_they_are_plain(tmp_path: Path) -> None:
    (only,) = parse("[a]\nbs=$pagesize\nsize=4*$pagesize-1\nnumjobs=$ncpus/1\noffset=1k*$pagesize\n").sections
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    assert only.number("bs", 0) == page_bytes
    assert only.number("size", 0) == 4 * page_bytes - 1
    assert only.numjobs == PROCESSORS
    assert only.bytes("offset") is None
    assert touched("[a]\nrw=write\nfilename=x$ncpus\n", tmp_path) == {f"x{PROCESSORS}": WRITE}


WORDS = r"""
[a] [global] [b ] [ bs=4k bs bs= bssplit=4k/50:/ rw=randrw:8 rw numjobs=$ncpus*2 numjobs=x runtime=10m size=50% size=4z
size=99999999999999999999999 iodepth=0 direct buffered=1 rwmixread=101 ioengine=libaio filename=:: filename=a\:b unlink
directory=: nrfiles=0 stonewall wait_for=a ;c #d =1 == kb_base=1000 write_bw_log= offset=0x10 loops=0 runtime=-1
rate=,1m startdelay=1-2 time_based=1 mem=mmap: filename_format=$jobname name=\x
"""
words = st.sampled_from(WORDS.split())


@settings(max_examples=2 * settings().max_examples)
@given(lines=st.lists(st.lists(words, max_size=3).map(" ".join), max_size=12))
def test_any_text_is_read_or_refused(lines: list[str]) -> None:
    """Whatever stands in a job file, the answer is an answer or a StudyError."""
    params = params_of("\n".join(lines), Path("/nowhere"))
    fio = Fio()
    with contextlib.suppress(StudyError):
        fio.validate(params, {"kind": "null"})
    with contextlib.suppress(StudyError):
        fio.access(params), fio.touches(params), fio.estimate(params, {})


@cases("drivers", "fio_job_commands")
def test_a_job_file_is_run_as_it_is_but_for_what_the_trial_sets(case: dict[str, Any], tmp_path: Path) -> None:
    lay_out(tmp_path, case.get("files", {}))
    params, raw = case.get("params", {}), str(tmp_path / "raw")
    if "refused" in case:
        with pytest.raises(StudyError, match=case["refused"]):
            command(case["job"], tmp_path, **params)
        return
    made = command(case["job"], tmp_path, **params)
    written = made.files["job.fio"]
    assert written == case.get("written", written).replace("{raw}", raw)
    assert {word.replace("{raw}", raw) for word in case.get("has", ())} <= set(made.argv)
    assert not set(case.get("lacks", ())) & set(made.argv)
    assert made.cwd == tmp_path


def test_jobs_that_differ_fix_nothing_and_a_study_is_no_job_file() -> None:
    params = {"job": "[a]\nbs=4k\n[b]\nrw=read", "job_path": "/nowhere/my.fio", "job_folder": "/nowhere"}
    with pytest.raises(StudyError, match="its jobs set 'bs' to 4k, nothing"):
        jobfile.fixed(params, "bs")
    assert jobfile.fixed({"bs": "4k"}, "bs") is None


def test_a_job_file_is_a_study_that_asks_about_its_own_directions(tmp_path: Path) -> None:
    text = "[random reads]\nrw=randread\nbs=4k\niodepth=32\nioengine=libaio\n"
    study = make_study(jobfile.job_study(text, tmp_path / "my disk.fio"), "my disk.fio")
    assert study.name == "my-disk"
    place = str(tmp_path / "my disk.fio")
    assert study.params == {"job": text, "job_path": place, "job_folder": str(Path.cwd())}
    assert study.analysis.responses == ["read.bw", "read.iops", "read.lat.p99"]
    assert study.description == "random reads: randread 4 KiB, libaio, depth 32"
    assert {figure.kind for figure in study.figures} == {"cdf", "order"}
    table = jobfile.job_study("[in]\nrw=write\n[out]\nstonewall\nrw=read\n", tmp_path / "my.fio")
    assert table["analysis"]["responses"][0] == "in/write.bw"
    assert "out/read.lat.p99" in table["analysis"]["responses"]


# Paths


def touched(text: str, folder: Path) -> dict[str, str]:
    """Path (relative to the folder where it is below it) -> access."""
    found = Fio().touches(params_of(text, folder))
    return {str(touch.path).removeprefix(f"{folder}/"): touch.access for touch in found}


def sizes(text: str, folder: Path) -> dict[str, int | None]:
    """Path below `folder` -> what it may grow to, of those that are written."""
    found = Fio().touches(params_of(text, folder, job_folder=str(folder)))
    return {str(touch.path.relative_to(folder)): touch.size_bytes for touch in found if touch.access == WRITE}


@cases("drivers", "fio_paths")
def test_every_path_that_a_job_file_touches_is_found(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path, case.get("files", {}))
    for name, value in case.get("environment", {}).items():
        monkeypatch.setenv(name, value)
    if "refused" in case:
        with pytest.raises(StudyError, match=case["refused"]):
            touched(case["job"], tmp_path)
    if "touched" in case:
        assert touched(case["job"], tmp_path) == case["touched"]
    if "sizes" in case:
        found = {name: "unknown" if size is None else size for name, size in sizes(case["job"], tmp_path).items()}
        assert found == case["sizes"]


@pytest.mark.parametrize("line", [f"one write 0 4096{5000 * ' '}two write 0 4096", f"{300 * 'n'} add"])
def test_a_line_of_a_log_that_fio_would_cut_is_refused(line: str, tmp_path: Path) -> None:
    lay_out(tmp_path, {"log": f"fio version 2 iolog\none add\none open\n{line}\n"})
    with pytest.raises(StudyError, match="log, line 4"):
        touched("[a]\nread_iolog=log\n", tmp_path)


def test_a_log_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(StudyError, match="no regular file"):
        touched("[a]\nread_iolog=log\n", tmp_path)


def test_a_folder_with_more_files_than_can_be_looked_at_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "MOST_FILES", 3)
    lay_out(tmp_path, dict.fromkeys("abcd", 0))
    with pytest.raises(StudyError, match="opens more than 3 files"):
        touched("[a]\nrw=write\nopendir=.\n", tmp_path)


def test_many_files_that_are_not_there_are_laid_out_once_for_each_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    reach_bytes = paths.reach_bytes

    def counted(job: Section, there_bytes: int) -> int | None:
        asked.append(there_bytes)
        return reach_bytes(job, there_bytes)

    monkeypatch.setattr(paths, "reach_bytes", counted)
    (tmp_path / "b.0.7").write_bytes(bytes(9000))
    text = "[global]\nioengine=filecreate\nnrfiles=5000\nfilesize=4k\n[a]\n[b]\n"
    touches = paths.touches(parse(text, tmp_path).sections, tmp_path)
    assert len(touches) == 10_000 and asked == [0, 0, 9000]


def test_a_study_names_no_path_but_the_file_that_keeps_its_buffers(tmp_path: Path) -> None:
    assert list(Fio().touches({"rw": "randwrite"})) == []
    found = Fio().touches({"rw": "read", "bs": "4KiB", "mem": f"mmap:{tmp_path / 'buffers'}"})
    assert [(touch.path, touch.access) for touch in found] == [(tmp_path / "buffers", WRITE)]


# What fio says that it reads, against what the lab reads

HONEST = """parse    7     Parsing ini file a.fio
parse    7     [a]
parse    7     Parsing section [a]
file     7     dup files: 0
parse    7     dup options
parse    7     rw=write
parse    7     filename=x
parse    7     handle_option=rw, ptr=write
parse    7     __handle_option=rw, type=OPT_STR, ptr=write
parse    7     handle_option=filename, ptr=x
file     7     file 0x1 "x" added at 0
"""
AT_END = f"fio: unable to open '/tmp/{jobfile.ABSENT}' job file"


def confirmed(output: str, messages: str = AT_END) -> list[str]:
    place = Path("/nowhere/a.fio")
    jobs = jobfile.parse("[a]\nrw=write\nfilename=x\n", place.parent, {}, place)
    return [warning.code for warning in jobfile.confirm(jobs, place.parent, place, output, messages)]


@cases("drivers", "fio_expansions")
def test_any_difference_is_a_refusal_that_names_it(case: dict[str, Any]) -> None:
    assert confirmed(HONEST) == []
    with pytest.raises(SafetyRefusal) as caught:
        confirmed(HONEST.replace(case["ours"], case["theirs"]))
    assert case["difference"] in str(caught.value)
    assert "/nowhere/a.fio: refused, nothing was run" in str(caught.value)


def test_a_file_that_fio_does_not_take_is_an_error_in_fios_words() -> None:
    with pytest.raises(StudyError, match="does not take it: Bad option <x=1>; fio: job a dropped"):
        confirmed(HONEST, "Bad option <x=1>\nfio: job a dropped\n")


def test_a_fio_without_debug_output_is_warned_about() -> None:
    assert confirmed("", f"fio: debug tracing not included in build\n{AT_END}") == ["reading-unconfirmed"]


# The installed fio


@pytest.mark.fio
def test_names_start_where_the_user_stands_and_includes_beside_the_file_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, here = tmp_path / "jobs", tmp_path / "here"
    text = "[a]\nrw=write\ninclude inner.fio\n"
    lay_out(jobs, {"inner.fio": "size=64k\nbs=4k\n", "my.fio": text})
    here.mkdir()
    monkeypatch.chdir(here)
    study = make_study(jobfile.job_study(text, jobs / "my.fio"), "my.fio")
    assert [touch.path for touch in Fio().touches(study.params)] == [here / "a.0.0"]
    run(Fio(), study.params, NOWHERE, tmp_path / "raw")
    assert (here / "a.0.0").stat().st_size == 65536


@pytest.mark.fio
def test_sections_of_a_group_keep_their_own_results(tmp_path: Path) -> None:
    text = "[global]\ngroup_reporting\nioengine=null\nsize=1m\n[a]\nrw=read\n[b]\nrw=write\n"
    metrics = run(Fio(), params_of(text, tmp_path), NOWHERE, tmp_path / "raw")[0].metrics
    assert metrics["a/read.bytes"] == metrics["b/write.bytes"] == 2**20
    assert "a/write.bytes" not in metrics


def test_a_file_that_is_included_is_read_again_for_each_trial(tmp_path: Path) -> None:
    included, place = tmp_path / "more.fio", str(tmp_path / "job.fio")
    params = {"job": "[a]\nrw=write\nsize=4k\ninclude more.fio\n", "job_path": place, "job_folder": str(tmp_path)}
    driver = Fio()
    for name in ("examined", "other"):
        included.write_text(f"filename={name}\n")
        assert [touch.path.name for touch in driver.touches(params)] == [name]
        assert [path.name for path in driver.confinement(params).layouts] == [name]
