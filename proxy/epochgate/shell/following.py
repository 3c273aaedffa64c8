"""Files that change under a running process: settings, certificates.

They are looked at now and then, by their bytes: Kubernetes swaps a link to a folder and signals nobody. An
editor writes a file piece by piece, so that a change counts once two looks in a row agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from hashlib import blake2s
from pathlib import Path

LOOK_INTERVAL_S = 10.0
SETTLE_S = 1.0


class Followed:
    """What some files held when this was made, or when a change was last told."""

    def __init__(
        self,
        paths: Iterable[str | None],
        interval_s: float = LOOK_INTERVAL_S,
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._paths = [path for path in paths if path is not None]
        self._interval_s = interval_s
        self._pause = pause
        self._seen = self._look()

    async def follow(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Call `on_change` after each change until cancelled; returns at once if there are no files."""
        while self._paths:
            await self._pause(self._interval_s)
            now = await self._settled()
            if now != self._seen:
                self._seen = now
                await on_change()

    async def _settled(self) -> list[bytes | None]:
        """What they hold, as soon as it is what they held before, or shortly before."""
        now = await asyncio.to_thread(self._look)
        last = self._seen
        while now != last and now != self._seen:
            await self._pause(min(SETTLE_S, self._interval_s))
            last, now = now, await asyncio.to_thread(self._look)
        return now

    def _look(self) -> list[bytes | None]:
        return [_digest(path) for path in self._paths]


def _digest(path: str) -> bytes | None:
    """What stands for the file's bytes; None while there is none that can be read."""
    try:
        return blake2s(Path(path).read_bytes()).digest()
    except OSError:
        return None
