"""What becomes of a report whose drawing process is lost: an error with the command that makes it again."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from ioassay.api import publication
from ioassay.errors import RunError
from ioassay.report import page
from ioassay.runner import worker_pool
from ioassay.store.run_folder import RunStore
from ioassay.study import catalog

FIGURE = {"kind": "bar", "name": "x", "y": "value"}
STUDY = {"title": "Null", "driver": "null", "watch": {"monitors": []}, "figures": [FIGURE]}


class Failing(worker_pool.InlineExecutor):
    """Raises `error` for one function, and calls every other one at once."""

    def __init__(self, function: Callable[..., Any], error: Exception) -> None:
        self._function, self._error = function, error

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(self._error)
        return future if fn is self._function else super().submit(fn, *args, **kwargs)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore.create(tmp_path / "run", catalog.from_table(STUDY, tmp_path / "null.toml"), {})


@pytest.mark.parametrize("function", [page.write_svg, page.write_png])
def test_a_lost_drawing_process_is_an_error_that_names_the_command(
    store: RunStore, function: Callable[..., Any]
) -> None:
    lost = worker_pool.WorkerLost("its worker process was ended by SIGKILL", 0.0, 1.0)
    with pytest.raises(RunError, match=r"the figures cannot be drawn: .* SIGKILL; .* ioassay report .*run"):
        publication.publish(store, processes=[Failing(function, lost)])


def test_figures_that_cannot_be_written_are_an_error_that_names_folder_and_command(store: RunStore) -> None:
    full = OSError(28, "No space left on device")
    with pytest.raises(RunError, match=r"report: No space left on device; .* Fix that, then run: ioassay report"):
        publication.publish(store, processes=[Failing(page.write_svg, full)])


@pytest.mark.parametrize("place", [0, 1])
def test_a_drawing_process_that_is_killed_says_nothing_of_workers(store: RunStore, place: int) -> None:
    with publication.figure_processes() as processes:
        killed = processes[place].submit(eval, "__import__('os').kill(__import__('os').getpid(), 9)")
        with pytest.raises(worker_pool.WorkerLost, match="SIGKILL") as lost:
            killed.result()
        assert "--workers" not in str(lost.value)
        _, _, paths = publication.publish(store, processes=processes)
        assert paths.page.exists()
