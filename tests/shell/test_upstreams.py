"""Who is behind `upstream`, as names change."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import structlog
from aiohappyeyeballs.types import AddrInfoType
from structlog.testing import capture_logs

from epochgate.core.events import LegEnd
from epochgate.shell import upstreams as upstreams_module
from epochgate.shell.origin import Origin
from epochgate.shell.tls import Tls, TlsFiles, client_context
from epochgate.shell.upstream import Upstream
from epochgate.shell.upstreams import Upstreams
from tests.shell.wire import Heard, Peer, call, serving, until
from tests.shell.wire import Upstreams as ScriptedServer
from tests.support.certificates import Authority

NAME = "mcp.test:8000"
SOON_S = 0.005


def v4(host: str, port: int = 8000) -> AddrInfoType:
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port)


def v6(host: str) -> AddrInfoType:
    return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, 8000, 0, 0)


class Dns:
    """What names have as addresses; None: it does not answer."""

    def __init__(self, *addresses: AddrInfoType) -> None:
        self.addresses: Sequence[AddrInfoType] | None = addresses
        self.asked = 0
        self.hangs_for: set[str] = set()  # hosts

    async def look_up(self, origin: Origin, loop: asyncio.AbstractEventLoop) -> Sequence[AddrInfoType]:
        self.asked += 1
        if origin.host in self.hangs_for:
            await asyncio.Event().wait()
        if self.addresses is None:
            raise socket.gaierror(socket.EAI_AGAIN, "try again")
        return self.addresses


@asynccontextmanager
async def following(
    dns: Dns, *urls: str, interval_s: float | None = SOON_S, is_watched: bool = True
) -> AsyncIterator[Upstreams]:
    upstreams = Upstreams(
        [Origin.from_url(url) for url in urls or (f"http://{NAME}",)],
        lambda origin, addresses: Upstream(origin, addresses=addresses),
        structlog.get_logger(),
        interval_s=interval_s,
        find_addresses=dns.look_up,
    )
    await upstreams.start()
    watching = asyncio.create_task(upstreams.watch()) if is_watched else None
    try:
        yield upstreams
    finally:
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        await upstreams.close()


def names(upstreams: Upstreams) -> list[str]:
    return [upstream.name for upstream in upstreams.listed]


async def test_a_name_with_one_address_of_each_family_is_one_server() -> None:
    """`localhost` is; it is looked up for every connection, so that it may move."""
    async with following(Dns(v6("::1"), v4("127.0.0.1"))) as upstreams:
        assert names(upstreams) == [NAME]
        assert upstreams.only is upstreams.listed[0]
        assert upstreams.only.addresses == ()


async def test_each_address_of_a_name_with_several_is_a_server() -> None:
    dns = Dns(v4("10.0.0.1"), v4("10.0.0.2"), v4("10.0.0.1"))
    async with following(dns) as upstreams:
        assert names(upstreams) == [f"{NAME} (10.0.0.1)", f"{NAME} (10.0.0.2)"]
        assert upstreams.only is None


async def test_a_balancer_s_addresses_are_one_server_where_the_settings_say_so() -> None:
    dns = Dns(v4("10.0.0.1"), v4("10.0.0.2"))
    async with following(dns, interval_s=None) as upstreams:
        assert names(upstreams) == [NAME]
        assert dns.asked == 0


async def test_a_list_is_several_servers_and_addresses_are_not_looked_up() -> None:
    dns = Dns()
    async with following(dns, "http://10.0.0.1:8000", "http://[::1]:8000/base") as upstreams:
        assert names(upstreams) == ["10.0.0.1:8000", "[::1]:8000/base"]
        assert dns.asked == 0


async def test_servers_that_come_are_listed_and_the_one_that_was_there_stays_the_same() -> None:
    """Its sessions live at the address that it had, whatever the name gets besides."""
    dns = Dns(v4("10.0.0.2"))
    async with following(dns) as upstreams:
        first = upstreams.only
        dns.addresses = (v4("10.0.0.1"), v4("10.0.0.2"))
        with capture_logs() as lines:
            await until(lambda: upstreams.only is None)

        assert names(upstreams) == [f"{NAME} (10.0.0.1)", f"{NAME} (10.0.0.2)"]
        assert upstreams.listed[1] is first
        assert lines == [
            {"event": "servers changed", "log_level": "info", "upstream": NAME, "servers": names(upstreams)}
        ]


async def test_the_only_server_is_the_one_that_was_there_also_before_the_name_is_followed() -> None:
    """A connection is made in the time between two look-ups: the session that it is for lives there."""
    async with AsyncExitStack() as stack:
        old, new = [await stack.enter_async_context(serving(_quiet)) for _ in range(2)]
        dns = Dns(v4("127.0.0.1", old.port))
        following_them = following(dns, "http://mcp.test", interval_s=60, is_watched=False)
        upstreams = await stack.enter_async_context(following_them)
        dns.addresses = (v4("127.0.0.1", new.port), v4("127.0.0.1", old.port))
        for _ in range(3):
            assert upstreams.only is not None
            await upstreams.only.probe()

        await until(lambda: old.connections == 3)
        assert new.connections == 0


async def test_a_connection_that_finds_several_servers_has_the_name_followed_at_once() -> None:
    dns = Dns(v4("127.0.0.2"))
    async with following(dns, interval_s=60) as upstreams:
        dns.addresses = (v4("127.0.0.2"), v4("127.0.0.3"))
        assert upstreams.only is not None
        with suppress(ConnectionError):
            await upstreams.only.probe()

        await until(lambda: names(upstreams) == [f"{NAME} (127.0.0.2)", f"{NAME} (127.0.0.3)"])


async def test_an_only_server_with_an_address_of_each_family_stays_the_same_beside_others() -> None:
    dns = Dns(v6("fd00::1"), v4("10.0.0.1"))
    async with following(dns) as upstreams:
        first = upstreams.only
        dns.addresses = (v6("fd00::2"), v6("fd00::1"), v4("10.0.0.2"), v4("10.0.0.1"))
        await until(lambda: upstreams.only is None)

        assert first in upstreams.listed
        assert set(upstreams) == set(upstreams.listed)  # nobody has left


async def test_a_name_that_cannot_be_looked_up_at_first_has_a_server_all_the_same() -> None:
    """Which of several it is, the first connection decides."""
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(serving(_quiet)) for _ in range(2)]
        dns = Dns()
        dns.addresses = None
        following_it = following(dns, "http://mcp.test", interval_s=60, is_watched=False)
        upstreams = await stack.enter_async_context(following_it)
        for addresses in ((one, two), (two, one)):
            dns.addresses = [v4("127.0.0.1", server.port) for server in addresses]
            assert upstreams.only is not None
            await upstreams.only.probe()

        await until(lambda: (one.connections, two.connections) == (2, 0))


async def test_a_resolver_that_hangs_keeps_neither_the_start_nor_other_names_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upstreams_module, "_FIRST_LOOK_UP_S", SOON_S)
    dns = Dns(v4("10.0.0.1"), v4("10.0.0.2"))
    dns.hangs_for.add("hangs.test")
    async with following(dns, "http://hangs.test", f"http://{NAME}") as upstreams:
        assert names(upstreams) == ["hangs.test", f"{NAME} (10.0.0.1)", f"{NAME} (10.0.0.2)"]
        dns.addresses = (v4("10.0.0.2"), v4("10.0.0.3"))
        await until(lambda: names(upstreams)[1:] == [f"{NAME} (10.0.0.2)", f"{NAME} (10.0.0.3)"])


async def _quiet(server: ScriptedServer, peer: Peer) -> None:
    await peer.wait_gone()


async def test_addresses_in_another_order_are_no_change() -> None:
    """Resolvers shuffle them: a line in the log each time would be one in five seconds."""
    addresses = [v4(f"10.0.0.{at}") for at in range(1, 4)]
    dns = Dns(*addresses)
    async with following(dns) as upstreams:
        before, asked = upstreams.listed, dns.asked
        with capture_logs() as lines:
            dns.addresses = addresses[::-1]
            await until(lambda: dns.asked >= asked + 3)
        assert (upstreams.listed, lines) == (before, [])


async def test_one_that_leaves_is_kept_for_its_sessions_and_then_dropped() -> None:
    dns = Dns(v4("10.0.0.1"), v4("10.0.0.2"))
    async with following(dns) as upstreams:
        leaving, staying = upstreams.listed
        leaving.sessions = 1
        dns.addresses = (v4("10.0.0.2"),)
        await until(lambda: upstreams.listed == (staying,))

        assert leaving.has_left
        assert set(upstreams) == {leaving, staying}
        assert upstreams.only is None  # its sessions are still told apart
        leaving.sessions = 0
        await until(lambda: upstreams.only is staying)


async def test_one_that_returns_is_the_same_as_before() -> None:
    dns = Dns(v4("10.0.0.1"), v4("10.0.0.2"))
    async with following(dns) as upstreams:
        leaving, staying = upstreams.listed
        leaving.sessions = 1
        dns.addresses = (v4("10.0.0.2"),)
        await until(lambda: leaving.has_left)
        dns.addresses = (v4("10.0.0.2"), v4("10.0.0.1"))
        await until(lambda: upstreams.listed == (staying, leaving))

        assert not leaving.has_left


async def test_a_name_that_cannot_be_looked_up_keeps_its_servers() -> None:
    dns = Dns(v4("10.0.0.1"), v4("10.0.0.2"))
    async with following(dns) as upstreams:
        before = upstreams.listed
        asked = dns.asked
        with capture_logs() as lines:
            addresses, dns.addresses = dns.addresses, None
            await until(lambda: dns.asked >= asked + 3)
            assert upstreams.listed == before
            dns.addresses = addresses
            await until(lambda: len(lines) == 2)

        failed, again = lines
        assert failed == {
            "event": "name not looked up",
            "log_level": "warning",
            "upstream": NAME,
            "reason": "try again",
        }
        assert again == {"event": "name looked up again", "log_level": "info", "upstream": NAME}


async def test_a_server_that_is_not_reached_has_its_name_looked_up_at_once() -> None:
    """Its session need not wait longer than that for a server that left; one that is listed is retried."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.2", 0))
        port = unused.getsockname()[1]
        dns = Dns(v4("127.0.0.2", port), v4("127.0.0.3", port))
        async with following(dns, f"http://mcp.test:{port}", interval_s=60) as upstreams:
            server = upstreams.listed[0]
            dns.addresses = (v4("127.0.0.3", port),)
            ends = []
            for _ in range(2):
                heard = Heard()
                server.send(call(), heard)
                ends.append(await heard.wait_end())
                await until(lambda: server.has_left)

            assert ends == [(LegEnd.NOT_SENT, "connect"), (LegEnd.GONE, "connect")]


async def test_each_server_of_a_name_is_known_by_the_name_and_told_it() -> None:
    """Certificates and `Host` are of the name, whichever address is connected to."""
    with TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        files = authority.issue("mcp.test")
        tls = Tls(
            client_context, TlsFiles(authorities=files.authority), structlog.get_logger(), lambda _: None
        )
        heads: list[bytes] = []

        async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
            writer.close()

        listening = await asyncio.start_server(note, "127.0.0.1", 0, ssl=authority.server_context(files))
        port = listening.sockets[0].getsockname()[1]
        url = f"https://mcp.test:{port}/base"
        upstream = Upstream(Origin.from_url(url), tls=tls, addresses=(v4("127.0.0.1", port),))
        heard = Heard()
        upstream.send(call(), heard)
        assert await heard.wait_end() == (LegEnd.CLEAN, "")
        await upstream.close()
        listening.close()

    assert upstream.name == f"mcp.test:{port}/base (127.0.0.1)"
    assert heads[0].startswith(b"POST /base/mcp HTTP/1.1\r\nHost: mcp.test:%d\r\n" % port)
