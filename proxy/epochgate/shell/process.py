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
import errno
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
from epochgate.shell.connection import UpstreamLimits
from epochgate.shell.downstream import Server, ServerLimits
from epochgate.shell.gateway import Gateway
from epochgate.shell.headers import Allowed
from epochgate.shell.origin import Origin
from epochgate.shell.readiness import Readiness
from epochgate.shell.reloading import Reloading
from epochgate.shell.sockets import reason_of
from epochgate.shell.spawn import Tasks
from epochgate.shell.tls import (
    BadTls,
    Tls,
    TlsFiles,
    client_context,
    reason_of_handshake,
    server_context,
)
from epochgate.shell.tunnel import Tunnel, tunnel_for
from epochgate.shell.upstream import Upstream
from epochgate.shell.upstreams import Upstreams
from epochgate.units import Place, written

STDERR = 2
EXIT_CLEAN = 0
EXIT_FORCED = 1
# After the deadline of `drain` the errors that it makes still have to be written.
_LAST_WORDS_S = 1.0


class CannotStart(Exception):
    """One line: what stands in the way and what would help."""


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
        self._tls = _listener_tls(settings, self._log)
        self._upstream_tls = _upstream_tls(settings, self._log)
        origins = [Origin.from_url(url) for url in settings.upstream]
        self._tunnels = _tunnels(settings, origins)
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
            _server_limits(settings),
            on_accept_paused=observer.accept_paused,
            on_refused=observer.request_refused,
            on_handshake_failed=lambda error: self._log.info(
                "TLS handshake failed", reason=reason_of_handshake(error)
            ),
        )
        self._readiness = Readiness(self._upstreams, settings.ready_grace, observer.log)
        probed = probes(observer.metrics, self._readiness)
        administered = [*probed, *administration(self._gateway.sessions.overview, self._drain_on_demand)]
        self._beside = {
            "health": AdminListener(settings.health, probed),
            "admin": AdminListener(settings.admin, administered, settings.secret("admin_token")),
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
                raise CannotStart(_cannot_listen(name, getattr(self._settings, name), error)) from None
        served: list[Place] = []
        for place in self._settings.listen:
            try:
                served += await self._server.listen(place, _allowed(self._settings, place), self._tls)
            except OSError as error:
                raise CannotStart(_cannot_listen("listen", (place,), error)) from None
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
        if self._settings.health or self._server.connections:
            await self._wait_over(self._settings.drain_delay)
        self._server.close_listener()
        self._gateway.sessions.begin_drain(until)
        self._server.close_idle()
        self._tasks.spawn(self._tell_drained(), "drained")
        await self._wait_over(max(0.0, until - self._loop.time()) + _LAST_WORDS_S)
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
        limits = _upstream_limits(self._settings)
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


def _cannot_listen(name: str, places: Sequence[Place], error: OSError) -> str:
    hint = _LISTEN_HINTS.get(error.errno or 0, "give another address")
    return f"--{name} {written(places)}: {reason_of(error)}; {hint}"


_LISTEN_HINTS = {
    errno.EADDRINUSE: "give another address, or stop what uses this one",
    errno.EADDRNOTAVAIL: "give an address of this machine, or 0.0.0.0 for all of them",
    errno.ENOENT: "give a path in a folder that is there",
    errno.EACCES: "give a port from 1024 on, or a path in a folder that may be written",
}


def _upstream_limits(settings: Settings) -> UpstreamLimits:
    return UpstreamLimits(
        connect_s=settings.connect, header_bytes=settings.max_header, max_headers=settings.max_headers
    )


def _listener_tls(settings: Settings, log: Logger) -> Tls | None:
    if settings.tls_certificate is None:
        return None
    passphrase = settings.secret("tls_key_passphrase")
    files = TlsFiles(settings.tls_certificate, settings.tls_key, passphrase, settings.tls_client_ca)
    try:
        return Tls(server_context, files, log)
    except BadTls as error:
        named = "tls_certificate" if settings.tls_client_ca is None else "tls_certificate or tls_client_ca"
        raise CannotStart(f"{named}: {error}") from None


def _upstream_tls(settings: Settings, log: Logger) -> Tls | None:
    if not settings.has_https:
        return None
    passphrase = settings.secret("upstream_key_passphrase")
    own = settings.upstream_certificate
    try:
        return Tls(
            client_context, TlsFiles(own, settings.upstream_key, passphrase, settings.upstream_ca), log
        )
    except BadTls as error:
        named = "upstream_ca" if own is None else "upstream_certificate or upstream_ca"
        raise CannotStart(f"{named}: {error}") from None


def _tunnels(settings: Settings, origins: Sequence[Origin]) -> dict[Origin, Tunnel | None]:
    try:
        return {origin: tunnel_for(origin, settings.upstream_proxy) for origin in origins}
    except ValueError as error:
        raise CannotStart(f"upstream_proxy: {error}") from None


def _server_limits(settings: Settings) -> ServerLimits:
    return ServerLimits(
        header_bytes=settings.max_header,
        max_headers=settings.max_headers,
        body_bytes=settings.max_body,
        body_s=settings.body_timeout,
        keepalive_s=settings.connection_idle,
        write_bytes=settings.write_buffer,
    )


def _allowed(settings: Settings, place: Place) -> Allowed:
    """The allow-lists of Host and Origin at a listener; without a setting, those of its address (W12)."""
    default = Allowed.for_listener(place)
    return Allowed(
        _listed(settings.allowed_hosts, default.hosts), _listed(settings.allowed_origins, default.origins)
    )


def _listed(given: tuple[str, ...], default: frozenset[bytes] | None) -> frozenset[bytes] | None:
    if not given:
        return default
    return None if "*" in given else frozenset(word.lower().encode() for word in given)
