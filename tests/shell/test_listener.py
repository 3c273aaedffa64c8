"""Accepting, draining and closing."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import structlog

from epochgate.shell.downstream import Server, ServerLimits
from epochgate.shell.exchange import Exchange
from epochgate.shell.headers import Allowed
from epochgate.shell.tls import Tls, TlsFiles, server_context
from epochgate.units import Address, UnixPath
from tests.shell.wire import DEADLINE_S, Owner, Peer, connected, listening, on_each_loop, until
from tests.support.certificates import Authority

SSE = ((b"Content-Type", b"text/event-stream"),)
GET = b"GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


def _ok(exchange: Exchange) -> None:
    exchange.respond(200, (), b"ok")


@on_each_loop
async def test_while_draining_every_answer_is_its_connections_last() -> None:
    owner = Owner()
    async with (
        listening(owner.handle) as (server, port),
        connected(port) as client,
        connected(port) as idle,
    ):
        await client.send(GET)
        exchange = await owner.take(0)
        exchange.open(200, SSE)
        exchange.write(b"")
        await idle.send(GET)
        (await owner.take(1)).respond(200, (), b"ok")
        await idle.read_message()
        server.begin_drain()
        await idle.send(GET)  # an idle connection is still served
        (await owner.take(2)).respond(200, (), b"ok")
        assert b"Connection: close\r\n" in await idle.read_rest()
        exchange.end(b": a\n\n")  # it began before, and said nothing of closing
        assert (await client.read_message())[1] == b": a\n\n"
        await client.send(GET)
        await owner.take(3)


@on_each_loop
async def test_once_nothing_is_accepted_a_connection_closes_behind_the_answer_that_runs() -> None:
    owner = Owner()
    async with listening(owner.handle) as (server, port), connected(port) as client:
        await client.send(GET)
        exchange = await owner.take()
        exchange.open(200, SSE)
        server.close_listener()
        exchange.end(b": a\n\n")
        assert (await client.read_rest()).endswith(b"0\r\n\r\n")


@on_each_loop
async def test_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    owner = Owner()
    async with (
        listening(owner.handle) as (server, port),
        connected(port) as busy,
        connected(port) as idle,
    ):
        await busy.send(GET)
        exchange = await owner.take()
        await until(lambda: len(server.live) == 2)
        server.close_listener()
        server.close_idle()
        assert await idle.read_rest() == b""
        exchange.respond(200, (), b"ok")
        assert (await busy.read_message())[1] == b"ok"
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


@on_each_loop
async def test_closing_waits_for_answers_and_then_breaks_what_is_left() -> None:
    owner = Owner()
    async with listening(owner.handle) as (server, port), connected(port) as client:
        await client.send(GET)
        exchange = await owner.take()
        asyncio.get_running_loop().call_soon(exchange.respond, 200, (), b"ok")
        await server.close(DEADLINE_S)
        assert (await client.read_rest()).endswith(b"ok")
    async with listening(owner.handle) as (server, port), connected(port) as client:
        await client.send(GET)
        await owner.take(1)
        await server.close()
        assert await client.read_rest() == b""


@on_each_loop
async def test_running_out_of_descriptors_pauses_accepting_and_is_told() -> None:
    owner = Owner(_ok)
    paused: list[bool] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with listening(owner.handle, on_accept_paused=lambda: paused.append(True)) as (_, port):
        with socket.socket() as client:
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
            try:
                await loop.sock_connect(client, ("127.0.0.1", port))
                await until(lambda: bool(paused))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await loop.sock_sendall(client, GET)
            assert (await loop.sock_recv(client, 100)).endswith(b"ok")
        async with connected(port) as other:
            await other.send(GET)
            assert (await other.read_message())[1] == b"ok"


@on_each_loop
async def test_a_handshake_that_fails_is_told_apart_from_one_that_was_never_begun() -> None:
    """Balancers look whether a port is open, every few seconds; a client that does not trust us is news."""
    failures: list[tuple[str, str]] = []
    async with _encrypted(failures, ServerLimits(handshake_s=0.05)) as port:
        for sent, kind, reason in (
            (b"", "not_begun", "the peer closed the connection"),
            (b"\x16\x03", "failed", "the peer closed the connection"),
            (b"SSH-2.0-OpenSSH\r\n", "failed", "no TLS is spoken there"),
        ):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(sent)
            await until(lambda: bool(failures))
            assert failures.pop() == (kind, reason)


@on_each_loop
async def test_a_handshake_that_never_ends_is_closed() -> None:
    failures: list[tuple[str, str]] = []
    async with _encrypted(failures, ServerLimits(handshake_s=0.05)) as port:
        for sent in (b"", b"\x16\x03"):
            async with connected(port) as client:
                await client.send(sent)
                await client.wait_gone()
            assert failures.pop() == ("timeout", "not over in time")


@asynccontextmanager
async def _encrypted(failures: list[tuple[str, str]], limits: ServerLimits) -> AsyncIterator[int]:
    """A listener that speaks TLS; its port."""
    server = Server(
        Owner(_ok).handle, limits, on_handshake_failed=lambda kind, reason: failures.append((kind, reason))
    )
    with TemporaryDirectory() as folder:
        own = Authority(Path(folder)).issue()
        files = TlsFiles(own.certificate, own.key)
        tls = Tls(server_context, files, structlog.get_logger(), tell=lambda is_good: None)
        (place,) = await server.listen(Address("127.0.0.1", 0), tls=tls)
    assert isinstance(place, Address)
    yield place.port
    await server.close()


@on_each_loop
async def test_a_connection_on_which_no_head_comes_in_time_is_closed() -> None:
    """Whether nothing comes at all, or one byte now and then, at first or behind an answer."""
    async with listening(Owner(_ok).handle, ServerLimits(keepalive_s=0.1)) as (server, port):
        for sent, trickling in ((b"", b""), (b"GET /", b"a"), (GET + b"GET /mcp HTTP/1.1\r\nX-A: ", b"a")):
            async with connected(port) as client:
                await client.send(sent)
                await until(lambda: bool(server.live))
                while server.live:
                    client.writer.write(trickling)
                    await asyncio.sleep(0)


@on_each_loop
async def test_a_port_in_use_is_an_error_of_the_caller() -> None:
    async with listening(Owner().handle) as (_, port):
        with pytest.raises(OSError, match=r"in use"):
            await Server(Owner().handle).listen(Address("127.0.0.1", port))


@on_each_loop
async def test_a_name_listens_on_all_its_addresses_with_one_port() -> None:
    owner = Owner(_ok)
    server = Server(owner.handle)
    places = await server.listen(Address("localhost", 0))
    addresses = [place for place in places if isinstance(place, Address)]
    assert len({address.port for address in addresses}) == 1
    for address in addresses:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        client = Peer(reader, writer)
        await client.send(GET)
        assert (await client.read_message())[1] == b"ok"
        await client.close()
    await server.close()


@on_each_loop
async def test_a_path_is_listened_on_and_freed() -> None:
    """Also one that a killed process left behind, but not one where somebody listens."""
    owner = Owner(_ok)
    server = Server(owner.handle)
    with TemporaryDirectory() as folder:
        place = UnixPath(f"{folder}/epochgate.sock")
        with socket.socket(socket.AF_UNIX) as left_behind:
            left_behind.bind(place.path)
        assert await server.listen(place) == (place,)
        reader, writer = await asyncio.open_unix_connection(place.path)
        client = Peer(reader, writer)
        await client.send(GET)
        assert (await client.read_message())[1] == b"ok"
        with pytest.raises(OSError, match=r"in use"):
            await Server(owner.handle).listen(place)
        await client.close()
        await server.close()
        assert os.listdir(folder) == []


@on_each_loop
async def test_a_path_that_has_become_another_s_is_left_to_it() -> None:
    owner = Owner(_ok)
    first, second = Server(owner.handle), Server(owner.handle)
    with TemporaryDirectory() as folder:
        place = UnixPath(f"{folder}/epochgate.sock")
        await first.listen(place)
        os.unlink(place.path)
        await second.listen(place)
        await first.close()
        assert os.listdir(folder) == ["epochgate.sock"]
        await second.close()
        assert os.listdir(folder) == []


@on_each_loop
async def test_a_path_that_cannot_be_freed_stops_nobody() -> None:
    server = Server(Owner(_ok).handle)
    with TemporaryDirectory() as folder:
        inner = f"{folder}/run"
        os.mkdir(inner)
        await server.listen(UnixPath(f"{inner}/epochgate.sock"))
        os.unlink(f"{inner}/epochgate.sock")
        os.rmdir(inner)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(inner)
        await server.close()
        assert os.listdir(folder) == ["run"]


@on_each_loop
async def test_each_listener_has_names_of_its_own() -> None:
    owner = Owner(_ok)
    server = Server(owner.handle)
    (strict,) = await server.listen(Address("127.0.0.1", 0), Allowed(hosts=frozenset((b"b",))))
    (open_to_all,) = await server.listen(Address("127.0.0.1", 0))
    for place, status in ((strict, b"403"), (open_to_all, b"200")):
        assert isinstance(place, Address)
        async with connected(place.port) as client:
            await client.send(GET)
            assert (await client.read_head()).split()[1] == status
    await server.close()
