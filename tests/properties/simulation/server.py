"""A simulated MCP server with the faults of real ones: silent re-creation, buffers that outlive sessions."""

from __future__ import annotations

import json
from random import Random

from tests.properties.simulation import payload
from tests.properties.simulation.clock import Clock
from tests.properties.simulation.connection import Connection
from tests.properties.simulation.payload import Json, Origin
from tests.properties.simulation.records import Execution, SessionObject
from tests.properties.simulation.streams import Streams
from tests.properties.simulation.tools import Tools
from tests.properties.simulation.traits import ServerTraits


class Server:
    """`handle` takes a whole request; what the server says goes to the connection."""

    def __init__(self, traits: ServerTraits, clock: Clock, rng: Random) -> None:
        self.traits, self.clock, self.rng = traits, clock, rng
        self.streams = Streams(traits, rng)
        self.tools = Tools(self.streams, clock, rng)
        self.names: dict[str, str] = {}  # session id -> the client that it was made for
        self.notified: dict[str, list[Origin]] = {}
        self.initialized: list[str] = []
        self.down_until = 0.0
        self._owners = 0

    @property
    def sessions(self) -> dict[str, SessionObject]:
        return self.streams.sessions

    @property
    def executions(self) -> list[Execution]:
        return self.tools.executions

    @property
    def is_down(self) -> bool:
        return self.clock.now < self.down_until

    # --- session objects ------------------------------------------------------------------------

    def _make(self, session_id: str) -> SessionObject:
        self._owners += 1
        session = SessionObject(session_id, self._owners)
        self.sessions[session_id] = session
        return session

    def _look_up(self, session_id: str) -> SessionObject | None:
        session = self.sessions.get(session_id)
        if session is None and self.traits.is_lazy and session_id in self.names:
            return self._make(session_id)
        return session

    def evict(self, session_id: str) -> None:
        """The session is reaped. What hangs on it goes too, unless buffers are kept by request."""
        session = self.sessions.pop(session_id, None)
        if session is None:
            return
        if session.standalone is not None:
            self.streams.end(session.standalone, is_clean=True)
            session.standalone.is_done = True
        if not self.traits.buffer_survives:
            self.streams.drop(session_id)

    def restart(self, seconds: float) -> None:
        """The process dies and is back after `seconds`."""
        self.down_until = self.clock.now + seconds
        for session_id in list(self.sessions):
            self.evict(session_id)
        for execution in self.executions:
            execution.is_dead = True
        for stream in self.streams.kept:
            self.streams.end(stream, is_clean=False)

    def notify(self, session_id: str) -> None:
        """One notification on the standalone stream, if a session and a listener are there."""
        session = self.sessions.get(session_id)
        if session is None or session.standalone is None:
            return
        stream = session.standalone
        key = f"{self.names[session_id]}.sa"
        origin = self.tools.origin(key, 0, session.owner, len(stream.entries) + 1)
        self.notified.setdefault(key, []).append(origin)
        self.streams.append(stream, origin.serial, session.owner, payload.log(origin))

    # --- requests -------------------------------------------------------------------------------

    def handle(self, method: str, headers: dict[str, str], body: bytes, connection: Connection) -> None:
        """Answer one request, now or while its tool runs."""
        session_id = headers.get("mcp-session-id")
        message = json.loads(body) if body else {}
        if message.get("method") == "initialize":
            self._initialize(message, connection)
            return
        session = None if session_id is None else self._look_up(session_id)
        if session is None:
            self._gone(message, connection)
            return
        connection.head_epoch = session.owner
        if method == "GET":
            self._get(session, headers.get("last-event-id"), connection)
            return
        if method == "DELETE":
            self._delete(session, connection)
            return
        self._post(session, message, connection)

    def _initialize(self, message: Json, connection: Connection) -> None:
        params = message["params"]
        self.initialized.append(params["clientInfo"]["name"])
        session = self._make(f"S{self._owners + 1}-{self.rng.getrandbits(32):08x}")
        self.names[session.session_id] = params["clientInfo"]["name"]
        capabilities: Json = {"tools": {}, **({"logging": {}} if self.traits.logs else {})}
        value = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": capabilities,
            "serverInfo": {"name": "simulated", "version": "1"},
        }
        connection.head_epoch = session.owner
        self._answer(session, payload.result(message["id"], value), connection, is_initialize=True)

    def _gone(self, message: Json, connection: Connection) -> None:
        text = json.dumps(payload.error(message.get("id"), -32000, "Session not found")).encode()
        json_type = ((b"content-type", b"application/json"),)
        if self.traits.gone_status == "404":
            connection.respond(404, ((b"content-type", b"text/plain"),), b"Session not found")
        else:
            connection.respond(400 if self.traits.gone_status == "400" else 404, json_type, text)

    def _get(self, session: SessionObject, last: str | None, connection: Connection) -> None:
        if last is None:
            self.streams.open_standalone(session, connection)
            return
        stream = self.streams.resume(session, last, connection)
        if stream is not None:
            self.tools.revive(session, stream)

    def _delete(self, session: SessionObject, connection: Connection) -> None:
        if not self.traits.accepts_delete:
            connection.respond(405, ())
            return
        self.evict(session.session_id)
        self.streams.drop(session.session_id)
        del self.names[session.session_id]
        connection.respond(200, ())

    def _post(self, session: SessionObject, message: Json, connection: Connection) -> None:
        match message.get("method"):
            case "tools/call":
                self.tools.call(session, message, connection)
                return
            case "tools/list":
                tools = payload.tool_list(self.traits.annotates)
                self._answer(session, payload.result(message["id"], {"tools": tools}), connection)
                return
            case None:
                self.tools.take_answer(session, message)
            case "notifications/cancelled":
                self.tools.cancel(session, message["params"].get("requestId"))
            case name if not name.startswith("notifications/"):
                self._answer(session, payload.result(message["id"], {}), connection)
                return
            case _:
                pass
        connection.respond(202, self.streams.headers(session, None))

    def _answer(
        self, session: SessionObject, message: Json, connection: Connection, is_initialize: bool = False
    ) -> None:
        text = payload.encode(self.streams.tagged(message, session.owner), self.traits)
        kind = "text/event-stream" if self.traits.sse_everywhere else "application/json"
        connection.open(200, self.streams.headers(session, kind, is_initialize))
        body = payload.frame(text, None, self.traits) if self.traits.sse_everywhere else text.encode()
        connection.write(body)
        connection.finish()
