"""Lines of strace: joined, taken apart, and survived."""

from __future__ import annotations

import random

import pytest

from ioassay.verify.witness.strace_line import Call, Gone, Lines, Target, quoted, target, unescaped

from .conftest import table


def fed(*lines: str) -> list[Call | Gone]:
    reader = Lines()
    return [event for event in map(reader.feed, lines) if event is not None]


def only_call(*lines: str) -> Call:
    (event,) = fed(*lines)
    assert isinstance(event, Call)
    return event


def test_a_whole_call() -> None:
    call = only_call('12 1795244622.000000005 pread64(3</d/f>, ""..., 4096, 8192) = 4096 <0.000060900>\n')
    assert call == Call(12, "pread64", '3</d/f>, ""..., 4096, 8192', "4096", 1795244622_000000005, 60900)
    assert call.returned == 4096


def test_microseconds_are_not_nanoseconds() -> None:
    call = only_call("12 5.000001 fsync(3</f>) = 0 <0.000002>")
    assert (call.entry_ns, call.took_ns) == (5_000_001_000, 2000)


def test_two_halves_are_one_call_that_began_with_the_first() -> None:
    call = only_call("1 1.0 read(4</f>,  <unfinished ...>", "1 3.0 <... read resumed>0x7f, 10) = 7 <2.0>")
    assert (call.arguments, call.returned, call.entry_ns, call.took_ns) == ("4</f>, 0x7f, 10", 7, 10**9, 2 * 10**9)


def test_a_number_is_free_when_close_is_entered() -> None:
    events = fed("1 1.0 close(4</f> <unfinished ...>", "2 2.0 close(5</g>) = 0", "1 3.0 <... close resumed>) = 0 <2.0>")
    assert [event.task for event in events] == [1, 2]


@table("strace_line", "results")
def test_results(result: str, returned: int | None) -> None:
    assert only_call(f"1 1.0 read(99, 0x7f, 4) = {result} <0.1>").returned == returned


def test_what_a_task_was_in_when_it_was_killed() -> None:
    events = fed("1 1.0 read(4</f>,  <unfinished ...>", "1 2.0 +++ killed by SIGKILL (core dumped) +++")
    assert events == [Gone(1, Call(1, "read", "4</f>, ", "?", 10**9, 0))]
    assert fed("1 1.0 +++ exited with 0 +++") == [Gone(1, None)]


def test_signs_in_paths_end_no_arguments() -> None:
    call = only_call('1 1.0 openat(AT_FDCWD</a>, "x) = 3", O_RDONLY) = 7</a/x) = 3> <0.1>')
    assert (call.result, call.returned, quoted(call.arguments)) == ("7</a/x) = 3>", 7, "x) = 3")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("3</tmp/f>, 1", Target(3, "/tmp/f", "regular", "")),
        (r"3</we\74i\76rd\n\"n>(deleted), 1", Target(3, '/we<i>rd\n"n', "regular", "")),
        ("7</dev/zero<char 1:5>>, 1", Target(7, "/dev/zero", "char", "1:5")),
        ("7</dev/vda<block 254:0>>", Target(7, "/dev/vda", "block", "254:0")),
        ("4<pipe:[1003]>, 1", Target(4, "pipe:[1003]", "pipe", "")),
        ("4<TCP:[127.0.0.1:1->127.0.0.1:2]>, 1", Target(4, "TCP:[127.0.0.1:1->127.0.0.1:2]", "socket", "")),
        ("5<anon_inode:[io_uring]>", Target(5, "anon_inode:[io_uring]", "other", "")),
        ("99, 0x7f", Target(99, "", "other", "")),
        ("-1 ENOENT (No such file)", Target(-1, "", "other", "")),
    ],
)
def test_what_a_descriptor_is_open_to(text: str, found: Target) -> None:
    assert target(text) == found


def test_escapes() -> None:
    assert unescaped(r"a\303\244\t\\\x41") == "aä\t\\A"
    assert target("AT_FDCWD</tmp>") is None


def test_garbage_and_a_line_cut_short_are_counted_and_survived(seed: int) -> None:
    chance = random.Random(seed)
    whole = '12 1.0 io_submit(0x7f, 1, [{aio_data=0, aio_fildes=7</f "x>, aio_nbytes=4096}]) = 1 <0.1>'
    reader = Lines()
    for _ in range(3000):
        text = list(whole[: chance.randrange(len(whole) + 1)])
        for _ in range(chance.randrange(3)):
            text.insert(chance.randrange(len(text) + 1), chance.choice('<>"()=\\ \x00é1['))
        reader.feed("".join(text))
    assert reader.senseless > 0
    assert isinstance(reader.feed(whole), Call)
