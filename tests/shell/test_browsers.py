"""What a page may read of the proxy's own answers: what the server said to its Origin, and no more (W11)."""

from __future__ import annotations

from epochgate.core.http import Headers
from epochgate.shell.browsers import MAX_ORIGINS, Browsers
from tests.support.client import Answer, Client, call, initialize
from tests.support.proxy import guarding
from tests.support.server import Epochs, Ids, Leg, McpServer, serving

APP, OTHER = b"https://app.example", b"https://other.example"
TO_APP: Headers = ((b"Access-Control-Allow-Origin", APP), (b"Vary", b"Origin"))
TEXT: Headers = ((b"Content-Type", b"text/plain"),)


def told(*answers: tuple[bytes, Headers]) -> Browsers:
    browsers = Browsers()
    for origin, headers in answers:
        browsers.told(origin, headers)
    return browsers


def test_an_answer_of_the_proxy_has_the_lines_of_the_server_s_last_answer_to_that_origin() -> None:
    exposed = (*TO_APP, (b"access-control-expose-headers", b"Mcp-Session-Id"))
    browsers = told((APP, TO_APP), (APP, (*TEXT, *exposed, (b"X-Own", b"1"))))
    assert browsers.allowed(APP, TEXT) == (*TEXT, *exposed)


def test_another_origin_gets_nothing_of_them() -> None:
    browsers = told((APP, TO_APP), (OTHER, TEXT))
    assert browsers.allowed(OTHER, TEXT) == TEXT
    assert browsers.allowed(b"null", TEXT) == TEXT


def test_an_answer_that_was_made_for_another_origin_is_told_in_the_lines_of_this_one() -> None:
    """A stream that one page opened is resumed by another."""
    to_other: Headers = ((b"Access-Control-Allow-Origin", OTHER), (b"Vary", b"Origin"))
    browsers = told((APP, TO_APP), (OTHER, to_other))
    replay = (*TEXT, *TO_APP, (b"Access-Control-Allow-Credentials", b"true"))
    assert browsers.allowed(OTHER, replay) == (*TEXT, (b"Vary", b"Origin"), to_other[0])
    assert browsers.allowed(b"https://third.example", replay) == (*TEXT, (b"Vary", b"Origin"))


def test_the_server_s_own_answer_stays_as_it_is() -> None:
    for own in (TO_APP, ((b"access-control-allow-origin", b"*"),)):
        assert told((APP, ())).allowed(APP, (*TEXT, *own)) == (*TEXT, *own)
    refusal: Headers = ((b"Access-Control-Allow-Origin", OTHER), *TEXT, (b"Vary", b"Origin"))
    assert told((APP, TO_APP), (APP, refusal)).allowed(APP, refusal) == refusal


def test_what_a_server_does_not_say_any_more_is_not_said() -> None:
    assert told((APP, TO_APP), (APP, TEXT)).allowed(APP, TEXT) == TEXT


def test_a_line_is_not_said_twice() -> None:
    assert told((APP, TO_APP)).allowed(APP, ((b"Vary", b"Origin"),)) == (TO_APP[1], TO_APP[0])


def test_few_origins_are_remembered() -> None:
    origins = [b"https://%d.example" % number for number in range(MAX_ORIGINS + 1)]
    browsers = told(*((origin, ((b"Access-Control-Allow-Origin", origin),)) for origin in origins))
    assert browsers.allowed(origins[0], TEXT) == TEXT
    for origin in origins[1:]:
        assert browsers.allowed(origin, TEXT) == (*TEXT, (b"Access-Control-Allow-Origin", origin))


# --- through the proxy ------------------------------------------------------------------------------


PAGES = ("http://localhost:1", "http://localhost:2")


def page(number: int) -> tuple[str, str]:
    return ("Origin", PAGES[number - 1])


def allowed(answer: Answer) -> str | None:
    return answer.header("access-control-allow-origin")


def lines_of(leg: Leg) -> list[tuple[str, str]]:
    origin = leg.request.header("origin")
    return [("access-control-allow-origin", origin), ("vary", "Origin")] if origin in PAGES else []


async def play(leg: Leg) -> None:
    await leg.open(*lines_of(leg))
    await leg.progress(1)
    await leg.answer()
    await leg.end()


