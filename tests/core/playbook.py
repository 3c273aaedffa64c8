"""Scripts for the core: events in, commands out, with a clock moved by hand.

A `Play` drives one `Session`. The test plays the server on the `Upstream` legs that the core opens and
the client on the `Exchange`s that it opens itself. Every event and every step is printed, so that a
failing test shows its trace: `>> event`, `<< step`. The play itself fails where the steps break the
contract with the shell: an answer begun twice, a write after its end, a leg that was closed twice.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from epochgate.core import commands as do
from epochgate.core import http, jsonrpc
from epochgate.core.commands import SendUpstream, Step
from epochgate.core.events import (
    Adopted,
    ClientLeft,
    DeadlineReached,
    DeleteArrived,
    Event,
    GetArrived,
    LegAnswered,
    LegEnd,
    LegEnded,
    LegRead,
    Persisted,
    PostArrived,
    RequestHead,
)
from epochgate.core.http import Headers
from epochgate.core.journal import Budget
from epochgate.core.policy import Policy
from epochgate.core.session import Session
from tests.core.messages import Json, initialize, initialize_answer, notification, request, result
from tests.core.sides import Exchange, Upstream

SSE: Headers = ((b"Content-Type", b"text/event-stream"),)
JSON: Headers = ((b"Content-Type", b"application/json"),)
ALICE = b"alice"
MARK = "dev.epochgate/restart"
UNPROVEN = "dev.epochgate/unproven"

_Fact = TypeVar("_Fact")


@dataclass
class Play:
    """One session, its server and its client. `now` moves only by `advance`."""

    policy: Policy = field(default_factory=Policy)
    is_persisting: bool = True
    now: float = 1_000.0
    tools: list[Json] | None = None  # what the server says when a heal asks
    fingerprint: bytes = ALICE
    has_logging: bool = False

    def __post_init__(self) -> None:
        self.session = Session(self.policy, random.Random(7).getrandbits, Budget(1 << 40))
        self.exchanges: dict[int, Exchange] = {}
        self.legs: dict[int, Upstream] = {}
        self.steps: list[Step] = []
        self.persists: list[do.Persist] = []
        self.registered: list[bytes] = []
        self.adopted: list[tuple[Exchange, Session]] = []
        self.is_forgotten = False
        self.visible_id: bytes | None = None
        self.client_headers: Headers = ((b"MCP-Protocol-Version", b"2025-11-25"),)

    # --- events in, commands out ----------------------------------------------------------------

    def feed(self, event: Event) -> list[Step]:
        """Hand one event to the session and perform what it asks for."""
        print(">>", _told(event))
        steps = self.session.handle(event, self.now)
        for step in steps:
            print("  <<", _told(step))
            self._perform(step)
        self.steps += steps
        if self.is_persisting:
            self.persist()
        return steps

    def persist(self) -> None:
        """Say of every record that waits that it is durable."""
        while self.persists:
            self.feed(Persisted(self.persists.pop(0).token))

    def advance(self, seconds: float) -> None:
        """Move the clock, stopping at each deadline on the way."""
        until = self.now + seconds
        while (deadline := self.session.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.feed(DeadlineReached())
        self.now = until

    def adopt(self) -> Play:
        """The play of the session that a request within this one opened last."""
        exchange, session = self.adopted[-1]
        other = Play(self.policy, now=self.now)
        other.session = session
        other.exchanges[exchange.number] = exchange
        other.feed(Adopted())
        return other

    def _perform(self, step: Step) -> None:
        match step:
            case SendUpstream(leg, method, _, headers, body, within):
                assert leg not in self.legs
                self.legs[leg] = Upstream(leg, method, headers, body, within)
            case do.CloseLeg(leg) | do.DrainLeg(leg):
                assert self.legs[leg].is_open, f"leg {leg} is closed twice"
                self.legs[leg].is_open = False
                self.legs[leg].was_drained = isinstance(step, do.DrainLeg)
            case do.PauseLeg(leg) | do.ResumeLeg(leg):
                assert self.legs[leg].is_open
                self.legs[leg].is_paused = isinstance(step, do.PauseLeg)
            case do.Respond(exchange, status, headers, body):
                self._begin(exchange, status, headers).body = body
                self.exchanges[exchange].is_open = False
            case do.OpenAnswer(exchange, status, headers):
                self._begin(exchange, status, headers)
            case do.Write(exchange, data):
                self._writable(exchange).body += data
            case do.EndAnswer(exchange, data):
                self._writable(exchange).body += data
                self.exchanges[exchange].is_open = False
            case do.AbortAnswer(exchange):  # before a head as well
                assert self.exchanges[exchange].is_open
                self.exchanges[exchange].is_open = False
                self.exchanges[exchange].is_aborted = True
            case do.Persist():
                self.persists.append(step)
            case do.Register(visible_id):
                self.registered.append(visible_id)
            case do.Adopt(exchange, session):
                self.adopted.append((self.exchanges[exchange], session))
            case do.Forget():
                self.is_forgotten = True
            case _:
                pass  # facts are looked at by the tests

    def _begin(self, number: int, status: int, headers: Headers) -> Exchange:
        exchange = self.exchanges[number]
        assert exchange.status is None, f"exchange {number} is answered twice"
        exchange.status, exchange.headers = status, headers
        return exchange

    def _writable(self, number: int) -> Exchange:
        exchange = self.exchanges[number]
        assert exchange.status is not None, f"exchange {number} is written to before its head"
        assert exchange.is_open, f"exchange {number} is written to after its end"
        return exchange

    # --- the client -----------------------------------------------------------------------------

    def post(self, message: Json, *, who: bytes | None = None, headers: Headers = ()) -> Exchange:
        raw = message if isinstance(message, bytes) else json.dumps(message).encode()
        exchange = self._exchange()
        head = self._head(who, (*JSON, *headers))
        self.feed(PostArrived(exchange.number, head, raw, jsonrpc.read_body(raw)))
        return exchange

    def call(
        self, tool: str = "work", *, id: Json = 5, token: Json = None, who: bytes | None = None, **more: Json
    ) -> Exchange:
        """A `tools/call`; `token` asks for progress."""
        params: dict[str, Json] = {"name": tool, "arguments": {}, **more}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        return self.post(request("tools/call", params, id=id), who=who)

    def get(self, cursor: bytes | None = None, *, who: bytes | None = None) -> Exchange:
        exchange = self._exchange()
        self.feed(GetArrived(exchange.number, self._head(who), cursor))
        return exchange

    def delete(self, *, who: bytes | None = None) -> Exchange:
        exchange = self._exchange()
        self.feed(DeleteArrived(exchange.number, self._head(who)))
        return exchange

    def leave(self, exchange: Exchange) -> None:
        """The client's connection breaks; nothing written later reaches it."""
        exchange.has_left = True
        self.feed(ClientLeft(exchange.number))

    def _exchange(self) -> Exchange:
        exchange = Exchange(len(self.exchanges) + 1)
        self.exchanges[exchange.number] = exchange
        return exchange

    def _head(self, who: bytes | None, headers: Headers = ()) -> RequestHead:
        own: Headers = self.client_headers
        if self.visible_id is not None:
            own = (*own, (b"Mcp-Session-Id", self.visible_id))
        who = self.fingerprint if who is None else who
        return RequestHead(b"/mcp", (*own, (b"Authorization", who), *headers), who)

    # --- the server -----------------------------------------------------------------------------

    def sent(self, rpc: str) -> list[Upstream]:
        """Every leg of this JSON-RPC (or HTTP) method, oldest first."""
        return [leg for leg in self.legs.values() if leg.rpc == rpc]

    def leg(self, rpc: str | None = None) -> Upstream:
        """The newest open leg, of this method if one is named."""
        found = [leg for leg in self.legs.values() if leg.is_open and rpc in (None, leg.rpc)]
        assert found, f"no open leg for {rpc}; sent: {[leg.rpc for leg in self.legs.values()]}"
        return found[-1]

    def has_leg(self, rpc: str) -> bool:
        return any(leg.is_open and leg.rpc == rpc for leg in self.legs.values())

    def answer(self, leg: Upstream, message: Json, *, status: int = 200, headers: Headers = JSON) -> None:
        """Answer a leg whole, as JSON."""
        raw = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.feed(LegAnswered(leg.number, status, headers))
        if raw and leg.is_open:
            self.feed(LegRead(leg.number, raw))
        self.end(leg, LegEnd.CLEAN)

    def refuse(self, leg: Upstream, status: int, body: bytes = b"") -> None:
        self.answer(leg, body, status=status, headers=((b"Content-Type", b"text/plain"),))

    def accept(self, leg: Upstream) -> None:
        self.answer(leg, b"", status=202, headers=())

    def open(self, leg: Upstream, headers: Headers = ()) -> None:
        """Send the head of an SSE answer."""
        self.feed(LegAnswered(leg.number, 200, (*SSE, *headers)))

    def send(self, leg: Upstream, *events: bytes) -> None:
        """Send events of an SSE answer in one read."""
        assert leg.is_open, f"leg {leg.number} is closed"
        self.feed(LegRead(leg.number, b"".join(events)))

    def end(self, leg: Upstream, how: LegEnd) -> None:
        if leg.is_open:
            leg.is_open = False
            self.feed(LegEnded(leg.number, how))

    def cut(self, leg: Upstream) -> None:
        self.end(leg, LegEnd.BROKEN)

    def unreachable(self, leg: Upstream) -> None:
        self.end(leg, LegEnd.NOT_SENT)

    def heal(self, session_id: bytes = b"up-2", *, epoch: Json = None, headers: Headers = ()) -> None:
        """Let the heal under way succeed: `initialize`, `initialized`, and `tools/list` if it asks."""
        leg = self.leg("initialize")
        head = (*JSON, (b"Mcp-Session-Id", session_id), *headers)
        self.answer(leg, initialize_answer(leg.id, epoch, has_logging=self.has_logging), headers=head)
        if self.has_leg("notifications/initialized"):
            self.accept(self.leg("notifications/initialized"))
        while self.has_leg("tools/list"):
            leg = self.leg("tools/list")
            self.answer(leg, result(leg.id, {"tools": self.tools or []}))

    # --- what was found out ---------------------------------------------------------------------

    def facts(self, kind: type[_Fact]) -> list[_Fact]:
        return [step for step in self.steps if isinstance(step, kind)]

    @property
    def judged(self) -> list[tuple[str, str, str]]:
        """Verdicts on the upstream leg of request streams and on cursors: leg, verdict, reason."""
        return [(one.leg, one.verdict, one.reason) for one in self.facts(do.Judged)]

    @property
    def reasons(self) -> list[str]:
        """Why upstream runs were restarted, in order."""
        return [
            one.reason for one in self.facts(do.Judged) if (one.leg, one.verdict) == ("upstream", "restart")
        ]

    @property
    def dropped(self) -> list[str]:
        return [one.reason for one in self.facts(do.Dropped)]

    @property
    def counted(self) -> list[str]:
        return [one.name for one in self.facts(do.Counted)]

    @property
    def heals(self) -> list[tuple[str, str]]:
        return [(one.trigger, one.outcome) for one in self.facts(do.HealEnded)]

    @property
    def runs(self) -> int:
        """How many times a tool call went up."""
        return len(self.sent("tools/call"))


