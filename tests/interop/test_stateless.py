"""The stateless revision 2026-07-28 with the official SDKs: the proxy is not to be noticed.

There is no session and nothing resumes; a client that leaves has cancelled. Clients find out by a
`server/discover` whether a server speaks it, and take most refusals for "an older one".
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest

from tests.conftest import IS_LONG
from tests.interop.cutter import Cutter
from tests.interop.recorded import Exchange, exchanges
from tests.interop.stage import free_port
from tests.interop.steered import Line, Steered
from tests.interop.surroundings import STATELESS_KINDS, Surroundings

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
CANCELLED_WITHIN_S = 1.0

of_servers = pytest.mark.parametrize("server_kind", STATELESS_KINDS)
of_clients = pytest.mark.parametrize("client_kind", STATELESS_KINDS)


def _of_pairs(*server_kinds: str) -> pytest.MarkDecorator:
    """Each client and each server once; each with each in long runs."""
    crosswise = list(zip(STATELESS_KINDS, reversed(server_kinds), strict=True))
    every = list(itertools.product(STATELESS_KINDS, server_kinds))
    return pytest.mark.parametrize(("client_kind", "server_kind"), every if IS_LONG else crosswise)


async def _visit(client: Steered, server: Steered, label: str) -> list[Line]:
    """Everything that a client of this revision does, a step at a time; what it tells of it."""
    await client.order("connect")
    await client.wait_told("connected", revision=MODERN)
    await client.order("list")
    await client.wait_told("listed", tools=["count", "fail", "route"])
    await client.order("call", call="routed", tool="route", arguments={"region": "Düsseldorf", "text": "hi"})
    assert (await client.wait_result("routed"))["text"] == "hi in Düsseldorf"
    await client.order("call", call="failed", tool="fail", arguments={})
    assert (await client.wait_result("failed"))["failed"] is True
    await client.order("call", call="unknown", tool="no such tool", arguments={})
    await client.wait_answer("unknown")

    arguments = {"steps": 3, "hold_at": 1, "label": label}
    await client.order("call", call="counted", tool="count", arguments=arguments)
    await client.wait_told("progress", call="counted", progress=1)
    await server.order("release", label=label)
    assert (await client.wait_result("counted"))["text"] == "counted to 3"

    await client.order("listen")
    await client.wait_told("listening")
    await server.order("change")
    await client.wait_told("changed", what="ToolsListChanged")
    await client.order("unlisten")
    await client.wait_told("left", call="listen")
    await client.order("close")
    await client.wait_told("closed")
    return client.lines


def _less_date(found: list[Exchange]) -> list[Exchange]:
    """What may differ between two visits. The answers' `Date` may not between the two legs of one."""
    return [replace(one, answer=one.answer and one.answer.without("date")) for one in found]


@of_servers
@of_clients
async def test_a_visit_is_byte_for_byte_what_it_is_directly(
    around: Surroundings, server_kind: str, client_kind: str
) -> None:
    server, upstream = await around.stateless_server(server_kind)
    straight, far = await around.cutter(upstream), await around.cutter(upstream)
    proxy = await around.proxy(far.port)
    near = await around.cutter(proxy.port)
    first, second = await asyncio.gather(
        around.stateless_client(client_kind, straight.port), around.stateless_client(client_kind, near.port)
    )

    directly = await _visit(first, server, "same")
    through = await _visit(second, server, "same")

    assert through == directly
    assert exchanges(near) == exchanges(far)
    assert _less_date(exchanges(near)) == _less_date(exchanges(straight))
    _check_is_telling(exchanges(far))
    assert {label.split(",")[0] for label in proxy.moved("epochgate_requests_total")} == {'class="modern"'}


def _check_is_telling(found: list[Exchange]) -> None:
    """What was compared has in it what a proxy could spoil."""
    calls = {one.request.header("mcp-name"): one for one in found if b'"tools/call"' in one.request.body}
    assert set(calls) == {"route", "fail", "no such tool", "count"}
    assert calls["route"].request.header("mcp-method") == "tools/call"
    assert calls["route"].request.header("mcp-param-region") == "=?base64?RMO8c3NlbGRvcmY=?="
    assert calls["count"].body_of_answer.count(b'"notifications/progress"') == 3
    (listening,) = [one for one in found if one.request.header("mcp-method") == "subscriptions/listen"]
    assert b'"notifications/tools/list_changed"' in listening.body_of_answer


@_of_pairs("python-1.30", "typescript-sdk")
async def test_a_probe_refused_by_a_server_of_sessions_leads_to_a_session(
    around: Surroundings, client_kind: str, server_kind: str
) -> None:
    _, upstream = await around.server(server_kind, "--released")
    far = await around.cutter(upstream)
    proxy = await around.proxy(far.port)
    near = await around.cutter(proxy.port)
    client = await around.stateless_client(client_kind, near.port)

    await client.order("connect")
    await client.wait_told("connected", revision=LEGACY)
    await client.order("call", call="c", tool="count", arguments={"steps": 2, "hold_at": 0})
    await client.wait_result("c")

    assert _probe(near) == _probe(far)
    assert _probe(near).status == 400
    classes = proxy.moved("epochgate_requests_total")
    assert classes['class="modern",method="server/discover",status="400"'] == 1
    assert classes['class="session",method="tools/call",status="200"'] == 1


def _probe(cutter: Cutter) -> Exchange:
    (probe,) = [one for one in exchanges(cutter) if b'"server/discover"' in one.request.body]
    return probe


