"""What arrives during a heal, losses that come late or again, and heals that fail (R24, R26, R27, R45)."""

from __future__ import annotations

import pytest

from epochgate.core import http
from epochgate.core.commands import HealBegun
from epochgate.core.states import SessionState
from tests.core.messages import Json, cancel, event, initialize_answer, notification, request, result
from tests.core.playbook import JSON, Play, opened, quiet
from tests.core.scenes import BOB, UP_2, lost, open_call
from tests.core.sides import Upstream


def answered(play: Play, rpc: str, value: Json = None) -> Upstream:
    leg = play.leg(rpc)
    play.answer(leg, result(leg.id, value or {"content": []}))
    return leg


# --- R24 --------------------------------------------------------------------------------------------


def test_what_arrives_before_the_prelude_is_over_goes_up_behind_it() -> None:
    """`bump` must not run before `login` (R24)."""
    play = opened(replay_tools=("login",))
    play.call("login", id=1)
    answered(play, "tools/call")
    quiet(play)
    play.call("work", id=2)
    play.refuse(play.leg("tools/call"), 404)
    bumps = [play.call("bump", id=3)]
    play.heal()
    bumps.append(play.call("bump", id=4))
    assert [leg.json["params"]["name"] for leg in play.sent("tools/call")] == ["login", "work", "login"]

    answered(play, "tools/call")
    answered(play, "tools/list", {"tools": [{"name": "work"}]})

    of_new = [leg for leg in play.sent("tools/call") if leg.session_id == b"up-2"]
    names = [leg.json["params"]["name"] for leg in of_new]
    assert (names[0], sorted(names[1:])) == ("login", ["bump", "bump", "work"])
    for leg in of_new[1:]:
        play.answer(leg, result(leg.id))
    assert [exchange.json["id"] for exchange in bumps] == [3, 4]


def test_a_cancel_during_a_heal_reaches_the_run_that_never_broke() -> None:
    """Cancels never wait, and go to the generation of their call (R24)."""
    play = opened()
    _, healthy = open_call(play, id=1)
    _, broken = open_call(play, id=2)
    play.cut(broken)
    assert play.session.state is SessionState.HEALING

    exchange = play.post(cancel(1))
    (told,) = play.sent("notifications/cancelled")
    assert (told.session_id, told.json["params"]["requestId"]) == (b"up-1", healthy.id)
    play.accept(told)

    assert exchange.status == 202
    play.heal()
    assert play.runs == 3  # the broken one alone ran again


def test_a_cursor_during_a_heal_never_waits() -> None:
    """Section 2, HEALING: a resume of another call is answered at once (R24)."""
    play = opened()
    away, leg = open_call(play, id=1)
    play.leave(away)
    play.send(leg, event(result(leg.id)))
    _, broken = open_call(play, id=2)
    play.cut(broken)
    assert play.session.state is SessionState.HEALING

    assert play.get(away.last_id).answer == result(1)


# --- R26 --------------------------------------------------------------------------------------------


def test_two_replicas_behind_one_address_cost_no_heal() -> None:
    """B04: 200, 404, 200, 404 would be a heal, and the state lost, for each call (R26)."""
    play = opened()
    for number in range(1, 7):
        exchange = play.call(id=number)
        if number % 2 == 0:
            play.refuse(play.leg("tools/call"), 404)
            answered(play, "ping", {})
        answered(play, "tools/call")
        assert exchange.json == result(number)
        play.advance(1)

    assert play.counted == ["affinity_faults"] * 3
    assert not play.facts(HealBegun)
    assert {leg.session_id for leg in play.sent("tools/call")} == {b"up-1"}


def test_an_unbroken_stream_is_a_sign_of_life_however_quiet_it_is() -> None:
    """A 404 beside it is first checked by one ping (R26)."""
    play = opened()
    _, running = open_call(play, id=1)
    play.advance(40)
    play.call(id=2)
    play.refuse(play.sent("tools/call")[-1], 404)

    assert len(play.sent("ping")) == 1
    assert not play.facts(HealBegun)
    assert running.is_open


