"""Whether this process should be sent traffic: a server answers, and no drain has begun."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from epochgate.core.enums import Enum
from epochgate.observe.logs import Logger
from epochgate.shell.sockets import CONNECT_ERRORS
from epochgate.shell.tls import reason_of_handshake
from epochgate.shell.upstream import Upstream

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
    """Connects to every server now and then. Real traffic alone is not asked: there may be none."""

    def __init__(self, upstreams: Iterable[Upstream], grace_s: float, log: Logger) -> None:
        self._upstreams = upstreams
        self._grace_s = grace_s
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._last_reached_at: float | None = None
        self._told: dict[Upstream, bool] = {}  # whether it was reached, as the log has it
        self._probed_at: dict[Upstream, float] = {}
        self._is_draining = False

    def begin_drain(self) -> None:
        self._is_draining = True

    def now(self) -> Ready:
        """Ready while the last connect that worked, to whichever server, is no older than `ready_grace`."""
        if self._is_draining:
            return Ready.DRAINING
        reached = [one.reached_at for one in self._upstreams if one.reached_at is not None]
        if self._last_reached_at is not None:
            reached.append(self._last_reached_at)  # of a server that has left since
        if not reached:
            return Ready.NOT_REACHED
        self._last_reached_at = max(reached)
        is_recent = self._loop.time() - self._last_reached_at <= self._grace_s
        return Ready.YES if is_recent else Ready.LOST

    async def watch(self) -> None:
        """Probe until cancelled."""
        while True:
            upstreams = list(self._upstreams)
            await asyncio.gather(*[self._probe(one) for one in upstreams if self._is_due(one)])
            for gone in self._told.keys() - upstreams:
                del self._told[gone], self._probed_at[gone]
            await asyncio.sleep(min(PROBE_AGAIN_S, self._grace_s / 6))

    def _is_due(self, upstream: Upstream) -> bool:
        if upstream.has_left:
            return False  # nobody new is sent there
        if not upstream.is_reached or upstream not in self._probed_at:
            return True
        interval = min(PROBE_INTERVAL_S, self._grace_s / 6)
        return self._loop.time() - self._probed_at[upstream] >= interval

    async def _probe(self, upstream: Upstream) -> None:
        self._probed_at[upstream] = self._loop.time()
        trouble = await _trouble_of(upstream)
        is_reached = trouble is None
        if self._told.get(upstream) is is_reached:
            return
        self._told[upstream] = is_reached
        if is_reached:
            self._log.info("server reached", server=upstream.name)
        else:
            self._log.warning("server not reached", server=upstream.name, reason=trouble)


async def _trouble_of(upstream: Upstream) -> str | None:
    """Why the server was not reached, or None."""
    try:
        await upstream.probe()
    except TimeoutError:
        return "no answer in time"
    except OSError as error:
        return reason_of_handshake(error)
    except CONNECT_ERRORS as error:
        return str(error)
    return None
