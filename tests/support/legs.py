"""What a scripted server writes: event streams of runs, whole answers, and breaks, byte for byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from tests.shell.wire import Peer
from tests.support.client import DEADLINE_S

if TYPE_CHECKING:
    from tests.support.server import McpServer

Json = dict[str, Any]
Pairs = Iterable[tuple[str, str]]
LAST_CHUNK = b"0\r\n\r\n"


class Epochs(Enum):
    """Where the server states its sessions' epoch."""

    META = "meta"
    HEADER = "header"
    NEVER = "never"


class Ids(Enum):
    """How the server numbers the events of a stream."""

    COUNTED = "counted"
    RANDOM = "random"
    NONE = "none"


class Own(Enum):
    """The value that the server would give itself."""

    EPOCH = "epoch"
    ID = "id"


@dataclass
class Session:
    """One session object of the server."""

    id: str
    epoch: int


@dataclass
class Run:
    """One execution of the tool, and every event that it produced."""

    number: int
    session: Session
    request: Json
    events: list[tuple[str | None, bytes]] = field(default_factory=list)

    @property
    def id(self) -> object:
        return self.request["id"]

    @property
    def name(self) -> str:
        return str(self.request["params"]["name"])

    @property
    def token(self) -> object:
        return self.request["params"].get("_meta", {}).get("progressToken")


@dataclass(frozen=True)
class Request:
    head: bytes
    body: bytes

    @property
    def method(self) -> str:
        return self.head.split(b" ", 1)[0].decode()

    @property
    def target(self) -> str:
        return self.head.split(b" ", 2)[1].decode()

    @property
    def headers(self) -> list[tuple[str, str]]:
        lines = self.head.decode("latin-1").split("\r\n")[1:-2]
        return [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def message(self) -> Json:
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


class Cut(Exception):
    """The script broke the connection; nothing more is served on it."""


class Leg:
    """One event stream that the server writes: the answer to a call, a resume, or a plain GET."""

    def __init__(self, server: McpServer, peer: Peer, request: Request, session: Session, run: Run) -> None:
        self.server, self.peer, self.request = server, peer, request
        self.session, self.run = session, run
        self.is_mute = False  # events are kept for a replay and not sent

    @property
    def last_id(self) -> str | None:
        return self.request.header("last-event-id")

    async def open(self, *headers: tuple[str, str]) -> None:
        """Send the head of the stream."""
        own = {"content-type": "text/event-stream", "mcp-session-id": self.session.id, **dict(headers)}
        if self.server.epochs is Epochs.HEADER:
            own.setdefault("mcp-session-epoch", str(self.session.epoch))
        await self.peer.send(head(200, [*own.items(), ("transfer-encoding", "chunked")]))

    async def progress(self, step: int, *, epoch: object = Own.EPOCH, id: object = Own.ID) -> None:
        """A progress event that tells which run it is of."""
        params = {"progressToken": self.run.token, "progress": step, "message": self.text(f"step {step}")}
        await self.send("notifications/progress", params, epoch=epoch, id=id)

    async def log(self, text: str, *, epoch: object = Own.EPOCH, id: object = Own.ID) -> None:
        """A log message: an event without a stamp."""
        await self.send(
            "notifications/message", {"level": "info", "data": self.text(text)}, epoch=epoch, id=id
        )

    async def send(
        self, method: str, params: Json, *, epoch: object = Own.EPOCH, id: object = Own.ID
    ) -> None:
        """Any notification."""
        await self.write({"jsonrpc": "2.0", "method": method, "params": self.tagged(params, epoch)}, id)

    async def answer(
        self, *, epoch: object = Own.EPOCH, id: object = Own.ID, request_id: object = Own.ID
    ) -> None:
        """The final response, which tells which run it is of."""
        number = self.run.id if request_id is Own.ID else request_id
        await self.write({"jsonrpc": "2.0", "id": number, "result": self.result(epoch)}, id)

    def result(self, epoch: object = Own.EPOCH) -> Json:
        return self.tagged({"content": [{"type": "text", "text": self.text("done")}]}, epoch)

    def text(self, what: str) -> str:
        return f"run {self.run.number} {what}"

    def tagged(self, members: Json, epoch: object = Own.EPOCH) -> Json:
        """`members` with the epoch that they state: the session's own, another, or None for none."""
        value = self.session.epoch if epoch is Own.EPOCH else epoch
        if self.server.epochs is not Epochs.META or value is None:
            return members
        return {**members, "_meta": {"session_epoch": value}}

    async def write(self, message: Json | list[Json], id: object = Own.ID) -> None:
        """One event, of a message or a batch; it is kept for a replay."""
        event_id = self.server.next_event_id(self.run) if id is Own.ID else id
        raw = self.frame(message, None if event_id is None else str(event_id))
        self.run.events.append((None if event_id is None else str(event_id), raw))
        if not self.is_mute:
            await self.raw(raw)

    def frame(self, message: Json | list[Json], event_id: str | None) -> bytes:
        end = self.server.newline
        lines = [] if event_id is None else [b"id: " + event_id.encode()]
        lines += [b"event: message", b"data: " + json.dumps(message).encode()]
        return end.join(lines) + end * 2

    async def again(self, after: str | None) -> None:
        """Replay the run's events behind an id, as they were."""
        known = [event_id for event_id, _ in self.run.events]
        first = known.index(after) + 1 if after is not None else 0
        for _, raw in self.run.events[first:]:
            await self.raw(raw)

    async def raw(self, data: bytes) -> None:
        await self.peer.send(chunk(data))

    async def end(self) -> None:
        """End the stream cleanly."""
        await self.peer.send(LAST_CHUNK)

    async def cut(self) -> None:
        """Close the connection inside the stream."""
        raise Cut

    async def reset(self) -> None:
        """Reset the connection inside the stream, once what was written is out."""
        self.peer.reset()
        raise Cut

    async def refuse(self, status: int, body: bytes = b"", *headers: tuple[str, str]) -> None:
        """Answer with a status instead."""
        await self.peer.send(whole(status, headers, body))


async def until(is_true: Callable[[], bool]) -> None:
    """Return when `is_true`; fail after a deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while not is_true():  # noqa: ASYNC110  # what is waited for are facts of sockets, which set no event
            await asyncio.sleep(0)


def head(status: int, headers: Pairs) -> bytes:
    lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def whole(status: int, headers: Pairs = (), body: bytes = b"") -> bytes:
    length = [] if status == 204 else [("content-length", str(len(body)))]
    return head(status, [*headers, *length]) + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