def test_a_withheld_call_is_not_cancelled_on_the_server() -> None:
    """Its outcome is unknown to the client: a cancel could stop a payment half way (R26)."""
    play = opened(never_reissue=frozenset({"work"}))
    exchange, leg = open_call(play)
    play.cut(leg)

    assert exchange.answer["error"]["code"] == -32050
    assert not play.sent("notifications/cancelled")


def test_an_old_upstream_session_is_ended_when_its_last_stream_is() -> None:
    """Python's servers hold 10,000 and no more; the cancel goes first (R26)."""
    play = opened()
    _, leg = open_call(play)
    play.cut(leg)
    play.heal()
    assert not play.sent("DELETE")

    play.accept(play.leg("notifications/cancelled"))

    (ended,) = play.sent("DELETE")
    assert ended.session_id == b"up-1"


# --- R27 --------------------------------------------------------------------------------------------


def test_html_during_a_deploy_is_no_lost_session() -> None:
    """The ingress answers the call with 404, the heal with 404 and 503, and then the server is back (R27)."""
    play = opened()
    quiet(play)
    exchange = play.call()
    page: Json = b"<html>no backend</html>"
    html = ((b"Content-Type", b"text/html"),)
    play.answer(play.leg("tools/call"), page, status=404, headers=html)
    for status in (404, 503, 404):
        play.answer(play.leg("initialize"), page, status=status, headers=html)
        play.advance(3)
    play.heal()

    answered(play, "tools/call")
    assert exchange.json["id"] == 5
    assert play.heals == [("session_gone", "healed")]


@pytest.mark.parametrize("status", [401, 403])
def test_a_heal_refused_on_a_stream_that_is_200_already_is_parked(status: int) -> None:
    """Nothing can pass through; the call waits to the deadline, the session for other credentials (R27)."""
    play = opened()
    play.post(request("ping", id="b"), who=BOB)
    answered(play, "ping", {})
    exchange, leg = open_call(play)
    play.cut(leg)
    play.refuse(play.leg("initialize"), status)
    assert play.heals == [("stream_restart", "parked")]
    assert exchange.is_open

    second = play.call("other", id=6, who=BOB)
    assert http.find(play.leg("initialize").headers, b"authorization") == BOB
    play.heal()
    for one in play.sent("tools/call")[1:]:
        play.answer(one, result(one.id))

    assert second.json["id"] == 6
    assert exchange.answer["id"] == 5


def test_an_unreachable_server_parks_the_session_at_the_deadline_and_it_stays() -> None:
    """Owed requests get -32051 after 45 s; the next caller tries again (R27)."""
    play, exchange = lost()
    began = play.now
    while exchange.status is None:
        play.unreachable(play.leg("initialize"))
        play.advance(1)
        while not play.has_leg("initialize") and exchange.status is None:
            play.advance(0.5)
    assert 44 <= play.now - began <= 47
    assert exchange.json["error"]["code"] == -32051
    assert play.session.state is SessionState.PARKED

    play.call(id=6)
    assert play.has_leg("initialize")


# --- R45 --------------------------------------------------------------------------------------------


def test_a_heal_before_initialized_commits_right_after_the_comparison() -> None:
    """Nothing is restored into a session that is not initialised (R45)."""
    play = opened(is_initialized=False, has_logging=True)
    play.post(request("logging/setLevel", {"level": "error"}, id=1))
    answered(play, "logging/setLevel", {})
    quiet(play)
    play.post(request("ping", id=2))
    play.refuse(play.leg("ping"), 404)
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id, has_logging=True), headers=(*JSON, UP_2))

    assert play.heals == [("session_gone", "healed")]
    assert not play.sent("notifications/initialized")
    play.post(notification("notifications/initialized"))
    (told,) = play.sent("notifications/initialized")
    assert told.session_id == b"up-2"


def test_initialized_that_arrives_while_the_heal_waits_for_its_answer_is_sent_by_the_heal() -> None:
    """Once, and before anything is restored (R45)."""
    play = opened(is_initialized=False)
    quiet(play)
    play.post(request("ping", id=2))
    play.refuse(play.leg("ping"), 404)
    assert play.post(notification("notifications/initialized")).status == 202

    play.heal()

    (told,) = play.sent("notifications/initialized")
    assert told.session_id == b"up-2"
    assert told.number < play.sent("ping")[-1].number
