"""Where sessions are kept: the one protocol that every store speaks (design, section 11)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from epochgate.core.records import Record


class Outcome(Enum):
    """DURABLE: what depends on the record may be sent. FENCED: another replica owns the session."""

    DURABLE = "durable"
    FENCED = "fenced"


class SessionStore(Protocol):
    """Keeps records. Records of one session become durable in the order they were given.

    `is_volatile`: it keeps nothing beyond the process, and nobody else can own a session, so that
    the core need not ask it.
    """

    @property
    def is_volatile(self) -> bool: ...

    def persist(self, record: Record, done: Callable[[Outcome], None]) -> None:
        """Keep `record` and call `done` once, at once or later, on the event loop."""

    async def close(self) -> None:
        """Return when nothing is under way any more."""
