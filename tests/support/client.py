"""A raw MCP client: every byte it sends is written here, every byte it gets can be looked at.

Each request has a connection of its own, so that a test can cut exactly one leg.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

DEADLINE_S = 20.0
JSON = "application/json"
BOTH = "application/json, text/event-stream"
PRIMED = "2025-11-25"  # since this revision clients know priming events
UNPRIMED = "2025-06-18"

Json = dict[str, Any]
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE_END = re.compile(rb"\r\n|\n|\r")


class Truncated(Exception):
    """The connection ended inside an answer."""


@dataclass(frozen=True)
class Event:
    """One block of an event stream; a comment has neither id nor data."""

    raw: bytes

    def _fields(self, name: bytes) -> list[bytes]:
        lines = (line.partition(b":") for line in _LINE_END.split(self.raw))
        return [value.removeprefix(b" ") for field, _, value in lines if field == name]

    @property
    def id(self) -> str | None:
        found = self._fields(b"id")
        return found[-1].decode() if found else None

    @property
    def data(self) -> bytes | None:
        found = self._fields(b"data")
        return b"\n".join(found) if found else None

    @property
    def is_message(self) -> bool:
        return bool(self.data)

    @property
    def message(self) -> Json:
        found: Json = json.loads(self.data or b"null")
        return found


class Answer:
    """An answer whose head has come. Its body is read on demand."""

    def __init__(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = head.decode("latin-1").split("\r\n")
        self.head = head
        self.status = int(lines[0].split(" ")[1])
        self.headers = [
            (name, value.strip()) for name, _, value in (line.partition(":") for line in lines[1:] if line)
        ]
        self._reader, self._writer = reader, writer
        self._is_chunked = (self.header("transfer-encoding") or "").lower() == "chunked"
        length = self.header("content-length")
        self._left: int | None = 0 if self._is_chunked else (None if length is None else int(length))
        self._is_over = self.status in (204, 304)
        self._buffer = b""  # body bytes that belong to no event yet

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def is_stream(self) -> bool:
        return (self.header("content-type") or "").startswith("text/event-stream")

    async def read_some(self, most: int = 1 << 20) -> bytes:
        """Body bytes as they come, b"" at the end. Raises `Truncated`."""
        async with asyncio.timeout(DEADLINE_S):
            return b"" if self._is_over else await self._read_some(most)

    async def _read_some(self, most: int) -> bytes:
        if self._is_chunked and self._left == 0:
            await self._begin_chunk()
        if self._is_over:
            return b""
        if self._left == 0:
            self._is_over = True
            return b""
        try:
            data = await self._reader.read(most if self._left is None else min(most, self._left))
        except ConnectionError:
            raise Truncated from None
        if not data and self._left is not None:
            raise Truncated
        if self._left is None:
            self._is_over = not data
            return data
        self._left -= len(data)
        if self._is_chunked and self._left == 0:
            await self._reader.readexactly(2)
        return data

    async def _begin_chunk(self) -> None:
        try:
            self._left = int(await self._reader.readuntil(b"\r\n"), 16)
            if self._left == 0:
                await self._reader.readexactly(2)
                self._is_over = True
        except (asyncio.IncompleteReadError, ConnectionError):
            raise Truncated from None

    async def read(self) -> bytes:
        """The rest of the body."""
        parts = [self._buffer]
        self._buffer = b""
        while data := await self.read_some():
            parts.append(data)
        return b"".join(parts)

    async def read_exactly(self, count: int) -> bytes:
        """The next `count` body bytes."""
        while len(self._buffer) < count:
            data = await self.read_some()
            if not data:
                raise Truncated
            self._buffer += data
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found

    async def json(self) -> Json:
        found: Json = json.loads(await self.read())
        return found

    async def next_event(self) -> Event | None:
        """The next whole event, priming and comments too; None at the end of the answer."""
        while (found := _EVENT_END.search(self._buffer)) is None:
            data = await self.read_some()
            if not data:
                return None
            self._buffer += data
        raw, self._buffer = self._buffer[: found.end()], self._buffer[found.end() :]
        return Event(raw)

    async def events(self) -> AsyncIterator[Event]:
        """Whole events to the end of the answer."""
        while (event := await self.next_event()) is not None:
            yield event

    async def messages(self) -> list[Json]:
        """The messages to the end of the answer, one for JSON."""
        if not self.is_stream:
            return [await self.json()]
        return [event.message async for event in self.events() if event.is_message]

    async def next_message(self) -> Json:
        """The next message of a stream."""
        while True:
            event = await self.next_event()
            assert event is not None, "the stream ended without a further message"
            if event.is_message:
                return event.message

    def reset(self) -> None:
        """Break the connection so that the other side sees a reset."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


