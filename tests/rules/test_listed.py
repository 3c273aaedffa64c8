"""Every rule has tests and says which; every test that cites a rule is listed under it.

The files `listed*.py` beside this one map rules to tests. A test cites its rules in its docstring, in
brackets: (R12), or (R12, W3).
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NUMBERS = (
    "R1 R2 R3 R4 R5 R6 R7 R8 R9 R10 R11 R12 R13 R14 R15 R16 R17 R18 R19 R20 R21 R22 R23 R24 R25 R26 R27 R28 "
    "R29 R30 R31 R32 R33 R34 R35 R36 R37 R38 R39 R40 R41 R42 R43 R44 R45 "
    "W1 W2 W3 W4 W5 W6 W7 W8 W9 W10 W11 W12 W13 W14 W15 W16"
).split()
CITED = re.compile(r"\(((?:[RW]\d+)(?:, [RW]\d+)*)\)")
READ = ("core", "rules")  # the folders whose tests are held against the list


def listed() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in sorted(Path(__file__).parent.glob("listed*.py")):
        part: dict[str, tuple[str, ...]] = importlib.import_module(f"tests.rules.{path.stem}").LISTED
        for rule, tests in part.items():
            found.setdefault(rule, set()).update(tests)
    return found


def read_tests(path: Path) -> Iterator[tuple[str, str]]:
    """The name of every test of a file, and its docstring."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield f"{path.relative_to(TESTS).as_posix()}::{node.name}", ast.get_docstring(node) or ""


def cited(docstring: str) -> set[str]:
    return {rule for rules in CITED.findall(docstring) for rule in rules.split(", ")}


LISTED = listed()
READ_TESTS = {
    test: cited(docstring)
    for folder in READ
    for path in sorted((TESTS / folder).rglob("test_*.py"))
    if path != Path(__file__)
    for test, docstring in read_tests(path)
}


@pytest.mark.parametrize("rule", NUMBERS)
def test_every_rule_has_a_test(rule: str) -> None:
    assert rule in LISTED, "no test stands for it"


def test_nothing_else_is_listed() -> None:
    assert set(LISTED) <= set(NUMBERS)


@pytest.mark.parametrize("rule", sorted(LISTED))
def test_every_test_that_is_listed_exists(rule: str) -> None:
    for file in sorted({test.partition("::")[0] for test in LISTED[rule]}):
        assert (TESTS / file).is_file()
        there = {test for test, _ in read_tests(TESTS / file)}
        assert {test for test in LISTED[rule] if test.startswith(f"{file}::")} <= there


def test_every_test_is_listed_under_the_rules_that_it_cites() -> None:
    missing = [
        f"{rule}: {test}"
        for test, rules in READ_TESTS.items()
        for rule in sorted(rules)
        if test not in LISTED.get(rule, ())
    ]

    assert missing == []


def test_every_test_cites_the_rules_that_it_is_listed_under() -> None:
    missing = [
        f"{rule}: {test}"
        for rule, tests in LISTED.items()
        for test in sorted(tests)
        if test in READ_TESTS and rule not in READ_TESTS[test]
    ]

    assert missing == []


def test_every_test_of_a_rule_cites_one() -> None:
    silent = [test for test, rules in READ_TESTS.items() if test.startswith("rules/") and not rules]

    assert silent == []
