"""The process: its listeners, its signals, and how it goes away.

A first SIGTERM or SIGINT, or `POST /drain` of the admin listener, drains (W10): readiness false and
`Connection: close`, then the traffic listener closes, then idle streams end and owed answers get what
is left of `drain`. The delay before the listener closes is for balancers that look at readiness, so it
is kept while a health listener is configured or a client is connected; otherwise nobody can notice.
After a drain that was asked for the process waits for its signal, which then ends it at once, as a
second signal does at any time.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
from collections.abc import Callable, Sequence

import uvloop
from aiohappyeyeballs.types import AddrInfoType

import epochgate
from epochgate.observe.logs import LibraryLines, LinePipe, Logger, make_logger
from epochgate.observe.metrics import Metrics
from epochgate.observe.observer import Observer
from epochgate.settings import LogFormat, Settings, UpstreamAddresses
from epochgate.shell.admin import AdminListener, administration, probes
from epochgate.shell.downstream import Server
from epochgate.shell.gateway import Gateway
from epochgate.shell.origin import Origin
from epochgate.shell.page import counters, page, servers
from epochgate.shell.parts import (
    allowed,
    cannot_listen,
    listener_tls,
    server_limits,
    tunnels,
    upstream_limits,
    upstream_tls,
    warn_of_endpoints,
)
from epochgate.shell.readiness import Readiness, Ready
from epochgate.shell.reloading import Reloading
from epochgate.shell.spawn import Tasks
from epochgate.shell.tls import Tls
from epochgate.shell.upstream import Upstream
from epochgate.shell.upstreams import Upstreams
from epochgate.units import Place, written

STDERR = 2
EXIT_CLEAN = 0
EXIT_FORCED = 1
# After the deadline of `drain` the errors that it makes still have to be written.
_LAST_WORDS_S = 1.0


def run(settings: Settings, reload: Callable[[], Settings]) -> int:
    """Serve until a signal ends it; returns the exit code. Raises `CannotStart`.

    `reload` loads the settings once more and raises `BadSettings` as the first loading does.
    """
    metrics = Metrics()
    pipe = LinePipe(STDERR, metrics.counter("log_lines_dropped").inc)
    log = _make_logger(settings, pipe)
    logging.basicConfig(handlers=[LibraryLines(log)], level=logging.WARNING, force=True)
    raise_descriptor_limit()
    # What was imported stays: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(settings, reload, Observer(metrics, log, settings.access_log)))
    finally:
        pipe.close()


def raise_descriptor_limit() -> int:
    """Raise RLIMIT_NOFILE to its hard limit and return it: each session needs several."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _make_logger(settings: Settings, pipe: LinePipe) -> Logger:
    is_terminal = os.isatty(STDERR)
    is_json = settings.log_format is LogFormat.JSON or (
        settings.log_format is LogFormat.AUTO and not is_terminal
    )
    return make_logger(pipe, is_json, settings.log_level.value, has_colors=is_terminal)


async def _serve(settings: Settings, reload: Callable[[], Settings], observer: Observer) -> int:
    process = Process(settings, reload, observer)
    try:
        await process.start()
        return await process.run()
    finally:
        await process.close()


