"""The story of a run: every event, command and fault, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from epochgate.core import events

KEEPALIVE = b": keepalive\n\n"


@dataclass
class Trace:
    """What passed, in order; formatted only when someone reads it."""

    lines: list[tuple[float, str, object]] = field(default_factory=list)
    wrongs: list[str] = field(default_factory=list)

    def add(self, now: float, mark: str, what: object) -> None:
        self.lines.append((now, mark, what))

    def wrong(self, now: float, text: str) -> None:
        """The proxy broke the contract of its commands, or a rule that is seen at once."""
        self.wrongs.append(text)
        self.add(now, "!!", text)

    def __str__(self) -> str:
        return "\n".join(f"{now:9.3f} {mark} {_short(what)}" for now, mark, what in self._notable())

    def _notable(self) -> Iterator[tuple[float, str, object]]:
        """Without deadlines that led to nothing, and keepalive comments."""
        lines = [line for line in self.lines if getattr(line[2], "data", b"") != KEEPALIVE]
        for line, following in pairwise([*lines, (0.0, "", None)]):
            is_idle = isinstance(line[2], events.DeadlineReached) and "<<" not in following[1]
            if not is_idle:
                yield line


def _short(what: object) -> str:
    text = what if isinstance(what, str) else repr(what)
    return text if len(text) < 420 else f"{text[:280]} … {text[-120:]}"
