"""Which row of the judge's tables a test provokes, and the proof that the running proxy decided by it.

While such a test runs, each row that decides is noted. The test fails if its own row is not among
them, however right the answers were.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, ParamSpec

import pytest

from epochgate.core import evidence
from epochgate.core.axes import AnswerEvidence, BreakEvidence, CursorEvidence, Evidence, MessageEvidence
from epochgate.core.enums import Enum
from epochgate.core.verdict import OUTSIDE, Row, judge
from tests.core.test_verdict import TABLES

P = ParamSpec("P")
Test = Callable[P, Awaitable[None]]

Place = tuple[type[Any], int]
"""The kind of a row's evidence, and where it stands in its table."""

PROVOKED: dict[Place, list[str]] = {}
"""The tests of each row."""

PROVOKED_OUTSIDE: dict[str, list[str]] = {}
"""The tests of each ruling that is made outside the tables, by its reason."""


def place_of(kind: type[Any], reason: str, **axes: Enum | None) -> Place:
    """The place of the one row with this reason that asks for these values; None: not for this axis."""
    fitting = [
        at
        for at, row in enumerate(TABLES[kind])
        if row.ruling.reason == reason
        and all(value in row.when.get(axis, (None,)) for axis, value in axes.items())
    ]
    assert len(fitting) == 1, f"{len(fitting)} rows of {kind.__name__} are {reason} with {axes}"
    return kind, fitting[0]


def provokes(
    kind: type[Any], reason: str, *, is_judged: bool = True, **axes: Enum | None
) -> Callable[[Test[P]], Test[P]]:
    """A test that provokes one row; `axes` tell it from others of the same reason.

    Not `is_judged`: the code rules as the row does without asking the judge, so that only what is
    counted shows it.
    """
    place = place_of(kind, reason, **axes)
    row = TABLES[kind][place[1]]

    def decorate(test: Test[P]) -> Test[P]:
        PROVOKED.setdefault(place, []).append(test.__name__)

        @wraps(test)
        async def proven(*args: P.args, **kwargs: P.kwargs) -> None:
            with noting_what_decides() as decided:
                await test(*args, **kwargs)
            assert not is_judged or any(one is row for one in decided), f"never decided by {row}"

        return proven

    return decorate


message_row = partial(provokes, MessageEvidence)
answer_row = partial(provokes, AnswerEvidence)
break_row = partial(provokes, BreakEvidence)
cursor_row = partial(provokes, CursorEvidence)


def outside_row(reason: str) -> Callable[[Test[P]], Test[P]]:
    """A test that provokes a ruling which is made outside the tables."""
    assert reason in OUTSIDE

    def decorate(test: Test[P]) -> Test[P]:
        PROVOKED_OUTSIDE.setdefault(reason, []).append(test.__name__)
        return test

    return decorate


@contextmanager
def noting_what_decides() -> Iterator[list[Row]]:
    """The rows that decide meanwhile; what was decided before is judged anew."""
    decided: list[Row] = []
    fits = Row.fits

    def fits_and_is_noted(row: Row, found: Evidence) -> bool:
        is_fit = fits(row, found)
        if is_fit:  # rows are tried from the top, and none behind the first that fits
            decided.append(row)
        return is_fit

    judge.cache_clear()
    evidence._judge.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Row, "fits", fits_and_is_noted)
        yield decided
