"""Stand-in for servers on the Go SDK (go-sdk 3d6450f, main of August 2026); the SDK itself was not run.

Recorded of it: event ids are `<stream>_<index>`, those of the standalone stream `_<index>`. Streams of
clients since 2025-11-25 begin with `event: prime`; before the server itself closes one it writes
`event: close` with `retry:`. A resume gets 409 while the stream is still attached, 400 for a malformed
cursor; a plain GET replays the whole history from index 0. `Last-Event-ID` on a POST gets 400, a `Host`
that is no loopback name 403 on a loopback listener, an id in flight twice 400, both types not accepted
400, an unknown session 404 as text. Only the answer to `initialize` names the session. DELETE gets 204 and
lets go of streams without a response. Revisions without sessions get 400.
"""

from __future__ import annotations

from tests.shell.wire import Peer
from tests.standins.servers.base import JSON, PLAIN, StandInServer, error_body
from tests.standins.servers.parts import Leg, Session, Stream
from tests.support.legs import LAST_CHUNK, Request, chunk, whole

STATELESS = "2026-07-28"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class GoServer(StandInServer):
    accept_status = 400
    deleted = 204
    names_session_always = False
    stream_headers = (("cache-control", "no-cache, no-transform"),)
    notices_breaks = True  # else a stream stays attached until `release`

    def refuse(self, request: Request) -> bytes | None:
        if (request.header("host") or "").rpartition(":")[0] not in LOOPBACK:
            return whole(403, [PLAIN], b"Forbidden: invalid Host header")
        if request.method == "POST" and request.header("last-event-id") is not None:
            return whole(400, [PLAIN], b"can't send Last-Event-ID for POST request")
        if request.header("mcp-protocol-version") == STATELESS:
            return whole(
                400, [JSON], error_body(-32022, "Unsupported protocol version", request.message["id"])
            )
        return super().refuse(request)

    def event_id(self, stream: Stream, *, is_answer: bool) -> str:
        return f"{stream.name}_{len(stream.events)}"

    def keep(self, stream: Stream, event_id: str | None, raw: bytes) -> None:
        stream.events.append((event_id or "", raw))

    async def begin(self, request: Request, stream: Stream, leg: Leg) -> None:
        in_flight = [run for run in self.runs if not run.stream.is_finished]
        if any(run.request["id"] == request.message["id"] for run in in_flight):
            await leg.peer.send(whole(400, [PLAIN], b"duplicate in-flight request ID"))
            return
        await super().begin(request, stream, leg)

    async def opened(self, stream: Stream, leg: Leg) -> None:
        if stream.session.version >= "2025-11-25":
            event_id = self.event_id(stream, is_answer=False)
            self.keep(stream, event_id, b"")
            await leg.peer.send(chunk(b"event: prime\nid: %b\ndata: \n\n" % event_id.encode()))

    async def get(self, request: Request, session: Session, peer: Peer) -> None:
        cursor = request.header("last-event-id")
        name, found, index = ("", "_", "-1") if cursor is None else cursor.rpartition("_")
        if not found or not index.lstrip("-").isdigit():
            await peer.send(whole(400, [PLAIN], b"malformed Last-Event-ID"))
            return
        stream = session.standalone if name == "" else session.streams.get(name)
        if stream is None:
            await peer.send(whole(400, [PLAIN], b"failed to replay events"))
            return
        if stream.leg is not None or stream in self.attached:
            await peer.send(whole(409, [PLAIN], b"stream ID conflicts with ongoing stream"))
            return
        missed = b"".join(raw for _, raw in stream.events[int(index) + 1 :])
        if not stream.is_finished:
            await self.stand(stream, peer, missed)
            return
        await peer.send(self.stream_head(session, is_post=False) + chunk(missed) + LAST_CHUNK)

    @property
    def attached(self) -> list[Stream]:
        """Streams whose connection is broken, which the server has not noticed."""
        return self._attached

    def __init__(self, *, states_epoch: bool = False) -> None:
        super().__init__(states_epoch=states_epoch)
        self._attached: list[Stream] = []

    def cut_unnoticed(self, stream: Stream) -> None:
        """The connection breaks on its way; to the server the stream is still attached."""
        self._attached.append(stream)
        self.cut(stream)

    def notice(self) -> None:
        self._attached.clear()

    async def close_for_poll(self, stream: Stream, retry_ms: int) -> None:
        """Close the stream, and say when the client should come back."""
        assert stream.leg is not None
        await stream.leg.peer.send(chunk(b"event: close\nretry: %d\ndata: \n\n" % retry_ms))
        await self.finish(stream)
