"""What no check of paths can see is named, so that it can be consented to."""

from typing import Any

import pytest

from ioassay.drivers.fio import Fio


def externals(**params: Any) -> list[str]:
    return [f"{each.option} {each.effect}" for each in Fio().externals({"rw": "write", **params})]


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"exec_prerun": "touch x"}, "exec_prerun=touch x runs a command through a shell"),
        ({"exec_postrun": "touch x"}, "exec_postrun=touch x runs a command through a shell"),
        ({"ioengine": "exec", "program": "/bin/rm"}, "ioengine=exec runs the program /bin/rm"),
        ({"ioengine": "external:/tmp/x.so"}, "ioengine=external:/tmp/x.so loads a program's code into fio"),
        ({"ioengine": "/tmp/x.so"}, "ioengine=/tmp/x.so loads a program's code into fio"),
        ({"ioengine": "/opt/spdk/spdk_bdev"}, "ioengine=/opt/spdk/spdk_bdev loads a program's code into fio"),
        ({"ioengine": "net", "rw": "read"}, "listens on every network interface"),
        ({"ioengine": "rbd"}, "ioengine=rbd writes to storage that cannot be examined"),
        ({"ioengine": "libiscsi"}, "ioengine=libiscsi writes to storage that cannot be examined"),
        ({"ioengine": "nbd", "uri": "nbd://example"}, "ioengine=nbd writes to the server nbd://example"),
    ],
)
def test_programs_networks_and_remote_storage_are_named(params: dict[str, Any], text: str) -> None:
    (said,) = externals(**params)
    assert text in said


@pytest.mark.parametrize(
    "params",
    [
        {"ioengine": "io_uring"},
        {"ioengine": "null"},
        {"ioengine": "nbd"},
        {"ioengine": "spdk_bdev"},
        {"ioengine": "rbd", "rw": "read"},
        {},
    ],
)
def test_local_engines_and_the_targets_own_need_no_consent(params: dict[str, Any]) -> None:
    assert externals(**params) == []


def test_a_quote_in_a_sum_would_reach_a_shell() -> None:
    """`bc_calc` of fio 3.33 gives the sum to `sh -c "echo '…' | bc"`."""
    job = {"job": "[a]\nsize=$ncpus*1'|touch x|'\n", "job_path": "/nowhere/my.fio"}
    (each,) = Fio().externals(job)
    assert each.effect == "gives its text to a shell"
