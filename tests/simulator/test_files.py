"""What `save` leaves in a folder, and what it refuses."""

import json
from pathlib import Path

import polars as pl
import pytest

from ioassay import traces
from ioassay.errors import UsageError
from ioassay.simulator import save, simulate
from ioassay.simulator.result_files import names

RECIPE = traces.recipe(requests=500)


@pytest.mark.parametrize("csv", [False, True])
def test_tables_and_summary_come_back(tmp_path: Path, csv: bool) -> None:
    done = simulate(RECIPE)
    folder = tmp_path / "new" / "out"
    written = save(done, folder, {"mean_response_ms": 0.5}, csv=csv)
    assert sorted(written) == sorted(folder.iterdir()) and [path.name for path in written] == names(csv)
    read = pl.read_csv if csv else pl.read_parquet
    for table in ("series", "elements", "utilisation"):
        found = read(folder / f"{table}.{'csv' if csv else 'parquet'}")
        assert found.shape == getattr(done, table).shape and found.columns == getattr(done, table).columns
    assert json.loads((folder / "summary.json").read_text()) == {"mean_response_ms": 0.5}


def test_files_are_replaced_only_by_force(tmp_path: Path) -> None:
    done = simulate(RECIPE)
    (tmp_path / "other").write_text("stays")
    save(done, tmp_path, {"run": 1})
    with pytest.raises(UsageError, match="summary.json exists; --force replaces it"):
        save(done, tmp_path, {"run": 2})
    save(done, tmp_path, {"run": 3}, force=True)
    assert json.loads((tmp_path / "summary.json").read_text()) == {"run": 3}
    assert (tmp_path / "other").read_text() == "stays"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file, wanted a folder"):
        save(simulate(RECIPE), tmp_path / "file", {})
