"""How answers end, what a heal says, what clients can read (W7-W9, W13, W15, W16)."""

from __future__ import annotations

import pytest

from epochgate.core import http
from epochgate.core.events import LegEnd
from tests.core.messages import (
    Json,
    event,
    initialize,
    initialize_answer,
    notification,
    request,
    result,
    retry,
)
from tests.core.playbook import ALICE, JSON, Play, opened, quiet
from tests.core.scenes import broken, lost, open_call
from tests.core.sides import Upstream

# --- W7, W8 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [LegEnd.CLEAN, LegEnd.BROKEN])
def test_a_request_leg_does_not_end_without_an_answer(how: LegEnd) -> None:
    """Whatever its server does (W8)."""
    play = opened(heal_deadline_s=20.0)
    exchange, leg = open_call(play)
    play.end(leg, how)
    assert exchange.is_open
    while exchange.is_open:
        if play.has_leg("initialize"):
            play.unreachable(play.leg("initialize"))
        play.advance(1)

    assert exchange.answer["error"]["code"] == -32051
    assert not exchange.is_aborted


# --- W9 ---------------------------------------------------------------------------------------------


def test_a_heals_initialize_asks_for_the_negotiated_version_in_the_last_accepted_callers_name() -> None:
    """The client's own version would make every server upgrade incompatible (W9)."""
    play = Play()
    play.post(initialize("2025-11-25"))
    leg = play.leg("initialize")
    head = (*JSON, (b"Mcp-Session-Id", b"up-1"))
    play.answer(leg, initialize_answer(leg.id, version="2025-06-18"), headers=head)
    play.visible_id = b"up-1"
    play.client_headers = ((b"MCP-Protocol-Version", b"2025-06-18"), (b"Traceparent", b"00-1"))
    quiet(play)
    play.post(
        request("tools/list"),
        headers=((b"Accept", b"application/json"), (b"Last-Event-ID", b"3"), (b"Content-Language", b"de")),
    )
    play.refuse(play.leg("tools/list"), 404)

    healing: Upstream = play.leg("initialize")
    assert healing.json["params"]["protocolVersion"] == "2025-06-18"
    assert healing.json["params"]["clientInfo"] == {"name": "client", "version": "1"}
    assert http.find(healing.headers, b"authorization") == ALICE
    names = [name.lower() for name, _ in healing.headers]
    for absent in (b"mcp-session-id", b"last-event-id", b"content-language"):
        assert absent not in names
    accepts = [value for name, value in healing.headers if name.lower() == b"accept"]
    assert accepts == [b"application/json, text/event-stream"]


@pytest.mark.parametrize("name", ["server", "another"])
def test_the_servers_name_is_compared_and_its_version_is_not(name: str) -> None:
    """An upgrade is no other server (W9)."""
    play, exchange = lost()
    leg = play.leg("initialize")
    info = {"name": name, "version": "99"}
    play.answer(leg, initialize_answer(leg.id, serverInfo=info), headers=(*JSON, (b"Mcp-Session-Id", b"u")))

    is_same = name == "server"
    assert play.has_leg("notifications/initialized") is is_same
    assert (exchange.status is None) is is_same


# --- W13 --------------------------------------------------------------------------------------------


def test_java_gets_comments_of_one_line_and_no_retry() -> None:
    """Each blank line uses up one of 256 units of demand, `retry:` is a stream error (W13)."""
    play = opened()
    play.client_headers = (*play.client_headers, (b"User-Agent", b"Java-http-client/17.0.9"))
    exchange, leg = open_call(play)
    before = exchange.body
    play.send(leg, retry(500))
    play.advance(41)

    said = exchange.body[len(before) :]
    assert said == b": keepalive\n" * 2


def test_others_get_comments_that_are_blocks_after_20_seconds() -> None:
    """The server's own pings every 15 s would not be needed (W13)."""
    play = opened()
    exchange, _ = open_call(play)
    before = exchange.body
    play.advance(19.9)
    assert exchange.body == before
    play.advance(0.2)

    assert exchange.body[len(before) :] == b": keepalive\n\n"


# --- W15, W16 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "forged",
    [
        {"session_epoch": 8},
        {"structuredContent": {"_meta": {"session_epoch": 8}}},
        {"content": [{"type": "text", "text": '{"_meta":{"session_epoch":8}}'}]},
    ],
)
def test_a_tool_result_that_speaks_of_epochs_proves_and_disproves_nothing(forged: Json) -> None:
    """Only the named places count, on a resumed leg too (W15)."""
    play, exchange = broken()
    post = play.sent("tools/call")[0]
    leg = play.leg("GET")
    play.open(leg)
    play.send(leg, event(result(post.id, forged, 7), 5))

    assert exchange.answer["result"].items() >= forged.items()
    assert play.judged == [("upstream", "resume", "epoch_match")]


def test_a_forged_epoch_does_not_stand_for_the_one_that_is_missing() -> None:
    """The learned bytes stand once in it, at the wrong place (W15)."""
    play, _ = broken()
    post = play.sent("tools/call")[0]
    leg = play.leg("GET")
    play.open(leg)
    play.send(leg, event(result(post.id, {"structuredContent": {"session_epoch": 7}}), 5))

    assert play.reasons == ["no_epoch_on_event"]


@pytest.mark.parametrize(
    ("level", "is_told"), [(None, True), ("debug", True), ("warning", True), ("error", False)]
)
def test_a_notice_comes_only_where_the_clients_level_lets_a_warning_through(
    level: str | None, is_told: bool
) -> None:
    """It is a log message (W16)."""
    play = opened(has_logging=True)
    if level is not None:
        play.post(request("logging/setLevel", {"level": level}, id="l"))
        play.answer(play.leg("logging/setLevel"), result(play.leg("logging/setLevel").id, {}))
    exchange, leg = open_call(play)
    play.cut(leg)
    play.heal()
    for rpc in ("logging/setLevel", "tools/list"):
        if play.has_leg(rpc):
            play.answer(play.leg(rpc), result(play.leg(rpc).id, {"tools": [{"name": "work"}]}))
    assert play.has_leg("tools/call")

    told = [one for one in exchange.messages if one["method"] == "notifications/message"]
    assert [one["params"]["logger"] for one in told] == (["epochgate"] if is_told else [])


def test_a_late_initialized_of_the_client_is_acknowledged_and_goes_no_further() -> None:
    """The heal has sent it (W16)."""
    play, _ = lost()
    exchange = play.post(notification("notifications/initialized"))
    play.heal()

    assert exchange.status == 202
    assert [leg.session_id for leg in play.sent("notifications/initialized")] == [b"up-1", b"up-2"]


def test_the_cookie_that_a_heal_was_given_stays_with_its_session() -> None:
    """A balancer's affinity, for every request behind it, and through the next heal (W16)."""
    play = opened()
    play.client_headers = (*play.client_headers, (b"Cookie", b"lb=old; own=1"))
    quiet(play)
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.heal(headers=((b"Set-Cookie", b"lb=new; Path=/; HttpOnly"),))
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    play.post(notification("notifications/x"))
    play.get()
    legs = [play.sent("tools/call")[-1], play.leg("notifications/x"), play.leg("GET")]

    for leg in legs:
        cookie = http.find(leg.headers, b"cookie") or b""
        assert sorted(cookie.replace(b" ", b"").split(b";")) == [b"lb=new", b"own=1"]
