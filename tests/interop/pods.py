"""A pod: a server and the proxy beside it as a native sidecar, ended in the order of KEP-753.

At its deletion the `preStop` hooks of both containers run at once. The server gets SIGTERM when its own has
ended, the sidecar only when its own has and the server has exited.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import dataclass

from tests.interop.stage import Proxy, Stage, free_port
from tests.interop.steered import Steered

DRAIN_S = 3.0
DELAY_S = 0.5
# What the process may take beyond its drain: a second for errors, and the machine is busy.
MARGIN_S = 6.0
EPOCHGATE = (sys.executable, "-m", "epochgate")


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended: exit codes, and seconds since the deletion."""

    hook: int | None  # None: it had none
    server: int
    proxy: int
    server_after_s: float
    proxy_after_s: float


class Pod:
    """The server, the proxy, and the environment that the proxy's container has."""

    def __init__(self, server: Steered, proxy: Proxy, variables: dict[str, str]) -> None:
        self.server = server
        self.proxy = proxy
        self._variables = variables

    async def delete(self, *, has_hook: bool = True, server_sleeps: bool = True) -> Ended:
        """Delete it; `has_hook`: the sidecar has its `preStop`, `server_sleeps`: so has the server."""
        began = time.monotonic()
        hook, (server, server_after_s) = await asyncio.gather(
            self._drain() if has_hook else _no_hook(), self._end_server(began, server_sleeps)
        )
        proxy = await self.proxy.process.stop()
        return Ended(hook, server, proxy, server_after_s, time.monotonic() - began)

    async def _drain(self) -> int:
        hook = await asyncio.create_subprocess_exec(
            *EPOCHGATE, "drain", env={**os.environ, **self._variables}
        )
        return await hook.wait()

    async def _end_server(self, began: float, sleeps: bool) -> tuple[int, float]:
        if sleeps:
            sleep = await asyncio.create_subprocess_exec("sleep", str(DRAIN_S))
            await sleep.wait()
        return await self.server.stop(), time.monotonic() - began

    async def until_told(self, event: str) -> None:
        """Wait until the proxy has logged this."""
        await self.proxy.process.wait_told(event)


async def _no_hook() -> None:
    return None


class Pods(Stage):
    """A stage on which pods can stand."""

    async def pod(self, kind: str, *flags: str, delay_s: float = DELAY_S) -> Pod:
        """A pod with a server of this kind; the proxy has its settings from the environment alone."""
        server, upstream = await self.server(kind, *flags)
        variables = {
            "EPOCHGATE_UPSTREAM": f"http://127.0.0.1:{upstream}",
            "EPOCHGATE_LISTEN": "127.0.0.1:0",
            "EPOCHGATE_HEALTH": "127.0.0.1:0",
            "EPOCHGATE_ADMIN": f"127.0.0.1:{free_port()}",
            "EPOCHGATE_DRAIN": f"{DRAIN_S}s",
            "EPOCHGATE_DRAIN_DELAY": f"{delay_s}s",
            "EPOCHGATE_LOG_FORMAT": "json",
        }
        process = await self._start("epochgate", [*EPOCHGATE, "run"], **variables)
        said = await process.wait_told("listening")
        ports = (int(said[name].rpartition(":")[2]) for name in ("listen", "admin"))
        return Pod(server, Proxy(process, *ports), variables)
