"""How a scenario ends for its client, and how the two ways to the server compare."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Ending(Enum):
    """How a call ended, from best to worst."""

    RIGHT = "right answer"
    ERROR = "error"
    TIMEOUT = "the client's own timeout"
    CRASH = "the client crashed"
    HANG = "no end"
    WRONG = "wrong answer"


BEST_FIRST = list(Ending)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client got: `keeps_session` says whether its next call was answered."""

    ending: Ending
    keeps_session: bool
    seconds: float  # from what disturbed the call, or its beginning, to its end
    detail: str = ""

    @property
    def is_good(self) -> bool:
        return self.ending is Ending.RIGHT and self.keeps_session


class Cell(Enum):
    """The result of a scenario through the proxy beside the one without it."""

    WORKS = "works"
    SAME = "same"
    BETTER = "better"
    WORSE = "worse"


def compare(direct: Outcome, through: Outcome) -> Cell:
    """`WORKS` if nothing is amiss either way; `WORSE` if worse in any respect, whatever else is better."""
    if direct.is_good and through.is_good:
        return Cell.WORKS
    places = [BEST_FIRST.index(outcome.ending) for outcome in (direct, through)]
    if places[1] > places[0] or (direct.keeps_session and not through.keeps_session):
        return Cell.WORSE
    if places[1] == places[0] and direct.keeps_session == through.keeps_session:
        return Cell.SAME
    return Cell.BETTER