def _told(what: Event | Step) -> str:
    """One line of the trace: heads are left out where they say nothing new."""
    match what:
        case PostArrived(exchange, head, raw, _):
            return f"PostArrived({exchange}, {head.fingerprint!r}, {raw!r})"
        case GetArrived(exchange, head, cursor):
            return f"GetArrived({exchange}, {head.fingerprint!r}, cursor={cursor!r})"
        case DeleteArrived(exchange, head):
            return f"DeleteArrived({exchange}, {head.fingerprint!r})"
        case SendUpstream(leg, method, _, headers, body, within):
            named = http.find(headers, http.SESSION_ID), http.find(headers, http.LAST_EVENT_ID)
            return f"SendUpstream({leg}, {method!r}, session, cursor={named}, {body!r}, within={within})"
        case _:
            return repr(what)


# --- openings ---------------------------------------------------------------------------------------


def opened(
    *,
    epoch: Json = None,
    epoch_header: bytes | None = None,
    version: str = "2025-11-25",
    has_logging: bool = False,
    is_initialized: bool = True,
    tools: Iterable[Json] | None = ({"name": "work"},),
    **policy: Json,
) -> Play:
    """A live session `up-1` of a server that says what its tools promise only when it is asked."""
    play = Play(replace(Policy(), **policy), has_logging=has_logging)
    play.tools = None if tools is None else list(tools)
    exchange = play.post(initialize(version))
    leg = play.leg("initialize")
    headers: Headers = (*JSON, (b"Mcp-Session-Id", b"up-1"))
    if epoch_header is not None:
        headers = (*headers, (b"Mcp-Session-Epoch", epoch_header))
    play.answer(leg, initialize_answer(leg.id, epoch, version, has_logging=has_logging), headers=headers)
    assert exchange.status == 200
    play.visible_id = b"up-1"
    if is_initialized:
        play.post(notification("notifications/initialized"))
        play.accept(play.leg("notifications/initialized"))
    return play


def quiet(play: Play, seconds: float = 6.0) -> None:
    """Let the last sign of life grow old, so that a 404 is believed without a ping (R26)."""
    play.advance(seconds)
