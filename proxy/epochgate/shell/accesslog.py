"""What the access log tells of an exchange: what was judged on its way, and the ids that it owes.

Verdicts gather with the session, since a heal is news to every exchange that is open in it; an exchange's
are taken when its line is written.
"""

from __future__ import annotations

from typing import assert_never

from epochgate.core import commands as do
from epochgate.core.stream import Stream
from epochgate.observe.logs import shown_id

_MAX_SHOWN_IDS = 8  # of a batch


class Verdicts:
    """What the lines of one session's open exchanges will tell."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[int, list[str]] = {}

    def begin(self, exchange: int) -> None:
        self._told[exchange] = []

    def take(self, exchange: int) -> list[str]:
        return self._told.pop(exchange, [])

    def add(self, fact: do.Judged | do.Reissued | do.HealEnded) -> None:
        match fact:
            case do.Judged():
                self._tell(fact.exchange, f"{fact.verdict} {fact.reason}")
            case do.Reissued():
                self._tell(fact.exchange, f"re-issue {fact.outcome} {fact.reason}")
            case do.HealEnded():
                for exchange in self._told:
                    self._tell(exchange, f"heal {fact.outcome} {fact.trigger}")
            case _:
                assert_never(fact)

    def _tell(self, exchange: int | None, text: str) -> None:
        if exchange is not None and exchange in self._told:
            self._told[exchange].append(text)


def ids_of(stream: Stream) -> dict[str, list[str]]:
    """The ids of a stream's requests, and the stamps that stood for them in each of their runs (W16)."""
    runs = [stream]
    while (successor := runs[-1].successor) is not None:
        runs.append(successor)
    stamps = [owed.stamp for run in runs for owed in run.owed if owed.is_stamped]
    return {
        "ids": [shown_id(owed.id) for owed in stream.owed[:_MAX_SHOWN_IDS]],
        "stamps": [shown_id(stamp) for stamp in stamps[:_MAX_SHOWN_IDS]],
    }
