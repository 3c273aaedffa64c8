"""Stand-in for servers on the Kotlin SDK (kotlin-sdk a06d699, after 0.14.0); the SDK itself was not run.

Recorded of it: events are stored only while a connection is there, so that those of a gap are lost; a
resume replays what is stored and then closes. A new GET closes the one before. Every stream begins with an
event of empty data, which sends the head.
"""

from __future__ import annotations

from tests.shell.wire import Peer
from tests.standins.servers.base import PLAIN, StandInServer
from tests.standins.servers.parts import Leg, Session, Stream
from tests.support.legs import LAST_CHUNK, Request, chunk, whole

FLUSH = b"data: \n\n"


class KotlinServer(StandInServer):
    def event_id(self, stream: Stream, *, is_answer: bool) -> str:
        return f"{stream.name or 'standalone'}-{stream.emitted}"

    def keep(self, stream: Stream, event_id: str | None, raw: bytes) -> None:
        if stream.leg is not None:
            stream.events.append((event_id or "", raw))

    async def opened(self, stream: Stream, leg: Leg) -> None:
        await leg.peer.send(chunk(FLUSH))

    async def get(self, request: Request, session: Session, peer: Peer) -> None:
        cursor = request.header("last-event-id")
        if cursor is None:
            if session.standalone.leg is not None:
                await self.finish(session.standalone)
            await self.stand(session.standalone, peer, FLUSH)
            return
        streams = [one for one in session.streams.values() if cursor in dict(one.events)]
        if not streams:
            await peer.send(whole(400, [PLAIN], b"unknown event id"))
            return
        (stream,) = streams
        at = [event_id for event_id, _ in stream.events].index(cursor)
        missed = b"".join(raw for _, raw in stream.events[at + 1 :])
        await peer.send(self.stream_head(session, is_post=False) + chunk(FLUSH + missed) + LAST_CHUNK)
