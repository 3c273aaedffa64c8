"""The two sides of a play: what a client was answered, and what the core sent to the server."""

from __future__ import annotations

import json
from dataclasses import dataclass

from epochgate.core import http
from epochgate.core.http import Headers
from tests.core.messages import Json, SseEvent, read_sse


@dataclass(slots=True)
class Exchange:
    """One request of the client and what it was answered."""

    number: int
    status: int | None = None
    headers: Headers = ()
    body: bytes = b""
    is_open: bool = True
    is_aborted: bool = False
    has_left: bool = False

    @property
    def json(self) -> Json:
        return json.loads(self.body)

    @property
    def events(self) -> list[SseEvent]:
        """The whole events of an SSE answer; comments and bare `retry:` are passed over."""
        return read_sse(self.body)

    @property
    def messages(self) -> list[Json]:
        return [event.json for event in self.events if event.json is not None]

    @property
    def last_id(self) -> bytes:
        return [event.id for event in self.events if event.id is not None][-1]

    @property
    def answer(self) -> Json:
        """The one response that this exchange got, as JSON or as an event."""
        found = [one for one in self._all() if "result" in one or "error" in one]
        assert len(found) == 1, f"{len(found)} responses"
        return found[0]

    @property
    def answers(self) -> list[Json]:
        return [one for one in self._all() if "result" in one or "error" in one]

    def _all(self) -> list[Json]:
        if not self.body:
            return []
        is_sse = http.media_type(self.headers) == b"text/event-stream"
        found: list[Json] = []
        for one in self.messages if is_sse else [self.json]:
            found += one if isinstance(one, list) else [one]
        return found


@dataclass(slots=True)
class Upstream:
    """One HTTP request that the core sent to the server."""

    number: int
    method: bytes
    headers: Headers
    body: bytes | None
    within: float | None
    is_open: bool = True
    is_paused: bool = False
    was_drained: bool = False

    @property
    def json(self) -> Json:
        return json.loads(self.body) if self.body else {}

    @property
    def rpc(self) -> str:
        """The JSON-RPC method of a POST, `answer`, `batch`, or the HTTP method."""
        if self.method != b"POST":
            return self.method.decode()
        message = self.json
        return "batch" if isinstance(message, list) else str(message.get("method", "answer"))

    @property
    def id(self) -> Json:
        """The JSON-RPC id as it stands upstream: a stamp."""
        return self.json["id"]

    @property
    def token(self) -> Json:
        return self.json["params"]["_meta"]["progressToken"]

    @property
    def session_id(self) -> bytes | None:
        return http.find(self.headers, http.SESSION_ID)

    @property
    def last_event_id(self) -> bytes | None:
        return http.find(self.headers, http.LAST_EVENT_ID)
