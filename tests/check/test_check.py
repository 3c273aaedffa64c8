"""`epochgate check` over sockets, against small servers that behave well or badly on purpose."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from epochgate.check.wire import MAX_REQUESTS, CannotTell, Wire
from epochgate.demo.server import Server as FaultyServer

DEADLINE_S = 60
TOOL = {"name": "count", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}


class Scripted:
    """A server that keeps all four conditions but for the named `faults`."""

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        self.sessions: dict[str, int] = {}
        self.stamps: dict[str, str] = {}  # session id -> the request id of its call
        self.made = 0
        self.calls = 0
        self.listening: set[str] = set()
        self.is_over = asyncio.Event()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/mcp", self.post)
        app.router.add_get("/mcp", self.get)
        app.router.add_delete("/mcp", self.delete)
        return app

    async def post(self, request: web.Request) -> web.StreamResponse:
        message = await request.json()
        if "401" in self.faults or ("needs key" in self.faults and request.headers.get("X-Key") != "secret"):
            return web.Response(status=401)
        if "not mcp" in self.faults:
            return web.json_response({"hello": "world"})
        method, session = message["method"], request.headers.get("Mcp-Session-Id", "")
        if method == "initialize":
            self.made += 1
            session = f"session-{self.made}"
            self.sessions[session] = self.made
            result: dict[str, object] = {"protocolVersion": "2025-06-18", "serverInfo": {"name": self.name()}}
            result |= {"capabilities": {}, **self.meta(session)}
            return self.answer(message, result, session)
        if session not in self.sessions and "on the spot" in self.faults:
            self.made += 1
            self.sessions[session] = self.made
        if session not in self.sessions:
            return web.Response(status=404)
        if "id" not in message:
            return web.Response(status=202)
        if method == "ping" and "loses pings" in self.faults:
            return web.Response(status=404)
        if method == "tools/call":
            self.calls += 1
            self.stamps[session] = message["id"]
            return await self.stream(request, session, after=0)
        if method == "tools/list" and "pages" in self.faults and "cursor" not in message["params"]:
            return self.answer(message, {"tools": [], "nextCursor": "2"}, session)
        hints = {} if "no hint" in self.faults else TOOL["annotations"]
        name = "count\x1b[2J" if "escape" in self.faults else TOOL["name"]
        return self.answer(message, {"tools": [{**TOOL, "name": name, "annotations": hints}]}, session)

    def meta(self, session: str) -> dict[str, object]:
        key = "boot_epoch" if "own key" in self.faults else "session_epoch"
        return {} if self.header() else {"_meta": {key: self.sessions[session]}}

    def head(self, session: str) -> dict[str, str]:
        header = self.header()
        return {header: str(self.sessions[session])} if header else {}

    def header(self) -> str | None:
        """The header that has the epoch, if none of the messages has it."""
        own = "X-Boot-Epoch" if "own header" in self.faults else None
        return "Mcp-Session-Epoch" if "header" in self.faults else own

    def name(self) -> str:
        return f"replica {self.made}" if "replicas" in self.faults else "scripted"

    def answer(self, message: dict[str, object], result: object, session: str) -> web.Response:
        body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return web.json_response(body, headers={"Mcp-Session-Id": session, **self.head(session)})

    async def get(self, request: web.Request) -> web.StreamResponse:
        session, cursor = request.headers["Mcp-Session-Id"], request.headers.get("Last-Event-ID")
        if cursor is None and "standalone" in self.faults and session in self.sessions:
            return await self.listen(request, session)
        if "refuses GET" in self.faults or cursor is None:
            return web.Response(status=405)
        if session not in self.sessions and "lazy" in self.faults:
            self.made += 1
            self.sessions[session] = self.made
        if session not in self.sessions:
            return web.Response(status=404)
        if not cursor.isdecimal() and "takes any cursor" in self.faults:
            return web.Response(headers={"Content-Type": "text/event-stream"})
        if not cursor.isdecimal() or (session not in self.stamps and "foreign" not in self.faults):
            return web.Response(status=400)
        return await self.stream(request, session, after=int(cursor))

    async def listen(self, request: web.Request, session: str) -> web.StreamResponse:
        """A standalone stream that never has a message; the second of a session is refused if `busy`."""
        if session in self.listening and "busy" in self.faults:
            return web.Response(status=409)
        self.listening.add(session)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await self.is_over.wait()
        return response

    async def stream(self, request: web.Request, session: str, after: int) -> web.StreamResponse:
        stamp = self.stamps.get(session) or next(iter(self.stamps.values()))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **self.head(session)})
        await response.prepare(request)
        for number in range(after + 1, 4):
            message: dict[str, object] = {"method": "notifications/progress"}
            message["params"] = {"progressToken": stamp, "progress": number, **self.meta(session)}
            if number == 3:
                message = {"id": stamp, "result": {"content": [], **self.meta(session)}}
            head = "" if "no ids" in self.faults else f"id: {number}\n"
            await response.write(f"{head}data: {json.dumps(message)}\n\n".encode())
        return response

    async def delete(self, request: web.Request) -> web.Response:
        gone = self.sessions.pop(request.headers["Mcp-Session-Id"], None)
        return web.Response(status=404 if gone is None else 200)


@asynccontextmanager
async def serving(server: Scripted | FaultyServer, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listener, ssl_context=tls).start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        if isinstance(server, Scripted):
            server.is_over.set()
        await runner.cleanup()


async def check(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "epochgate", "check", *words]
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


@pytest.mark.parametrize(
    ("server", "states", "client", "code"),
    [
        (Scripted(), "kept kept kept kept", "resume", 0),
        (Scripted("lazy"), "broken kept broken kept", "restart", 1),
        (Scripted("on the spot"), "kept kept broken kept", "restart", 1),
        (Scripted("foreign"), "kept broken kept kept", "restart", 1),
        (Scripted("no ids"), "unknown unknown unknown unknown", "restart", 2),
        (Scripted("refuses GET"), "unknown unknown unknown unknown", "restart", 2),
        (Scripted("header"), "kept kept kept kept", "restart", 0),  # no message has what a client could check
        (Scripted("replicas"), "kept kept kept kept", "restart", 2),
        (Scripted("loses pings"), "kept kept kept kept", "restart", 2),
        (Scripted("takes any cursor"), "kept broken kept kept", "restart", 1),
        (Scripted("pages"), "kept kept kept kept", "resume", 0),
        (FaultyServer(), "broken kept broken kept", "restart", 1),
    ],
    ids=[
        "sound",
        "lazy",
        "on-the-spot",
        "foreign",
        "no-ids",
        "refuses-get",
        "header",
        "replicas",
        "lost-pings",
        "any-cursor",
        "pages",
        "demo",
    ],
)
async def test_each_server_gets_its_verdict(
    server: Scripted | FaultyServer, states: str, client: str, code: int
) -> None:
    async with serving(server) as url:
        ran = await check(url, "--json")

    told = json.loads(ran.stdout)
    seen = [condition["state"].replace("cannot tell", "unknown") for condition in told["conditions"]]
    assert (seen, told["client"], ran.returncode) == (states.split(), client, code)
    if isinstance(server, Scripted):
        assert server.sessions == {}
        assert server.calls == 1


@pytest.mark.parametrize(
    ("faults", "setting"),
    [(("own key",), "epoch_keys: boot_epoch"), (("own header",), "epoch_header: x-boot-epoch")],
)
async def test_an_epoch_of_another_name_is_found_and_the_setting_told(
    faults: tuple[str, ...], setting: str
) -> None:
    async with serving(Scripted(*faults)) as url:
        ran = await check(url, "--json")
    told = json.loads(ran.stdout)
    assert [condition["state"] for condition in told["conditions"]] == ["kept"] * 4
    assert setting in dict(told["settings"])


@pytest.mark.parametrize(
    ("faults", "note"),
    [
        (("standalone", "busy"), "a second GET beside the first is refused as busy"),
        (("standalone",), "a second GET beside the first is served too"),
        ((), "there is no standalone stream (GET gets 405)"),
    ],
)
async def test_what_a_second_get_meets_is_told(faults: tuple[str, ...], note: str) -> None:
    async with serving(Scripted(*faults)) as url:
        ran = await check(url, "--json")
    assert note in json.loads(ran.stdout)["notes"]
    assert ran.returncode == 0


async def test_headers_of_a_file_are_sent_and_never_shown(tmp_path: Path) -> None:
    server = Scripted("needs key")
    file = tmp_path / "credentials"
    file.write_text("X-Key: secret\n\n")
    async with serving(server) as url:
        ran = await check(url, "--header-file", str(file))
        assert (await check(url)).returncode == 2
    assert ran.returncode == 0
    assert "secret" not in ran.stdout + ran.stderr

    file.write_text("no header: at all\n")
    ran = await check("http://127.0.0.1:9/mcp", "--header-file", str(file))
    assert (ran.returncode, ran.stderr) == (
        2,
        "epochgate: a header is not NAME:VALUE (it is not shown here)\n",
    )


async def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        wire = Wire(f"http://127.0.0.1:{silent.getsockname()[1]}/mcp", {}, timeout_s=0.05)
        with pytest.raises(CannotTell, match="no answer in time"):
            await wire.ask("GET", {})
        await wire.close()


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("401", "epochgate: 401: not authorized; give credentials with --header"),
        ("not mcp", "epochgate: not an MCP server: initialize got 200 without a result"),
    ],
)
async def test_what_cannot_be_checked_is_one_line_and_exit_code_2(fault: str, line: str) -> None:
    async with serving(Scripted(fault)) as url:
        ran = await check(url, "--header", "Authorization: Bearer secret")

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines()[-1] == line
    assert "secret" not in ran.stderr


async def test_a_refused_connection_and_failing_tls_are_exit_code_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    refused = await check(f"http://127.0.0.1:{port}/mcp")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "cannot connect: connection refused; give the URL of a server that runs" in refused.stderr

    async with serving(Scripted()) as url:
        tls = await check(url.replace("http:", "https:"))
    assert (tls.returncode, tls.stdout) == (2, "")
    assert tls.stderr.splitlines()[-1].startswith("epochgate: ")


async def test_an_address_without_the_path_of_the_endpoint_says_so() -> None:
    async with serving(Scripted()) as url:
        ran = await check(url.removesuffix("/mcp"))
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].endswith(
        "give the whole URL of the endpoint, which often ends in /mcp"
    )


async def test_a_tool_that_is_not_declared_read_only_is_never_called_unasked() -> None:
    server = Scripted("no hint")
    async with serving(server) as url:
        unnamed = await check(url)
        named = await check(url, "--tool", "count")
        assert (unnamed.returncode, named.returncode, server.calls) == (2, 2, 0)
        assert "count is not declared read-only" in named.stderr
        assert "cuont: the server lists no such tool" in (await check(url, "--tool", "cuont")).stderr
        assert "--tool NAME --allow-tool" in " ".join(unnamed.stdout.split())
        assert "situation" not in unnamed.stdout  # nothing to say: no empty table

        assert (await check(url, "--tool", "count", "--allow-tool")).returncode == 0
    assert server.calls == 1


async def test_a_dry_run_sends_nothing() -> None:
    server = Scripted()
    async with serving(server) as url:
        ran = await check(url, "--dry-run")
    assert (ran.returncode, server.made) == (0, 0)
    assert "POST tools/call" in ran.stdout


async def test_a_name_that_the_server_gives_cannot_steer_the_terminal() -> None:
    async with serving(Scripted("escape")) as url:
        ran = await check(url)
    assert "tools/call count?[2J, broken" in ran.stderr
    assert "\x1b" not in ran.stdout + ran.stderr


async def test_no_more_than_so_many_requests_are_sent() -> None:
    server = Scripted()
    async with serving(server) as url:
        wire = Wire(url, {}, timeout_s=DEADLINE_S)
        wire.sent = MAX_REQUESTS
        with pytest.raises(CannotTell, match=f"stopped: {MAX_REQUESTS} requests are the bound"):
            await wire.ask("POST", {}, {"method": "initialize", "id": 1})
        await wire.close()
    assert server.made == 0
