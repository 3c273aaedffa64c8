"""The gateway: every request of a client finds its class, its session, and its way (design, 4)."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import Sequence
from functools import partial

from epochgate.core import http
from epochgate.core.classify import is_session_gone
from epochgate.core.commands import Respond, UpstreamFailed
from epochgate.core.delivery import JSON_HEADERS, TEXT_HEADERS
from epochgate.core.era import Intake, TrafficClass, classify, method_label
from epochgate.core.errors import LIMIT_REACHED
from epochgate.core.events import Adopted, DeleteArrived, Event, GetArrived, PostArrived, RequestHead
from epochgate.core.http import Headers
from epochgate.core.journal import Budget
from epochgate.core.jsonrpc import Body, error_response, read_body
from epochgate.core.session import Session
from epochgate.core.stream import Stream
from epochgate.observe.observer import Observer
from epochgate.settings import Settings, UnknownSessions
from epochgate.shell.accesslog import ids_of
from epochgate.shell.driver import Driver
from epochgate.shell.entropy import Entropy
from epochgate.shell.exchange import Exchange
from epochgate.shell.headers import request_headers
from epochgate.shell.heads import Heads
from epochgate.shell.pinning import Pins
from epochgate.shell.relay import relay
from epochgate.shell.sessions import Key, Sessions, place
from epochgate.shell.upstream import Upstream
from epochgate.shell.upstreams import Owner, Upstreams
from epochgate.state.memory import MemoryStore
from epochgate.state.store import SessionStore

_SESSION_NOT_FOUND = b"session not found"
_TOO_MANY_SESSIONS = b"the proxy holds as many sessions as it may"
_RETRY_AFTER = (b"Retry-After", b"5")
# HTTP+SSE: the POST belongs to a stream that the same client has open at one of the servers.
_NAMES_STREAM = re.compile(rb"[?&]session_?id=", re.IGNORECASE)


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
    """Where requests come in. What drives a session finds here what all of them share."""

    def __init__(
        self,
        settings: Settings,
        upstreams: Upstreams,
        observer: Observer,
        loop: asyncio.AbstractEventLoop,
        store: SessionStore | None = None,
    ) -> None:
        self.loop = loop
        self.upstreams = upstreams
        self.observer = observer
        self.store = store or MemoryStore()
        self.sessions = Sessions(settings.max_sessions)
        self._settings = settings
        self._policy = settings.policy()
        self._heads = Heads(settings)
        self._entropy = Entropy()
        self._journals = Budget(settings.journal_total)
        observer.metrics.watch_populations(self.sessions.populations)
        observer.metrics.watch_journal(lambda: self._journals.used)
        observer.metrics.gauge("sessions_limit").set(settings.max_sessions)
        observer.metrics.gauge("journal_limit_bytes").set(settings.journal_total)
        self._stateless = frozenset(name.encode() for name in settings.stateless_revisions)
        self._open_exchanges = 0
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self._relay_legs = itertools.count(1)

    def reconfigure(self, settings: Settings) -> None:
        """Go by these from now on, in the sessions that there are as well; only `RELOADED` ones differ."""
        self._settings = settings
        self._policy = settings.policy()
        self.sessions.reconfigure(self._policy)

    async def handle(self, exchange: Exchange) -> None:
        """Answer one request; returns when its answer is over or its client left."""
        began = time.perf_counter()
        self._open_exchanges += 1
        self._is_empty.clear()
        try:
            body = read_body(exchange.body) if exchange.method == b"POST" else None
            way = self._find_way(exchange, body)
            if way.relayed is not None:
                await self._relay(exchange, way.relayed, way.traffic)
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
        driver = None if key is None else self.sessions.find(key)
        intake = classify(exchange.method, headers, body, driver is not None, self._stateless)
        match intake:
            case Intake.IN_SESSION if driver is not None and key is not None:
                self.sessions.use(key)
                self._take(exchange, headers, body, driver)
                stream = None if body is None else driver.core.exchanges.get(exchange.id)
                return _Way(TrafficClass.SESSION, driver, stream=stream)
            case Intake.OPENING if not self.sessions.has_room():
                exchange.respond(503, (*TEXT_HEADERS, _RETRY_AFTER), _TOO_MANY_SESSIONS)
                return _Way(TrafficClass.PLAIN)
            case Intake.OPENING:
                opening = self._open(exchange, headers)
                self._admit(exchange, headers, body, opening)
                return _Way(TrafficClass.SESSION, opening)
            case Intake.UNKNOWN_RESUME:
                exchange.respond(404, TEXT_HEADERS, _SESSION_NOT_FOUND)
            case Intake.UNKNOWN_SESSION if not self._passes_strangers:
                exchange.respond(404, TEXT_HEADERS, _SESSION_NOT_FOUND)
            case _:
                return _Way(intake.traffic_class, relayed=self._heads.forwarded(exchange, headers))
        return _Way(intake.traffic_class)

    @property
    def _passes_strangers(self) -> bool:
        match self._settings.unknown_sessions:
            case UnknownSessions.AUTO:
                return self.upstreams.only is not None
            case UnknownSessions.PASS:
                return True
            case UnknownSessions.REFUSE:
                return False

    async def _relay(self, exchange: Exchange, headers: Headers, traffic: TrafficClass) -> None:
        leg, host = next(self._relay_legs), self._heads.host(exchange)
        owner = self._owner(exchange, headers, traffic)
        is_gone = partial(is_session_gone, self._policy) if traffic is TrafficClass.UNKNOWN else None

        def answered(status: int, upstream: Upstream) -> None:
            if owner is None:
                upstream.answered_new(status)
            elif status < 400:
                self.upstreams.found(owner, upstream)

        relayed = await relay(exchange, self._whom(owner), headers, leg, host, answered, is_gone)
        if relayed.error:
            self.observer.why = relayed.why
            self.observer.saw("", UpstreamFailed(relayed.error))
            self.observer.why = ""

    def _owner(self, exchange: Exchange, headers: Headers, traffic: TrafficClass) -> Owner | None:
        """Whose a request is that is not guarded; None if any server will do."""
        if self.upstreams.only is not None or traffic is TrafficClass.MODERN:
            return None
        if traffic is TrafficClass.UNKNOWN:
            return "session", http.find(headers, http.SESSION_ID) or b""
        return "client", self._heads.client(exchange, headers)

    def _whom(self, owner: Owner | None) -> Sequence[Upstream]:
        """The servers in the order in which they are asked for what is not guarded."""
        if self.upstreams.only is not None:
            return (self.upstreams.only,)
        return self.upstreams.by_load() if owner is None else self.upstreams.for_owner(owner)

    def _open(self, exchange: Exchange, headers: Headers) -> Driver:
        """A driver for the session that an `initialize` may open."""
        budget = Budget(self._policy.journal_session_bytes, self._journals)
        host = self._heads.host(exchange)
        home = place(host, exchange.target)
        core = Session(
            self._policy,
            self._entropy,
            budget,
            lambda known: (home, known) in self.sessions,
            is_volatile=self.store.is_volatile,
        )
        has_stream = _NAMES_STREAM.search(exchange.target) is not None
        first = self._whom(self._owner(exchange, headers, TrafficClass.PLAIN)) if has_stream else ()
        return self._begin(core, host, Pins(self.upstreams, first))

    def adopt(self, core: Session, opener: Driver, exchange: Exchange | None) -> None:
        """A driver for the session that a request within `opener`'s session opened."""
        pins = Pins(self.upstreams)
        pins.follow(opener.pins, core.current.upstream_id)
        driver = self._begin(core, opener.host, pins)
        if exchange is not None:
            driver.take(exchange)
        driver.feed(Adopted())

    def _begin(self, core: Session, host: bytes | None, pins: Pins) -> Driver:
        driver = Driver(self, core, host, pins)
        self.sessions.begin(driver)
        return driver

    def _take(self, exchange: Exchange, headers: Headers, body: Body | None, driver: Driver) -> None:
        """A request of a session; an `initialize` in it may open another, for which there must be room."""
        if body is not None and _asks_anew(body):
            if not self.sessions.has_room():
                exchange.origin = http.find(headers, http.ORIGIN)
                driver.take(exchange)
                driver.exchanges.perform(_no_room(exchange.id, body, driver.core.current.number))
                return
            self.sessions.reopens(driver)
        self._admit(exchange, headers, body, driver)

    def _admit(self, exchange: Exchange, headers: Headers, body: Body | None, driver: Driver) -> None:
        is_held = exchange.method != b"POST" or driver.key is None
        head = self._heads.head(exchange, headers, is_held=is_held)
        event = _event(exchange, head, body)
        exchange.let_go()
        exchange.origin = http.find(headers, http.ORIGIN)
        driver.admit(exchange, event)

    async def drained(self) -> None:
        """Return when no exchange is open any more."""
        await self._is_empty.wait()

    def _key(self, exchange: Exchange, headers: Headers) -> Key | None:
        session_id = http.find(headers, http.SESSION_ID)
        if session_id is None:
            return None
        return place(self._heads.host(exchange), exchange.target), session_id


def _asks_anew(body: Body) -> bool:
    may_ask = b"initialize" in body.raw or b"\\" in body.raw  # nearly every body is done with this
    return may_ask and "initialize" in [request.method for request in body.requests]


def _no_room(exchange: int, body: Body, generation: int) -> Respond:
    """200 and a JSON-RPC error: within a session some clients lose everything on a 5xx (W4)."""
    text = f"epochgate: {_TOO_MANY_SESSIONS.decode()}"
    data = {"reason": "max_sessions", "generation": generation}
    errors = [error_response(one.id or b"null", LIMIT_REACHED, text, data) for one in body.requests]
    answer = b"[" + b",".join(errors) + b"]" if body.is_batch else errors[0]
    return Respond(exchange, 200, JSON_HEADERS, answer)


def _event(exchange: Exchange, head: RequestHead, body: Body | None) -> Event:
    match exchange.method:
        case b"GET":
            return GetArrived(exchange.id, head, http.find(head.headers, http.LAST_EVENT_ID) or None)
        case b"DELETE":
            return DeleteArrived(exchange.id, head)
        case _:
            return PostArrived(exchange.id, head, exchange.body, body)
