"""A plain MCP client: it speaks Streamable HTTP as the SDKs do and knows nothing of epochs.

When a stream breaks or ends without the answer it comes back with `Last-Event-ID`, trusts the
status, the framing and the next id, and goes on. That is all the protocol asks of it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout

from epochgate.demo.ledger import Json

PROTOCOL_VERSION = "2025-06-18"
RETURN_AFTER_S = 0.2  # between a break and the resume; SDKs wait about 1 s
MAX_RESUMES = 5
SILENCE_S = 30.0  # a leg without a byte for that long is given up


class CallLost(Exception):
    """No answer to a request: the status was wrong or the resumes are used up."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One message as it came: its SSE id (None for a JSON answer), and the leg that brought it."""

    event_id: str | None
    message: Json
    leg: int


@dataclass(slots=True)
class Call:
    """All that a client got for one request; `statuses` has one HTTP status for each leg."""

    seen: list[Seen] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    cursors: list[str] = field(default_factory=list)  # the Last-Event-ID of each resume
    answers: list[Json] = field(default_factory=list)
    seconds: float = 0.0


class SseReader:
    """Cuts a byte stream into (id, data) pairs of events that carry data."""

    def __init__(self) -> None:
        self._tail = b""
        self._id: str | None = None
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[tuple[str | None, bytes]]:
        *lines, self._tail = (self._tail + data).split(b"\n")
        events = [self._line(line.removesuffix(b"\r")) for line in lines]
        return [event for event in events if event is not None]

    def _line(self, line: bytes) -> tuple[str | None, bytes] | None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id":
            self._id = value.decode()
        elif name == b"data":
            self._data.append(value)
        elif not line and self._data:
            event = (self._id, b"\n".join(self._data))
            self._data.clear()
            return event
        return None


class Client:
    """One MCP session with the server (or proxy) at `url`."""

    def __init__(self, http: ClientSession, url: str) -> None:
        self._http = http
        self._url = url
        self._session_id: str | None = None
        self._next_id = 1

    async def open(self) -> Json:
        """Initialize the session; returns the result of `initialize`. Raises CallLost."""
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "epochgate-demo-client", "version": "1"},
        }
        answer = await self.request("initialize", params)
        await self._notify("notifications/initialized")
        return answer

    async def close(self) -> None:
        async with self._http.delete(self._url, headers=self._headers()):
            pass

    async def request(self, method: str, params: Json) -> Json:
        """The result of one request that reports no progress. Raises CallLost."""
        call = await self._exchange(method, params, lambda seen: None)
        answer = call.answers[0]
        if "result" not in answer:
            raise CallLost(f"{method}: {answer['error']}")
        result: Json = answer["result"]
        return result

    async def call_tool(self, name: str, on_seen: Callable[[Seen], None]) -> Call:
        """Call a tool and follow its stream to the answer, resuming as often as it takes.

        `on_seen` is told each message as it comes. Raises CallLost.
        """
        params = {"name": name, "arguments": {}, "_meta": {"progressToken": self._next_id}}
        return await self._exchange("tools/call", params, on_seen)

    async def _notify(self, method: str) -> None:
        body = {"jsonrpc": "2.0", "method": method}
        async with self._http.post(self._url, json=body, headers=self._headers()) as response:
            if response.status != 202:
                raise CallLost(f"{method}: status {response.status}")

    async def _exchange(self, method: str, params: Json, on_seen: Callable[[Seen], None]) -> Call:
        call, began = Call(), time.monotonic()
        body = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        self._next_id += 1
        cursor: str | None = None
        while not call.answers:
            if len(call.cursors) > MAX_RESUMES:
                raise CallLost(f"{method}: no answer after {MAX_RESUMES} resumes")
            cursor = await self._leg(call, body, cursor, on_seen)
            if not call.answers:
                await self._before_return(call, method, cursor)
        call.seconds = time.monotonic() - began
        return call

    async def _before_return(self, call: Call, method: str, cursor: str | None) -> None:
        if cursor is None:
            raise CallLost(f"{method}: the connection broke before any event, status {call.statuses[-1:]}")
        call.cursors.append(cursor)
        await asyncio.sleep(RETURN_AFTER_S)

    async def _leg(
        self, call: Call, body: Json, cursor: str | None, on_seen: Callable[[Seen], None]
    ) -> str | None:
        """One HTTP exchange, POST or (with a cursor) GET; returns the last event id seen."""
        headers = self._headers()
        if cursor is not None:
            headers["Last-Event-ID"] = cursor
        verb, payload = ("POST", body) if cursor is None else ("GET", None)
        timeout = ClientTimeout(total=None, sock_read=SILENCE_S)
        try:
            async with self._http.request(
                verb, self._url, json=payload, headers=headers, timeout=timeout
            ) as response:
                call.statuses.append(response.status)
                if response.status != 200:
                    raise CallLost(f"{body['method']}: {verb} got status {response.status}")
                self._session_id = response.headers.get("Mcp-Session-Id", self._session_id)
                async for event_id, message in _messages(response):
                    cursor = event_id if event_id is not None else cursor
                    self._take(call, Seen(event_id, message, len(call.statuses)), body["id"], on_seen)
        except (ClientError, ConnectionError):
            pass  # a broken leg: the caller resumes, as the protocol says
        return cursor

    def _take(self, call: Call, seen: Seen, request_id: int, on_seen: Callable[[Seen], None]) -> None:
        call.seen.append(seen)
        if "method" not in seen.message and seen.message.get("id") == request_id:
            call.answers.append(seen.message)
        on_seen(seen)

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json, text/event-stream"}
        if self._session_id is not None:
            headers |= {"Mcp-Session-Id": self._session_id, "MCP-Protocol-Version": PROTOCOL_VERSION}
        return headers


async def _messages(response: ClientResponse) -> AsyncIterator[tuple[str | None, Json]]:
    if response.content_type != "text/event-stream":
        yield None, await response.json()
        return
    reader = SseReader()
    async for block in response.content.iter_any():
        for event_id, data in reader.feed(block):
            if data:
                yield event_id, json.loads(data)
