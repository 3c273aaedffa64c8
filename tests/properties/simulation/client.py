"""A simulated MCP client: calls tools, answers questions, and resumes broken streams as the SDKs do."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from tests.properties.simulation import ends, payload
from tests.properties.simulation.calls import Call, Post, Seen
from tests.properties.simulation.clock import Clock
from tests.properties.simulation.exchange import Exchange
from tests.properties.simulation.legs import ClientLeg, LegKind
from tests.properties.simulation.payload import Json
from tests.properties.simulation.traits import ClientTraits
from tests.properties.simulation.wire import Sink

MAX_STARTS = 100


class Network(Protocol):
    """Sends a request to whatever stands in the middle, and hears what the client sees."""

    def request(
        self, token: str, method: str, headers: dict[str, str], body: bytes, sink: Sink, delay: float = 0.0
    ) -> Exchange: ...

    def saw(self, client: Client, post: Post | None, seen: Seen) -> None: ...

    def remark(self, text: str) -> None: ...


class Client:
    """`name` is stated at `initialize` and is the user of its tokens."""

    def __init__(self, name: str, traits: ClientTraits, clock: Clock, rng: Random, network: Network) -> None:
        self.name, self.traits, self.clock, self.rng, self.network = name, traits, clock, rng, network
        self.session_id: str | None = None
        self.is_ready = False
        self.is_deleted = False
        self.has_planned = False  # when it will call what
        self.has_begun_anew = False  # after its session was lost
        self.has_expired_token: Callable[[], bool] = lambda: False
        self.posts: list[Post] = []
        self.standalone: list[Seen] = []
        self.standalone_leg: ClientLeg | None = None
        self.is_standalone_refused = False
        self.blind_opens = 0  # GETs without a cursor: what was written to an earlier leg is not asked for
        self.deletes: list[tuple[str | None, ClientLeg]] = []
        self.last_notified = 0  # what the oracle remembers of the standalone stream
        self.notified: set[int] = set()
        self.standalone_cursor: bytes | None = None
        self._questions: dict[Any, int] = {}
        self._token_number = 0
        self._next_id = 0
        self._next_call = 0
        self._legs = 0
        self._starts = 0

    @property
    def token(self) -> str:
        return f"{self.name}.{self._token_number}"

    @property
    def calls(self) -> list[Call]:
        return [call for post in self.posts for call in post.calls]

    def next_leg(self) -> int:
        self._legs += 1
        return self._legs

    def _id(self) -> Any:
        self._next_id += 1
        match self.traits.ids:
            case "str":
                return f"r{self._next_id - 1}"
            case "same":
                return 1
            case "int":
                return self._next_id - 1

    def _headers(self, session_id: str | None, cursor: bytes | None = None) -> dict[str, str]:
        headers = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {self.token}"}
        if session_id is not None:
            headers["mcp-session-id"] = session_id
            headers["mcp-protocol-version"] = self.traits.version
        if cursor is not None:
            headers["last-event-id"] = cursor.decode()
        return headers

    def _post(self, message: Json | list[Json], post: Post | None, kind: LegKind) -> ClientLeg:
        leg = ClientLeg(self, post, kind)
        headers = {**self._headers(self.session_id), "content-type": "application/json"}
        leg.exchange = self.network.request(self.token, "POST", headers, json.dumps(message).encode(), leg)
        return leg

    # --- what the client does -------------------------------------------------------------------

    def start(self) -> None:
        """Begin a session, or begin it again."""
        self._starts += 1
        if self._starts <= MAX_STARTS:
            self._post(self._initialize_request(), None, "initialize")

    def begin_anew(self) -> None:
        """The session is lost: another one, and the rest of the calls in it."""
        self.session_id, self.is_ready, self.has_begun_anew = None, False, True
        if self.standalone_leg is not None:
            leg, self.standalone_leg = self.standalone_leg, None
            leg.drop()
        if not self.is_deleted:
            self.start()

    def initialize_again(self) -> None:
        """`initialize` within the session that there is."""
        if self.is_ready and not self.is_deleted:
            self._post(self._initialize_request(), None, "again")

    def _initialize_request(self) -> Json:
        params = {
            "protocolVersion": self.traits.version,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": self.name, "version": "1"},
        }
        return {"jsonrpc": "2.0", "id": self._id(), "method": "initialize", "params": params}

    def _initialized(self, leg: ClientLeg) -> None:
        is_first = not self.has_planned
        self.has_begun_anew = self.has_begun_anew or leg.kind == "again"
        self.session_id = leg.session_id or self.session_id
        if self.session_id is None:
            return  # a server without sessions: nothing of it is guarded
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, None, "notification")
        self.is_ready = True
        if self.traits.lists_tools:
            self.poke("tools/list")
        if self.traits.has_standalone and leg.kind == "initialize":
            self.standalone_cursor = None
            self.clock.after(0.05, lambda: self.open_standalone(None))
        if is_first:
            self.has_planned = True
            self._plan_calls()

    def _plan_calls(self) -> None:
        at = 0.1
        for tools in self.traits.calls:
            at += self.rng.choice((0.0, 0.5, 3.0, 8.0))
            self.clock.after(at, lambda tools=tools: self.call(tools))  # type: ignore[misc]  # bound now
        if self.traits.repeats_initialize:
            self.clock.after(self.rng.random() * at, self.initialize_again)

    def refresh(self) -> None:
        """New credentials of the same user."""
        self._token_number += 1

    def poke(self, method: str) -> None:
        """A short request beside the calls: it re-creates an evicted session on a lazy server."""
        if self.is_ready and not self.is_deleted:
            self._post({"jsonrpc": "2.0", "id": self._id(), "method": method}, None, "request")

    def call(self, tools: tuple[str, ...]) -> None:
        if self.is_deleted or not self.is_ready:
            return
        post = Post([], self.clock.now, self.token, self.session_id)
        messages = [self._call_message(post, tool) for tool in tools]
        self.posts.append(post)
        post.leg = self._post(messages if len(messages) > 1 else messages[0], post, "call")
        post.first = post.leg.exchange

    def _call_message(self, post: Post, tool: str) -> Json:
        rid = self._id()
        self._next_call += 1
        key = f"{self.name}.{self._next_call}"
        number = self._next_call
        token: Any = {"none": None, "int": number, "str": f"token-{number}"}[self.traits.tokens]
        params: Json = {"name": tool, "arguments": {"key": key}}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        if tool == "task":
            params["task"] = {"ttl": 60_000}
        post.calls.append(Call(key, rid, tool, token, post))
        return {"jsonrpc": "2.0", "id": rid, "method": "tools/call", "params": params}

    def cancel(self, call: Call) -> None:
        """Give a call up. With equal ids in flight nobody could say which is meant."""
        if call.is_settled or call.cancelled_at is not None or self.traits.ids == "same":
            return
        if call.post.session_id != self.session_id or self.is_deleted:
            return
        call.cancelled_at = self.clock.now
        params = {"requestId": call.rid}
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        self._post(message, None, "notification")

    def delete(self) -> None:
        if self.is_deleted or self.session_id is None:
            return
        self.is_deleted = True
        leg = ClientLeg(self, None, "delete")
        self.deletes.append((self.session_id, leg))
        leg.exchange = self.network.request(self.token, "DELETE", self._headers(self.session_id), b"", leg)

    def resume(self, post: Post, *, keeps_older: bool = False, delay: float = 0.0) -> None:
        """Go on with the stream of a POST; a newer leg replaces the older one, in time or late."""
        if post.is_settled or post.is_cancelled or post.cursor is None or post.left_at is not None:
            return
        if post.leg is not None and keeps_older:
            post.leg.is_current, post.has_ghost = False, True  # it stays open, and is not read any more
        elif post.leg is not None:
            post.leg.drop()
        post.resumes += 1
        leg = ClientLeg(self, post, "resume")
        headers = self._headers(post.session_id, post.cursor)
        leg.exchange = self.network.request(self.token, "GET", headers, b"", leg, delay)
        post.leg = leg
        if post.flaps:
            post.flaps -= 1
            leg.exchange.wire.arm(self.rng.randint(0, 250))

    def leave(self, post: Post) -> None:
        """The client is gone for good, as far as this stream goes."""
        post.left_at, post.lost = self.clock.now, "the client never came back"
        if post.leg is not None:
            post.leg.drop()

    def open_standalone(self, cursor: bytes | None) -> None:
        if self.is_deleted or not self.is_ready:
            return
        self.blind_opens += cursor is None
        self.standalone_leg = leg = ClientLeg(self, None, "standalone")
        headers = self._headers(self.session_id, cursor)
        leg.exchange = self.network.request(self.token, "GET", headers, b"", leg)

    # --- what the client receives ---------------------------------------------------------------

    def take_event(self, leg: ClientLeg, cursor: bytes | None, data: bytes, retry: int | None) -> None:
        post = leg.post
        if post is not None:
            post.cursor = cursor or post.cursor
            post.retry_s = post.retry_s if retry is None else retry / 1000
        elif leg.kind == "standalone":
            self.standalone_cursor = cursor or self.standalone_cursor
        if not data:
            return
        try:
            body = json.loads(data)
        except ValueError:
            self.network.remark(f"W8: {leg.kind} leg {leg.number}: an event that is no JSON: {data[:80]!r}")
            return
        text = data.decode()
        if isinstance(body, dict):
            self._take_message(leg, body, cursor, text)
            return
        for member in body:
            self._take_message(leg, member, cursor, json.dumps(member), is_in_array=True)

    def _take_message(
        self, leg: ClientLeg, message: Json, cursor: bytes | None, text: str, is_in_array: bool = False
    ) -> None:
        origin = payload.find_origin(text)
        seen = Seen(message, cursor, self.clock.now, leg.number, origin, is_in_array)
        if seen.is_question:
            self._answer_question(leg, seen)
        if leg.kind in ("initialize", "again"):
            if "result" in message:
                self._initialized(leg)
            return
        if leg.kind == "standalone":
            self.standalone.append(seen)
            self.network.saw(self, None, seen)
        elif leg.post is not None:
            self._book(leg.post, seen)
            self.network.saw(self, leg.post, seen)

    def _book(self, post: Post, seen: Seen) -> None:
        post.seen.append(seen)
        for call in post.calls:
            is_about = seen.origin is not None and seen.origin.key == call.key
            if seen.is_response:
                is_about = is_same_id(seen.message["id"], call.rid)
                if is_about:
                    call.answers.append(seen)
            if is_about:
                call.own.append(seen)

    def _answer_question(self, leg: ClientLeg, seen: Seen) -> None:
        rid, origin = seen.message["id"], seen.origin
        if seen.message["method"] == "ping" or origin is None:
            return
        session_id = self.session_id if leg.post is None else leg.post.session_id
        asked = self._questions.setdefault((session_id, rid), origin.serial)
        if asked != origin.serial:
            self.network.remark(f"R19: question id {rid!r} stands for two questions")
            return
        answer = {"action": "accept", "content": {"n": origin.serial}}
        delay = self.rng.choice((0.0, 0.5, 5.0, 20.0))
        message = {"jsonrpc": "2.0", "id": rid, "result": answer}
        self.clock.after(delay, lambda: self._send_answer(session_id, message))

    def _send_answer(self, session_id: str | None, message: Json) -> None:
        if session_id == self.session_id and not self.is_deleted:
            leg = self._post(message, None, "answer")
            leg.again = lambda: self._send_answer(session_id, message)

    def take_end(self, leg: ClientLeg, is_clean: bool) -> None:
        ends.take(self, leg, is_clean)


def is_same_id(a: object, b: object) -> bool:
    return type(a) is type(b) and a == b
