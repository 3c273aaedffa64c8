"""Stand-in for `McpAgent` of Cloudflare's agents (agents 0.32.0); the package itself was not run.

Recorded of it: a new GET, with a cursor or without, supersedes the connection before; one without a cursor
replays nothing. Event ids are `<stream>:<16 hex>`. The stream of a call is cleared right after its final
write, so that an answer lost on its way is lost for good. DELETE gets 204.
"""

from __future__ import annotations

from tests.shell.wire import Peer
from tests.standins.servers.base import PLAIN, StandInServer
from tests.standins.servers.parts import Session, Stream
from tests.support.legs import Request, whole


class CloudflareServer(StandInServer):
    deleted = 204

    def event_id(self, stream: Stream, *, is_answer: bool) -> str:
        return f"{stream.name or 'standalone'}:{stream.emitted:016x}"

    def keep(self, stream: Stream, event_id: str | None, raw: bytes) -> None:
        stream.events.append((event_id or "", raw))

    async def finish(self, stream: Stream) -> None:
        await super().finish(stream)
        stream.events.clear()

    async def get(self, request: Request, session: Session, peer: Peer) -> None:
        cursor = request.header("last-event-id")
        if cursor is None:
            await self._supersede(session.standalone, peer, b"")
            return
        streams = [one for one in session.streams.values() if cursor in dict(one.events)]
        if not streams:
            await peer.send(whole(400, [PLAIN], b"unknown event id"))
            return
        (stream,) = streams
        at = [event_id for event_id, _ in stream.events].index(cursor)
        await self._supersede(stream, peer, b"".join(raw for _, raw in stream.events[at + 1 :]))

    async def _supersede(self, stream: Stream, peer: Peer, missed: bytes) -> None:
        if stream.leg is not None:
            await StandInServer.finish(self, stream)
        await self.stand(stream, peer, missed)
