"""Stand-in for servers on the Rust SDK (rust-sdk 4a738b9 = rmcp 3.1.4); the SDK itself was not run.

Recorded of it: event ids are `<index>/<request number>`, those of a GET `<index>`, and the same in every
session; the answer to `initialize` and every GET begin with a priming event of id `0` and `retry: 3000`,
which the first event of a GET has too. Each stream keeps 16 events; a resume takes the connection over and
begins with the last event seen, again. Once the response is written nothing of its stream is known, and its
resume gets 200 and an empty body, as does any cursor that is unknown. A plain GET replays what is kept from
its start, beside one that is open it is a shadow with comments only. A session without an event for five
minutes dies, whatever runs in it. DELETE gets 202, unknown or not. Lines of `event:` are not written.
"""

from __future__ import annotations

import json
from collections import deque

from tests.shell.wire import Peer
from tests.standins.servers.base import PLAIN, STREAM, StandInServer
from tests.standins.servers.parts import Leg, Session, Stream
from tests.support.legs import LAST_CHUNK, Json, Request, chunk, head, whole

KEPT = 16


class RustServer(StandInServer):
    deleted = 202
    names_session_always = False
    stream_headers = (("cache-control", "no-cache"), ("x-accel-buffering", "no"))
    retry_ms = 20  # 3000 in the SDK; a test need not wait for it

    def refuse(self, request: Request) -> bytes | None:
        if (request.header("host") or "").rpartition(":")[0] not in ("127.0.0.1", "localhost"):
            return whole(403, [PLAIN], b"Forbidden: Host header is not allowed")
        return super().refuse(request)

    def lost(self, request: Request) -> bytes:
        return whole(202) if request.method == "DELETE" else super().lost(request)

    def event_id(self, stream: Stream, *, is_answer: bool) -> str:
        return f"{stream.emitted}/{stream.number}" if stream.name else str(stream.emitted)

    def frame(self, event_id: str | None, data: bytes) -> bytes:
        assert event_id is not None
        return b"data: " + data + b"\nid: " + event_id.encode() + b"\n\n"

    def keep(self, stream: Stream, event_id: str | None, raw: bytes) -> None:
        stream.events = list(deque([*stream.events, (event_id or "", raw)], KEPT))

    async def initialized(self, request: Request, session: Session, peer: Peer) -> None:
        result = self.tagged(session.standalone, self.initialize_result(request))
        message: Json = {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
        data = self._priming("0") + b"data: " + json.dumps(message).encode() + b"\n\n"
        named = ("Mcp-Session-Id", session.id)
        await peer.send(
            head(200, [STREAM, named, ("transfer-encoding", "chunked")]) + chunk(data) + LAST_CHUNK
        )

    async def opened(self, stream: Stream, leg: Leg) -> None:
        event_id = self.event_id(stream, is_answer=False)
        raw = self._priming(event_id)
        stream.emitted += 1
        self.keep(stream, event_id, raw)
        await leg.peer.send(chunk(raw))

    async def get(self, request: Request, session: Session, peer: Peer) -> None:
        cursor = request.header("last-event-id")
        if cursor is None:
            await self._stand(session, peer)
            return
        index, _, number = cursor.partition("/")
        known = [one for one in session.streams.values() if one.name and str(one.number) == number]
        stream = known[0] if number and known else session.standalone
        if (number and not known) or stream.is_finished:
            await peer.send(self.stream_head(session, is_post=False) + LAST_CHUNK)
            return
        if stream.leg is not None:
            await self.finish(stream)
        await self.stand(stream, peer, self._from(stream, int(index)))

    async def _stand(self, session: Session, peer: Peer) -> None:
        if session.standalone.leg is not None:
            await self.stand(Stream("shadow", session), peer, self._priming("0"))
        else:
            await self.stand(session.standalone, peer, self._priming("0") + self._from(session.standalone, 0))

    def _from(self, stream: Stream, index: int) -> bytes:
        kept = [(int(event_id.partition("/")[0]), raw) for event_id, raw in stream.events]
        return b"".join(raw for at, raw in kept if at >= index)

    def _priming(self, event_id: str) -> bytes:
        return b"data:\nid: %b\nretry: %d\n\n" % (event_id.encode(), self.retry_ms)

    async def starve(self) -> None:
        """Five minutes without an event of the session: it dies, and its streams end."""
        session = self.newest
        del self.sessions[session.id]
        for stream in session.streams.values():
            await self.finish(stream)
