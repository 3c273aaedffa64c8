"""ASGI layers around the SDK's application: one states epochs, one tells what came in."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SESSION_ID = b"mcp-session-id"


class EpochTags:
    """Puts the epoch of the session into `_meta.session_epoch` of every message that goes out by SSE.

    Epochs count up from a random start in each process, so that a restart changes them.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._next = random.randrange(1, 2**31)
        self._epochs: dict[bytes, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        epoch: int | None = None

        async def tagged(message: Message) -> None:
            nonlocal epoch
            if message["type"] == "http.response.start":
                epoch = self._epoch_of(dict(message["headers"]).get(SESSION_ID))
            elif epoch is not None and message.get("body"):
                message = {**message, "body": _tag_events(message["body"], epoch)}
            await send(message)

        await self._app(scope, receive, tagged)

    def _epoch_of(self, session: bytes | None) -> int | None:
        if session is None:
            return None
        if session not in self._epochs:
            self._epochs[session] = self._next
            self._next += 1
        return self._epochs[session]


def _tag_events(body: bytes, epoch: int) -> bytes:
    """`body` is whole events (the SDK writes one at a time) or something that holds no `data:` line."""
    lines = body.split(b"\r\n")
    return b"\r\n".join(_tag_line(line, epoch) if line.startswith(b"data: {") else line for line in lines)


def _tag_line(line: bytes, epoch: int) -> bytes:
    message = json.loads(line[len(b"data: ") :])
    if "result" in message:
        holder = message["result"]
    elif "error" in message:
        holder = message["error"].setdefault("data", {})
    else:
        holder = message.setdefault("params", {})
    holder.setdefault("_meta", {})["session_epoch"] = epoch
    return b"data: " + json.dumps(message).encode()


class Spy:
    """Tells the method of each JSON-RPC message that a client posted, and of each DELETE."""

    def __init__(self, app: App, told: Callable[[str], None]) -> None:
        self._app = app
        self._told = told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        if scope.get("method") == "DELETE":
            self._told("DELETE")

        async def heard() -> Message:
            nonlocal body
            message = await receive()
            if message["type"] == "http.request" and scope["method"] == "POST":
                body += message.get("body", b"")
                if not message.get("more_body"):
                    self._told(json.loads(body).get("method", "response"))
            return message

        await self._app(scope, heard, send)