async def test_replays_and_refusals_can_be_read_by_the_page_that_asked_and_by_no_other() -> None:
    server = McpServer(play)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        first = await client.post(call(), page(1))
        assert (allowed(first), first.header("vary")) == (PAGES[0], "Origin")
        cursors = [str(event.id) async for event in first.events()]
        await (await client.post(call(), page(2))).messages()

        for number in (1, 2):
            replay = await client.get(cursors[0], page(number))
            assert (replay.status, allowed(replay)) == (200, PAGES[number - 1])
            assert [value for name, value in replay.headers if name.lower() == "vary"] == ["Origin"]
            done = await client.get(cursors[-1], page(number))
            assert (done.status, allowed(done), done.header("vary")) == (405, PAGES[number - 1], "Origin")
            odd = await client.get("1", page(number))
            assert (odd.status, allowed(odd)) == (400, PAGES[number - 1])

        assert allowed(await client.get(cursors[-1])) is None
        stranger = await client.get(cursors[0], ("Origin", "http://localhost:3"))
        assert (stranger.status, allowed(stranger)) == (200, None)


async def test_errors_of_the_proxy_can_be_read_by_the_page_that_asked() -> None:
    async def breaks(leg: Leg) -> None:
        if leg.run.number == 1:
            await play(leg)
        else:
            await leg.reset()

    server = McpServer(breaks, epochs=Epochs.NEVER, ids=Ids.NONE)
    async with serving(server), guarding(server.port, reissue="never") as proxy, Client(proxy.port) as client:
        await client.open()
        await (await client.post(call(), page(1))).messages()
        failed = await client.post(call(), page(1))
        assert (await failed.json())["error"]["code"] == -32050
        assert (allowed(failed), failed.header("vary")) == (PAGES[0], "Origin")


async def test_an_answer_that_is_under_way_tells_already() -> None:
    async def endless(leg: Leg) -> None:
        await leg.open(*lines_of(leg))
        await leg.progress(1)
        await leg.peer.wait_gone()

    server = McpServer(endless)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        await (await client.post(call(), page(1))).next_event()
        odd = await client.get("1", page(1))
        assert (odd.status, allowed(odd)) == (400, PAGES[0])


async def test_so_does_an_error_of_which_the_core_knows_nothing() -> None:
    async def endless(leg: Leg) -> None:
        await leg.open(*lines_of(leg))
        await leg.progress(1)
        await leg.peer.wait_gone()

    server = McpServer(endless)
    async with (
        serving(server),
        guarding(server.port, max_sessions="1") as proxy,
        Client(proxy.port) as client,
    ):
        await client.open()
        await (await client.post(call(), page(1))).next_event()
        refused = await client.post(initialize(), page(1))
        assert (await refused.json())["error"]["code"] == -32052
        assert (allowed(refused), refused.header("vary")) == (PAGES[0], "Origin")


async def test_what_the_proxy_says_outside_a_session_has_no_such_lines() -> None:
    server = McpServer(play)
    async with (
        serving(server),
        guarding(server.port, unknown_sessions="refuse") as proxy,
        Client(proxy.port) as client,
    ):
        await client.open()
        await (await client.post(call(), page(1))).messages()
        foreign = await client.post(call(), ("Origin", "https://evil.example"))
        assert (foreign.status, allowed(foreign)) == (403, None)
        client.session = "unknown"
        unknown = await client.post(call(), page(1))
        assert (unknown.status, allowed(unknown)) == (404, None)


async def test_event_streams_are_neither_kept_nor_gathered_on_their_way() -> None:
    async def own(leg: Leg) -> None:
        mine = [("cache-control", "no-store")] if leg.run.number == 1 else [("x-accel-buffering", "yes")]
        await leg.open(*mine)
        await leg.answer()
        await leg.end()

    server = McpServer(own)
    async with serving(server), guarding(server.port) as proxy, Client(proxy.port) as client:
        await client.open()
        first, second = await client.call(), await client.call()
        named = [
            [
                value
                for name, value in answer.headers
                if name.lower() in ("cache-control", "x-accel-buffering")
            ]
            for answer in (first, second)
        ]
        assert named == [["no-store", "no"], ["yes", "no-cache, no-transform"]]
