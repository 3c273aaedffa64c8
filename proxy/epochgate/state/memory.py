"""The store of a single process: what the core holds is all there is, and it ends with the process."""

from __future__ import annotations

from collections.abc import Callable

from epochgate.core.records import Record
from epochgate.state.store import Outcome


class MemoryStore:
    """Says "durable" at once: as durable as the session itself."""

    is_volatile = True

    def persist(self, record: Record, done: Callable[[Outcome], None]) -> None:
        done(Outcome.DURABLE)

    async def close(self) -> None:
        """Nothing is ever under way."""
