"""The embedded MCP server (Streamable HTTP, 2025-06-18) whose resumes cannot be trusted.

Nothing here is scripted to lie; the wrong answer follows from four choices that real servers make:

- a session that was idle longer than its TTL is reaped;
- the events of a stream are buffered per *request*, so the buffer outlives the session;
- a handler keeps its state (the running total) in the *session*;
- an id that names no session is answered by making the session again, with default state.

The fault is the coincidence: after event 900 of the first `sum_ledger` call the process stalls for
longer than the TTL (its clock is set forward, so nobody waits), then the connection is gone. Each
message states in `_meta.session_epoch` which session object produced it.

`python -m epochgate.demo.server` prints its port as JSON and serves until its stdin ends, on a free port of
127.0.0.1 unless `--host` and `--port` say where.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from aiohttp import web

from epochgate.demo.ledger import TOOL, Buffer, Json, Run, encode, work

CUT_AFTER_EVENT = 900
RAN_AHEAD_TO = 950  # what the handler had produced when the process stalled
SESSION_TTL_S = 300.0
STALL_S = 301.0
ENTRY_S = 0.001  # the work for one entry; enough to watch it go by

PROTOCOL_VERSION = "2025-06-18"


@dataclass(slots=True)
class Session:
    """One session object; `runs` is handler state, by request key, and dies with it."""

    id: str
    epoch: int
    last_seen: float
    runs: dict[str, Run] = field(default_factory=dict)


@dataclass(slots=True)
class Facts:
    """What really happened, for whoever tells the story; served at `/facts`."""

    initializes: int = 0
    silently_recreated: int = 0
    evicted: int = 0
    runs: list[Run] = field(default_factory=list)


class Server:
    """`cut_after` is the event after which the first call meets the fault; 0 is a healthy server."""

    def __init__(self, cut_after: int = CUT_AFTER_EVENT) -> None:
        self._cut_after = cut_after
        self._sessions: dict[str, Session] = {}
        self._buffers: dict[str, Buffer] = {}
        self._last_call: dict[str, str] = {}  # session id -> request key; survives eviction as well
        self._epoch = 0
        self._clock_offset_s = 0.0
        self.facts = Facts()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/mcp", self._post)
        app.router.add_get("/mcp", self._get)
        app.router.add_delete("/mcp", self._delete)
        app.router.add_get("/facts", self._facts)
        return app

    # --- sessions -------------------------------------------------------------------------------

    def _now(self) -> float:
        return time.monotonic() + self._clock_offset_s

    def _create(self, session_id: str) -> Session:
        self._epoch += 1
        session = Session(session_id, self._epoch, self._now())
        self._sessions[session_id] = session
        return session

    def _reap(self) -> None:
        for session in list(self._sessions.values()):
            if self._now() - session.last_seen > SESSION_TTL_S:
                del self._sessions[session.id]
                self.facts.evicted += 1

    def _find_or_create(self, request: web.Request) -> Session:
        self._reap()
        session_id = request.headers.get("Mcp-Session-Id", "")
        session = self._sessions.get(session_id)
        if session is None:  # the silent re-creation: same id, default state, no 404
            session = self._create(session_id)
            self.facts.silently_recreated += 1
        session.last_seen = self._now()
        return session

    # --- HTTP -----------------------------------------------------------------------------------

    async def _post(self, request: web.Request) -> web.StreamResponse:
        message: Json = await request.json()
        if message.get("method") == "initialize":
            return self._initialize(message)
        if "Mcp-Session-Id" not in request.headers:
            return web.Response(status=400, text="Mcp-Session-Id is missing")
        session = self._find_or_create(request)
        if "id" not in message:
            return web.Response(status=202)
        params = message.get("params", {})
        if message["method"] == "tools/call" and params.get("name") == TOOL["name"]:
            return await self._call(request, session, message)
        answer = self._answer(message["method"])
        answer |= {"jsonrpc": "2.0", "id": message["id"]}
        answer.get("result", {})["_meta"] = {"session_epoch": session.epoch}
        return _json(answer, session)

    async def _get(self, request: web.Request) -> web.StreamResponse:
        cursor = request.headers.get("Last-Event-ID", "")
        if "Mcp-Session-Id" not in request.headers or not cursor:
            return web.Response(status=405, headers={"Allow": "POST, DELETE"})
        session = self._find_or_create(request)
        key = self._last_call.get(session.id, "")
        if key not in self._buffers or not cursor.isdecimal():
            return web.Response(status=400, text="no stream has this event id")
        return await self._stream(request, session, key, int(cursor))

    async def _delete(self, request: web.Request) -> web.Response:
        gone = self._sessions.pop(request.headers.get("Mcp-Session-Id", ""), None)
        return web.Response(status=404 if gone is None else 200)

    async def _facts(self, _: web.Request) -> web.Response:
        return web.json_response(asdict(self.facts))

    # --- MCP ------------------------------------------------------------------------------------

    def _initialize(self, message: Json) -> web.Response:
        session = self._create(uuid.uuid4().hex)
        self.facts.initializes += 1
        result = {
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {"tools": {}, "logging": {}},
            "serverInfo": {"name": "epochgate-demo-ledger", "version": "1"},
            "_meta": {"session_epoch": session.epoch},
        }
        return _json({"jsonrpc": "2.0", "id": message["id"], "result": result}, session)

    def _answer(self, method: str) -> Json:
        match method:
            case "tools/list":
                return {"result": {"tools": [TOOL]}}
            case "ping" | "logging/setLevel":
                return {"result": {}}
            case _:
                return {"error": {"code": -32601, "message": f"unknown method {method}"}}

    async def _call(self, request: web.Request, session: Session, message: Json) -> web.StreamResponse:
        key = str(message["id"])
        token = message.get("params", {}).get("_meta", {}).get("progressToken")
        self._buffers[key] = Buffer(message["id"], token)
        session.runs.pop(key, None)
        self._last_call[session.id] = key
        return await self._stream(request, session, key, after=0)

    async def _stream(
        self, request: web.Request, session: Session, key: str, after: int
    ) -> web.StreamResponse:
        """The events of a call behind id `after`: first what is buffered, then what is still to do."""
        buffer = self._buffers[key]
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Mcp-Session-Id": session.id}
        )
        await response.prepare(request)
        try:
            for event in buffer.events[after:]:
                await response.write(event)
            while not buffer.is_complete:
                await response.write(work(self._run(session, key, buffer), buffer))
                if self._cut_after and len(buffer.events) == self._cut_after:
                    self._stall(request, session, key, buffer)
                    return response
                await asyncio.sleep(ENTRY_S)
        except ConnectionResetError:  # the reader left; the session keeps the state for its return
            return response
        return response

    def _run(self, session: Session, key: str, buffer: Buffer) -> Run:
        """The session's handler of this call; one that it does not know starts from nothing."""
        if key not in session.runs:
            session.runs[key] = Run(session.epoch, first_entry=buffer.next_entry)
            self.facts.runs.append(session.runs[key])
        return session.runs[key]

    def _stall(self, request: web.Request, session: Session, key: str, buffer: Buffer) -> None:
        """The fault, once: the handler is ahead of the wire, time passes, the connection is gone."""
        self._cut_after = 0
        while len(buffer.events) < RAN_AHEAD_TO:
            work(self._run(session, key, buffer), buffer)
        self._clock_offset_s += STALL_S
        if request.transport is not None:
            request.transport.close()  # after what is written, without the final chunk


def _json(message: Json, session: Session) -> web.Response:
    headers = {"Content-Type": "application/json", "Mcp-Session-Id": session.id}
    return web.Response(body=encode(message), headers=headers)


async def serve(cut_after: int, host: str, port: int) -> None:
    """Serve, print `{"port": N}`, return when stdin ends. Port 0 is any free one."""
    runner = web.AppRunner(Server(cut_after).app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    listener = socket.create_server((host, port))
    await web.SockSite(runner, listener).start()
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
    await runner.cleanup()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m epochgate.demo.server")
    parser.add_argument("--cut-after", type=int, default=CUT_AFTER_EVENT, metavar="EVENT")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args(argv)
    asyncio.run(serve(given.cut_after, given.host, given.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
