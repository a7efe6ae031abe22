"""The process table while what it shows comes and goes."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ioassay.process import process_table
from ioassay.store.run_folder import RunStore


def test_a_thread_may_end_between_the_list_of_threads_and_its_list_of_children(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    read_text, asked = Path.read_text, []

    def read(path: Path, **options: Any) -> str:
        asked.append(path.parent.name)
        if path.parent.name == str(thread.native_id) and thread.is_alive():
            over.set()
            thread.join()
            while path.parent.exists():
                time.sleep(0.001)
        return read_text(path, **options)

    monkeypatch.setattr(Path, "read_text", read)
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            assert child.pid in process_table.children()
        finally:
            child.kill()
    assert str(thread.native_id) in asked
    assert child.pid not in process_table.children()


LATE_THREAD = """
import ctypes, os, threading, time
def late():
    libc = ctypes.PyDLL(None)  # keeps the lock, so that no other thread runs with the child's
    libc.vfork()
    os.write(1, f"{os.getpid()}\\n".encode())
    libc.pause()
threading.Thread(target=late).start()
time.sleep(600)
"""


def test_a_process_has_stopped_when_all_its_threads_have() -> None:
    """A thread that waits for the exec of its vfork stops after it, and the first thread at once."""
    with subprocess.Popen([sys.executable, "-c", LATE_THREAD], stdout=subprocess.PIPE, process_group=0) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            assert not process_table.has_yet_to_stop(process.pid)
            process.send_signal(signal.SIGTSTP)
            while (found := process_table.status(process.pid)) is not None and found.state != "T":
                time.sleep(0.001)
            assert process_table.has_yet_to_stop(process.pid)
            os.kill(child, signal.SIGKILL)
            while process_table.has_yet_to_stop(process.pid):
                time.sleep(0.001)
        finally:
            process.kill()
    assert not process_table.has_yet_to_stop(process.pid)


def test_a_run_that_stops_names_the_file_that_was_not_its_own(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run")
    folder = store.folder("0" * 16)
    elsewhere = store.stopped(folder, FileNotFoundError(2, os.strerror(2), "/proc/self/task/7/children"))
    assert "No such file or directory (/proc/self/task/7/children); everything recorded" in str(elsewhere)
    own = store.stopped(folder, FileNotFoundError(2, os.strerror(2), str(folder / "raw")))
    assert "No such file or directory; everything recorded" in str(own)