class Client:
    """One client: its session, its headers, and the connections that it has opened."""

    def __init__(
        self, port: int, *, version: str = UNPRIMED, headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        self.port = port
        self.version = version
        self.headers = list(headers)
        self.session: str | None = None
        self.has_small_window = False
        self.tls: ssl.SSLContext | None = None
        self.writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        for writer in self.writers:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def open(self, capabilities: Json | None = None) -> Answer:
        """Open a session; the answer to `initialize`, its body not read again."""
        answer = await self.post(initialize(self.version, capabilities))
        message = (await answer.messages())[-1]
        assert "result" in message, message
        self.session = answer.header("mcp-session-id")
        assert self.session is not None
        told = await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert told.status == 202
        await told.close()
        return answer

    async def call(
        self, number: object = 7, name: str = "work", *, token: object = "t", target: str = "/mcp"
    ) -> Answer:
        """Call a tool and return its answer's head."""
        return await self.post(call(number, name, token), target=target)

    async def post(self, message: object, *headers: tuple[str, str], target: str = "/mcp") -> Answer:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await self.send("POST", target, [("Accept", BOTH), ("Content-Type", JSON), *headers], body)

    async def get(self, cursor: str | None = None, *headers: tuple[str, str]) -> Answer:
        """Ask for a stream; a cursor resumes one."""
        asked = [("Accept", "text/event-stream"), *headers]
        if cursor is not None:
            asked.append(("Last-Event-ID", cursor))
        return await self.send("GET", "/mcp", asked)

    async def delete(self) -> Answer:
        return await self.send("DELETE", "/mcp", [])

    async def send(
        self, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes | None = None
    ) -> Answer:
        """Any request, on a connection of its own. Raises `Truncated` when no head comes."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        own = [*headers, *self.headers]
        if self.session is not None:
            own += [("Mcp-Session-Id", self.session), ("MCP-Protocol-Version", self.version)]
        if body is not None:
            own.append(("Content-Length", str(len(body))))
        lines += [f"{name}: {value}" for name, value in own]
        return await self.send_raw("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))

    async def send_raw(self, request: bytes) -> Answer:
        reader, writer = await self._connect()
        writer.write(request)
        async with asyncio.timeout(DEADLINE_S):
            try:
                await writer.drain()
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                raise Truncated from None
        return Answer(head, reader, writer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        sock = socket.socket()
        sock.setblocking(False)
        if self.has_small_window:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        except OSError:
            sock.close()
            raise
        reader, writer = await asyncio.open_connection(
            sock=sock, ssl=self.tls, server_hostname=None if self.tls is None else "127.0.0.1"
        )
        self.writers.append(writer)
        return reader, writer


def initialize(version: str = UNPRIMED, capabilities: Json | None = None) -> Json:
    params = {
        "protocolVersion": version,
        "capabilities": capabilities or {},
        "clientInfo": {"name": "raw", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


def call(number: object = 7, name: str = "work", token: object = "t") -> Json:
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    params = {"name": name, "arguments": {}, **meta}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def outcome(messages: list[Json]) -> object:
    """The one answer among messages: its text, or the error's code."""
    (answer,) = [message for message in messages if "method" not in message]
    assert answer["id"] == 7
    return answer["error"]["code"] if "error" in answer else answer["result"]["content"][0]["text"]
