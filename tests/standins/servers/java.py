"""Stand-in for servers on the Java SDK (java-sdk 305e4cb = v2.0.1); the SDK itself was not run.

Recorded of it: nothing is replayed, and a GET with a cursor is answered 200 and stays silent for ever. The
first write that fails removes the whole session. `initialize` is answered by JSON, calls by SSE; only
`initialize` names the session. Event ids are `<stream>_<uuid>`, the final response has the session's id. The
head of a GET is not sent before its first event. A second GET silently takes the place of the first, which
stays open and mute. Questions have ids of the form `<session>-<n>`. Both types not accepted: 400.
"""

from __future__ import annotations

import uuid

from tests.shell.wire import Peer
from tests.standins.servers.base import JSON, StandInServer, error_body
from tests.standins.servers.parts import Leg, Session, Stream
from tests.support.legs import Request, whole


class JavaServer(StandInServer):
    accept_status = 400
    names_session_always = False

    def __init__(self, *, states_epoch: bool = False) -> None:
        super().__init__(states_epoch=states_epoch)
        self.silent_gets = 0
        self._unopened: set[Leg] = set()

    def lost(self, request: Request) -> bytes:
        return whole(404, [JSON], error_body(-32603, "Session not found", request.message.get("id")))

    def make_id(self) -> str:
        return str(uuid.uuid4())

    def event_id(self, stream: Stream, *, is_answer: bool) -> str:
        return stream.session.id if is_answer else f"{stream.name}_{uuid.uuid4()}"

    async def missed(self, stream: Stream) -> None:
        self.sessions.pop(stream.session.id, None)

    async def emit(self, stream: Stream, message: dict[str, object], *, is_answer: bool = False) -> None:
        if stream.leg in self._unopened:
            self._unopened.discard(stream.leg)
            await stream.leg.peer.send(self.stream_head(stream.session, is_post=False))
        await super().emit(stream, message, is_answer=is_answer)

    async def get(self, request: Request, session: Session, peer: Peer) -> None:
        leg = Leg(peer)
        if request.header("last-event-id") is not None:
            self.silent_gets += 1
            await peer.send(self.stream_head(session, is_post=False))
            await self.hang(Stream("nowhere", session), leg)
            return
        self._unopened.add(leg)
        session.standalone.leg = leg
        await self.hang(session.standalone, leg)
