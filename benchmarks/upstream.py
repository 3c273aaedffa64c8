"""The server behind the proxies under measurement: raw asyncio, as cheap as it can be, with MCP's rules.

It runs in the process of the load, so that the load can pace it: a stream writes one block of events and
waits for `acknowledge` before the next. Blocks of one event make one read of the proxy per event, blocks of
many make bursts, and neither depends on timing.
"""

import asyncio
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

PROTOCOL_VERSION = "2025-11-25"
EPOCH_KEY = "session_epoch"


@dataclass(frozen=True, slots=True)
class Style:
    """How a server writes its events: `newline`, event ids or none, a chunk per event or per block."""

    name: str
    newline: bytes
    has_ids: bool
    has_chunk_per_event: bool


# What servers write: no ids, LF (TypeScript, Go); ids and CRLF (Python SDK with an event store). Each event
# is a write of its own there, so a chunk of its own.
STYLES = {
    style.name: style
    for style in (
        Style("plain", newline=b"\n", has_ids=False, has_chunk_per_event=True),
        Style("joined", newline=b"\n", has_ids=False, has_chunk_per_event=False),
        Style("ids", newline=b"\r\n", has_ids=True, has_chunk_per_event=True),
    )
}


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came; header names are lower case."""

    method: str
    headers: dict[bytes, bytes]
    body: bytes


class Upstream:
    """An MCP server with sessions; `has_epochs` makes every message of a session state its epoch."""

    def __init__(self, *, has_epochs: bool = False) -> None:
        self._has_epochs = has_epochs
        self._epochs: dict[bytes, str] = {}
        self._streams: dict[str, Stream] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen on a free loopback port; returns `host:port`."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), "127.0.0.1", 0, backlog=4096)
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    def acknowledge(self, key: str) -> None:
        """The load has seen the whole block of stream `key`: write the next."""
        stream = self._streams[key]
        if not stream.write_block():
            del self._streams[key]

    def answer(self, transport: asyncio.WriteTransport, request: Request) -> None:
        """Answer one request on its connection."""
        if request.method == "POST":
            self._answer_post(transport, request)
            return
        session = request.headers.get(b"mcp-session-id", b"")
        if session not in self._epochs:
            transport.write(_answer(404, b"Not Found", session))
        elif request.method == "DELETE":
            del self._epochs[session]
            transport.write(_answer(200, b"OK", session))
        elif request.method == "GET":
            transport.write(_stream_head(session))
        else:
            transport.write(_answer(405, b"Method Not Allowed", session))

    def _answer_post(self, transport: asyncio.WriteTransport, request: Request) -> None:
        message = json.loads(request.body)
        session = request.headers.get(b"mcp-session-id", b"")
        if message["method"] == "initialize":
            session = secrets.token_hex(16).encode()
            self._epochs[session] = secrets.token_hex(8)
            transport.write(_json(session, self._response(session, message["id"], _initialized())))
        elif session not in self._epochs:
            transport.write(_answer(404, b"Not Found", session))
        elif "id" not in message:
            transport.write(_answer(202, b"Accepted", session))
        elif message["method"] == "tools/call":
            self._call(transport, session, message)
        else:
            transport.write(_json(session, self._response(session, message["id"], {})))

    def _call(self, transport: asyncio.WriteTransport, session: bytes, message: dict[str, Any]) -> None:
        arguments = message["params"]["arguments"]
        final = self._response(session, message["id"], _text(arguments["text"]))
        if message["params"]["name"] == "json":
            transport.write(_json(session, final))
            return
        stream = Stream(
            transport,
            STYLES[arguments["style"]],
            events=self._progress(session, message, arguments["events"]),
            block=arguments["block"],
            final=final,
        )
        self._streams[arguments["text"]] = stream
        transport.write(_stream_head(session))
        self.acknowledge(arguments["text"])

    def _progress(self, session: bytes, message: dict[str, Any], events: int) -> Iterator[bytes]:
        token = json.dumps(message["params"]["_meta"]["progressToken"])
        meta = f',"_meta":{{"{EPOCH_KEY}":"{self._epochs[session]}"}}' if self._has_epochs else ""
        head = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":'
        tail = f',"total":{events},"message":"entry of the ledger read"{meta}}}}}'
        return (f'{head}{token},"progress":{step}{tail}'.encode() for step in range(1, events + 1))

    def _response(self, session: bytes, request_id: object, result: dict[str, Any]) -> bytes:
        if self._has_epochs:
            result["_meta"] = {EPOCH_KEY: self._epochs[session]}
        message = {"jsonrpc": "2.0", "id": request_id, "result": result}
        return json.dumps(message, separators=(",", ":")).encode()


class Stream:
    """The SSE answer to one call: blocks of progress, then the response."""

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        style: Style,
        *,
        events: Iterator[bytes],
        block: int,
        final: bytes,
    ) -> None:
        self._transport = transport
        self._style = style
        self._events = events
        self._block = block
        self._final = final
        self._next_id = 1

    def write_block(self) -> bool:
        """Write the next block in one write; False when that was the response, the end of the stream."""
        block = [self._frame(data) for _, data in zip(range(self._block), self._events, strict=False)]
        if not block:
            self._transport.write(_chunk(self._frame(self._final)) + b"0\r\n\r\n")
            return False
        if self._style.has_chunk_per_event:
            self._transport.write(b"".join(map(_chunk, block)))
        else:
            self._transport.write(_chunk(b"".join(block)))
        return True

    def _frame(self, data: bytes) -> bytes:
        newline = self._style.newline
        body = b"event: message" + newline + b"data: " + data + newline + newline
        if not self._style.has_ids:
            return body
        self._next_id += 1
        return b"id: %d" % (self._next_id - 1) + newline + body


class Connection(asyncio.Protocol):
    """One connection of the proxy; requests must carry Content-Length."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._buffer += data
        while (request := self._take_request()) is not None:
            self._upstream.answer(self._transport, request)

    def _take_request(self) -> Request | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        fields = (line.split(b":", 1) for line in lines)
        headers = {name.lower(): value.strip() for name, value in fields}
        total = end + 4 + int(headers.get(b"content-length", b"0"))
        if len(self._buffer) < total:
            return None
        body = bytes(self._buffer[end + 4 : total])
        del self._buffer[:total]
        return Request(first.split(b" ", 1)[0].decode(), headers, body)


def _initialized() -> dict[str, Any]:
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "capabilities": {"tools": {}, "logging": {}},
        "serverInfo": {"name": "benchmark", "version": "1"},
    }


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"{text} {'.' * 200}"}], "isError": False}


def _answer(status: int, reason: bytes, session: bytes) -> bytes:
    return b"HTTP/1.1 %d %b\r\nMcp-Session-Id: %b\r\nContent-Length: 0\r\n\r\n" % (status, reason, session)


def _json(session: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: %b\r\n" % session
    return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def _stream_head(session: bytes) -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
        b"Mcp-Session-Id: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % session
    )


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
