"""The gateway: every request of a client finds its class, its session, and its way (design, 4)."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from functools import lru_cache

from epochgate.core import http
from epochgate.core.commands import UpstreamFailed
from epochgate.core.era import Intake, TrafficClass, classify, method_label
from epochgate.core.events import (
    Adopted,
    DeleteArrived,
    DrainBegun,
    Event,
    Evicted,
    GetArrived,
    PostArrived,
    RequestHead,
)
from epochgate.core.http import Headers
from epochgate.core.journal import Budget
from epochgate.core.jsonrpc import Body, read_body
from epochgate.core.session import Session
from epochgate.core.stream import Stream
from epochgate.observe.observer import Observer
from epochgate.settings import Settings, UnknownSessions
from epochgate.shell.accesslog import ids_of
from epochgate.shell.driver import Driver
from epochgate.shell.entropy import Entropy
from epochgate.shell.exchange import Exchange
from epochgate.shell.headers import Forwarding, fingerprint, request_headers
from epochgate.shell.relay import relay
from epochgate.shell.upstream import Upstream
from epochgate.state.memory import MemoryStore
from epochgate.state.store import SessionStore

_TEXT: Headers = ((b"Content-Type", b"text/plain; charset=utf-8"),)
_SESSION_NOT_FOUND = b"session not found"
_TOO_MANY_SESSIONS = b"the proxy holds as many sessions as it may"
_MAX_SHARED_PAIRS = 4096  # what clients have in common is far less
_MAX_HEADS = 64  # heads of clients that are at work, to be found again
_RETRY_AFTER: Headers = ((b"Retry-After", b"5"),)


class _Way:
    """How a request goes: to a session, past the guard with these headers, or it was answered."""

    __slots__ = ("driver", "relayed", "stream", "traffic")

    def __init__(
        self,
        traffic: TrafficClass,
        driver: Driver | None = None,
        relayed: Headers | None = None,
        stream: Stream | None = None,
    ) -> None:
        self.traffic = traffic
        self.driver = driver
        self.relayed = relayed
        self.stream = stream  # of a session's request

    def told_of(self, exchange: int) -> tuple[TrafficClass, str, list[str]]:
        """The class, the session's label and the verdicts for the log line of an exchange that is over."""
        if self.driver is None:
            return self.traffic, "", []
        told = self.driver.verdicts.take(exchange)
        if not self.driver.label:  # an `initialize` that opened no session
            return TrafficClass.PLAIN, "", told
        return self.traffic, self.driver.label, told

    def ids(self) -> dict[str, list[str]]:
        return {} if self.stream is None else ids_of(self.stream)


