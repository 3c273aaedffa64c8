"""What the stand-in servers share: sockets, sessions, and calls whose every step the test plays.

A call runs apart from its connection, as in every SDK: the test moves it with `Run`, and what becomes of
an event while nobody is connected is the SDK's habit (`keep`, `missed`). A server states an epoch in
`_meta` only where the test asks for it: no SDK does so by itself, an application may.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.shell.wire import Peer
from tests.standins.servers.parts import Leg, Run, Session, Stream
from tests.support.legs import LAST_CHUNK, Json, Request, chunk, head, until, whole

PLAIN = ("content-type", "text/plain; charset=utf-8")
JSON = ("content-type", "application/json")
STREAM = ("content-type", "text/event-stream")
WORK: Json = {"name": "work", "inputSchema": {"type": "object"}}


class StandInServer:
    """A server without an event store, and without a habit of its own."""

    accept_status = 406  # to a POST that does not accept both types
    deleted = 200
    names_session_always = True
    stream_headers: tuple[tuple[str, str], ...] = (("cache-control", "no-cache"),)

    def __init__(self, *, states_epoch: bool = False, tools: tuple[Json, ...] = (WORK,)) -> None:
        self.states_epoch = states_epoch
        self.tools = tools
        self.port = 0
        self.sessions: dict[str, Session] = {}
        self.runs: list[Run] = []
        self.requests: list[Request] = []
        self.answers: list[Json] = []  # of the client, to questions
        self._count = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- life ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Killed: connections end without a last chunk, sessions are forgotten."""
        assert self._server is not None
        self._server.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.sessions.clear()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    # --- what a test does and sees ------------------------------------------------------------------

    async def run(self, number: int = 1) -> Run:
        """The call of this number, as soon as it has begun."""
        await until(lambda: len(self.runs) >= number)
        return self.runs[number - 1]

    def cut(self, stream: Stream | None = None) -> None:
        """Break the connection of a stream, or of all; nothing else is lost."""
        streams = [stream] if stream else [s for one in self.sessions.values() for s in one.streams.values()]
        for one in streams:
            if one.leg is not None:
                one.leg.cut()
                one.leg = None

    async def tell(self, stream: Stream, method: str, params: Json) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": self.tagged(stream, params)}
        await self.emit(stream, message)

    async def notify(self, text: str) -> None:
        """A log message on the standalone stream of the newest session, which has to have been opened."""
        await until(lambda: self.newest.standalone.leg is not None)
        await self.tell(self.newest.standalone, "notifications/message", {"level": "info", "data": text})

    @property
    def newest(self) -> Session:
        return list(self.sessions.values())[-1]

    def seen(self, method: str) -> int:
        """How many requests of this HTTP or JSON-RPC method came."""
        return sum(method in (one.method, one.message.get("method")) for one in self.requests)

    # --- an SDK's habits ----------------------------------------------------------------------------

    def refuse(self, request: Request) -> bytes | None:
        """An answer that comes before anything else is looked at."""
        if request.method == "POST" and not {"application/json", "text/event-stream"} <= accepted(request):
            return whole(self.accept_status, [PLAIN], b"accept both types")
        return None

    def lost(self, request: Request) -> bytes:
        """The answer to a session id that is not known."""
        return whole(404, [PLAIN], b"session not found")

    def make_id(self) -> str:
        return uuid.uuid4().hex

    def event_id(self, stream: Stream, *, is_answer: bool) -> str | None:
        """The id of the event that is emitted next."""
        return None

    def frame(self, event_id: str | None, data: bytes) -> bytes:
        named = b"" if event_id is None else b"id: " + event_id.encode() + b"\n"
        return named + b"event: message\ndata: " + data + b"\n\n"

    def keep(self, stream: Stream, event_id: str | None, raw: bytes) -> None:
        """Store an event for a replay; without a store nothing is."""

    async def missed(self, stream: Stream) -> None:
        """An event was emitted while nobody was connected."""

    async def opened(self, stream: Stream, leg: Leg) -> None:
        """The answer to a call has begun."""

    async def get(self, request: Request, session: Session, peer: Peer) -> None:
        """A GET for a stream; without a store the cursor is not looked at."""
        await self.stand(session.standalone, peer)

    async def initialized(self, request: Request, session: Session, peer: Peer) -> None:
        await self.answer_json(peer, session, request, self.initialize_result(request))

    # --- serving ------------------------------------------------------------------------------------

    def initialize_result(self, request: Request) -> Json:
        return {
            "protocolVersion": request.message["params"]["protocolVersion"],
            "capabilities": {"tools": {}, "logging": {}},
            "serverInfo": {"name": type(self).__name__, "version": "1"},
        }

    def tagged(self, stream: Stream, members: Json) -> Json:
        if not self.states_epoch:
            return members
        return {**members, "_meta": {"session_epoch": stream.session.epoch}}

    async def emit(self, stream: Stream, message: Json, *, is_answer: bool = False) -> None:
        event_id = self.event_id(stream, is_answer=is_answer)
        raw = self.frame(event_id, json.dumps(message).encode())
        stream.emitted += 1
        leg = stream.leg
        self.keep(stream, event_id, raw)
        if leg is None:
            await self.missed(stream)
        else:
            await leg.peer.send(chunk(raw))

    async def finish(self, stream: Stream) -> None:
        """The stream has its answer: its connection ends."""
        leg, stream.leg = stream.leg, None
        if leg is not None:
            await leg.peer.send(LAST_CHUNK)
            leg.over.set()

    async def stand(self, stream: Stream, peer: Peer, first: bytes = b"") -> None:
        """Open a stream on this connection and stay until it ends or the other side is gone."""
        leg = Leg(peer)
        await peer.send(self.stream_head(stream.session, is_post=False))
        if first:
            await peer.send(chunk(first))
        stream.leg = leg
        await self.hang(stream, leg)

    async def hang(self, stream: Stream, leg: Leg) -> None:
        gone = asyncio.create_task(leg.peer.wait_gone())
        over = asyncio.create_task(leg.over.wait())
        try:
            await asyncio.wait((gone, over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (gone, over):
                task.cancel()
            await asyncio.gather(gone, over, return_exceptions=True)
            if stream.leg is leg:
                stream.leg = None

    def stream_head(self, session: Session, *, is_post: bool) -> bytes:
        named = [("Mcp-Session-Id", session.id)] if self.names_session_always else []
        own = (STREAM, *self.stream_headers, *named, ("connection", "close"))
        return head(200, [*own, ("transfer-encoding", "chunked")])

    async def answer_json(self, peer: Peer, session: Session, request: Request, result: Json) -> None:
        is_first = request.message.get("method") == "initialize"
        named = [("Mcp-Session-Id", session.id)] if is_first or self.names_session_always else []
        tagged = self.tagged(session.standalone, result)
        message = {"jsonrpc": "2.0", "id": request.message["id"], "result": tagged}
        await peer.send(whole(200, [JSON, *named], json.dumps(message).encode()))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        peer = Peer(reader, writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while not writer.is_closing():
                    request = Request(*await peer.read_message())
                    self.requests.append(request)
                    await self._take(request, peer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _take(self, request: Request, peer: Peer) -> None:
        refusal = self.refuse(request)
        if refusal is not None:
            await peer.send(refusal)
            return
        if request.message.get("method") == "initialize":
            self._count += 1
            version = request.message["params"]["protocolVersion"]
            session = Session(self.make_id(), self._count, version)
            self.sessions[session.id] = session
            await self.initialized(request, session, peer)
            return
        found = self.find_session(request)
        if found is None:
            await peer.send(self.lost(request))
            return
        match (request.method, request.message.get("method")):
            case ("GET", _):
                found.gets += 1
                await self.get(request, found, peer)
                await self._close(peer)
            case ("DELETE", _):
                del self.sessions[found.id]
                for stream in found.streams.values():
                    await self.finish(stream)
                await peer.send(whole(self.deleted))
            case (_, "tools/call"):
                await self._call(request, found, peer)
                await self._close(peer)
            case (_, "tools/list"):
                await self.answer_json(peer, found, request, {"tools": list(self.tools)})
            case (_, None) if "id" in request.message:
                self.answers.append(request.message)
                await peer.send(whole(202))
            case _ if "id" in request.message:
                await self.answer_json(peer, found, request, {})
            case _:
                await peer.send(whole(202))

    def find_session(self, request: Request) -> Session | None:
        return self.sessions.get(request.header("mcp-session-id") or "")

    async def _call(self, request: Request, session: Session, peer: Peer) -> None:
        stream = Stream(f"r{len(self.runs) + 1}", session, len(session.streams))
        session.streams[stream.name] = stream
        await self.begin(request, stream, Leg(peer))

    async def begin(self, request: Request, stream: Stream, leg: Leg) -> None:
        """Open the answer to a call, and let the test play it."""
        await leg.peer.send(self.stream_head(stream.session, is_post=True))
        stream.leg = leg
        await self.opened(stream, leg)
        self.runs.append(Run(self, len(self.runs) + 1, stream, request.message))
        await self.hang(stream, leg)

    async def _close(self, peer: Peer) -> None:
        peer.writer.close()
        with suppress(ConnectionError):
            await peer.writer.wait_closed()


def accepted(request: Request) -> set[str]:
    """The types that a request accepts, as its header has them."""
    value = ",".join(value for name, value in request.headers if name.lower() == "accept")
    return {part.partition(";")[0].strip() for part in value.split(",")}


@asynccontextmanager
async def serving(server: StandInServer) -> AsyncIterator[StandInServer]:
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def error_body(code: int, message: str, id: Any = None) -> bytes:
    """A JSON-RPC error as a body."""
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).encode()
