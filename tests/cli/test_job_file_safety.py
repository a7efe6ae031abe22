"""A job file writes only what was checked, and runs only what was consented to: real command line, real fio."""

from pathlib import Path

import pytest

from .conftest import Answer, ask

pytestmark = pytest.mark.fio
QUIET = ("--repetitions", 1)


def run(job: str | bytes, folder: Path, *options: object, **environment: str) -> Answer:
    (folder / "my.fio").write_bytes(job if isinstance(job, bytes) else job.encode())
    command = ("run", folder / "my.fio", "--output", folder / "out", *QUIET, *options)
    return ask(*command, cwd=folder, env=environment)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    path = tmp_path / "precious"
    path.write_bytes(b"precious" * 512)
    return path


HIDING_LINES = {
    "behind a long line": "description={padding}filename={path}\nfilename=harmless\n",
    "VT": "description=x\vioengine=null\nfilename={path}\n",
    "form feed": "description=x\fioengine=null\nfilename={path}\n",
    "NEL": "description=x\x85ioengine=null\nfilename={path}\n",
    "line separator": "description=x\u2028ioengine=null\nfilename={path}\n",
    "carriage return": "description=x\rioengine=null\nfilename={path}\n",
    "a variable's name": "${{HIDDEN}}={path}\n",
    "a folder named later": "filename=precious\n[b]\nrw=write\nbs=4k\nsize=4k\ndirectory=safe\n",
    "a clone": "numjobs=$ncpus*1\nfilename_format=$jobnum\n",
}


@pytest.mark.parametrize("lines", HIDING_LINES.values(), ids=HIDING_LINES.keys())
def test_no_line_hides_a_file_that_fio_writes(lines: str, precious: Path) -> None:
    folder = precious.parent
    (folder / "safe").mkdir()
    for clone in range(1, 65):
        (folder / str(clone)).write_bytes(b"precious")
    padding = "x" * (8191 - len("description="))
    heading = "[global]" if "[b]" in lines else "[a]"
    job = f"{heading}\nrw=write\nbs=4k\nsize=4k\n{lines.format(padding=padding, path=precious)}"
    answer = run(job, folder, HIDDEN="filename")
    assert answer.code in (2, 3), answer
    assert precious.read_bytes() == b"precious" * 512
    assert {(folder / str(clone)).read_bytes() for clone in range(1, 65)} == {b"precious"}
    assert not (folder / "out").exists()


def test_what_hides_is_named_with_its_line(precious: Path) -> None:
    answer = run("[a]\nrw=write\ndescription=x\vioengine=null\nfilename=precious\n", precious.parent)
    assert answer.code == 2
    assert "my.fio, line 3: 'description' contains a control character (VT, vertical tab); remove it" in answer.err


JOB = "[a]\nioengine=null\nrw=read\nsize=1m\nexec_prerun=touch {path}\n"


def test_a_job_that_runs_a_command_needs_consent(tmp_path: Path) -> None:
    answer = run(JOB.format(path=tmp_path / "ran"), tmp_path)
    assert answer.code == 3
    assert f"[a] exec_prerun=touch {tmp_path / 'ran'} runs a command through a shell" in answer.err
    assert "--allow-exec" in answer.err
    assert not (tmp_path / "ran").exists()
    assert ask("plan", tmp_path / "my.fio", cwd=tmp_path).code == 3
    assert not (tmp_path / "ran").exists()


def test_a_command_that_was_consented_to_is_run(tmp_path: Path) -> None:
    answer = run(JOB.format(path=tmp_path / "ran"), tmp_path, "--allow-exec", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["trials"]["ok"] == 1
    assert (tmp_path / "ran").exists()


def test_a_shell_is_not_reached_through_a_sum(tmp_path: Path) -> None:
    answer = run(f"[a]\nioengine=null\nsize=$ncpus*1'|touch {tmp_path}/ran|'\n", tmp_path)
    assert answer.code == 3
    assert not (tmp_path / "ran").exists()


def test_a_study_that_names_a_program_needs_consent_too(tmp_path: Path) -> None:
    study = 'title = "x"\ndriver = "fio"\n[params]\nioengine = "exec"\nprogram = "/usr/bin/touch"\narguments = "ran"\n'
    (tmp_path / "study.toml").write_text(study)
    answer = ask("plan", tmp_path / "study.toml", cwd=tmp_path)
    assert answer.code == 3
    assert "ioengine=exec runs the program /usr/bin/touch" in answer.err


def test_what_fio_does_not_take_is_said_before_the_run_in_its_words(tmp_path: Path) -> None:
    answer = run("[a]\nioengine=null\nsize=1m\ndirectory=none\n", tmp_path)
    assert answer.code == 2
    assert "none is not a directory" in answer.err


def test_an_included_file_that_changes_during_the_run_is_read_again(tmp_path: Path) -> None:
    """The first trial's own command changes what the next one would do."""
    (tmp_path / "inner").write_text("bs=4k\n")
    (tmp_path / "other").write_text(f"bs=4k\nfilename={tmp_path}/precious\n")
    job = "[a]\nrw=write\nsize=4k\nfilename=own\ninclude inner\nexec_postrun=cp other inner\n"
    (tmp_path / "precious").write_text("precious")
    answer = run(job, tmp_path, "--allow-exec", "--repetitions", 2, "--json")
    assert answer.code == 3, answer
    assert (tmp_path / "precious").read_text() == "precious"


def test_asking_fio_leaves_nothing_in_the_temporary_folder(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    for job, code in (("[a]\nioengine=null\nsize=1m\n", 0), ("[a]\nioengine=null\nno_such=1\n", 2)):
        (tmp_path / "my.fio").write_text(job)
        assert ask("plan", tmp_path / "my.fio", cwd=tmp_path, env={"TMPDIR": str(tmp_path / "tmp")}).code == code
        assert list((tmp_path / "tmp").iterdir()) == []
