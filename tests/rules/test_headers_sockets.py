"""What browsers need on answers of our own, codings, `Accept`, and the ids in the log (W11, W16)."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.support.client import PRIMED, Client, outcome
from tests.support.proxy import guarding
from tests.support.server import Leg, McpServer, serving, until, whole

ORIGIN = "http://localhost:3000"
CORS = (
    ("Access-Control-Allow-Origin", ORIGIN),
    ("Access-Control-Expose-Headers", "Mcp-Session-Id"),
    ("Vary", "Origin"),
)


async def with_cors(leg: Leg) -> None:
    """The lines that a browser needs, for the Origin that asks."""
    is_asked_for = leg.request.header("origin") == ORIGIN
    await leg.open(*(CORS if is_asked_for else ()))
    await leg.progress(1)
    await leg.answer()
    await leg.end()


def lines(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    wanted = ("access-control-", "vary")
    return sorted((name.lower(), value) for name, value in headers if name.lower().startswith(wanted))


CORS_LINES = lines(list(CORS))


# --- W11 --------------------------------------------------------------------------------------------


async def test_a_replay_carries_the_lines_that_a_browser_needs() -> None:
    """A page that may not read it would lose the call (W11)."""
    server = McpServer(with_cors)
    async with (
        serving(server),
        guarding(server.port) as proxy,
        Client(proxy.port, version=PRIMED, headers=[("Origin", ORIGIN)]) as page,
    ):
        await page.open()
        answer = await page.call()
        assert lines(answer.headers) == CORS_LINES
        first = await answer.next_event()
        assert first is not None
        answer.reset()
        back = await page.get(first.id)
        assert back.status == 200
        assert lines(back.headers) == CORS_LINES


async def test_answers_of_our_own_carry_the_lines_of_the_servers_last_one() -> None:
    """A cursor that names nothing, a call too many (W11)."""

    async def endless(leg: Leg) -> None:
        await leg.open(*CORS)
        await leg.progress(1)
        await leg.peer.wait_gone()

    server = McpServer(endless)
    async with (
        serving(server),
        guarding(server.port, max_streams="1") as proxy,
        Client(proxy.port, headers=[("Origin", ORIGIN)]) as page,
    ):
        await page.open()
        await (await page.call()).next_message()
        refused = await page.get("12")
        assert (refused.status, lines(refused.headers)) == (400, CORS_LINES)
        too_many = await page.call()
        assert (too_many.status, lines(too_many.headers)) == (200, CORS_LINES)
        assert outcome(await too_many.messages()) == -32052


async def test_another_origin_is_given_nothing_of_it() -> None:
    """The lines are those of its own last answer (W11)."""
    server = McpServer(with_cors)
    async with (
        serving(server),
        guarding(server.port) as proxy,
        Client(proxy.port, headers=[("Origin", ORIGIN)]) as page,
        Client(proxy.port, headers=[("Origin", "http://localhost:4000")]) as other,
    ):
        await page.open()
        await (await page.call()).messages()
        other.session = page.session
        refused = await other.get("12")
        assert (refused.status, lines(refused.headers)) == (400, [])


@pytest.mark.parametrize("own", [(), (("Cache-Control", "private"), ("X-Accel-Buffering", "yes"))])
async def test_no_proxy_on_the_way_keeps_an_event_stream_back(own: tuple[tuple[str, str], ...]) -> None:
    """The server's own lines stand; it gets the usual ones if it set none (W11)."""

    async def play(leg: Leg) -> None:
        await leg.open(*own)
        await leg.answer()
        await leg.end()

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        expected = own or (("Cache-Control", "no-cache, no-transform"), ("X-Accel-Buffering", "no"))
        assert [answer.header(name.lower()) for name, _ in expected] == [value for _, value in expected]


# --- W16 --------------------------------------------------------------------------------------------


async def test_an_answer_that_comes_in_gzip_all_the_same_is_decoded() -> None:
    """`identity` was asked for; ids could not be put back otherwise (W16)."""

    async def play(leg: Leg) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": leg.run.id, "result": leg.result()}).encode()
        headers = [("content-type", "application/json"), ("content-encoding", "gzip")]
        await leg.peer.send(whole(200, headers, gzip.compress(body)))

    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        answer = await client.call()
        assert answer.header("content-encoding") is None
        assert outcome(await answer.messages()) == "run 1 done"
        assert server.requests[-1].header("accept-encoding") == "identity"


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        (None, 200),
        ("*/*", 200),
        ("text/event-stream", 200),
        ("application/json, text/event-stream", 200),
        ("application/json", 406),
    ],
)
async def test_a_replay_is_refused_only_to_who_says_that_it_takes_no_stream(
    accept: str | None, status: int
) -> None:
    """Present, and neither `text/event-stream` nor `*/*` (W16)."""
    server = McpServer()
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port, version=PRIMED) as client:
        await client.open()
        first = await (await client.call()).next_event()
        assert first is not None
        headers = [("Last-Event-ID", str(first.id)), *([("Accept", accept)] if accept is not None else [])]
        assert (await client.send("GET", "/mcp", headers)).status == status


async def test_the_line_of_a_request_carries_the_clients_id_and_the_one_that_the_server_saw() -> None:
    """Server logs and tool texts show stamps (W16)."""
    server = McpServer()
    async with serving(server), guarding(server.port, access_log="all") as proxy:
        async with Client(proxy.port) as client:
            await client.open()
            await (await client.call("client-s own")).messages()
        await until(lambda: any("tools/call" in line for line in proxy.lines))
        (line,) = [one for one in proxy.lines if "tools/call" in one]
        assert str(server.runs[0].id) in line
        assert "client-s own" in line
