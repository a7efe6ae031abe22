"""Every path that a job file touches is found before anything runs, with what would be done to it."""

import os
from pathlib import Path

import pytest

from ioassay.drivers.fio import Fio, paths
from ioassay.errors import StudyError
from ioassay.roles import READ, WRITE


def touched(text: str, folder: Path) -> dict[str, str]:
    """Path (relative to the folder where it is below it) -> access."""
    found = Fio().touches({"job": text, "job_path": str(folder / "my.fio")})
    return {str(touch.path).removeprefix(f"{folder}/"): touch.access for touch in found}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[a]\nrw=write\nfilename=x:y\n", ["x", "y"]),
        ("[a]\nrw=write\nfilename=x\\:y:z\n", ["x:y", "z"]),
        ("[a]\nrw=write\nfilename=/dev/sda\n", ["/dev/sda"]),
        ("[a]\nrw=write\ndirectory=d\nfilename=/dev/sda\n", ["d/dev/sda"]),
        ("[global]\nfilename=g\n[a]\nrw=write\nfilename=own\n", ["g", "own"]),
        ("[a]\nrw=write\n", ["a.0.0"]),
        ("[a]\nrw=write\nnumjobs=2\nnrfiles=2\n", ["a.0.0", "a.0.1", "a.1.0", "a.1.1"]),
        ("[a]\nrw=write\nname=b\nfilename_format=$jobname-$filenum.dat\n", ["a-0.dat"]),
        ("[a]\nrw=write\ndirectory=d:e\n", ["d/a.0.0"]),
        ("[a]\nrw=write\ndirectory=d:e\nnumjobs=3\n", ["d/a.0.0", "e/a.1.0", "d/a.2.0"]),
        ("[a]\nrw=write\ndirectory=d:e\nfilename=x\n", ["d/x"]),
        ("[global]\nfilename=g\n[a]\nrw=write\ndirectory=d\nfilename=x\n", ["g", "d/x"]),
        ("[a]\nrw=write\nfilename=x\ndirectory=d\n", ["d/x"]),
        ("[a]\nrw=write\nfilename=x$ncpus\n", [f"x{os.sysconf('SC_NPROCESSORS_ONLN')}"]),
        ("[a]\nrw=write\nfilename=-\n", []),
        ("[a]\nrw=write\nfilename=x\nmem=mmap:buffers\n", ["x", "buffers"]),
        ("[a]\nrw=write\nioengine=null\nfilename=/dev/sda\n", []),
    ],
)
def test_files_are_found_as_fio_names_them(text: str, names: list[str], tmp_path: Path) -> None:
    assert touched(text, tmp_path) == dict.fromkeys(names, WRITE)


def test_a_job_named_like_a_device_loads_that_device(tmp_path: Path) -> None:
    (tmp_path / "disk").symlink_to("/dev/null")
    assert touched("[disk]\nrw=write\n", tmp_path) == {"disk": WRITE}
    assert touched("[/dev/null]\nrw=write\n", tmp_path) == {"/dev/null": WRITE}


def test_environment_variables_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISK", "/dev/null")
    assert touched("[a]\nrw=write\nfilename=${DISK}\n", tmp_path) == {"/dev/null": WRITE}


def test_reading_writes_where_fio_lays_the_file_out_first(tmp_path: Path) -> None:
    text = "[a]\nrw=read\nfilename=data\nsize=8k\n"
    assert touched(text, tmp_path) == {"data": WRITE}
    (tmp_path / "data").write_bytes(bytes(4096))
    assert touched(text, tmp_path) == {"data": WRITE}  # shorter than the job: written anew
    (tmp_path / "data").write_bytes(bytes(8192))
    assert touched(text, tmp_path) == {"data": READ}
    assert touched(text.replace("size=8k", "size=100%"), tmp_path) == {"data": READ}
    assert touched(text.replace("size=8k", "size=8k\noffset=4k"), tmp_path) == {"data": WRITE}


def test_a_size_that_cannot_be_told_counts_as_too_large(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(8192))
    assert touched("[a]\nrw=read\nfilename=data\nsize=1k*$pagesize\n", tmp_path) == {"data": WRITE}


@pytest.mark.parametrize("option", ["unlink=1", "trim_percentage=10", "file_append=1", "ioengine=filedelete"])
def test_options_that_change_files_count_as_writing(option: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(8192))
    assert touched(f"[a]\nrw=read\nsize=8k\nfilename=data\n{option}\n", tmp_path) == {"data": WRITE}


def test_the_strongest_access_of_all_jobs_counts(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(8192))
    text = "[global]\nfilename=data\nsize=8k\n[in]\nrw=read\n[out]\nrw=write\n[again]\nrw=read\n"
    assert touched(text, tmp_path) == {"data": WRITE}


def test_opendir_names_every_file_below_it(tmp_path: Path) -> None:
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / "tree" / "one").write_bytes(bytes(10))
    (tmp_path / "tree" / "deep" / "two").write_bytes(bytes(10))
    assert touched("[a]\nrw=write\nopendir=tree\n", tmp_path) == {"tree/one": WRITE, "tree/deep/two": WRITE}


