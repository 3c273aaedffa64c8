"""The load: MCP client sessions over raw HTTP/1.1, with every answer checked.

A figure of a proxy that loses an event or mixes up two calls is worth nothing, so each answer is compared
with what its call must get: status, session, id, content, every progress event in order. Else `LoadError`.
"""

import asyncio
import itertools
import json
import re
from collections.abc import Callable
from typing import Any, Protocol, cast

from benchmarks.upstream import PROTOCOL_VERSION

PROGRESS = re.compile(rb'"progressToken":([^,]+),"progress":(\d+),')
PROGRESS_MARK = b'"progress":'
ANSWER_S = 60.0  # An answer that takes longer than this on loopback will never come.

Sink = Callable[[bytearray], None]


class LoadError(Exception):
    """An answer was not the one that the call must get."""


class Pace(Protocol):
    """What the load needs of the upstream: leave to write the next block of a stream."""

    def acknowledge(self, key: str) -> None: ...


class Answer:
    """One HTTP answer as it arrives; `head` and `done` are set at the end of its head and of its body."""

    def __init__(self, on_body: Sink | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = bytearray()
        self.head: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[None] = loop.create_future()
        self._on_body = on_body

    def grow(self) -> None:
        """Tell the sink that the body grew."""
        if self._on_body is not None:
            self._on_body(self.body)


class Connection(asyncio.Protocol):
    """One keep-alive connection to a proxy; one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._answer: Answer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def request(self, head: bytes, body: bytes = b"", on_body: Sink | None = None) -> Answer:
        """Write one request; `head` is all of it up to the framing of the body."""
        assert self._transport is not None
        assert self._answer is None
        self._answer = Answer(on_body)
        framing = b"Content-Length: %d\r\n" % len(body) if body else b""
        self._transport.write(b"%b%b\r\n%b" % (head, framing, body))
        return self._answer

    def close(self) -> None:
        """Drop the connection, whatever is open on it."""
        assert self._transport is not None
        self._answer = None
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        answer = self._answer
        if answer is None:
            raise LoadError(f"bytes without a request: {data[:80]!r}")
        if not answer.head.done() and not self._read_head(answer):
            return
        is_done = self._read_body(answer)
        answer.grow()
        if is_done:
            self._answer = None
            answer.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is None:
            return
        error = LoadError(f"connection lost within an answer ({exc})")
        for future in (self._answer.head, self._answer.done):
            if not future.done():
                future.set_exception(error)

    def _read_head(self, answer: Answer) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        fields = (line.split(b":", 1) for line in lines)
        answer.headers = {name.lower(): value.strip() for name, value in fields}
        answer.status = int(first.split(b" ", 2)[1])
        del self._buffer[: end + 4]
        answer.head.set_result(None)
        return True

    def _read_body(self, answer: Answer) -> bool:
        if answer.headers.get(b"transfer-encoding") == b"chunked":
            return self._read_chunks(answer)
        length = int(answer.headers.get(b"content-length", b"0"))
        if len(self._buffer) < length:
            return False
        answer.body += self._buffer[:length]
        del self._buffer[:length]
        return True

    def _read_chunks(self, answer: Answer) -> bool:
        position = 0
        while (line_end := self._buffer.find(b"\r\n", position)) >= 0:
            size = int(self._buffer[position:line_end], 16)
            end = line_end + 2 + size
            if len(self._buffer) < end + 2:
                break
            answer.body += self._buffer[line_end + 2 : end]
            position = end + 2
            if size == 0:
                del self._buffer[:position]
                return True
        del self._buffer[:position]
        return False


class Session:
    """One MCP client session, all of it on one connection. Open with `await Session.open(address)`."""

    _keys = itertools.count(1)

    def __init__(self, connection: Connection, address: str) -> None:
        self._connection = connection
        self._ids = itertools.count(1)
        self._common = (
            f"Host: {address}\r\nUser-Agent: benchmark\r\nAuthorization: Bearer {'t' * 40}\r\n"
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
        ).encode()
        self._session = b""

    @classmethod
    async def open(cls, address: str) -> "Session":
        """Connect, `initialize`, `notifications/initialized`."""
        host, port = address.rsplit(":", 1)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, host, int(port))
        session = cls(connection, address)
        await session._initialize()
        return session

    async def call_json(self) -> None:
        """One call that is answered in JSON."""
        request_id, key = next(self._ids), str(next(self._keys))
        answer = await self._post(_call(request_id, "json", {"text": key}))
        if answer.headers.get(b"content-type") != b"application/json":
            raise LoadError(f"not JSON: {answer.headers}")
        check_response(bytes(answer.body), request_id, key)

    async def call_stream(self, upstream: Pace, events: int, block: int, style: str) -> None:
        """One call that is answered with `events` progress events, paced in blocks of `block`."""
        request_id, key = next(self._ids), str(next(self._keys))
        pacer = _Pacer(upstream, key, events, block)
        arguments = {"text": key, "events": events, "block": block, "style": style}
        answer = await self._post(_call(request_id, "stream", arguments), pacer.grow)
        check_stream(bytes(answer.body), request_id, key, events)

    async def listen(self) -> None:
        """Open the standalone stream and leave it open."""
        answer = self._connection.request(self._head("GET"))
        async with asyncio.timeout(ANSWER_S):
            await answer.head
        if answer.status != 200 or answer.headers.get(b"content-type") != b"text/event-stream":
            raise LoadError(f"standalone stream: {answer.status} {answer.headers}")

    async def end(self) -> None:
        """End the session and the connection."""
        async with asyncio.timeout(ANSWER_S):
            await self._connection.request(self._head("DELETE")).done
        self._connection.close()

    def drop(self) -> None:
        """Leave as a client that died leaves."""
        self._connection.close()

    async def _initialize(self) -> None:
        request_id = next(self._ids)
        client = {"name": "benchmark", "version": "1"}
        params = {"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": client}
        message = {"jsonrpc": "2.0", "id": request_id, "method": "initialize", "params": params}
        answer = await self._post(message)
        result = json.loads(answer.body)
        if result["id"] != request_id or result["result"]["protocolVersion"] != PROTOCOL_VERSION:
            raise LoadError(f"initialize: {answer.body!r}")
        self._session = answer.headers[b"mcp-session-id"]
        self._common += b"Mcp-Session-Id: %b\r\n" % self._session
        self._common += b"MCP-Protocol-Version: %b\r\n" % PROTOCOL_VERSION.encode()
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, status=202)

    async def _post(self, message: dict[str, Any], on_body: Sink | None = None, status: int = 200) -> Answer:
        body = json.dumps(message, separators=(",", ":")).encode()
        answer = self._connection.request(self._head("POST"), body, on_body)
        async with asyncio.timeout(ANSWER_S):
            await answer.done
        if answer.status != status:
            raise LoadError(f"status {answer.status} instead of {status}: {bytes(answer.body)[:200]!r}")
        if answer.headers.get(b"mcp-session-id", self._session) != self._session and self._session:
            raise LoadError(f"another session answered: {answer.headers}")
        return answer

    def _head(self, method: str) -> bytes:
        return b"%b /mcp HTTP/1.1\r\n%b" % (method.encode(), self._common)


class _Pacer:
    """Counts the events of a growing body and acknowledges each whole block once."""

    def __init__(self, upstream: Pace, key: str, events: int, block: int) -> None:
        self._upstream = upstream
        self._key = key
        self._events = events
        self._block = block
        self._seen = 0
        self._due = min(block, events)
        self._position = 0

    def grow(self, body: bytearray) -> None:
        found = body.count(PROGRESS_MARK, self._position)
        if not found:
            return
        self._seen += found
        self._position = body.rfind(PROGRESS_MARK) + len(PROGRESS_MARK)
        if self._seen >= self._due:
            self._due = min(self._due + self._block, self._events)
            self._upstream.acknowledge(self._key)


def check_stream(body: bytes, request_id: int, key: str, events: int) -> None:
    """Every progress event of this call once and in order, then its one response; else LoadError."""
    tokens, steps = set(), []
    for token, step in PROGRESS.findall(body):
        tokens.add(token)
        steps.append(int(step))
    if steps != list(range(1, events + 1)) or tokens - {b"%d" % request_id}:
        raise LoadError(f"{len(steps)} progress events instead of {events}, tokens {tokens}")
    lines = [line[5:].strip() for line in body.splitlines() if line.startswith(b"data:")]
    others = [line for line in lines if line and PROGRESS_MARK not in line]
    if len(others) != 1 or lines[-1] != others[0]:
        raise LoadError(f"{len(others)} responses instead of one at the end: {others[:3]}")
    check_response(others[0], request_id, key)


def check_response(data: bytes, request_id: int, key: str) -> None:
    """The response names this request and holds this call's content; else LoadError."""
    response = json.loads(data)
    if response.get("id") != request_id:
        raise LoadError(f"id {response.get('id')} instead of {request_id}")
    try:
        text = response["result"]["content"][0]["text"]
    except KeyError:
        raise LoadError(f"no result: {data[:200]!r}") from None
    if text.split(" ", 1)[0] != key:
        raise LoadError(f"the answer to call {text[:20]!r} instead of {key!r}")


def _call(request_id: int, tool: str, arguments: dict[str, object]) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": request_id}}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