class Gateway:
    """All sessions of the process, and what passes beside them."""

    def __init__(
        self,
        settings: Settings,
        upstream: Upstream,
        observer: Observer,
        loop: asyncio.AbstractEventLoop,
        store: SessionStore | None = None,
    ) -> None:
        self.loop = loop
        self.upstream = upstream
        self.observer = observer
        self.store = store or MemoryStore()
        self._settings = settings
        self._policy = settings.policy()
        self._journals = Budget(settings.journal_total)
        observer.metrics.watch_populations(self.populations)
        observer.metrics.watch_journal(lambda: self._journals.used)
        self._forwarding = Forwarding.from_texts(settings.trusted_proxies)
        self._credentials = self._policy.credential_headers
        self._entropy = Entropy()
        self._pairs: dict[tuple[bytes, bytes], tuple[bytes, bytes]] = {}
        self._head = lru_cache(_MAX_HEADS)(self._make_head)  # a client sends the same one again and again
        self._stateless = frozenset(name.encode() for name in settings.stateless_revisions)
        self._sessions: OrderedDict[tuple[bytes, bytes], Driver] = OrderedDict()  # used last: last
        self._opening: set[Driver] = set()
        self._leaving: set[Driver] = set()  # evicted, until the server has heard of it
        self._open_exchanges = 0
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self._drain_until: float | None = None
        self._relay_legs = itertools.count(1)

    @property
    def sessions(self) -> int:
        return len(self._sessions)

    def populations(self) -> Counter[tuple[str, ...]]:
        """How many sessions and streams are in which state, as `Metrics.watch_populations` wants it."""
        counted: Counter[tuple[str, ...]] = Counter()
        for driver in (*self._sessions.values(), *self._opening):
            counted["sessions", driver.core.state.value] += 1
            for stream in driver.core.streams.values():
                counted["streams", stream.kind.value, stream.up.value] += 1
        return counted

    async def handle(self, exchange: Exchange) -> None:
        """Answer one request; returns when its answer is over or its client left."""
        began = time.perf_counter()
        self._open_exchanges += 1
        self._is_empty.clear()
        try:
            body = read_body(exchange.body) if exchange.method == b"POST" else None
            way = self._find_way(exchange, body)
            if way.relayed is not None:
                await self._relay(exchange, way.relayed)
            elif exchange.is_open:
                await exchange.wait_done()
        finally:
            self._open_exchanges -= 1
            if not self._open_exchanges:
                self._is_empty.set()
        method = method_label(exchange.method.decode("latin-1"), body)
        seconds = time.perf_counter() - began
        traffic, session, told = way.told_of(exchange.id)
        self.observer.request_ended(traffic.value, method, exchange.status, seconds, session, told, way.ids)

    def _find_way(self, exchange: Exchange, body: Body | None) -> _Way:
        """Decide by class and session; what is guarded is in its session's hands afterwards."""
        headers = request_headers(exchange.raw_headers)
        key = self._key(exchange, headers)
        driver = None if key is None else self._sessions.get(key)
        intake = classify(exchange.method, headers, body, driver is not None, self._stateless)
        match intake:
            case Intake.IN_SESSION if driver is not None and key is not None:
                self._sessions.move_to_end(key)
                self._admit(exchange, headers, body, driver)
                stream = None if body is None else driver.core.exchanges.get(exchange.id)
                return _Way(TrafficClass.SESSION, driver, stream=stream)
            case Intake.OPENING if not self._has_room():
                exchange.respond(503, (*_TEXT, *_RETRY_AFTER), _TOO_MANY_SESSIONS)
                return _Way(TrafficClass.PLAIN)
            case Intake.OPENING:
                opening = self._open(exchange)
                self._admit(exchange, headers, body, opening)
                return _Way(TrafficClass.SESSION, opening)
            case Intake.UNKNOWN_RESUME:
                exchange.respond(404, _TEXT, _SESSION_NOT_FOUND)
            case Intake.UNKNOWN_SESSION if self._settings.unknown_sessions is UnknownSessions.REFUSE:
                exchange.respond(404, _TEXT, _SESSION_NOT_FOUND)
            case _:
                return _Way(intake.traffic_class, relayed=self._forwarded(exchange, headers))
        return _Way(intake.traffic_class)

    async def _relay(self, exchange: Exchange, headers: Headers) -> None:
        leg = next(self._relay_legs)
        relayed = await relay(exchange, self.upstream, headers, leg, self._host(exchange))
        if relayed.error:
            self.observer.saw("", UpstreamFailed(relayed.error))

    def _open(self, exchange: Exchange) -> Driver:
        """A driver for the session that an `initialize` may open."""
        budget = Budget(self._policy.journal_session_bytes, self._journals)
        host = self._host(exchange)
        place = _place(host, exchange.target)
        core = Session(
            self._policy,
            self._entropy,
            budget,
            lambda known: (place, known) in self._sessions,
            is_volatile=self.store.is_volatile,
        )
        driver = Driver(self, core, host)
        self._opening.add(driver)
        return driver

    def adopt(self, core: Session, opener: Driver, exchange: Exchange | None) -> None:
        """A driver for the session that a request within `opener`'s session opened."""
        driver = Driver(self, core, opener.host)
        self._opening.add(driver)
        if exchange is not None:
            driver.take(exchange)
        driver.feed(Adopted())

    def _has_room(self) -> bool:
        """Whether each session that is being opened, and one more, will find a place."""
        wanted = len(self._sessions) + len(self._opening) + 1 - self._settings.max_sessions
        return wanted <= 0 or sum(1 for _ in itertools.islice(self._unused(), wanted)) == wanted

    def _unused(self) -> Iterator[Driver]:
        """Sessions that may make room, the one used longest ago first."""
        return (driver for driver in self._sessions.values() if driver.is_unused)

    def _make_room(self) -> None:
        while len(self._sessions) >= self._settings.max_sessions:
            driver = next(self._unused(), None)
            if driver is None or driver.key is None:
                return  # it was in use again before the new one was there
            del self._sessions[driver.key]
            self._leaving.add(driver)
            driver.feed(Evicted())

    def _admit(self, exchange: Exchange, headers: Headers, body: Body | None, driver: Driver) -> None:
        is_held = exchange.method != b"POST" or driver.key is None
        host = http.find(exchange.raw_headers, b"host") or b""
        head = self._head(headers, exchange.target, exchange.peer, host, is_held)
        event = _event(exchange, head, body)
        exchange.let_go()
        driver.admit(exchange, event, http.find(headers, http.ORIGIN))

    def register(self, driver: Driver, visible_id: bytes) -> None:
        """The session has an id: requests that name it are its own from now on."""
        self._opening.discard(driver)
        self._make_room()
        driver.key = (_place(driver.host, driver.core.target), visible_id)
        self._sessions[driver.key] = driver
        if self._drain_until is not None:
            driver.feed(DrainBegun(self._drain_until))

    def forget(self, driver: Driver) -> None:
        self._opening.discard(driver)
        self._leaving.discard(driver)
        if driver.key is not None and self._sessions.get(driver.key) is driver:
            del self._sessions[driver.key]

    def begin_drain(self, until: float) -> None:
        """Owed answers have until `until` (loop time); idle streams end now (W10)."""
        self._drain_until = until
        for driver in tuple(self._sessions.values()):
            driver.feed(DrainBegun(until))

    async def drained(self) -> None:
        """Return when no exchange is open any more."""
        await self._is_empty.wait()

    def close(self) -> None:
        """Break off what is left."""
        for driver in (*self._sessions.values(), *self._opening, *self._leaving):
            driver.close()

    def _key(self, exchange: Exchange, headers: Headers) -> tuple[bytes, bytes] | None:
        session_id = http.find(headers, http.SESSION_ID)
        return None if session_id is None else (_place(self._host(exchange), exchange.target), session_id)

    def _make_head(
        self, headers: Headers, target: bytes, peer: str, host: bytes, is_held: bool
    ) -> RequestHead:
        """What goes into the core of a request's head.

        `is_held`: for long, so that it is worth the time to hold what it has in common only once.
        """
        forwarded = self._forwarding.apply(headers, peer, host)
        if is_held:
            forwarded = self._shared(forwarded)
        return RequestHead(target, forwarded, fingerprint(headers, target, self._credentials))

    def _shared(self, headers: Headers) -> Headers:
        """The headers, with pairs that other sessions have too held once for all."""
        if len(self._pairs) > _MAX_SHARED_PAIRS:
            self._pairs.clear()
        return tuple([self._pairs.setdefault(pair, pair) for pair in headers])

    def _host(self, exchange: Exchange) -> bytes | None:
        match self._settings.host:
            case "upstream":
                return None
            case "keep":
                return http.find(exchange.raw_headers, b"host")
            case name:
                return name.encode()

    def _forwarded(self, exchange: Exchange, headers: Headers) -> Headers:
        host = http.find(exchange.raw_headers, b"host") or b""
        return self._forwarding.apply(headers, exchange.peer, host)


def _place(host: bytes | None, target: bytes) -> bytes:
    """Where a session lives: the authority that the server is told, if not its own, and the path (W16)."""
    path = target.partition(b"?")[0]
    return path if host is None else host.lower() + path


def _event(exchange: Exchange, head: RequestHead, body: Body | None) -> Event:
    match exchange.method:
        case b"GET":
            return GetArrived(exchange.id, head, http.find(head.headers, http.LAST_EVENT_ID) or None)
        case b"DELETE":
            return DeleteArrived(exchange.id, head)
        case _:
            return PostArrived(exchange.id, head, exchange.body, body)