@of_clients
async def test_a_server_that_is_down_is_not_taken_for_an_older_one(
    around: Surroundings, client_kind: str
) -> None:
    """Nothing is answered in its place (W4): most answers would mean "an older server" to the client."""
    upstream = free_port()
    proxy = await around.proxy(upstream)
    near = await around.cutter(proxy.port)
    client = await around.stateless_client(client_kind, near.port)

    await client.order("connect")
    await client.wait_told("error", call="connect")

    assert near.find_down(b"(.+)") == []
    assert near.sent_up(b'"initialize"') == 0
    await around.stateless_server("python-2.3", port=upstream)
    await client.order("connect")
    await client.wait_told("connected", revision=MODERN)


@_of_pairs(*STATELESS_KINDS)
async def test_a_client_that_leaves_has_cancelled(
    around: Surroundings, client_kind: str, server_kind: str
) -> None:
    """It lets go of a call with an answer begun, of one without, of a subscription; then it dies."""
    server, upstream = await around.stateless_server(server_kind)
    proxy = await around.proxy(upstream)
    client = await around.stateless_client(client_kind, proxy.port)
    await client.order("connect")
    await client.wait_told("connected", revision=MODERN)

    for label, is_quiet in (("telling", False), ("quiet", True)):
        await _call_until_held(client, server, label, is_quiet)
        await client.order("leave", call=label)
        await client.wait_told("left", call=label)
        await _wait_soon(server, "cancelled", label=label)
    await client.order("listen")
    await client.wait_told("listening")
    await client.order("unlisten")
    await client.wait_told("left", call="listen")
    await _wait_soon(server, "unlistened")
    await _call_until_held(client, server, "dying", is_quiet=False)
    await client.kill()
    await _wait_soon(server, "cancelled", label="dying")

    assert len(server.told("execution")) == len(server.told("cancelled")) == 3


async def _call_until_held(client: Steered, server: Steered, label: str, is_quiet: bool) -> None:
    arguments = {"steps": 2, "hold_at": 1, "label": label}
    await client.order("call", call=label, tool="count", arguments=arguments, quiet=is_quiet)
    if is_quiet:
        await server.wait_told("execution", label=label)
    else:
        await client.wait_told("progress", call=label, progress=1)


async def _wait_soon(server: Steered, event: str, **where: str) -> None:
    async with asyncio.timeout(CANCELLED_WITHIN_S):
        await server.wait_told(event, times=1, **where)


@of_clients
async def test_an_answer_that_breaks_is_the_clients_to_ask_for_again(
    around: Surroundings, client_kind: str
) -> None:
    """There is nothing to resume, and the proxy runs nothing a second time."""
    old, upstream = await around.stateless_server("python-2.3")
    proxy = await around.proxy(upstream)
    near = await around.cutter(proxy.port)
    client = await around.stateless_client(client_kind, near.port)
    await client.order("connect")
    await client.wait_told("connected", revision=MODERN)
    await client.order("listen")
    await client.wait_told("listening")
    await _call_until_held(client, old, "cut", is_quiet=False)

    await old.kill()
    await client.wait_told("lost")
    new, _ = await around.stateless_server("python-2.3", port=upstream)
    await near.wait_none_open()
    await client.order("call", call="next", tool="route", arguments={"region": "eu", "text": "hi"})
    await client.wait_result("next")

    assert new.told("execution") == []
    assert near.sent_up(b"last-event-id") == 0
    assert proxy.moved("epochgate_reissues_total") == proxy.moved("epochgate_resumes_total") == {}


async def test_a_client_of_sessions_is_told_that_a_server_has_none_of_them(around: Surroundings) -> None:
    _, upstream = await around.stateless_server("typescript-2.4", "--modern-only")
    far = await around.cutter(upstream)
    proxy = await around.proxy(far.port)
    near = await around.cutter(proxy.port)
    client = await around.client("python-2.3", near.port)

    await client.order("initialize")
    error = await client.wait_told("error")

    assert (error["code"], error["data"]["supported"]) == (-32022, [MODERN])
    assert [one.answer for one in exchanges(near)] == [one.answer for one in exchanges(far)]
    assert [one.status for one in exchanges(near)] == [400]


@of_servers
async def test_one_address_serves_both_eras_side_by_side(around: Surroundings, server_kind: str) -> None:
    server, upstream = await around.stateless_server(server_kind)
    proxy = await around.proxy(upstream)
    older = await around.client("typescript", proxy.port)
    newer = await around.stateless_client("python-2.3", proxy.port)
    await older.order("initialize")
    await older.wait_told("initialized", revision=LEGACY)
    await newer.order("connect")
    await newer.wait_told("connected", revision=MODERN)
    arguments = {"steps": 2, "hold_at": 1, "label": "both"}
    for client in (older, newer):
        await client.order("call", call="both", tool="count", arguments=arguments)
        await client.wait_told("progress", call="both", progress=1)

    await server.order("release", label="both")

    for client in (older, newer):
        assert (await client.wait_result("both"))["text"] == "counted to 2"
    # The TypeScript handler knows no sessions, in neither era.
    olds = "session" if server_kind == "python-2.3" else "plain"
    counted = proxy.moved("epochgate_requests_total")
    assert {name for name in counted if "tools/call" in name} == {
        f'class="{name}",method="tools/call",status="200"' for name in ("modern", olds)
    }
