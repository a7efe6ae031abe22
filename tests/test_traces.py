"""Traces from Python: described, looked at, converted, made."""

import gzip
import re
import shlex
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import cases

from ioassay import traces
from ioassay.errors import InputError, UsageError
from ioassay.traces import recipes
from ioassay.units import parse_size

README = Path(traces.__file__).parent / "shipped" / "README.md"
SMALL: dict[str, Any] = {"requests": 2000, "reads": 0.3, "seed": 5}


def made(folder: Path, name: str = "made.disksim", **laws: Any) -> Path:
    traces.make(folder / name, **{**SMALL, **laws})
    return folder / name


def text_of(path: Path) -> bytes:
    """Decompressed: compressors of other versions give other bytes."""
    plain = path.with_name(path.name + ".plain")
    traces.convert(path, plain, to=told(path), force=True)
    return plain.read_bytes()


def told(path: Path) -> str:
    return str(traces.info(path)["format"])


def test_a_recipe_is_told_in_words() -> None:
    recipe = traces.recipe(sizes="4KiB:3,64KiB:1", addresses="hot-cold:0.8:0.2", range="2GiB", arrivals="none")
    assert recipe["sizes"] == ("weighted", [4096, 3.0, 65536, 1.0])
    assert recipe["addresses"] == ("hot-cold", [0.8, 0.2])
    assert (recipe["range_bytes"], recipe["align_bytes"], recipe["arrivals"]) == (2 << 30, 4096, ("none", []))
    assert traces.recipe(sizes="512:1,4KiB:1")["align_bytes"] == 512
    assert traces.recipe(sizes="exponential:6KiB")["align_bytes"] == 512


@cases("traces", "refused")
def test_what_cannot_be_is_refused_by_name(case: dict[str, Any]) -> None:
    refuse: dict[str, Callable[[dict[str, Any]], object]] = {
        "recipe": lambda laws: traces.info(traces.recipe(**laws)),
        "preparation": lambda options: traces.preparation(**options),
        "core": lambda prepare: traces.info(traces.recipe(**SMALL), prepare=prepare),
        "curve": lambda options: traces.mrc(traces.recipe(**SMALL), **options),
    }
    (kind,) = refuse.keys() & case.keys()
    with pytest.raises((UsageError, InputError), match=case["refused"]):
        refuse[kind](case[kind])


@pytest.mark.parametrize(("law", "forms"), [("arrivals", recipes.ARRIVALS), ("addresses", recipes.ADDRESSES)])
def test_the_laws_that_have_a_near_name_are_those_of_the_core(law: str, forms: tuple[str, ...]) -> None:
    def names(told: list[str]) -> list[str]:
        return [re.match(r"[a-z-]*", form)[0] for form in told]

    with pytest.raises(UsageError) as refused:
        traces.info({**traces.recipe(), law: ("nothing", [])})
    of_core = re.split(", | or ", str(refused.value).partition("wanted ")[2])
    assert names(list(forms)) == names(of_core)


def test_a_made_trace_is_what_its_recipe_says(tmp_path: Path) -> None:
    found = traces.info(made(tmp_path, sizes="8KiB", range="64MiB", arrivals="poisson:1000"))
    assert (found["format"], found["requests"]) == ("disksim", 2000)
    assert found["kinds"]["read"]["requests"] == pytest.approx(600, rel=0.15)
    assert found["time"]["requests_per_s"] == pytest.approx(1000, rel=0.1)
    assert found["size_bytes"]["min"] == found["size_bytes"]["max"] == 8192
    assert found["space"]["end_bytes"] <= 64 << 20 and found["space"]["pages_exact"]
    assert found["doubts"] == []