def test_a_replayed_log_names_its_files(tmp_path: Path) -> None:
    log = "fio version 2 iolog\none add\ntwo add\none open\none read 0 4096\ntwo write 0 4096\n"
    (tmp_path / "v2.log").write_text(log)
    assert touched("[a]\nread_iolog=v2.log\n", tmp_path) == {"v2.log": READ, "one": READ, "two": WRITE}
    (tmp_path / "v3.log").write_text("fio version 3 iolog\n0 one add\n10 one write 0 4096\n")
    assert touched("[a]\nread_iolog=v3.log\n", tmp_path) == {"v3.log": READ, "one": WRITE}


@pytest.mark.parametrize(
    "line",
    [
        "one write 0 4096" + " " * 5000 + "two write 0 4096",
        "one\vwrite\v0\v4096",
        "one\u00a0add",
        "two write 0 4096",
        f"{'n' * 300} add",
        "one erase 0 4096",
        "one",
    ],
)
def test_a_log_that_fio_may_read_otherwise_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f"fio version 2 iolog\none add\none open\n{line}\n")
    with pytest.raises(StudyError, match="log, line 4"):
        touched("[a]\nread_iolog=log\n", tmp_path)


def test_names_of_a_log_lie_below_the_folder_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("fio version 2 iolog\none add\none write 0 4096\n")
    assert touched("[a]\ndirectory=d\nread_iolog=log\n", tmp_path)["d/one"] == WRITE


def test_a_log_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(StudyError, match="no regular file"):
        touched("[a]\nread_iolog=log\n", tmp_path)


def test_more_files_than_can_be_looked_at_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="makes 999999999 files; wanted at most 100000"):
        touched("[a]\nnrfiles=999999999\n", tmp_path)


def test_no_number_of_clones_is_counted_without_end(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="wanted at most 100000"):
        touched("[a]\nnrfiles=0\nnumjobs=999999999999999999\n", tmp_path)


def test_a_folder_with_more_files_than_can_be_looked_at_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "MOST_FILES", 3)
    for name in "abcd":
        (tmp_path / name).write_text("")
    with pytest.raises(StudyError, match="opens more than 3 files"):
        touched("[a]\nrw=write\nopendir=.\n", tmp_path)


def test_links_below_an_opened_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to("/etc/hostname")
    assert touched("[a]\nrw=write\nopendir=tree\n", tmp_path) == {}


def test_a_replay_that_is_redirected_writes_there(tmp_path: Path) -> None:
    (tmp_path / "trace.bin").write_bytes(b"\x07\x74\x61\x65\xff")
    text = "[a]\nread_iolog=trace.bin\nreplay_redirect=/dev/null\n"
    assert touched(text, tmp_path) == {"trace.bin": READ, "/dev/null": WRITE}


def test_a_binary_trace_that_is_not_redirected_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trace.bin").write_bytes(b"\x07\x74\x61\x65\xff")
    with pytest.raises(StudyError, match="add replay_redirect"):
        touched("[a]\nread_iolog=trace.bin\n", tmp_path)


def test_a_path_that_fio_computes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="computed by fio"):
        touched("[a]\nrw=write\nfilename=$ncpus/disk\n", tmp_path)


def test_a_study_names_no_path_beside_its_target() -> None:
    assert list(Fio().touches({"rw": "randwrite"})) == []


@pytest.mark.parametrize(
    "options",
    [
        "size=1M\noffset_increment=1M\nnumjobs=4",
        "size=4M\nnrfiles=4",  # nrfiles does not count where files are named
        "size=1800k\noffset=50%",
        "size=1M\noffset=50%\noffset_increment=25%\nnumjobs=2",
        "size=2M\noffset_align=1M\noffset=10%",
        "size=3z\nzonemode=strided\nzonesize=1M",
        "size=1M\noffset=1z\nzonemode=strided\nzonesize=3M",
        "size=200%",
        "filesize=3M-4M",
        "filesize=3M-4M\nsize=1M",
        "filesize=50%",
    ],
)
def test_a_read_that_fio_begins_by_cutting_the_file_counts_as_writing(options: str, tmp_path: Path) -> None:
    """Each of these was seen to empty or to overwrite a file of 2 MiB with fio 3.33."""
    (tmp_path / "data").write_bytes(bytes(2 << 20))
    assert touched(f"[a]\nrw=read\nfilename=data\n{options}\n", tmp_path) == {"data": WRITE}


@pytest.mark.parametrize(
    "options",
    ["size=2M", "io_size=8M", "size=512k\noffset_increment=512k\nnumjobs=4", "size=80%\noffset=50%", "filesize=1M-2M"],
)
def test_a_read_within_the_file_leaves_it_alone(options: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(2 << 20))
    assert touched(f"[a]\nrw=read\nfilename=data\n{options}\n", tmp_path) == {"data": READ}


@pytest.mark.parametrize("engine", ["null", "cpuio"])
@pytest.mark.parametrize("option", ["unlink", "unlink_each_loop"])
def test_an_engine_without_storage_can_remove_files_too(engine: str, option: str, tmp_path: Path) -> None:
    assert touched(f"[a]\nioengine={engine}\nfilename=data\n{option}=1\n", tmp_path) == {"data": WRITE}


def test_a_study_names_the_file_that_keeps_its_buffers(tmp_path: Path) -> None:
    found = Fio().touches({"rw": "read", "bs": "4KiB", "mem": f"mmap:{tmp_path / 'buffers'}"})
    assert [(touch.path, touch.access) for touch in found] == [(tmp_path / "buffers", WRITE)]
