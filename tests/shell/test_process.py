"""`epochgate run` as a process: how it starts, how it goes away, and what it never does."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path

import pytest

from epochgate.observe.logs import session_hash
from tests.shell.running import (
    CALL,
    DEADLINE_S,
    FREE,
    INITIALIZE,
    Mcp,
    begin_call,
    drained,
    environment,
    read_stream,
    refused,
    request,
    running_proxy,
    told,
    until_refused,
)
from tests.shell.wire import Peer, Upstreams, connected, serving
from tests.support.proxy import guarding

# starting


@pytest.mark.parametrize("name", ["listen", "admin", "health"])
async def test_a_port_in_use_is_one_line_and_exit_code_1(name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        flags = {"listen": FREE, "admin": FREE, "health": FREE, name: address}
        given = [word for flag, value in flags.items() for word in (f"--{flag}", value)]
        code, said = await refused(*given)
    reason = "address already in use; give another address, or stop what uses this one"
    assert (code, said) == (1, f"epochgate: --{name} {address}: {reason}\n")


async def test_an_address_that_is_not_ours_is_one_line_and_exit_code_1() -> None:
    code, said = await refused("--listen", "192.0.2.1:8808", "--admin", "off")
    assert code == 1
    assert said.startswith("epochgate: --listen 192.0.2.1:8808: ")
    assert said.count("\n") == 1


async def test_a_socket_in_a_folder_that_is_not_there_is_one_line_and_exit_code_1() -> None:
    code, said = await refused("--listen", "unix:/nowhere/e.sock", "--admin", "off")
    reason = "no such file or directory; give a path in a folder that is there"
    assert (code, said) == (1, f"epochgate: --listen unix:/nowhere/e.sock: {reason}\n")


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("http://127.0.0.1:1/mcp", "what clients ask of /mcp goes to /mcp/mcp; leave /mcp out of upstream"),
        (
            "http://127.0.0.1:1/a/sse/",
            "what clients ask of /sse goes to /a/sse/sse; leave /sse out of upstream",
        ),
        ("http://127.0.0.1:1/a", None),
    ],
)
async def test_an_upstream_that_ends_in_an_endpoint_is_one_line(url: str, hint: str | None) -> None:
    async with guarding(url) as proxy:
        said = [line["hint"] for line in proxy.log("upstream ends in an endpoint")]
    assert said == ([] if hint is None else [hint])


async def test_it_raises_its_limit_of_open_files_to_the_hard_one() -> None:
    command = f"ulimit -Sn 256; exec {sys.executable} -m epochgate run --upstream http://127.0.0.1:1"
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", f"{command} --listen {FREE} --admin off"),
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )
    try:
        assert process.stderr is not None
        await told(process.stderr, "listening")
        soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        assert soft == hard > 256
    finally:
        process.kill()
        await process.wait()


async def test_it_is_ready_once_the_server_was_reached_and_alive_without() -> None:
    async with serving(Mcp()) as server, running_proxy(server.port) as proxy:
        async with asyncio.timeout(DEADLINE_S):
            while await proxy.ready() != 200:
                pass
        assert await proxy.stop() == 0


async def test_it_listens_in_several_places(tmp_path: Path) -> None:
    path = tmp_path / "epochgate.sock"
    places = ("--listen", f"unix:{path}, [::1]:0")
    async with serving(Mcp()) as server, running_proxy(server.port, *places) as proxy:
        for opening in (asyncio.open_connection("::1", proxy.port), asyncio.open_unix_connection(path)):
            client = Peer(*await opening)
            await client.send(request(INITIALIZE))
            assert b" 200 " in (await client.read_message())[0].partition(b"\r\n")[0]
            await client.close()
        assert await proxy.stop() == 0
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("trusted", "told"), [("unix", b"https"), ("127.0.0.1", b"http")])
async def test_clients_on_a_unix_socket_are_trusted_by_that_word(
    tmp_path: Path, trusted: str, told: bytes
) -> None:
    path = tmp_path / "epochgate.sock"
    flags = ("--listen", f"unix:{path}, {FREE}", "--trusted-proxies", trusted)
    async with serving(Mcp()) as server, running_proxy(server.port, *flags) as proxy:
        client = Peer(*await asyncio.open_unix_connection(path))
        await client.send(request(None, "X-Forwarded-Proto: https", method="GET", path="/other"))
        await client.read_message()
        await client.close()
        assert await proxy.stop() == 0
    (head,) = [one for one in server.requests if b" /other " in one]
    assert b"X-Forwarded-Proto: " + told + b"\r\n" in head


async def test_its_sessions_are_shown_without_their_ids() -> None:
    async with serving(Mcp()) as server, running_proxy(server.port) as proxy, connected(proxy.port) as client:
        await begin_call(proxy.port, client)
        async with connected(proxy.admin) as asking:
            await asking.send(request(None, method="GET", path="/sessions"))
            _, body = await asking.read_message()
        (shown,) = json.loads(body)["sessions"]
        del shown["idle_seconds"]
        assert shown == {
            "session": session_hash(b"s1"),
            "server": f"127.0.0.1:{server.port}",
            "state": "live",
            "generation": 1,
            "is_epoch_stated": False,
            "streams": [{"kind": "request", "upstream": "open", "client": "attached"}],
            "open_requests": 1,
        }


# going away

WHERE = "give --admin as the process has it"


@pytest.mark.parametrize(
    ("admin", "line"),
    [
        ("127.0.0.1:1", f"nothing answers at admin 127.0.0.1:1: connection refused; {WHERE}"),
        ("unix:/no/e.sock", f"nothing answers at admin unix:/no/e.sock: no such file or directory; {WHERE}"),
        ("off", "admin is off: nobody can be told; send SIGTERM, or give --admin"),
    ],
)
async def test_a_drain_that_reaches_nobody_is_one_line_and_exit_code_1(admin: str, line: str) -> None:
    assert await drained(admin) == (1, f"epochgate: {line}\n")


async def test_a_drain_of_what_is_no_proxy_is_one_line_and_exit_code_1() -> None:
    async def answer(upstreams: Upstreams, peer: Peer) -> None:
        await upstreams.take(peer)
        await peer.send(b"SSH-2.0-OpenSSH\r\n")

    async with serving(answer) as other:
        admin = f"127.0.0.1:{other.port}"
        told = f"admin {admin} speaks no HTTP; give the address of epochgate"
        assert await drained(admin) == (1, f"epochgate: {told}\n")


async def test_a_drain_goes_by_the_settings_of_a_proxy_before_https(tmp_path: Path) -> None:
    file = tmp_path / "epochgate.yaml"
    file.write_text("upstream: https://127.0.0.1:1\nupstream_server_name: mcp.example.com\n")
    told = "nothing answers at admin 127.0.0.1:1: connection refused; give --admin as the process has it"
    line = f"epochgate: {told}\n"
    assert await drained("127.0.0.1:1", EPOCHGATE_CONFIG=str(file)) == (1, line)
    assert await drained("127.0.0.1:1", EPOCHGATE_UPSTREAM_SERVER_NAME="mcp.example.com") == (1, line)


async def test_a_drain_needs_the_token_where_one_is_set(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret")
    flags = ("--admin-token-file", str(file))
    async with serving(Mcp()) as server, running_proxy(server.port, *flags) as proxy:
        admin = f"127.0.0.1:{proxy.admin}"
        told = f"admin {admin} answered 401; give its token by --admin-token-file or EPOCHGATE_ADMIN_TOKEN"
        assert await drained(admin) == (1, f"epochgate: {told}\n")
        assert await drained(admin, EPOCHGATE_ADMIN_TOKEN="s3cret") == (0, "")
        assert await proxy.stop() == 0


async def test_without_anything_open_a_signal_ends_it_at_once() -> None:
    async with serving(Mcp()) as server, running_proxy(server.port) as proxy:
        assert await proxy.stop() == 0


async def test_an_interrupt_ends_it_as_well() -> None:
    async with serving(Mcp()) as server, running_proxy(server.port) as proxy:
        proxy.process.send_signal(signal.SIGINT)
        assert await proxy.wait() == 0


async def test_an_owed_answer_is_still_given_after_a_signal() -> None:
    mcp = Mcp()
    async with serving(mcp) as server, running_proxy(server.port) as proxy, connected(proxy.port) as client:
        await begin_call(proxy.port, client)
        proxy.process.send_signal(signal.SIGTERM)
        await until_refused(proxy.port)
        assert proxy.process.returncode is None
        mcp.release.set()
        stream = await read_stream(client)
        assert stream.count(b'"result"') == 1
        assert b'"id": 7' in stream
        assert await proxy.wait() == 0


async def test_an_answer_that_does_not_come_is_an_error_at_the_drain_limit() -> None:
    """Owed answers, then errors, then the exit (W10)."""
    async with serving(Mcp()) as server, running_proxy(server.port, "--drain", "1s") as proxy:
        async with connected(proxy.port) as client:
            await begin_call(proxy.port, client)
            proxy.process.send_signal(signal.SIGTERM)
            stream = await read_stream(client)
        assert stream.count(b'"error"') == 1
        assert b'"id":7' in stream.replace(b" ", b"")
        assert await proxy.wait() == 0


async def test_during_the_delay_it_serves_on_but_is_not_ready_and_keeps_no_connection() -> None:
    """First readiness and `Connection: close` (W10)."""
    flags = ("--drain-delay", "5s")
    async with (
        serving(Mcp()) as server,
        running_proxy(server.port, *flags) as proxy,
        connected(proxy.port) as client,
    ):
        await client.send(request(None, method="GET", path="/other"))
        head, _ = await client.read_message()
        assert b"connection: close" not in head.lower()

        proxy.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(DEADLINE_S):
            while await proxy.ready() != 503:
                pass
        await client.send(request(None, method="GET", path="/other"))
        head, _ = await client.read_message()
        assert b" 202 " in head.partition(b"\r\n")[0]
        assert b"connection: close" in head.lower()
        async with connected(proxy.port) as late:
            await late.send(request(None, method="GET", path="/other"))
            assert b" 202 " in (await late.read_message())[0].partition(b"\r\n")[0]


async def test_a_second_signal_stops_it_at_once() -> None:
    mcp = Mcp()
    async with serving(mcp) as server, running_proxy(server.port) as proxy, connected(proxy.port) as client:
        await begin_call(proxy.port, client)
        proxy.process.send_signal(signal.SIGTERM)
        await until_refused(proxy.port)
        proxy.process.send_signal(signal.SIGTERM)
        assert await proxy.wait() == 1
        assert not mcp.release.is_set()


# metrics


async def test_the_populations_of_the_metrics_are_those_that_are_there() -> None:
    mcp = Mcp()
    mcp.release.set()
    async with serving(mcp) as server, running_proxy(server.port) as proxy, connected(proxy.port) as client:
        await begin_call(proxy.port, client)
        await read_stream(client)
        async with connected(proxy.admin) as scraper:
            await scraper.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            _, page = await scraper.read_message()
    lines = [line.rpartition(" ") for line in page.decode().splitlines()]
    sessions = {name: float(value) for name, _, value in lines if name.startswith("epochgate_sessions{")}
    assert {name: value for name, value in sessions.items() if value} == {
        'epochgate_sessions{state="live"}': 1
    }


# logs


async def test_a_log_that_nobody_reads_stops_no_request() -> None:
    exchanges, together = 3_000, 50
    flags = ("--access-log", "all")
    async with serving(Mcp()) as server, running_proxy(server.port, *flags) as proxy:
        async with connected(proxy.port) as client, asyncio.timeout(DEADLINE_S):
            for _ in range(exchanges // together):
                await client.send(request(None, method="GET", path="/other") * together)
                for _ in range(together):
                    head, _ = await client.read_message()
                    assert b" 202 " in head.partition(b"\r\n")[0]
        assert await proxy.stop() == 0


async def test_no_line_holds_a_credential_a_session_id_or_a_body() -> None:
    mcp = Mcp()
    mcp.release.set()
    secrets = [b"of-the-token", b"of-the-query", b"of-the-body", b"of-the-cookie", b"of-the-session"]
    flags = ("--access-log", "all", "--log-level", "debug")
    async with serving(mcp) as server, running_proxy(server.port, *flags) as proxy:
        async with connected(proxy.port) as client:
            headers = ("Authorization: Bearer of-the-token", "Cookie: a=of-the-cookie")
            called = {**CALL, "params": {"name": "work", "arguments": {"x": "of-the-body"}}}
            await client.send(request(called, *headers, path="/mcp?key=of-the-query"))
            await client.read_message()
            await client.send(request(called, *headers, "Mcp-Session-Id: of-the-session"))
            await client.read_message()
            await client.send(b"POST /mcp HTTP/1.1\r\nAuthorization: Bearer of-the-token\r\nbroken\r\n\r\n")
            await client.read_rest()
        assert await proxy.stop() == 0
        log = await proxy.log.read()
    assert b'"event": "request"' in log
    assert [secret for secret in secrets if secret in log] == []
