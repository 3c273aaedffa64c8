"""Stand-ins for servers on the C# SDK (csharp-sdk 609499b, after v2.2.0); the SDK itself was not run.

Recorded of sessions: one plain GET for the life of a session, a second gets 400 and a text that speaks of a
new session; a resume replays and goes on, attached or not. Ids are `base64(session):base64(stream):n`,
priming events stand on GETs too, event streams state `Content-Encoding: identity`. Unknown sessions get 404
with -32001, but 200 for a DELETE. What it is by default, without sessions: a request that names one gets
400, and a client that leaves ends its call.
"""

from __future__ import annotations

import base64
import json
import secrets

from tests.shell.wire import Peer
from tests.standins.servers.base import JSON, StandInServer, error_body
from tests.standins.servers.parts import Leg, Run, Session, Stream
from tests.support.legs import LAST_CHUNK, Request, chunk, whole

SECOND_GET = (
    "Bad Request: This server does not support multiple GET requests. "
    "Start a new session or use Last-Event-ID header to resume."
)


class CSharpServer(StandInServer):
    stream_headers = (("cache-control", "no-cache,no-store"), ("content-encoding", "identity"))
    has_store = True

    def lost(self, request: Request) -> bytes:
        if request.method == "DELETE":
            return whole(200)
        return whole(404, [JSON], error_body(-32001, "Session not found", request.message.get("id")))

    def make_id(self) -> str:
        return secrets.token_urlsafe(16)

    def event_id(self, stream: Stream, *, is_answer: bool) -> str | None:
        if not self.has_store:
            return None
        return f"{_text(stream.session.id)}:{_text(stream.name or '__get__')}:{len(stream.events) + 1}"

    def keep(self, stream: Stream, event_id: str | None, raw: bytes) -> None:
        if event_id is not None:
            stream.events.append((event_id, raw))

    async def opened(self, stream: Stream, leg: Leg) -> None:
        if first := self._priming(stream):
            await leg.peer.send(chunk(first))

    async def get(self, request: Request, session: Session, peer: Peer) -> None:
        cursor = request.header("last-event-id")
        if cursor is None and session.gets > 1:
            await peer.send(whole(400, [JSON], error_body(-32000, SECOND_GET)))
        elif cursor is None:
            await self.stand(session.standalone, peer, self._priming(session.standalone))
        else:
            session.gets -= 1  # a resume does not count
            await self._resume(cursor, session, peer)

    async def _resume(self, cursor: str, session: Session, peer: Peer) -> None:
        streams = [one for one in session.streams.values() if cursor in dict(one.events)]
        if not streams:
            text = "Bad Request: The specified Last-Event-ID is either invalid or expired."
            await peer.send(whole(400, [JSON], error_body(-32000, text)))
            return
        (stream,) = streams
        at = [event_id for event_id, _ in stream.events].index(cursor)
        missed = b"".join(raw for _, raw in stream.events[at + 1 :])
        if not stream.is_finished:
            await self.stand(stream, peer, missed)
            return
        await peer.send(self.stream_head(session, is_post=False) + chunk(missed) + LAST_CHUNK)

    def _priming(self, stream: Stream) -> bytes:
        event_id = self.event_id(stream, is_answer=False)
        if event_id is None or stream.session.version < "2025-11-25":
            return b""
        self.keep(stream, event_id, b"")
        return b"id: %b\ndata: \n\n" % event_id.encode()


class CSharpStatelessServer(StandInServer):
    def __init__(self) -> None:
        super().__init__()
        self.disposed: list[Run] = []
        self._only = Session("", 1, "2025-11-25")

    async def initialized(self, request: Request, session: Session, peer: Peer) -> None:
        message = {"jsonrpc": "2.0", "id": request.message["id"], "result": self.initialize_result(request)}
        await peer.send(whole(200, [JSON], json.dumps(message).encode()))

    def refuse(self, request: Request) -> bytes | None:
        if request.header("mcp-session-id") is not None:
            text = "Bad Request: The Mcp-Session-Id header is not supported in stateless mode"
            return whole(400, [JSON], error_body(-32000, text))
        if request.method != "POST":
            return whole(405, [("allow", "POST")])
        return super().refuse(request)

    def find_session(self, request: Request) -> Session:
        return self._only

    names_session_always = False

    async def hang(self, stream: Stream, leg: Leg) -> None:
        await super().hang(stream, leg)
        if not stream.is_finished:  # the client left: its call is disposed with its connection
            stream.is_finished = True
            self.disposed += [run for run in self.runs if run.stream is stream]


def _text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()
