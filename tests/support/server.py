"""A scripted MCP server on raw sockets: what it sends, byte for byte, and when it breaks, is the test's.

Unscripted it is an honest server that keeps sessions, states epochs and numbers its events; `play` is
what a tool call does, `replay` what a resume gets.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress

from tests.shell.wire import Peer
from tests.support.legs import (
    Cut,
    Epochs,
    Ids,
    Json,
    Leg,
    Request,
    Run,
    Session,
    chunk,
    head,
    until,
    whole,
)

__all__ = ["Epochs", "Ids", "Leg", "Request", "Run", "chunk", "head", "until", "whole"]

LOGGING: Json = {"tools": {}, "logging": {}}
WORK: Json = {"name": "work", "inputSchema": {"type": "object"}}  # promises nothing, like most tools


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
        self.tls: ssl.SSLContext | None = None
        self.host = "127.0.0.1"
        self.port = 0
        self._numbers = itertools.count(1)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- life ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, on the port of before if there was one."""
        self._server = await asyncio.start_server(self._serve, self.host, self.port, ssl=self.tls)
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
        """What a heal must not do twice: opened sessions, their `initialized`, and executions."""
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
