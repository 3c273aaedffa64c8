"""A scripted MCP server on raw sockets: what it sends, byte for byte, and when it breaks, is the test's.

Unscripted it is an honest server that keeps sessions, states epochs and numbers its events; `play` is
what a tool call does, `replay` what a resume gets.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tests.shell.wire import Peer
from tests.support.client import DEADLINE_S

Json = dict[str, Any]
Pairs = Iterable[tuple[str, str]]
LAST_CHUNK = b"0\r\n\r\n"
LOGGING: Json = {"tools": {}, "logging": {}}
WORK: Json = {"name": "work", "inputSchema": {"type": "object"}}  # promises nothing, like most tools


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

    async def write(self, message: Json, id: object = Own.ID) -> None:
        """One event; it is kept for a replay."""
        event_id = self.server.next_event_id(self.run) if id is Own.ID else id
        raw = self.frame(message, None if event_id is None else str(event_id))
        self.run.events.append((None if event_id is None else str(event_id), raw))
        if not self.is_mute:
            await self.raw(raw)

    def frame(self, message: Json, event_id: str | None) -> bytes:
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


Play = Callable[[Leg], Awaitable[None]]


async def honest(leg: Leg) -> None:
    """Three steps, and the answer."""
    await leg.open()
    for step in range(1, 4):
        await leg.progress(step)
    await leg.answer()
    await leg.end()


async def rejoin(leg: Leg) -> None:
    """Replay what follows the id, and end."""
    await leg.open()
    await leg.again(leg.last_id)
    await leg.end()


async def no_stream(leg: Leg) -> None:
    await leg.refuse(405, b"", ("allow", "POST, DELETE"))


async def no_batch(leg: Leg) -> None:
    await leg.refuse(400)


class McpServer:
    """The server: its sessions, its scripts, and what it has seen."""

    def __init__(
        self,
        play: Play = honest,
        replay: Play = rejoin,
        *,
        epochs: Epochs = Epochs.META,
        ids: Ids = Ids.COUNTED,
        newline: bytes = b"\n",
        capabilities: Json | None = None,
        tools: Iterable[Json] = (WORK,),
    ) -> None:
        self.play, self.replay = play, replay
        self.stand: Play = no_stream  # a GET without a cursor
        self.batch: Play = no_batch
        self.epochs, self.ids, self.newline = epochs, ids, newline
        self.capabilities = LOGGING if capabilities is None else capabilities
        self.tools = list(tools)
        self.name = "scripted"
        self.version = "2025-06-18"
        self.sessions: dict[str, Session] = {}
        self.counts: Counter[str] = Counter()  # JSON-RPC methods, and HTTP ones without a message
        self.runs: list[Run] = []
        self.requests: list[Request] = []
        self.accepts: Callable[[Request], int | None] = lambda request: None  # a status that refuses
        self.answers_pings = True
        self.override: bytes | None = None  # the answer to everything
        self.on_request: Callable[[Peer], Awaitable[None]] | None = None  # plays everything
        self.delay_initialize: asyncio.Event | None = None  # `initialize` is answered when it is set
        self.make_id: Callable[[], str] = lambda: uuid.uuid4().hex
        self.port = 0
        self._numbers = itertools.count(1)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- life ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, on the port of before if there was one."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Go away: no listener, no connection, no session."""
        if self._server is not None:
            self._server.close()
        tasks, self._server = tuple(self._tasks), None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.sessions.clear()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def evict(self) -> None:
        """Forget every session; connections stay."""
        self.sessions.clear()

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Return when `is_true`."""
        await until(is_true)

    @property
    def executions(self) -> int:
        return len(self.runs)

    def found(self) -> dict[str, int]:
        """What the issue counts: opened sessions, their `initialized`, and executions."""
        return {
            "initialize": self.counts["initialize"],
            "initialized": self.counts["notifications/initialized"],
            "executions": self.executions,
        }

    def next_event_id(self, run: Run) -> str | None:
        match self.ids:
            case Ids.COUNTED:
                return f"{run.number}_{len(run.events) + 1}"
            case Ids.RANDOM:
                return str(uuid.uuid4())
            case Ids.NONE:
                return None

    # --- serving ------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        peer = Peer(reader, writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, Cut):
                while True:
                    await self._take(peer)
        finally:
            self._tasks.discard(task)
            with suppress(asyncio.CancelledError):
                await peer.close()

    async def _take(self, peer: Peer) -> None:
        request = Request(*await peer.read_message())
        self.requests.append(request)
        self.counts[str(request.message.get("method") or request.method)] += 1
        if self.on_request is not None:
            await self.on_request(peer)
            return
        if self.override is not None:
            await peer.send(self.override)
            raise Cut
        status = self.accepts(request)
        if status is not None:
            await peer.send(whole(status, [("www-authenticate", "Bearer")], b"refused"))
            return
        if request.message.get("method") == "initialize":
            await self._initialize(peer, request)
            return
        session = self.sessions.get(request.header("mcp-session-id") or "")
        if session is None:
            await peer.send(whole(404, [("content-type", "text/plain")], b"no such session"))
        else:
            await self._in_session(peer, request, session)

    async def _initialize(self, peer: Peer, request: Request) -> None:
        session = Session(self.make_id(), next(self._numbers))
        self.sessions[session.id] = session
        leg = self._leg(peer, request, session)
        if self.delay_initialize is not None:
            await self.delay_initialize.wait()
        asked = request.message["params"]["protocolVersion"]
        info = {"name": self.name, "version": "1"}
        result = {"protocolVersion": asked, "capabilities": self.capabilities, "serverInfo": info}
        await self._answer(leg, leg.tagged(result))

    async def _in_session(self, peer: Peer, request: Request, session: Session) -> None:
        leg = self._leg(peer, request, session)
        method = request.message.get("method")
        match (request.method, method):
            case _ if request.body.startswith(b"["):
                await self.batch(leg)
            case ("GET", _):
                await (self.stand(leg) if leg.last_id is None else self.replay(leg))
            case ("DELETE", _):
                del self.sessions[session.id]
                await peer.send(whole(204))
            case (_, "tools/call"):
                leg.run = Run(len(self.runs) + 1, session, request.message)
                self.runs.append(leg.run)
                await self.play(leg)
            case (_, "ping") if not self.answers_pings:
                await peer.wait_gone()
            case (_, "tools/list"):
                await self._answer(leg, leg.tagged({"tools": self.tools}))
            case _ if "id" in request.message and method is not None:
                await self._answer(leg, leg.tagged({}))
            case _:
                await peer.send(whole(202))

    def _leg(self, peer: Peer, request: Request, session: Session) -> Leg:
        run = self.runs[-1] if self.runs else Run(0, session, {})
        if (last := request.header("last-event-id")) is not None:
            run = next((one for one in self.runs if last in {i for i, _ in one.events}), run)
        return Leg(self, peer, request, session, run)

    async def _answer(self, leg: Leg, result: Json) -> None:
        headers = [("content-type", "application/json"), ("mcp-session-id", leg.session.id)]
        if self.epochs is Epochs.HEADER:
            headers.append(("mcp-session-epoch", str(leg.session.epoch)))
        message = {"jsonrpc": "2.0", "id": leg.request.message["id"], "result": result}
        await leg.peer.send(whole(200, headers, json.dumps(message).encode()))


@asynccontextmanager
async def serving(server: McpServer) -> AsyncIterator[McpServer]:
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


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
