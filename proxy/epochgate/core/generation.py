"""A generation: one server session object, with everything that is valid in it alone.

Begun by an `initialize`, or taken over by drift (R1). Stamps, the ids of the server's own requests
and the epoch are looked up here and never across generations (R19, R30).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epochgate.core.epoch import Epoch
from epochgate.core.values import Value

if TYPE_CHECKING:
    from epochgate.core.stream import Owed, Stream


RETIRED_S = 60.0  # at least; how long servers were seen to send progress of an answered request (W1)
MAX_RETIRED = 4096
MAX_TASKS = 1024  # whose progress may still come; servers end tasks that are too old as well


class Stamped(Value, frozen=True):
    """What a stamp leads to."""

    stream: Stream
    owed: Owed


@dataclass(slots=True)
class Generation:
    """`upstream_id` is the `Mcp-Session-Id` of this server session; `epoch` what it stated."""

    number: int
    upstream_id: bytes
    epoch: Epoch
    stamps: dict[bytes, Stamped] = field(default_factory=dict)
    tokens: dict[bytes, Stamped] = field(default_factory=dict)
    tasks: dict[bytes, None] = field(default_factory=dict)  # tokens of answered task requests, oldest first
    asked: dict[bytes, Question] = field(default_factory=dict)  # by the server's own ids
    is_gone: bool = False
    has_state: bool = False  # it completed a call of a tool that is not read-only (R21)
    is_ended: bool = False  # a DELETE was sent, or another generation lives under its upstream id
    cookies: dict[bytes, bytes] = field(default_factory=dict)  # of heals: a balancer's affinity (W16)
    cancels_open: int = 0  # a DELETE must not overtake them
    last_sign_of_life: float = 0.0
    # Keys of answered stamps, in two sets that take turns, so that forgetting costs nothing; None: empty.
    _retired: set[bytes] | None = None
    _retired_before: set[bytes] | None = None
    _turned_at: float = 0.0

    def retire(self, key: bytes, now: float) -> None:
        """A stamp's request was answered: for a while what carries it is late, later it is foreign."""
        if self._retired is None or now - self._turned_at >= RETIRED_S or len(self._retired) >= MAX_RETIRED:
            self._retired_before, self._retired = self._retired, set()
            self._turned_at = now
        self._retired.add(key)

    @property
    def is_wanted(self) -> bool:
        """Whether the server may still have to be told of it: a cancel, or its end."""
        return self.cancels_open > 0 or not (self.is_gone or self.is_ended)

    def keep_task(self, key: bytes) -> None:
        """The token of a task lives on with it (R30), up to so many."""
        self.tasks[key] = None
        while len(self.tasks) > MAX_TASKS:
            oldest = next(iter(self.tasks))
            del self.tasks[oldest]
            self.tokens.pop(oldest, None)

    def is_retired(self, key: bytes) -> bool:
        return any(
            retired is not None and key in retired for retired in (self._retired, self._retired_before)
        )

    def __repr__(self) -> str:
        return f"<Generation {self.number}{' gone' if self.is_gone else ''}>"


@dataclass(slots=True)
class Question:
    """A request of the server that was relayed to the client (R18, R19)."""

    generation: Generation
    stream: Stream
    server_id: bytes
    method: str
    text_hash: int  # of the whole message: a replay is the same, another question of that id is not
    server_token: bytes | None = None  # under which the client may tell of its progress
    is_open: bool = True
