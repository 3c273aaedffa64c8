"""Stand-in for servers on mcp-go (mcp-go 56af04b = v1.0.0-beta.1); the library itself was not run.

Recorded of it: any well-formed session id is accepted, by a POST and by a GET, and its session made on the
spot; a GET without an id is given one. A call is answered by JSON, or by SSE from its first notification
on, and no head is sent before. All streams of a session read one channel of notifications, so that
progress of one call may stand on another's answer. Event ids count over the whole store. A client that
leaves cancels its call.
"""

from __future__ import annotations

import itertools
import json
import re
import uuid

from tests.shell.wire import Peer
from tests.standins.servers.base import JSON, PLAIN, StandInServer
from tests.standins.servers.parts import Leg, Run, Session, Stream
from tests.support.legs import LAST_CHUNK, Json, Request, chunk, whole

WELL_FORMED = re.compile(r"mcp-session-[0-9a-f-]{36}")


class McpGoServer(StandInServer):
    names_session_always = False

    def __init__(self, *, states_epoch: bool = False, has_store: bool = False) -> None:
        super().__init__(states_epoch=states_epoch)
        self.has_store = has_store
        self.made_on_the_spot = 0
        self.cancelled: list[Run] = []
        self.reader: Stream | None = None  # which stream reads the channel next; None: the call's own
        self._ids = itertools.count(1)

    def make_id(self) -> str:
        return f"mcp-session-{uuid.uuid4()}"

    def find_session(self, request: Request) -> Session | None:
        known = super().find_session(request)
        name = request.header("mcp-session-id")
        if known is not None or request.method == "DELETE":
            return known
        if name is None and request.method == "GET":
            name = self.make_id()
        if name is None or not WELL_FORMED.fullmatch(name):
            return None
        self.made_on_the_spot += 1
        self._count += 1
        made = self.sessions[name] = Session(name, self._count, "2025-11-25")
        return made

    def lost(self, request: Request) -> bytes:
        return whole(404, [PLAIN], b"Invalid session ID")

    def event_id(self, stream: Stream, *, is_answer: bool) -> str | None:
        return str(next(self._ids)) if self.has_store else None

    def keep(self, stream: Stream, event_id: str | None, raw: bytes) -> None:
        if event_id is not None:
            stream.events.append((event_id, raw))

    async def begin(self, request: Request, stream: Stream, leg: Leg) -> None:
        stream.leg = leg
        run = Run(self, len(self.runs) + 1, stream, request.message)
        self.runs.append(run)
        await self.hang(stream, leg)
        if not stream.is_finished and not self.has_store:
            self.cancelled.append(run)

    async def emit(self, stream: Stream, message: Json, *, is_answer: bool = False) -> None:
        target = stream if is_answer or self.reader is None else self.reader
        if is_answer and stream.emitted == 0 and stream.leg is not None:
            await stream.leg.peer.send(whole(200, [JSON], json.dumps(message).encode()))
            stream.leg.over.set()
            stream.leg = None
            return
        if target.emitted == 0 and target.leg is not None and target.name:
            await target.leg.peer.send(self.stream_head(target.session, is_post=True))
        await super().emit(target, message, is_answer=is_answer)

    async def get(self, request: Request, session: Session, peer: Peer) -> None:
        cursor = request.header("last-event-id")
        if cursor is None or not self.has_store:
            await self.stand(session.standalone, peer)
            return
        streams = [one for one in session.streams.values() if cursor in dict(one.events)]
        if not streams:
            await peer.send(whole(400, [PLAIN], b"unknown event id"))
            return
        (stream,) = streams
        missed = b"".join(raw for event_id, raw in stream.events if int(event_id) > int(cursor))
        if not stream.is_finished:
            await self.stand(stream, peer, missed)
            return
        await peer.send(self.stream_head(session, is_post=False) + chunk(missed) + LAST_CHUNK)
