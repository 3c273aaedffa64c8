"""The only place that makes tasks.

The loop keeps weak references to tasks and forgets their exceptions. Here every task is held until
it ends, is awaited on close, and an exception that nobody expected is logged where the task ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

_log = logging.getLogger("epochgate.shell")


class Tasks:
    """A set of running tasks that end with their owner."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Start `work` now. Its exception is logged under `name`, never raised."""
        _ = self.spawn_cancellable(work, name)

    def spawn_cancellable(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """As `spawn`, and return the task so that its owner can cancel it."""
        task = asyncio.get_running_loop().create_task(_run(work, name), name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda _: work.close())  # one cancelled before its first step never ran
        return task

    async def close(self) -> None:
        """Cancel what still runs and wait for it to end."""
        while self._running:
            running = tuple(self._running)
            for task in running:
                task.cancel()
            await asyncio.wait(running)


async def _run(work: Coroutine[Any, Any, None], name: str) -> None:
    try:
        await work
    except Exception:  # noqa: BLE001  # the one place where a task's unexpected failure ends, told
        _log.exception("task %s failed", name)
