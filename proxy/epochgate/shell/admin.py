"""The listeners beside the traffic: `health` for probes and metrics, `admin` for people as well.

Liveness and startup never depend on the server. Readiness tolerates an absence of `ready_grace`, so
that a server's restart, which the proxy heals, does not take the proxy out of rotation as well. Where
`admin_token` is set, everything but the three probes and the empty page asks for it.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice

from aiohttp import web
from aiohttp.typedefs import Handler

from epochgate.observe.metrics import Metrics
from epochgate.shell.headers import Allowed, find_refusal
from epochgate.shell.listener import bind, bound, release
from epochgate.shell.readiness import Readiness, Ready
from epochgate.units import Place

_METRICS_TYPE = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_ROWS_PER_TURN = 50  # about a millisecond
_OPEN = frozenset(("/", "/livez", "/readyz", "/startupz"))  # the page asks for the token itself


class AdminListener:
    """Serves `routes` on each of `places`; `token` is what a caller must show there, if anything.

    A connection on which no request comes for `idle_s` is closed.
    """

    def __init__(
        self, places: Sequence[Place], routes: Sequence[web.RouteDef], token: str = "", idle_s: float = 75.0
    ) -> None:
        self._places = places
        self._routes = routes
        self._token = token.encode()
        self._idle_s = idle_s
        self._runners: list[web.AppRunner] = []
        self._bound: list[Place] = []

    async def start(self) -> tuple[Place, ...]:
        """Listen and return where. Raises OSError if that cannot be."""
        for place in self._places:
            # A page in a browser must not read a loopback listener through a name of its own (W12).
            runner = self._make_runner(Allowed.for_listener(place))
            self._runners.append(runner)
            await runner.setup()
            for sock in await bind(place):
                self._bound.append(bound(sock))
                await web.SockSite(runner, sock).start()
        return tuple(self._bound)

    async def close(self) -> None:
        for runner in self._runners:
            await runner.cleanup()
        for place in self._bound:
            release(place)

    def _make_runner(self, allowed: Allowed) -> web.AppRunner:
        @web.middleware
        async def refuse_strangers(request: web.Request, handler: Handler) -> web.StreamResponse:
            refusal = find_refusal(request.raw_headers, allowed)
            if refusal is not None:
                return web.Response(status=refusal)
            if self._token and request.path not in _OPEN and not self._is_shown(request):
                return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})
            if not self._token and request.method != "GET" and not _is_of_own_page(request):
                return web.Response(status=403)
            return await handler(request)

        application = web.Application(middlewares=[refuse_strangers])
        application.router.add_routes(self._routes)
        return web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=1,
            keepalive_timeout=self._idle_s,
        )

    def _is_shown(self, request: web.Request) -> bool:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        given = token.strip().encode("utf-8", "surrogateescape")
        return scheme.lower() == "bearer" and hmac.compare_digest(given, self._token)


def probes(metrics: Metrics, readiness: Readiness) -> list[web.RouteDef]:
    """`/livez`, `/startupz`, `/readyz`, `/metrics`."""
    metrics.before_refresh(lambda: metrics.gauge("ready").set(readiness.now() is Ready.YES))

    async def say_ready(request: web.Request) -> web.Response:
        ready = readiness.now()
        return web.Response(status=200 if ready is Ready.YES else 503, text=f"{ready.value}\n")

    async def show_metrics(request: web.Request) -> web.Response:
        metrics.refresh()
        # Thousands of series take tens of milliseconds to write down; the relay must not wait.
        page = await asyncio.to_thread(metrics.page)
        response = web.Response(body=page, headers=_METRICS_TYPE)
        response.enable_compression()
        return response

    return [
        web.get("/livez", _say_yes),
        web.get("/startupz", _say_yes),
        web.get("/readyz", say_ready),
        web.get("/metrics", show_metrics),
    ]


def administration(
    sessions: Callable[[], Iterator[dict[str, object]]], drain: Callable[[], Awaitable[None]]
) -> list[web.RouteDef]:
    """`GET /sessions?limit=N`; `POST /drain`, which is answered when the drain is over."""

    async def show_sessions(request: web.Request) -> web.StreamResponse:
        limit = request.query.get("limit")
        if limit is not None and not _NUMBER.fullmatch(limit):
            return web.Response(status=400, text="limit: not a number of sessions; give for example 100\n")
        response = web.StreamResponse(headers={"Content-Type": "application/json; charset=utf-8"})
        await response.prepare(request)
        before = b'{"sessions": ['
        rows = islice(sessions(), None if limit is None else int(limit))
        while part := b", ".join([json.dumps(row).encode() for row in islice(rows, _ROWS_PER_TURN)]):
            await response.write(before + part)
            before = b", "
            await asyncio.sleep(0)  # thousands of sessions take long to write down; the relay must not wait
        await response.write_eof((b"" if before == b", " else before) + b"]}\n")
        return response

    async def begin_drain(request: web.Request) -> web.Response:
        await drain()
        return web.Response(text="drained\n")

    return [web.get("/sessions", show_sessions), web.post("/drain", begin_drain)]


def _is_of_own_page(request: web.Request) -> bool:
    """Pages of other programs on this machine pass for loopback, but must not act.

    Whoever shows a token is no page of elsewhere, and what stands in front may have changed its `Host`.
    """
    origin = request.headers.get("Origin")
    return origin is None or origin.lower().partition("://")[2] == request.host.lower()


async def _say_yes(request: web.Request) -> web.Response:
    return web.Response(text="ok\n")
