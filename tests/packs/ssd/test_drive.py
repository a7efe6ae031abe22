"""ioassay drive and --drive at the real command line: the list, and all built-in drives in simulations."""

from ioassay.simulation import drive_files

from ...cli.conftest import Ask


def test_every_built_in_drive_is_listed_and_can_be_simulated(ioassay: Ask) -> None:
    said = ioassay("drive", "list")
    assert said.code == 0 and len(said.out.splitlines()) <= 15
    names = [line.split()[0] for line in said.out.splitlines()]
    assert names == ["drive", *drive_files.builtin()]
    found = ioassay("drive", "list", "--json").json["drives"]
    assert [each["name"] for each in found] == names[1:]
    assert ioassay("trace", "make", "t.disksim", "--requests", 200, "--reads", 0.5, "--range", "1GiB").code == 0
    for name in names[1:]:
        said = ioassay("simulate", "t.disksim", "--drive", name, "--json")
        assert said.code == 0 and said.json["requests"] == 200, said.err