class Process:
    """Everything that runs, wired together."""

    def __init__(self, settings: Settings, reload: Callable[[], Settings], observer: Observer) -> None:
        self._settings = settings
        self._observer = observer
        self._reloading = Reloading(reload, settings, self._reconfigure, observer.metrics, observer.log)
        self._log = observer.log
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._signalled = asyncio.Event()
        self._asked = asyncio.Event()  # to drain, by a signal or by the admin listener
        self._drained = asyncio.Event()
        self._over = asyncio.Event()
        self._is_forced = False
        self._began_at = self._loop.time()
        self._tls = listener_tls(settings, observer)
        self._upstream_tls = upstream_tls(settings, observer)
        origins = [Origin.from_url(url) for url in settings.upstream]
        self._tunnels = tunnels(settings, origins)
        self._upstreams = Upstreams(
            origins,
            self._make_upstream,
            self._log,
            interval_s=settings.resolve if settings.upstream_addresses is UpstreamAddresses.EACH else None,
            others_look_up={origin for origin, tunnel in self._tunnels.items() if tunnel is not None},
        )
        observer.metrics.before_refresh(self._count_upstreams)
        self._gateway = Gateway(settings, self._upstreams, observer, self._loop)
        self._server = Server(
            self._gateway.handle,
            server_limits(settings),
            on_accept_paused=observer.accept_paused,
            on_refused=observer.request_refused,
            on_handshake_failed=observer.handshake_failed,
        )
        self._readiness = Readiness(self._upstreams, settings.ready_grace, observer.log)
        probed = probes(observer.metrics, self._readiness)
        administered = [
            *probed,
            *administration(self._gateway.sessions.overview, self._drain_on_demand),
            *page(self._overview),
        ]
        self._beside = {
            name: AdminListener(getattr(settings, name), routes, token, settings.connection_idle)
            for name, routes, token in (
                ("health", probed, ""),
                ("admin", administered, settings.secret("admin_token")),
            )
        }

    async def start(self) -> None:
        """Open every listener, then say where. Raises `CannotStart`."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._on_signal)
        self._loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        await self._upstreams.start()
        told: dict[str, str] = {}
        for name, listener in self._beside.items():
            try:
                told[name] = written(await listener.start())
            except OSError as error:
                raise cannot_listen(name, getattr(self._settings, name), error) from None
        served: list[Place] = []
        for place in self._settings.listen:
            try:
                served += await self._server.listen(place, allowed(self._settings, place), self._tls)
            except OSError as error:
                raise cannot_listen("listen", (place,), error) from None
        self._tasks.spawn(self._upstreams.watch(), "names")
        self._tasks.spawn(self._readiness.watch(), "readiness")
        self._tasks.spawn(self._reloading.watch(), "settings")
        for tls in self._certified():
            self._tasks.spawn(tls.watch(), "certificates")
        self._log.info(
            "listening",
            listen=written(served),
            **told,
            upstream=", ".join(self._settings.upstream),
            version=epochgate.__version__,
        )
        warn_of_endpoints(self._settings, self._log)

    async def run(self) -> int:
        """Serve until told to go, and go; returns the exit code."""
        await self._asked.wait()
        await self._drain()
        await self._signalled.wait()
        self._log.info("stopped", is_forced=self._is_forced, sessions=len(self._gateway.sessions))
        return EXIT_FORCED if self._is_forced else EXIT_CLEAN

    async def reload(self) -> None:
        """Read the settings and the certificates again."""
        await self._reloading.reload()
        for tls in self._certified():
            await tls.renew()

    def _certified(self) -> list[Tls]:
        return [tls for tls in (self._tls, self._upstream_tls) if tls is not None]

    def _overview(self) -> dict[str, object]:
        """What the page for people shows of the process, besides the sessions."""
        ready = self._readiness.now()
        populations = self._gateway.sessions.populations()
        return {
            "version": epochgate.__version__,
            "uptime_seconds": round(self._loop.time() - self._began_at),
            "ready": ready.value,
            "is_ready": ready is Ready.YES,
            "is_draining": self._asked.is_set(),
            "drain_seconds": self._settings.drain,
            "servers": servers(self._upstreams),
            "sessions": {key[1]: count for key, count in populations.items() if key[0] == "sessions"},
            "counters": counters(self._observer.metrics),
        }

    async def _drain_on_demand(self) -> None:
        """Return when the drain is over that this, or something before it, began."""
        self._asked.set()
        await self._drained.wait()

    async def _drain(self) -> None:
        """Go away in the order of W10."""
        until = self._loop.time() + self._settings.drain
        self._log.info("draining", seconds=self._settings.drain, sessions=len(self._gateway.sessions))
        self._readiness.begin_drain()
        self._server.begin_drain()
        self._gateway.sessions.begin_drain(until, is_listening=True)
        if self._settings.health or self._server.connections:
            await self._wait_over(self._settings.drain_delay)
        self._server.close_listener()
        self._gateway.sessions.begin_drain(until, is_listening=False)
        self._server.close_idle()
        self._tasks.spawn(self._tell_drained(), "drained")
        await self._wait_over(max(0.0, until - self._loop.time()) + _LAST_WORDS_S)
        self._gateway.sessions.let_go()
        self._log.info("drained", sessions=len(self._gateway.sessions))
        self._drained.set()

    async def close(self) -> None:
        """Close what is open. What still runs is broken off."""
        await self._server.close()
        self._gateway.sessions.close()
        await self._upstreams.close()
        await self._tasks.close()
        for listener in self._beside.values():
            await listener.close()

    def _make_upstream(self, origin: Origin, addresses: Sequence[AddrInfoType]) -> Upstream:
        tls = self._upstream_tls if origin.scheme == "https" else None
        limits = upstream_limits(self._settings)
        name = self._settings.upstream_server_name
        tunnel = self._tunnels[origin]
        return Upstream(origin, limits, self._loop, tls, name, addresses, tunnel)

    def _count_upstreams(self) -> None:
        reached = sum(1 for one in self._upstreams.listed if one.is_reached)
        self._observer.metrics.gauge("upstreams", "reached").set(reached)
        self._observer.metrics.gauge("upstreams", "not_reached").set(len(self._upstreams.listed) - reached)

    def _on_signal(self) -> None:
        if self._signalled.is_set() and not self._drained.is_set():
            self._is_forced = True
            self._over.set()
        self._signalled.set()
        self._asked.set()

    def _on_hangup(self) -> None:
        self._tasks.spawn(self.reload(), "reload")

    def _reconfigure(self, settings: Settings) -> None:
        self._settings = settings
        self._observer.access = settings.access_log
        self._gateway.reconfigure(settings)

    async def _tell_drained(self) -> None:
        await self._gateway.drained()
        self._over.set()

    async def _wait_over(self, seconds: float) -> None:
        """Return when nothing is left to do, at a second signal, or after `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