@pytest.mark.parametrize("name", [each["name"] for each in traces.formats()])
def test_every_format_gives_back_what_was_written(name: str, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    traces.make(path, to=name, **SMALL)
    before, after = traces.info(traces.recipe(**SMALL)), traces.info(path, format=name)
    for part in ("requests", "kinds", "size_bytes"):
        assert before[part] == after[part]
    assert before["space"]["distinct_pages"] == after["space"]["distinct_pages"]


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_the_name_of_the_output_tells_format_and_compression(ending: str, tmp_path: Path) -> None:
    path = made(tmp_path, f"a.disksim{ending}")
    plain = made(tmp_path, "plain.disksim")
    assert text_of(path) == plain.read_bytes()
    if ending == ".gz":
        assert gzip.decompress(path.read_bytes()) == plain.read_bytes()


def test_a_name_that_tells_nothing_wants_a_format(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--to"):
        traces.make(tmp_path / "trace.txt", **SMALL)


def test_preparation_is_done_and_counted(tmp_path: Path) -> None:
    prepare = traces.preparation(keep="writes", first=500, shrink="16MiB", sizes="cut", rebase=True, page="8KiB")
    done = traces.convert(made(tmp_path), tmp_path / "out.disksim", prepare=prepare)
    changes = done["changes"]
    assert (done["from"], done["to"], changes["given"]) == ("disksim", "disksim", 500)
    assert changes["seen"] == 500 + changes["dropped_kind"] and changes["lengthened"] == 500
    found = traces.info(tmp_path / "out.disksim")
    assert found["kinds"]["write"]["requests"] == 500
    assert found["time"]["first_ns"] == 0
    assert found["space"]["end_bytes"] <= 16 << 20


def test_shrinking_finds_the_end_of_the_trace_or_takes_it(tmp_path: Path) -> None:
    path = made(tmp_path, range="64MiB")
    end = traces.info(path)["space"]["end_bytes"]
    outputs = []
    for told_end in (None, end):
        prepare = traces.preparation(shrink="16MiB", shrink_from=told_end)
        outputs.append(traces.convert(path, tmp_path / f"{told_end}.disksim", prepare=prepare))
    assert outputs[0]["changes"] == outputs[1]["changes"]
    assert (tmp_path / "None.disksim").read_bytes() == (tmp_path / f"{end}.disksim").read_bytes()


def test_a_request_out_of_range_is_refused_with_its_number(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"made\.disksim: request \d+: .* end behind 4194304"):
        traces.info(made(tmp_path), prepare=traces.preparation(limit="4MiB"))


def test_an_output_stays_as_it_was_when_something_goes_wrong(tmp_path: Path) -> None:
    path = made(tmp_path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="--force"):
        made(tmp_path)
    broken = tmp_path / "broken.disksim"
    broken.write_bytes(before + b"nonsense\n")
    with pytest.raises(InputError, match="line 2001"):
        traces.convert(broken, path, format="disksim", force=True)
    assert path.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == {"made.disksim", "broken.disksim"}


def test_what_is_no_regular_file_is_never_replaced(tmp_path: Path) -> None:
    for path in (Path("/dev/null"), tmp_path):
        with pytest.raises(UsageError, match="no regular file"):
            traces.make(path, to="disksim", force=True, **SMALL)


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    link = tmp_path / "link.disksim"
    link.symlink_to(made(tmp_path))
    traces.make(link, requests=1, force=True)
    assert link.is_symlink() and len((tmp_path / "made.disksim").read_bytes().splitlines()) == 1


def test_a_missing_trace_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing: No such file"):
        traces.info(tmp_path / "missing")


def test_other_threads_run_meanwhile() -> None:
    began, done, turns = threading.Event(), threading.Event(), 0

    def read() -> None:
        began.set()
        traces.info(traces.recipe(requests=500_000))
        done.set()

    thread = threading.Thread(target=read)
    thread.start()
    began.wait()
    while not done.is_set():
        turns += 1
    thread.join()
    assert turns > 1


def commands() -> list[list[str]]:
    lines = [line.strip() for line in README.read_text().splitlines()]
    return [shlex.split(line)[3:] for line in lines if line.startswith("ioassay trace make ")]


@pytest.mark.parametrize("words", commands(), ids=lambda words: words[0])
def test_a_shipped_trace_can_be_made_again(words: list[str], tmp_path: Path) -> None:
    options = {name.removeprefix("--"): value for name, value in zip(words[1::2], words[2::2], strict=True)}
    for name, kind in (("requests", int), ("seed", int), ("reads", float)):
        options[name] = kind(options[name])  # type: ignore[assignment]
    again = tmp_path / words[0]
    traces.make(again, **options)  # type: ignore[arg-type]
    shipped = README.parent / words[0]
    for path in (again, shipped):
        traces.convert(path, tmp_path / f"{path.parent.name}.plain", to=told(path))
    assert (tmp_path / f"{tmp_path.name}.plain").read_bytes() == (tmp_path / "shipped.plain").read_bytes()


def test_shipped_traces_are_small_plausible_and_known_by_name() -> None:
    shipped = traces.shipped()
    assert {path.name for path in shipped.values()} == {words[0] for words in commands()}
    assert sum(path.stat().st_size for path in shipped.values()) < parse_size("300kB")
    for name in shipped:
        assert traces.info(name)["doubts"] == []
