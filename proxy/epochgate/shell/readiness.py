"""Whether this process should be sent traffic: the server answers, and no drain has begun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from epochgate.core.enums import Enum
from epochgate.observe.logs import Logger
from epochgate.shell.sockets import CONNECT_ERRORS
from epochgate.shell.tls import reason_of_handshake

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

    def __init__(
        self, authority: str, probe: Callable[[], Awaitable[None]], grace_s: float, log: Logger
    ) -> None:
        """`authority` is the server's name in the log; `probe` connects to it, or raises `CONNECT_ERRORS`."""
        self._authority = authority
        self._connect = probe
        self._grace_s = grace_s
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._reached_at: float | None = None
        self._is_reached: bool | None = None  # unknown
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
            trouble = await self._probe()
            is_reached = trouble is None
            if is_reached:
                self._reached_at = self._loop.time()
            if is_reached and not self._is_reached:
                self._log.info("server reached", server=self._authority)
            elif not is_reached and self._is_reached is not False:
                self._log.warning("server not reached", server=self._authority, reason=trouble)
            self._is_reached = is_reached
            await asyncio.sleep(min(PROBE_INTERVAL_S, self._grace_s / 6) if is_reached else PROBE_AGAIN_S)

    async def _probe(self) -> str | None:
        """Why the server was not reached, or None."""
        try:
            await self._connect()
        except TimeoutError:
            return "no answer in time"
        except OSError as error:
            return reason_of_handshake(error)
        except CONNECT_ERRORS as error:
            return str(error)
        return None
