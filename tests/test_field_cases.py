"""Each case of the field has its tests: every variant is named, and what it names exists."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.field_cases.case import FILES, Case, Decided
from tests.field_cases.http_and_operation import HTTP_AND_OPERATION
from tests.field_cases.sessions_and_streams import SESSIONS_AND_STREAMS

TESTS = Path(__file__).parent
CASES = {**SESSIONS_AND_STREAMS, **HTTP_AND_OPERATION}
FIELD = sorted((TESTS / "faults" / "field").glob("test_*.py"))
NUMBERS = (
    "B01 B02 B04 B05 B06 B07 B08 B10 B11 B12 B14 B15 B16 B18 B19 B20 B21 B22 B23 B24 B25 B27 B28 B30 B32 B33 "
    "B34 B36 B38 B39 B40 B43 B44 B45"
).split()
# Cases whose variants have letters, and the letters.
LETTERS = {
    "B01": "abcde",
    "B06": "abcd",
    "B07": "abcd",
    "B10": "abcd",
    "B14": "abcd",
    "B18": "abcde",
    "B23": "abcd",
    "B25": "abcdefg",
    "B40": "abcd",
    "B43": "abcde",
}


def test_every_case_is_listed_once() -> None:
    assert list(CASES) == NUMBERS
    assert len(CASES) == len(SESSIONS_AND_STREAMS) + len(HTTP_AND_OPERATION)


@pytest.mark.parametrize("number", NUMBERS)
def test_every_variant_has_a_test_that_exists_or_a_reason(number: str) -> None:
    case = CASES[number]
    assert case.variants
    assert set(LETTERS.get(number, "")) <= set(case.variants)
    missing = [name for name in _named(case) if not _exists(name)]

    assert missing == []


@pytest.mark.parametrize(
    "path", sorted((TESTS / "faults" / "field").glob("test_*.py")), ids=lambda path: path.stem
)
def test_every_test_of_the_field_stands_for_a_case(path: Path) -> None:
    named = {name for case in CASES.values() for name in _named(case)}
    (short,) = [short for short, file in FILES.items() if TESTS / file == path]
    unlisted = {test for test in _tests_of(path) if f"{short}:{test.removeprefix('test_')}" not in named}

    assert unlisted == set()


def test_a_test_that_is_not_there_is_missed() -> None:
    """The check can fail."""
    assert not _exists("g1:no_such_behaviour")
    assert not _exists("g1:a_divergent_resume_is_restarted_")
    assert _exists("g1:a_divergent_resume_is_restarted")


def _named(case: Case) -> list[str]:
    names: list[str] = []
    for value in case.variants.values():
        if isinstance(value, Decided):
            assert len(value.split()) > 3, f"{value!r} is no reason"
        else:
            names += [value] if isinstance(value, str) else value
    return names


def _exists(name: str) -> bool:
    short, _, test = name.partition(":")
    return f"test_{test}" in _tests_of(TESTS / FILES[short])


@cache
def _tests_of(path: Path) -> frozenset[str]:
    """The test functions of a file, read without running it."""
    body = ast.parse(path.read_text()).body
    functions = (one for one in body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(one.name for one in functions if one.name.startswith("test_"))
