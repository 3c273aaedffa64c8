"""Where the requests of one client session go, while servers come, go, and give equal names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from epochgate.core import http
from epochgate.core.http import Headers
from epochgate.shell import upstream as upstream_module
from epochgate.shell.leg import Leg
from epochgate.shell.pinning import Pins
from tests.shell import wire
from tests.shell.test_upstreams import Dns, following, v4
from tests.shell.wire import Heard, Peer, call, serving, until


class Server:
    """Gives sessions these names, one after the other, and states the one that a request is for."""

    def __init__(self, *names: bytes) -> None:
        self.names = iter(names)
        self.seen: list[bytes | None] = []
        self.refuses = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.port = 0

    async def play(self, upstreams: wire.Upstreams, peer: Peer) -> None:
        while True:
            head, _ = await upstreams.take(peer)
            asked = head.partition(b"Mcp-Session-Id: ")[2].partition(b"\r\n")[0] or None
            self.seen.append(asked)
            await self.may_answer.wait()
            status = b"503 No" if self.refuses else b"200 OK"
            told = b"" if self.refuses else b"Mcp-Session-Id: %b\r\n" % (asked or next(self.names))
            await peer.send(b"HTTP/1.1 %b\r\n%bContent-Length: 0\r\n\r\n" % (status, told))


@asynccontextmanager
async def serving_all(*servers: Server) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for server in servers:
            server.port = (await stack.enter_async_context(serving(server.play))).port
        yield


class Talk:
    """What the core says to the server of a session, and hears: only the names of sessions matter."""

    def __init__(self, pins: Pins) -> None:
        self.pins = pins

    async def ask(self, name: bytes | None = None) -> bytes | None:
        """Send a request of the session known as `name`, or one for a new session; what the answer names."""
        headers: Headers = () if name is None else ((b"Mcp-Session-Id", name),)
        heard = Heard()
        leg: Leg = self.pins.send(call(headers=headers), heard, None)
        await heard.wait_end()
        assert heard.status is not None
        return http.find(self.pins.answered(leg, heard.status, heard.headers), http.SESSION_ID)


def urls(*servers: Server) -> list[str]:
    return [f"http://127.0.0.1:{server.port}" for server in servers]


async def test_equal_names_of_two_servers_are_told_apart() -> None:
    one, two = Server(b"1"), Server(b"1", b"2")
    async with serving_all(one, two), following(Dns(), *urls(one, two)) as upstreams:
        talk = Talk(Pins(upstreams))
        assert await talk.ask() == b"1"
        one.refuses = True
        assert await talk.ask() is None
        other = await talk.ask()
        assert other not in (b"1", None)
        one.refuses = False

        assert await talk.ask(b"1") == b"1"
        assert await talk.ask(other) == other

        assert one.seen == [None, None, b"1"]
        assert two.seen == [None, b"1"]


async def test_a_session_of_the_only_server_is_found_there_after_it_moved_to_one_that_came() -> None:
    one, two = Server(b"a"), Server(b"b")
    async with serving_all(one, two):
        dns = Dns(v4("127.0.0.1", one.port))
        async with following(dns, f"http://localhost:{one.port}") as upstreams:
            talk = Talk(Pins(upstreams))
            assert await talk.ask() == b"a"
            dns.addresses = (v4("127.0.0.1", one.port), v4("127.0.0.1", two.port))
            await until(lambda: upstreams.only is None)
            one.refuses = True
            assert await talk.ask() is None
            assert await talk.ask() == b"b"
            one.refuses = False

            assert await talk.ask(b"a") == b"a"
            assert await talk.ask(b"b") == b"b"


async def test_a_session_left_behind_at_a_server_that_went_is_not_asked_of_the_only_one_left() -> None:
    one, two = Server(b"a"), Server(b"b")
    async with serving_all(one, two):
        dns = Dns(v4("127.0.0.1", one.port), v4("127.0.0.1", two.port))
        async with following(dns, f"http://localhost:{one.port}") as upstreams:
            talk = Talk(Pins(upstreams))
            assert await talk.ask() == b"a"
            one.refuses = True
            assert [await talk.ask(), await talk.ask()] == [None, b"b"]
            one.refuses = False
            await upstreams.listed[0].close()  # nothing of it is open any more
            dns.addresses = (v4("127.0.0.1", two.port),)
            await until(lambda: upstreams.only is not None)

            assert await talk.ask(b"a") == b"a"
            assert await talk.ask(b"b") == b"b"
            assert (one.seen[-1], two.seen) == (b"a", [None, b"b"])


async def test_a_session_that_is_opened_as_another_server_goes_is_known_to_live_where_it_is() -> None:
    """While it was opened there were two; when others come again, it is not asked of them."""
    gone, staying = Server(), Server(b"a")
    async with serving_all(gone, staying):
        dns = Dns(v4("127.0.0.1", gone.port), v4("127.0.0.1", staying.port))
        async with following(dns, f"http://localhost:{staying.port}") as upstreams:
            talk = Talk(Pins(upstreams))
            dns.addresses = (v4("127.0.0.1", staying.port),)
            await until(lambda: upstreams.only is not None)
            assert await talk.ask() == b"a"
            home = upstreams.only
            talk.pins.count()
            dns.addresses = (v4("127.0.0.1", gone.port), v4("127.0.0.1", staying.port))
            await until(lambda: upstreams.only is None)

            assert talk.pins.home is home
            for _ in range(3):
                assert await talk.ask(b"a") == b"a"
            assert gone.seen == []


async def test_every_server_is_asked_before_one_is_asked_again() -> None:
    """Also when several of them are there and give no session."""
    servers = [Server(), Server(), Server(), Server(b"d")]
    async with serving_all(*servers), following(Dns(), *urls(*servers)) as upstreams:
        upstreams.listed[3].sessions = 9
        for server in servers[:3]:
            server.refuses = True
        talk = Talk(Pins(upstreams))

        assert [await talk.ask() for _ in range(4)] == [None, None, None, b"d"]


async def test_a_server_that_refuses_sessions_is_not_given_the_next_one() -> None:
    """It has the least to do, so that it would be given all of them."""
    busy, other = Server(b"a"), Server(b"1", b"2")
    async with serving_all(busy, other), following(Dns(), *urls(busy, other)) as upstreams:
        upstreams.listed[1].sessions = 9
        busy.refuses = True
        assert [await Talk(Pins(upstreams)).ask() for _ in range(3)] == [None, b"1", b"2"]

        busy.refuses = False
        upstreams.listed[0].answered_new(200)
        assert await Talk(Pins(upstreams)).ask() == b"a"


async def test_a_server_that_lets_a_session_wait_is_not_given_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It hangs, which no connect shows; also when the one who waited has given up."""
    monkeypatch.setattr(upstream_module, "_SLOW_S", 0.01)
    hangs, other = Server(b"a"), Server(b"1", b"2")
    hangs.may_answer.clear()
    async with serving_all(hangs, other), following(Dns(), *urls(hangs, other)) as upstreams:
        first, second = upstreams.listed
        second.sessions = 9
        waiting = Heard()
        leg = Pins(upstreams).send(call(), waiting, None)
        await until(lambda: hangs.seen == [None] and first.is_busy)
        assert await Talk(Pins(upstreams)).ask() == b"1"
        leg.close()
        assert await Talk(Pins(upstreams)).ask() == b"2"
        assert hangs.seen == [None]

        loop = asyncio.get_running_loop()
        answered_at = loop.time()
        await until(lambda: loop.time() > answered_at + 0.02)
        assert not second.is_busy  # it has answered


