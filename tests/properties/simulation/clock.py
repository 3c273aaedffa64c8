"""Virtual time: a heap of actions, run in order of time and then of scheduling. Nothing here waits."""

from __future__ import annotations

import heapq
from collections.abc import Callable

MAX_ACTIONS = 400_000  # a run that needs more is a loop without end, not a long story


class Runaway(AssertionError):
    """The run does not come to rest: something is scheduled again and again."""


class Clock:
    """`now` is in seconds and moves only in `run`."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, delay: float, action: Callable[[], None]) -> None:
        """Run `action` when `delay` seconds have passed; equal times keep the order of the calls."""
        self._count += 1
        if self._count > MAX_ACTIONS:
            raise Runaway(f"more than {MAX_ACTIONS} actions by {self.now:.3f} s")
        heapq.heappush(self._heap, (self.now + max(0.0, delay), self._count, action))

    def run(self, until: float) -> None:
        """Run everything due up to `until`, then stand at `until`."""
        while self._heap and self._heap[0][0] <= until:
            self.now, _, action = heapq.heappop(self._heap)
            action()
        self.now = until
