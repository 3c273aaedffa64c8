"""Each recorded trait of an SDK has its test, and each stand-in its traits."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.field_cases.case import Decided
from tests.standins.listed import CLIENTS, SERVERS

HERE = Path(__file__).parent
FILES = sorted(path for path in HERE.glob("test_*.py") if path != Path(__file__))


def test_every_trait_has_a_test_that_exists_or_a_reason() -> None:
    missing = [name for name in _named() if name not in _tests()]

    assert missing == []


def test_every_test_of_a_stand_in_stands_for_a_trait() -> None:
    assert set(_tests()) - set(_named()) == set()


def test_every_stand_in_says_what_it_stands_for_and_that_it_is_none() -> None:
    """By the release that is listed."""
    releases = {of.split()[1] for of in (*SERVERS, *CLIENTS)}
    modules = [path for part in ("clients", "servers") for path in sorted((HERE / part).glob("*.py"))]
    silent = []
    for path in modules:
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        is_of_an_sdk = path.stem not in ("base", "parts", "outcomes")
        if is_of_an_sdk and not ("was not run" in text and any(one in text for one in releases)):
            silent.append(path.name)

    assert silent == []


def _named() -> list[str]:
    names: list[str] = []
    for traits in (*SERVERS.values(), *CLIENTS.values()):
        for value in traits.values():
            if isinstance(value, Decided):
                assert len(value.split()) > 3, f"{value!r} is no reason"
            else:
                names += [value] if isinstance(value, str) else value
    return names


@cache
def _tests() -> frozenset[str]:
    return frozenset(
        f"{path.stem.removeprefix('test_')}:{one.name.removeprefix('test_')}"
        for path in FILES
        for one in ast.parse(path.read_text()).body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_")
    )
