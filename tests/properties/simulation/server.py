"""A simulated MCP server with the faults of real ones: silent re-creation, buffers that outlive sessions."""

from __future__ import annotations

import json
from random import Random

from tests.properties.simulation import payload
from tests.properties.simulation.access import Access
from tests.properties.simulation.clock import Clock
from tests.properties.simulation.connection import Connection
from tests.properties.simulation.payload import Json, Origin
from tests.properties.simulation.records import SessionObject
from tests.properties.simulation.streams import Streams
from tests.properties.simulation.tools import Tools
from tests.properties.simulation.traits import ServerTraits

Headers = dict[str, str]
OLDER = "2024-11-05"


class Server:
    """`handle` takes a whole request; what the server says goes to the connection."""

    def __init__(self, traits: ServerTraits, clock: Clock, rng: Random) -> None:
        self.traits, self.clock, self.rng = traits, clock, rng
        self.access = Access(traits)
        self.streams = Streams(traits, rng)
        self.tools = Tools(self.streams, clock, rng)
        self.names: dict[str, str] = {}  # session id -> the client that it was made for
        self.left_behind: set[str] = set()  # sessions of a place that the server has left
        self.notified: dict[str, list[Origin]] = {}
        self.opened = 0  # sessions that were begun
        self.down_until = 0.0
        self.mute_until = 0.0
        self.is_reborn = False
        self._swallowed: list[Connection] = []
        self._owners = 0
        self._session_count = 0

    @property
    def sessions(self) -> dict[str, SessionObject]:
        return self.streams.sessions

    @property
    def is_down(self) -> bool:
        return self.clock.now < self.down_until

    @property
    def is_compatible(self) -> bool:
        return self.traits.reborn == "same" or not self.is_reborn

    # --- session objects ------------------------------------------------------------------------

    def _make(self, session_id: str, *, is_recreated: bool = False) -> SessionObject:
        self._owners += 1
        session = SessionObject(session_id, self._owners, is_recreated)
        self.sessions[session_id] = session
        self.left_behind.discard(session_id)
        return session

    def _look_up(self, session_id: str) -> SessionObject | None:
        session = self.sessions.get(session_id)
        if session is None and self.traits.is_lazy and session_id in self.names:
            return self._make(session_id, is_recreated=True)
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
        """The process dies and is back after `seconds`, half of the time in another place."""
        self.down_until = self.clock.now + seconds
        if len(self.names) % 2:
            self.left_behind |= self.names.keys()
        self.is_reborn = True
        self._session_count = 0
        for session_id in list(self.sessions):
            self.evict(session_id)
        for execution in self.tools.executions:
            execution.is_dead = True
        for stream in self.streams.kept:
            self.streams.end(stream, is_clean=False)

    def move_away(self) -> None:
        """Another process takes new connections: what runs goes on, and nobody can ask for more of it."""
        self.left_behind |= self.names.keys()

    def be_silent(self, seconds: float) -> None:
        """Requests are taken and not answered; some of their connections break at the end of it."""
        self.mute_until = self.clock.now + seconds
        self.clock.after(seconds, self._break_swallowed)

    def _break_swallowed(self) -> None:
        for connection in self._swallowed:
            if self.rng.random() < 0.7:
                connection.wire.cut()
        self._swallowed = []

    def notify(self, session_id: str) -> None:
        """One notification on the standalone stream, if a session and a listener are there."""
        session = self.sessions.get(session_id)
        if session is None or session.standalone is None:
            return
        stream = session.standalone
        key = f"{self.names[session_id]}.sa"
        origin = self.tools.origin(key, 0, session.owner, len(stream.entries) + 1)
        self.notified.setdefault(key, []).append(origin)
        self.streams.append(stream, session.owner, (origin.serial,), payload.log(origin))

    # --- requests -------------------------------------------------------------------------------

    def handle(self, method: str, headers: Headers, body: bytes, connection: Connection) -> None:
        """Answer one request, now or while its tool runs."""
        if self.clock.now < self.mute_until:
            self._swallowed.append(connection)
            return
        token = headers["authorization"].removeprefix("Bearer ")
        session_id = headers.get("mcp-session-id")
        message = json.loads(body) if body else {}
        first = message[0] if isinstance(message, list) else message
        if self._is_denied(token, session_id, connection):
            return
        if first.get("method") == "initialize":
            connection.trespass.accepted.add(token)
            connection.is_clients_own = body in connection.trespass.asked_for
            self._initialize(first, session_id, connection)
            return
        session = None if session_id is None else self._look_up(session_id)
        if session is None:
            self._gone(first, connection)
            return
        connection.trespass.accepted.add(token)
        connection.head_epoch = session.owner
        match method:
            case "GET":
                self._get(session, headers.get("last-event-id"), connection)
            case "DELETE":
                self._delete(session, connection)
            case _:
                self._post(session, message, first, connection)

    def _is_denied(self, token: str, session_id: str | None, connection: Connection) -> bool:
        """Credentials are looked at before or after the session, as the server is made."""
        is_known = session_id in self.sessions or (self.traits.is_lazy and session_id in self.names)
        if session_id is not None and not is_known and not self.traits.auth_first:
            return False  # 404 before anybody looks who asks
        owner = self.names.get(session_id or "") if is_known else None
        denial = self.access.find_denial(token, owner)
        if denial is None:
            return False
        if is_known and not self.traits.auth_first and session_id is not None:
            self._look_up(session_id)
        connection.respond(denial, ((b"WWW-Authenticate", b"Bearer"),))
        return True

    def _initialize(self, message: Json, session_id: str | None, connection: Connection) -> None:
        """Begin a session. Within one, the server begins it anew, under its own id or another."""
        params = message["params"]
        is_stateless = self.is_reborn and self.traits.reborn == "stateless"
        is_kept = session_id in self.sessions and self.rng.random() < 0.5
        session = self._make(session_id if is_kept and session_id is not None else self._new_id())
        if not is_stateless:
            self.names[session.session_id] = params["clientInfo"]["name"]
            self.opened += 1
            connection.opens = session.session_id
        connection.head_epoch = session.owner
        value = self._describe(params["protocolVersion"])
        answer = payload.result(message["id"], value)
        self._answer(session, answer, connection, is_initialize=not is_stateless)
        if is_stateless:
            del self.sessions[session.session_id]

    def _new_id(self) -> str:
        self._session_count += 1
        if self.traits.counts_sessions:
            return f"S{self._session_count}"
        return f"S{self._owners + 1}-{self.rng.getrandbits(32):08x}"

    def _describe(self, version: str) -> Json:
        """The `InitializeResult`; after a restart it may be another server's."""
        reborn = self.traits.reborn if self.is_reborn else "same"
        capabilities: Json = {"tools": {}, **({"logging": {}} if self.traits.logs else {})}
        if reborn == "fewer":
            capabilities = {}
        return {
            "protocolVersion": OLDER if reborn == "older" else version,
            "capabilities": capabilities,
            "serverInfo": {"name": "another" if reborn == "renamed" else "simulated", "version": "1"},
        }

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

    def _post(
        self, session: SessionObject, body: Json | list[Json], first: Json, connection: Connection
    ) -> None:
        match first.get("method"):
            case "tools/call":
                self.tools.call(session, body, connection)
                return
            case "tools/list":
                tools = payload.tool_list(self.traits.annotates)
                self._answer(session, payload.result(first["id"], {"tools": tools}), connection)
                return
            case None:
                self.tools.take_answer(session, first, connection)
            case "notifications/cancelled":
                self.tools.cancel(session, first["params"].get("requestId"))
            case name if not name.startswith("notifications/"):
                self._answer(session, payload.result(first["id"], {}), connection)
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
