"""A claim that the user states."""

import pytest

from ioassay.errors import UsageError
from ioassay.formats import stated_claim


def test_sizes_and_durations_are_written_as_everywhere() -> None:
    claim = stated_claim.parse("bytes=64MiB, ops=16384,seconds=500ms,kind=write,rate=100MB/s,latency=61us,path=/a:/b")
    assert (claim.bytes, claim.operations, claim.seconds, claim.rate_bytes_per_s) == (2**26, 16384, 0.5, 1e8)
    assert (claim.source, claim.kind, claim.paths) == ("user", "write", ("/a", "/b"))
    assert claim.latency_ns["mean"] == pytest.approx(61000)
    assert stated_claim.parse("ops=1").kind == "read"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "key=value"),
        ("size=1", "'size=1'.*bytes.*ops.*seconds"),
        ("bytes=", "'bytes='"),
        ("bytes=-1", "bytes=-1"),
        ("bytes=nan", "nan"),
        ("bytes=99999999999999999999", "9223372036854775807"),
        ("ops=1e3", "ops=1e3"),
        ("ops=1.5", "ops=1.5"),
        ("seconds=-1", "seconds=-1"),
        ("seconds=inf", "inf"),
        ("rate=fast", "fast"),
        ("kind=foo,ops=1", "read, write"),
        ("bytes=1,bytes=2", "twice"),
        ("kind=read", "no number"),
    ],
)
def test_errors_name_the_key_the_value_and_what_is_wanted(text: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        stated_claim.parse(text)
