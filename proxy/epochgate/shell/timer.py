"""One timer of the loop for everything that a session waits for.

The core says when it wants to be asked next; a time later than the one set is left alone, since it
is told again when the timer has rung.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_SOON_S = 0.001  # a timer that fires this much early finds nothing due and is set again


class Timer:
    """Calls `ring` at the earliest time it was set to."""

    __slots__ = ("_at", "_handle", "_loop", "_ring")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None
        self._at = 0.0

    def set(self, at: float) -> None:
        """Ring at `at`, on the loop's clock, or earlier."""
        if self._handle is not None:
            if self._at <= at + _SOON_S:
                return
            self._handle.cancel()
        self._at = at
        self._handle = self._loop.call_at(at, self._go_off)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _go_off(self) -> None:
        self._handle = None
        self._ring()
