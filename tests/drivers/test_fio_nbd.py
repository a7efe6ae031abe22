"""fio's engine nbd waits for ever for a server that does not answer, and 3.33 ignores SIGTERM: a timeout ends it."""

import shutil
import signal
import socket
from pathlib import Path

import pytest

from ioassay.process import supervisor


@pytest.mark.fio
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_a_server_that_never_answers_costs_no_more_than_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "GRACE_S", 0.5)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen(4)  # accepted by the kernel, greeted by nobody
        job = ["--name=j", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={tmp_path / 's'}", "--rw=read", "--size=1M"]
        outcome = supervisor.run(
            ["fio", *job], stdout=tmp_path / "out", stderr=tmp_path / "err", timeout_s=1.0, cwd=tmp_path
        )
    assert outcome.timed_out and outcome.signal in (signal.SIGTERM, signal.SIGKILL)
    # On a busy machine fio's own child can outlive it; what matters is that none is left in the end.
    assert not any(Path(f"/proc/{pid}").exists() for pid in outcome.leftovers)
