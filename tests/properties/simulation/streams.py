"""The event streams of a simulated server: ids, buffers, replay, and the ways in which replay is wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.properties.simulation import payload
from tests.properties.simulation.connection import Connection
from tests.properties.simulation.payload import Json
from tests.properties.simulation.records import Entry, SessionObject, Stream
from tests.properties.simulation.traits import ServerTraits
from tests.properties.simulation.wire import Pairs

EPOCH_BASE = 1000
POLL_MS = 500


@dataclass
class Streams:
    """Every stream that is still buffered, and the live sessions that they belong to."""

    traits: ServerTraits
    rng: Random
    sessions: dict[str, SessionObject] = field(default_factory=dict)
    kept: list[Stream] = field(default_factory=list)
    _global_id: int = 0
    _made: int = 0

    def new(self, session: SessionObject) -> Stream:
        """A stream of a session, and its buffer."""
        session.next_stream += 1
        self._made += 1
        number = session.next_stream if self.traits.reuses_ids else self._made
        stream = Stream(session.session_id, number)
        self.kept.append(stream)
        return stream

    def tag(self, owner: int) -> int | None:
        """The session object that a message of `owner` says it is from."""
        return owner if self.traits.epoch in ("produce", "send") else None

    def tagged(self, message: Json, owner: int) -> Json:
        match self.traits.epoch:
            case "produce" | "send":
                return payload.with_epoch(message, EPOCH_BASE + owner)
            case "constant":
                return payload.with_epoch(message, EPOCH_BASE)
            case "noise":
                return payload.with_epoch(message, EPOCH_BASE + self.rng.getrandbits(20))
            case "none" | "header":
                return message

    def headers(self, session: SessionObject, kind: str | None, is_initialize: bool = False) -> Pairs:
        pairs: list[tuple[bytes, bytes]] = []
        if kind is not None:
            pairs.append((b"content-type", kind.encode()))
        if is_initialize or self.traits.sets_session_always:
            pairs.append((b"mcp-session-id", session.session_id.encode()))
        if self.traits.epoch == "header":
            pairs.append((b"Mcp-Session-Epoch", str(EPOCH_BASE + session.owner).encode()))
        return tuple(pairs)

    def open_sse(self, session: SessionObject, connection: Connection) -> None:
        connection.open(200, self.headers(session, "text/event-stream"))

    def event_id(self, stream: Stream) -> str | None:
        self._global_id += 1
        position = len(stream.entries) + 1
        match self.traits.ids:
            case "none":
                return None
            case "int":
                return str(stream.number * 10_000 + position)
            case "prefix":
                return f"s{stream.number}_{position}"
            case "uuid":
                return f"{self.rng.getrandbits(64):016x}"
            case "global":
                return str(self._global_id)

    # --- writing --------------------------------------------------------------------------------

    def append(
        self,
        stream: Stream,
        owner: int,
        serials: tuple[int, ...],
        message: Json | list[Json] | None,
        execution: int = 0,
    ) -> None:
        """Keep an event, and write it if somebody listens; without a message it is a priming event."""
        entry = Entry(self.event_id(stream), owner, serials, message, execution)
        stream.entries.append(entry)
        if stream.connection is not None:
            self._write(stream.connection, stream.session_id, entry)

    def _write(self, connection: Connection, session_id: str, entry: Entry) -> None:
        has_id = entry.event_id is not None
        if entry.message is None:
            retry = POLL_MS if self.traits.polls and self.traits.primes else None
            connection.has_retry = connection.has_retry or retry is not None
            connection.is_poll_announced = retry is not None  # should the leg end here (R4)
            connection.write(payload.frame("", entry.event_id, self.traits, retry), has_id=has_id)
            return
        session = self.sessions.get(session_id)
        connection.is_poll_announced = False
        owner = entry.owner
        if self.traits.epoch == "send" and session is not None:
            owner = session.owner
        message = entry.message
        if isinstance(message, list):
            text = payload.encode([self.tagged(one, owner) for one in message], self.traits)
        else:
            text = payload.encode(self.tagged(message, owner), self.traits)
        data = payload.frame(text, entry.event_id, self.traits)
        connection.write(data, entry.serials, self.tag(owner), has_id)

    def announce_poll(self, stream: Stream) -> None:
        """End the connection after a `retry:`, if only that of its priming event; the handler goes on."""
        connection = stream.connection
        if connection is None:
            return
        if connection.has_retry and self.rng.random() < 0.5:
            self.end(stream, is_clean=True)
            return
        entry = Entry(self.event_id(stream), 0, (), None)
        stream.entries.append(entry)
        connection.is_poll_announced = True
        connection.write(payload.frame("", entry.event_id, self.traits, POLL_MS), has_id=True)
        self.end(stream, is_clean=True)

    def end(self, stream: Stream, is_clean: bool) -> None:
        connection, stream.connection = stream.connection, None
        if connection is None:
            return
        connection.writer = None
        if is_clean:
            connection.finish()
        else:
            connection.wire.cut()

    def drop(self, session_id: str) -> None:
        """The buffers of a session go, and the handlers that write to them."""
        is_clean = self.rng.random() < 0.5
        for stream in [s for s in self.kept if s.session_id == session_id]:
            for execution in stream.executions:
                execution.is_dead = True
            self.end(stream, is_clean)
            self.kept.remove(stream)

    # --- reading again --------------------------------------------------------------------------

    def open_standalone(self, session: SessionObject, connection: Connection) -> None:
        if session.standalone is not None and session.standalone.connection is not None:
            connection.respond(409, ())
            return
        if session.standalone is None:
            session.standalone = self.new(session)
        self.open_sse(session, connection)
        session.standalone.connection, connection.writer = connection, session.standalone

    def resume(self, session: SessionObject, last: str, connection: Connection) -> Stream | None:
        """Answer a GET with `Last-Event-ID`; the stream if it is live again on this connection."""
        connection.is_resumed = True
        stream = self._find(session, last)
        match self.traits.resume:
            case "400":
                connection.respond(400, ())
                return None
            case "405":
                connection.respond(405, ())
                return None
            case "empty":
                self.open_sse(session, connection)
                connection.finish()
                return None
            case "409_first" if stream is not None and stream.refusals > 0:
                stream.refusals -= 1
                connection.respond(409, ())
                return None
            case _ if stream is None:
                self._refuse_unknown(session, connection)
                return None
            case _:
                return self._replay(session, stream, last, connection)

    def _find(self, session: SessionObject, last: str) -> Stream | None:
        """An id that was given out again, in a session begun anew under its id, is the newer stream's."""
        for stream in reversed(self.kept):
            is_there = any(entry.event_id == last for entry in stream.entries)
            if stream.session_id == session.session_id and is_there:
                return stream
        return None

    def _refuse_unknown(self, session: SessionObject, connection: Connection) -> None:
        if self.traits.unknown_cursor == "400":
            connection.respond(400, ())
            return
        self.open_sse(session, connection)
        connection.finish()

    def _replay(
        self, session: SessionObject, stream: Stream, last: str, connection: Connection
    ) -> Stream | None:
        self.open_sse(session, connection)
        self._leak(stream, connection)
        self.end(stream, is_clean=True)
        ids = [entry.event_id for entry in stream.entries]
        first = {"last_again": ids.index(last), "from_start": 0}.get(self.traits.resume, ids.index(last) + 1)
        for entry in stream.entries[first:]:
            self._write(connection, stream.session_id, entry)
        if stream.is_done:
            connection.finish()
            return None
        stream.connection, connection.writer = connection, stream
        return stream

    def _leak(self, stream: Stream, connection: Connection) -> None:
        """Some servers replay every stream, of the session or of everybody, whichever was asked for."""
        if self.traits.leaks == "no":
            return
        others = [other for other in self.kept if other is not stream]
        if self.traits.leaks == "session":
            others = [other for other in others if other.session_id == stream.session_id]
        events = [(other, entry) for other in others for entry in other.entries]
        for other, entry in events[-2:]:
            self._write(connection, other.session_id, entry)
