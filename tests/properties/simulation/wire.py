"""One direction of a connection: bytes arrive late, cut anywhere, in order, and the wire may break."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol

from tests.properties.simulation.clock import Clock

FOREVER = float("inf")
Pairs = tuple[tuple[bytes, bytes], ...]


class Sink(Protocol):
    """What the far end of a wire is told; after `ended` or `whole` nothing more."""

    def head(self, status: int, headers: Pairs) -> None: ...
    def data(self, data: bytes) -> None: ...
    def whole(self, status: int, headers: Pairs, data: bytes) -> None: ...
    def ended(self, is_clean: bool) -> None: ...


class Wire:
    """Carries a head, bytes and an end to `sink`. `broke` is called once if the wire breaks."""

    def __init__(self, clock: Clock, rng: Random, sink: Sink, broke: Callable[[], None]) -> None:
        self._clock, self._rng, self._sink, self._broke = clock, rng, sink, broke
        self._heads: list[tuple[int, Pairs]] = []
        self._buffer = b""
        self._is_finished = False
        self._is_scheduled = False
        self._is_paused = False
        self._stalled_until = 0.0
        self._bytes_left: int | None = None
        self.is_open = True
        self.has_answered = False

    @property
    def waiting(self) -> int:
        """Bytes written and not delivered."""
        return len(self._buffer)

    def push_head(self, status: int, headers: Pairs) -> None:
        self._heads.append((status, headers))
        self._schedule()

    def push(self, data: bytes) -> None:
        if self.is_open and not self._is_finished:
            self._buffer += data
            self._schedule()

    def finish(self) -> None:
        """The sender has completed its framing."""
        self._is_finished = True
        self._schedule()

    def pause(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        self._schedule()

    def stall(self, seconds: float) -> None:
        """Deliver nothing for so long; FOREVER for a connection that is silently gone."""
        self._stalled_until = max(self._stalled_until, self._clock.now + seconds)
        if seconds != FOREVER:
            self._clock.after(seconds, self._schedule)

    def arm(self, count: int) -> None:
        """Break when `count` more bytes were delivered: at the end of an event or inside one."""
        self._bytes_left = count
        self._schedule()

    def cut(self) -> None:
        """Break now; a random part of what is under way still arrives."""
        if not self.is_open:
            return
        arrived = self._buffer[: self._rng.randint(0, len(self._buffer))]
        can_arrive = self._clock.now >= self._stalled_until and not self._is_paused
        if can_arrive and arrived and (self.has_answered or self._heads):
            self._deliver_heads()
            self._sink.data(arrived)
        self._break()

    def close(self) -> None:
        """The receiver hung up: it is told nothing more."""
        self.is_open = False

    def _break(self) -> None:
        if self.is_open:
            self.is_open = False
            self._sink.ended(False)
            self._broke()

    def _schedule(self) -> None:
        if self._is_scheduled or not self.is_open or self._is_paused:
            return
        if self._clock.now < self._stalled_until:
            return
        self._is_scheduled = True
        self._clock.after(self._rng.choice((0.0, 0.0, 0.001, 0.01, 0.1)), self._pump)

    def _pump(self) -> None:
        self._is_scheduled = False
        if not self.is_open or self._is_paused or self._clock.now < self._stalled_until:
            return
        if self._is_finished and len(self._heads) == 1 and self._bytes_left is None and self._comes_whole():
            return
        self._deliver_heads()
        if self._buffer and self.is_open:
            self._deliver_bytes()
        if not self.is_open:
            return
        if self._bytes_left == 0:
            self._break()
        elif self._buffer or self._heads:
            self._schedule()
        elif self._is_finished:
            self.is_open = False
            self._sink.ended(True)

    def _comes_whole(self) -> bool:
        """Small answers mostly come in one read, head and body and end."""
        if self._rng.random() < 0.3:
            return False
        self.is_open, self.has_answered = False, True
        self._sink.whole(*self._heads.pop(), self._buffer)
        return True

    def _deliver_heads(self) -> None:
        while self._heads and self.is_open:
            self.has_answered = True
            self._sink.head(*self._heads.pop(0))

    def _deliver_bytes(self) -> None:
        count = len(self._buffer)
        if self._rng.random() < 0.5:
            count = self._rng.randint(1, count)
        if self._bytes_left is not None:
            count = min(count, self._bytes_left)
            self._bytes_left -= count
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        if data:
            self._sink.data(data)
