"""A simulated MCP client: calls tools, answers questions, and resumes broken streams as the SDKs do."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from tests.properties.simulation.calls import Call, Seen
from tests.properties.simulation.clock import Clock
from tests.properties.simulation.events import EventReader
from tests.properties.simulation.host import Exchange
from tests.properties.simulation.payload import Json
from tests.properties.simulation.traits import ClientTraits
from tests.properties.simulation.wire import Pairs, Sink

MAX_RESUMES = 60


class Network(Protocol):
    """Sends a request to whatever stands in the middle."""

    def request(
        self, client: Client, method: str, headers: dict[str, str], body: bytes, sink: Sink
    ) -> Exchange: ...


class ClientLeg:
    """One HTTP answer being read. `call` is None for the standalone stream and other requests."""

    def __init__(self, client: Client, call: Call | None, kind: str) -> None:
        self.client, self.call, self.kind = client, call, kind
        self.number = client.next_leg()
        self.exchange: Exchange | None = None
        self.status = 0
        self.is_sse = False
        self.is_current = True
        self.session_id: str | None = None
        self.events = 0
        self._reader = EventReader()
        self._body = b""

    def head(self, status: int, headers: Pairs) -> None:
        names = {k.decode().lower(): v.decode() for k, v in headers}
        self.status = status
        self.is_sse = names.get("content-type", "").startswith("text/event-stream")
        self.session_id = names.get("mcp-session-id")

    def data(self, data: bytes) -> None:
        if not self.is_current:
            return
        if not self.is_sse:
            self._body += data
            return
        for event in self._reader.feed(data):
            self.events += 1
            if self.is_current:
                self.client.take_event(self, event.id, event.data, event.retry)

    def ended(self, is_clean: bool) -> None:
        if not self.is_current:
            return
        self.is_current = False
        if is_clean and not self.is_sse and self._body.lstrip()[:1] == b"{":
            self.client.take_event(self, None, self._body, None)
        self.client.take_end(self, is_clean)

    def drop(self) -> None:
        """The client stops reading this answer and hangs up."""
        self.is_current = False
        if self.exchange is not None and self.exchange.wire.is_open:
            self.exchange.leave()


class Client:
    """`name` is stated at `initialize`; `remarks` are violations that the client itself sees."""

    def __init__(self, name: str, traits: ClientTraits, clock: Clock, rng: Random, network: Network) -> None:
        self.name, self.traits, self.clock, self.rng, self.network = name, traits, clock, rng, network
        self.session_id: str | None = None
        self.is_ready = False
        self.is_deleted = False
        self.can_log = False
        self.calls: list[Call] = []
        self.standalone: list[Seen] = []
        self.remarks: list[str] = []
        self.questions: dict[Any, int] = {}
        self._standalone_cursor: bytes | None = None
        self.standalone_leg: ClientLeg | None = None
        self.is_standalone_refused = False
        self.blind_opens = 0  # GETs without a cursor: what was written to an earlier leg is not asked for
        self._next_id = 0
        self._legs = 0
        self._on_answer: dict[str, Callable[[Json], None]] = {}

    def next_leg(self) -> int:
        self._legs += 1
        return self._legs

    def _id(self) -> Any:
        self._next_id += 1
        return f"r{self._next_id - 1}" if self.traits.string_ids else self._next_id - 1

    def _headers(self, cursor: bytes | None = None) -> dict[str, str]:
        headers = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {self.name}"}
        if self.session_id is not None:
            headers["mcp-session-id"] = self.session_id
            headers["mcp-protocol-version"] = self.traits.version
        if cursor is not None:
            headers["last-event-id"] = cursor.decode()
        return headers

    def _post(self, message: Json, call: Call | None, kind: str) -> ClientLeg:
        leg = ClientLeg(self, call, kind)
        headers = {**self._headers(), "content-type": "application/json"}
        leg.exchange = self.network.request(self, "POST", headers, json.dumps(message).encode(), leg)
        return leg

    def _get(self, cursor: bytes | None, call: Call | None, kind: str) -> ClientLeg:
        leg = ClientLeg(self, call, kind)
        leg.exchange = self.network.request(self, "GET", self._headers(cursor), b"", leg)
        return leg

    # --- what the client does -------------------------------------------------------------------

    def start(self) -> None:
        params = {
            "protocolVersion": self.traits.version,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": self.name, "version": "1"},
        }
        request = {"jsonrpc": "2.0", "id": self._id(), "method": "initialize", "params": params}
        self._post(request, None, "initialize")

    def _initialized(self, leg: ClientLeg, answer: Json) -> None:
        self.session_id = leg.session_id
        self.can_log = "logging" in answer["result"]["capabilities"]
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, None, "notification")
        self.is_ready = True
        if self.traits.lists_tools:
            self.poke("tools/list")
        if self.traits.has_standalone:
            self.clock.after(0.05, lambda: self._open_standalone(None))
        at = 0.1
        for tool in self.traits.calls:
            at += self.rng.choice((0.0, 0.5, 3.0, 8.0))
            self.clock.after(at, lambda tool=tool: self.call(tool))  # type: ignore[misc]  # a default binds it

    def poke(self, method: str) -> None:
        """A short request beside the calls: it re-creates an evicted session on a lazy server."""
        if not self.is_deleted:
            self._post({"jsonrpc": "2.0", "id": self._id(), "method": method}, None, "request")

    def call(self, tool: str) -> None:
        if self.is_deleted:
            return
        rid = self._id()
        key = f"{self.name}.{rid}"
        token: Any = {"none": None, "int": self._next_id, "str": f"token-{rid}"}[self.traits.tokens]
        params: Json = {"name": tool, "arguments": {"key": key}}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        call = Call(key, rid, tool, token, self.clock.now)
        self.calls.append(call)
        message = {"jsonrpc": "2.0", "id": rid, "method": "tools/call", "params": params}
        call.leg = self._post(message, call, "call")

    def cancel(self, call: Call) -> None:
        if call.is_settled or call.cancelled_at is not None:
            return
        call.cancelled_at = self.clock.now
        params = {"requestId": call.rid}
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        self._post(message, None, "notification")

    def delete(self) -> None:
        self.is_deleted = True
        leg = ClientLeg(self, None, "delete")
        leg.exchange = self.network.request(self, "DELETE", self._headers(), b"", leg)

    def resume(self, call: Call) -> None:
        """Go on with the stream of a call; a newer leg replaces the older one."""
        if call.is_settled or call.cursor is None:
            return
        if call.leg is not None:
            call.leg.drop()
        call.resumes += 1
        call.leg = self._get(call.cursor, call, "resume")
        if call.flaps and call.leg.exchange is not None:
            call.flaps -= 1
            call.leg.exchange.wire.arm(self.rng.randint(0, 250))

    def _open_standalone(self, cursor: bytes | None) -> None:
        if not self.is_deleted:
            self.blind_opens += cursor is None
            self.standalone_leg = self._get(cursor, None, "standalone")

    # --- what the client receives ---------------------------------------------------------------

    def take_event(self, leg: ClientLeg, cursor: bytes | None, data: bytes, retry: int | None) -> None:
        call = leg.call
        if call is not None:
            call.cursor = cursor or call.cursor
            call.retry_s = call.retry_s if retry is None else retry / 1000
        elif leg.kind == "standalone":
            self._standalone_cursor = cursor or self._standalone_cursor
        if not data:
            return
        try:
            message = json.loads(data)
        except ValueError:
            self.remarks.append(f"W8: {leg.kind} leg {leg.number}: an event that is no JSON: {data[:80]!r}")
            return
        seen = Seen(message, cursor, self.clock.now, leg.number)
        if seen.is_question:
            self._answer_question(seen)
        if leg.kind == "initialize" and "result" in message:
            self._initialized(leg, message)
        elif leg.kind == "standalone":
            self.standalone.append(seen)
        elif call is not None:
            call.seen.append(seen)

    def _answer_question(self, seen: Seen) -> None:
        rid, origin = seen.message["id"], seen.origin
        if seen.message["method"] == "ping" or origin is None:
            return
        if rid in self.questions:
            if self.questions[rid] != origin.serial:
                self.remarks.append(f"R19: question id {rid!r} stands for two questions")
            return
        self.questions[rid] = origin.serial
        answer = {"action": "accept", "content": {"n": origin.serial}}
        delay = self.rng.choice((0.0, 0.5, 5.0))
        message = {"jsonrpc": "2.0", "id": rid, "result": answer}
        self.clock.after(delay, lambda: None if self.is_deleted else self._ignore(message))

    def _ignore(self, message: Json) -> None:
        self._post(message, None, "answer")

    def take_end(self, leg: ClientLeg, is_clean: bool) -> None:
        self._check_status(leg)
        if leg.kind == "initialize":
            if not self.is_ready:
                self.clock.after(1.0, self.start)
        elif leg.kind == "standalone":
            self._end_standalone(leg)
        elif leg.call is not None:
            self._end_call(leg, leg.call, is_clean)

    def _check_status(self, leg: ClientLeg) -> None:
        if leg.status >= 500:
            self.remarks.append(f"W4: {leg.kind} leg {leg.number} was answered {leg.status}")
        if leg.kind in ("notification", "answer") and leg.status not in (0, 202, 404):
            self.remarks.append(f"W4: {leg.kind} leg {leg.number} was answered {leg.status}")

    def _end_standalone(self, leg: ClientLeg) -> None:
        if leg.status in (400, 404, 405) or self.is_deleted:
            self.is_standalone_refused = True
            return
        delay = self.rng.choice((0.0, 1.0, 8.0)) if leg.events else 15.0
        self.clock.after(delay, lambda: self._open_standalone(self._standalone_cursor))

    def _end_call(self, leg: ClientLeg, call: Call, is_clean: bool) -> None:
        if call.answers or call.leg is not leg:
            return
        if leg.status in (400, 401, 403, 404, 405) or (leg.kind == "call" and leg.status >= 500):
            call.refused.append(leg.status)
            return
        if is_clean and leg.status == 200 and call.cancelled_at is None:
            self.remarks.append(f"W8: {call.key}: {leg.kind} leg {leg.number} ended without an answer")
        is_empty = leg.kind == "resume" and is_clean and leg.status == 200 and not leg.events
        if is_empty and call.cancelled_at is None:
            self.remarks.append(f"G3: {call.key}: an empty 200 on a resume")
        if call.cursor is None:
            call.lost = "cut before the client had a cursor"
        elif call.resumes >= MAX_RESUMES:
            call.lost = "too many resumes"
        elif call.cancelled_at is None:
            self.clock.after(self._delay(call, leg), lambda: self.resume(call))

    def _delay(self, call: Call, leg: ClientLeg) -> float:
        if call.away_s is not None:
            away, call.away_s = call.away_s, None
            return away
        if leg.status == 409 or not leg.events:
            return min(30.0, 0.5 * 1.5**call.resumes)
        return call.retry_s if call.retry_s is not None else self.rng.choice((0.0, 0.2, 1.0))
