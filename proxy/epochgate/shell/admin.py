"""Probes and metrics, on listeners of their own: `/livez`, `/readyz`, `/startupz`, `/metrics`.

Liveness and startup never depend on the server. Readiness tolerates an absence of `ready_grace`, so
that a server's restart, which the proxy heals, does not take the proxy out of rotation as well.
"""

from __future__ import annotations

import asyncio

from aiohttp import web
from aiohttp.typedefs import Handler

from epochgate.observe.metrics import Metrics
from epochgate.shell.headers import Allowed, find_refusal
from epochgate.shell.readiness import Readiness, Ready
from epochgate.units import Address

_METRICS_TYPE = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}


class AdminListener:
    """One listener for probes and metrics."""

    def __init__(self, address: Address, metrics: Metrics, readiness: Readiness) -> None:
        self._address = address
        self._metrics = metrics
        self._readiness = readiness
        # A page in a browser must not read a loopback listener through a name of its own (W12).
        self._allowed = Allowed.for_bind(address.host)
        self._runner = web.AppRunner(
            self._make_application(), access_log=None, handle_signals=False, shutdown_timeout=1
        )

    async def start(self) -> Address:
        """Listen and return the address bound. Raises OSError if it cannot be."""
        await self._runner.setup()
        await web.TCPSite(self._runner, self._address.host, self._address.port).start()
        bound = self._runner.addresses[0]
        return Address(bound[0], bound[1])

    async def close(self) -> None:
        await self._runner.cleanup()

    def _make_application(self) -> web.Application:
        @web.middleware
        async def refuse_strangers(request: web.Request, handler: Handler) -> web.StreamResponse:
            refusal = find_refusal(request.raw_headers, self._allowed)
            return await handler(request) if refusal is None else web.Response(status=refusal)

        application = web.Application(middlewares=[refuse_strangers])
        application.router.add_get("/livez", _say_yes)
        application.router.add_get("/startupz", _say_yes)
        application.router.add_get("/readyz", self._say_ready)
        application.router.add_get("/metrics", self._show_metrics)
        return application

    async def _say_ready(self, request: web.Request) -> web.Response:
        ready = self._readiness.now()
        return web.Response(status=200 if ready is Ready.YES else 503, text=f"{ready.value}\n")

    async def _show_metrics(self, request: web.Request) -> web.Response:
        self._metrics.refresh()
        # Thousands of series take tens of milliseconds to write down; the relay must not wait.
        page = await asyncio.to_thread(self._metrics.page)
        response = web.Response(body=page, headers=_METRICS_TYPE)
        response.enable_compression()
        return response


async def _say_yes(request: web.Request) -> web.Response:
    return web.Response(text="ok\n")
