"""Whether this process should be sent traffic: the server answers, and no drain has begun."""

from __future__ import annotations

import asyncio

from epochgate.core.enums import Enum
from epochgate.observe.logs import Logger
from epochgate.shell.sockets import CONNECT_ERRORS

# A server that is there is asked this often, at least six times in `ready_grace`.
PROBE_INTERVAL_S = 10.0
# One that is not, this often: its return should be seen at once.
PROBE_AGAIN_S = 1.0


class Ready(Enum):
    """The answer of `/readyz`, as it stands in its body."""

    YES = "ready"
    NOT_REACHED = "not ready: the server has not been reached"
    LOST = "not ready: the server cannot be reached"
    DRAINING = "not ready: draining"


class Readiness:
    """Connects to the server now and then. Real traffic is not asked: there may be none."""

    def __init__(self, host: str, port: int, connect_s: float, grace_s: float, log: Logger) -> None:
        self._host, self._port = host, port
        self._connect_s, self._grace_s = connect_s, grace_s
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._reached_at: float | None = None
        self._is_reached = False
        self._is_draining = False

    def begin_drain(self) -> None:
        self._is_draining = True

    def now(self) -> Ready:
        """Ready while the last connect that worked is no older than `ready_grace`."""
        if self._is_draining:
            return Ready.DRAINING
        if self._reached_at is None:
            return Ready.NOT_REACHED
        is_recent = self._loop.time() - self._reached_at <= self._grace_s
        return Ready.YES if is_recent else Ready.LOST

    async def watch(self) -> None:
        """Probe until cancelled."""
        while True:
            is_reached = await self._probe()
            if is_reached:
                self._reached_at = self._loop.time()
            if is_reached and not self._is_reached:
                self._log.info("server reached", host=self._host, port=self._port)
            elif self._is_reached and not is_reached:
                self._log.warning("server not reached", host=self._host, port=self._port)
            self._is_reached = is_reached
            await asyncio.sleep(min(PROBE_INTERVAL_S, self._grace_s / 6) if is_reached else PROBE_AGAIN_S)

    async def _probe(self) -> bool:
        try:
            async with asyncio.timeout(self._connect_s):
                _, writer = await asyncio.open_connection(self._host, self._port)
        except CONNECT_ERRORS:
            return False
        writer.close()
        return True
