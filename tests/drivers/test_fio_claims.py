"""A trial of fio claims what its JSON claims; a trial that failed claims nothing."""

from typing import Any

import pytest

from ioassay.formats import fio_claims, fio_json


@pytest.mark.parametrize("name", ["read", "write", "randrw-2-jobs", "null-engine"])
def test_a_trial_has_the_claims_of_its_results(golden: Any, name: str) -> None:
    found = golden.parsed(name).claims
    assert found == fio_claims.claims(fio_json.parse(golden.text(name), name))
    assert {claim.source for claim in found} == {"fio"}


def test_a_trial_that_failed_claims_nothing(golden: Any) -> None:
    assert golden.parsed("no-space").claims == ()