async def test_a_session_counts_where_it_lives_and_no_more_when_it_is_over() -> None:
    one, two = Server(b"a"), Server(b"b")
    async with serving_all(one, two), following(Dns(), *urls(one, two)) as upstreams:
        talk = Talk(Pins(upstreams))
        await talk.ask()
        talk.pins.count()
        assert [upstream.sessions for upstream in upstreams.listed] == [1, 0]

        one.refuses = True
        assert [await talk.ask(), await talk.ask()] == [None, b"b"]
        assert [upstream.sessions for upstream in upstreams.listed] == [0, 1]

        talk.pins.close()
        talk.pins.close()
        assert [upstream.sessions for upstream in upstreams.listed] == [0, 0]


async def test_of_very_many_server_sessions_the_newest_are_known() -> None:
    """Of one client session: a server that names another with every answer, say."""
    one, two = Server(*[b"%d" % number for number in range(200)]), Server(b"7")
    async with serving_all(one, two), following(Dns(), *urls(one, two)) as upstreams:
        talk = Talk(Pins(upstreams))
        for number in range(200):
            assert await talk.ask() == b"%d" % number
        one.refuses = True
        assert await talk.ask() is None
        assert await talk.ask() == b"7"
        one.refuses = False

        assert await talk.ask(b"199") == b"199"
        assert one.seen[-1] == b"199"
        assert len(talk.pins._homes) == 64
