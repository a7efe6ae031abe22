"""A comparison as JUnit XML, held against the structure that Jenkins' schema wants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ioassay.packs.comparison.comparison_text import junit_xml
from ioassay.packs.comparison.run_comparison import compare

from .compared_runs import in_turns

# Element -> (required attributes, allowed attributes, children in their order); after jenkinsci/xunit-plugin's
# junit-10.xsd, which is also what pytest's --junit-xml is checked against.
COUNTS = {"tests", "failures", "errors", "time"}
SCHEMA: dict[str, tuple[set[str], set[str], list[str]]] = {
    "testsuites": (set(), {"name", "disabled"} | COUNTS, ["testsuite"]),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"name", "skipped", "hostname", "id", "package", "timestamp", "disabled"} | COUNTS,
        ["properties", "testcase", "system-out", "system-err"],
    ),
    "properties": (set(), set(), ["property"]),
    "property": ({"name", "value"}, {"name", "value"}, []),
    "testcase": (
        {"name", "classname"},
        {"name", "classname", "time", "assertions", "status"},
        ["skipped", "error", "failure", "system-out", "system-err"],
    ),
    "failure": (set(), {"message", "type"}, []),
    "error": (set(), {"message", "type"}, []),
    "skipped": (set(), {"message", "type"}, []),
    "system-out": (set(), set(), []),
}


def check(element: ElementTree.Element) -> None:
    required, allowed, children = SCHEMA[element.tag]
    assert required <= set(element.keys()) <= allowed | required, element.tag
    places = [children.index(child.tag) for child in element]
    assert places == sorted(places), f"{element.tag}: children out of order"
    for child in element:
        check(child)


def document(
    lab: Any, factor: float, noise: float = 0.005, n: int = 6, title: str = "4KiB", **changes: Any
) -> ElementTree.Element:
    rng = np.random.default_rng(1)
    study = lab.study(factors={"bs": [title, "64KiB"]}, responses=["read.bw"])
    wide = lab.study(factors={"bs": [title, "64KiB", "1MiB"]}, responses=["read.bw"])
    a = lab.records(lab.run(wide, lambda *_: {"read.bw": rng.normal(100, 100 * noise)}, n))
    b = lab.records(lab.run(study, lambda *_: {"read.bw": factor * rng.normal(100, 100 * noise)}, n))
    root = ElementTree.fromstring(junit_xml(replace(compare(*in_turns(a, b)), **changes)))
    check(root)
    return root


def test_a_slower_condition_is_a_failure(lab: Any) -> None:
    root = document(lab, 0.7)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "2", "0")
    suite = root[0]
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("study", "2", "2")
    failure = suite.find("testcase/failure")
    assert failure is not None and failure.get("type") == "slower"
    assert "in B (95 % interval" in (failure.get("message") or "")


def test_equal_runs_pass_and_what_one_run_lacks_is_skipped(lab: Any) -> None:
    root = document(lab, 1.0)
    assert root.get("failures") == "0"
    assert [suite.get("name") for suite in root] == ["study", "only in A"]
    assert root[1].get("skipped") == "1" and root[1].find("testcase/skipped") is not None


def test_an_undecided_condition_is_skipped_and_not_passed(lab: Any) -> None:
    root = document(lab, 0.95, noise=0.3, n=3)
    assert root[0].get("skipped") == "2"


def test_a_machine_that_was_not_fit_fails_no_test(lab: Any) -> None:
    root = document(lab, 0.7, unfit=("B",))
    assert (root.get("failures"), root[0].get("failures"), root[0].get("skipped")) == ("0", "0", "2")
    messages = {skipped.get("message") for skipped in root[0].iter("skipped")}
    assert messages == {"No conclusion is drawn: the machine was not quiet enough in run B."}


def test_claims_that_the_kernel_contradicts_are_errors(lab: Any) -> None:
    root = document(lab, 0.7, unfit=("A",), contradicted=("B",))
    assert (root.get("failures"), root.get("errors"), root[0].get("errors")) == ("0", "2", "2")
    assert {error.get("type") for error in root.iter("error")} == {"contradicted"}


def test_the_settings_of_the_comparison_are_properties(lab: Any) -> None:
    properties = {item.get("name"): item.get("value") for item in document(lab, 1.0).iter("property")}
    assert properties["margin"] == "0.05" and properties["confidence"] == "0.95"
    assert "Bonferroni" in (properties["method"] or "")


def test_names_that_xml_cannot_hold_are_replaced(lab: Any) -> None:
    root = document(lab, 1.0, title='<a> & "b"\x01\x1b')
    names = [case.get("name") for case in root.iter("testcase")]
    assert 'bs=<a> & "b"\ufffd\ufffd: read.bw' in names
