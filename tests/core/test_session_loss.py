"""A session that is lost: healed, shown to the client, parked, or over (R21, R26, R27, R45)."""

from __future__ import annotations

import pytest

from epochgate.core import http
from epochgate.core.commands import Reissued
from epochgate.core.events import DrainBegun, LegEnd
from epochgate.core.policy import SessionLoss
from epochgate.core.states import SessionState
from tests.core.messages import (
    Json,
    error,
    event,
    initialize_answer,
    log,
    notification,
    request,
    result,
)
from tests.core.playbook import JSON, MARK, opened, quiet
from tests.core.scenes import UP_2, learn_tools, lost, open_call


@pytest.mark.parametrize(
    ("setting", "has_state", "is_healed"),
    [
        (SessionLoss.AUTO, False, True),
        (SessionLoss.AUTO, True, False),
        (SessionLoss.HEAL, True, True),
        (SessionLoss.SURFACE, False, False),
    ],
)
def test_whether_a_404_heals_or_is_shown(setting: SessionLoss, has_state: bool, is_healed: bool) -> None:
    """R21."""
    play = opened(session_loss=setting)
    learn_tools(play, {"name": "work"}, {"name": "look", "annotations": {"readOnlyHint": True}})
    play.call("work" if has_state else "look", id=1)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    quiet(play)

    exchange = play.call("look", id=2)
    play.refuse(play.leg("tools/call"), 404)

    assert play.has_leg("initialize") is is_healed
    assert exchange.status == (None if is_healed else 404)
    if not is_healed:
        assert play.session.state is SessionState.LOST
        assert play.call(id=3).status == 404
        assert play.get().status == 404
        assert ("upstream", "restart", "session_gone") in play.judged


def test_after_a_heal_the_first_answer_carries_the_mark_until_one_was_delivered() -> None:
    """R21, G7: even for a call that provably did not run, and without logging."""
    play, exchange = lost()
    play.heal()
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id))
    second = play.call(id=6)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))

    mark = exchange.json["result"]["_meta"][MARK]
    assert mark == {"reason": "session_gone", "generation": 2, "discarded_events": 0, "reissued": False}
    assert second.json == result(6)


def test_a_404_while_the_session_shows_life_is_checked_by_one_ping() -> None:
    """R26: two replicas behind one address."""
    play = opened()
    exchange = play.call()
    play.refuse(play.leg("tools/call"), 404)
    ping = play.leg("ping")
    assert ping.session_id == b"up-1"
    play.answer(ping, result(ping.id, {}))

    assert play.counted == ["affinity_faults"]
    again = play.leg("tools/call")
    assert again.session_id == b"up-1"
    play.answer(again, result(again.id))
    assert exchange.json == result(5)
    assert not play.heals


def test_a_second_404_in_a_living_session_is_shown() -> None:
    play = opened()
    exchange = play.call()
    for _ in range(2):
        play.refuse(play.leg("tools/call"), 404, b"no such session")
        play.answer(play.leg("ping"), result(play.leg("ping").id, {}))

    assert (exchange.status, exchange.body) == (404, b"no such session")
    assert play.runs == 2
    assert play.session.state is SessionState.LIVE


def test_a_ping_that_meets_404_too_is_the_loss() -> None:
    play = opened()
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.refuse(play.leg("ping"), 404)

    assert play.has_leg("initialize")


def test_heals_have_a_budget() -> None:
    """R26, G8: three in a minute, then the session is lost."""
    play, exchange = lost()
    for number in (2, 3, 4):
        play.heal(b"up-%d" % number)
        quiet(play)
        leg = play.leg("tools/call")
        play.answer(leg, result(leg.id))
        quiet(play)
        exchange = play.call(id=number)
        play.refuse(play.leg("tools/call"), 404)

    assert [outcome for _, outcome in play.heals] == ["healed", "healed", "healed", "lost"]
    assert exchange.json["error"]["code"] == -32051
    assert play.session.state is SessionState.LOST


@pytest.mark.parametrize(
    "changes",
    [
        {"protocolVersion": "2025-03-26"},
        {"serverInfo": {"name": "another", "version": "1"}},
        {"capabilities": {}},
    ],
)
def test_an_incompatible_server_is_the_end_of_the_session(changes: dict[str, Json]) -> None:
    """R27: the client negotiates anew."""
    play, exchange = lost()
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id, **changes), headers=(*JSON, UP_2))

    assert exchange.json["error"]["code"] == -32051
    assert play.heals == [("session_gone", "incompatible")]
    assert play.leg("DELETE").session_id == b"up-2"
    assert play.call(id=6).status == 404
    assert play.delete().status == 200


@pytest.mark.parametrize("status", [404, 500, 503, None])
def test_what_does_not_answer_as_mcp_is_tried_again_and_then_parked(status: int | None) -> None:
    """R27: an ingress that says 404 during a deploy."""
    play, exchange = lost(heal_deadline_s=10.0)
    while exchange.status is None:
        if status is None:
            play.unreachable(play.leg("initialize"))
        else:
            play.answer(play.leg("initialize"), b"<html>", status=status, headers=())
        play.advance(2)
    assert exchange.json["error"]["code"] == -32051
    assert play.heals == [("session_gone", "parked")]

    second = play.call(id=6)  # the next caller tries again
    play.heal()
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id))
    assert second.json["id"] == 6


@pytest.mark.parametrize("status", [401, 403])
def test_a_heal_that_is_refused_waits_for_other_credentials(status: int) -> None:
    """R27: PARKED."""
    play, exchange = lost()
    play.refuse(play.leg("initialize"), status)

    assert play.heals == [("session_gone", "parked")]
    assert not play.has_leg("initialize")
    play.advance(46)
    assert exchange.json["error"]["code"] == -32051


def test_an_initialize_without_a_session_id_is_the_end() -> None:
    play, exchange = lost()
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id))

    assert play.heals == [("session_gone", "incompatible")]
    assert exchange.json["error"]["code"] == -32051


@pytest.mark.parametrize("answer", [error(0), result(0, {"isError": True})])
def test_a_prelude_that_fails_is_an_incompatible_heal(answer: Json) -> None:
    """R40."""
    play = opened(replay_tools=("login",))
    play.call("login", id=1)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    quiet(play)
    exchange = play.call(id=2)
    play.refuse(play.leg("tools/call"), 404)
    play.heal()

    prelude = play.leg("tools/call")
    play.answer(prelude, {**answer, "id": prelude.id})

    assert play.heals == [("session_gone", "incompatible")]
    assert exchange.json["error"]["code"] == -32051
    assert play.leg("DELETE").session_id == b"up-2"


def test_a_heal_that_gets_the_same_upstream_id_back_cancels_the_old_run_first() -> None:
    """R27: allowed with stamps on."""
    play = opened()
    exchange, leg = open_call(play)
    play.cut(leg)
    play.heal(b"up-1")

    assert play.leg("notifications/cancelled").json["params"]["requestId"] == leg.id
    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    assert exchange.answer["id"] == 5
    assert not play.sent("DELETE")  # it would end the session that was just made


def test_a_heal_before_the_clients_initialized_does_not_send_it_for_it() -> None:
    """R45."""
    play = opened(is_initialized=False)
    quiet(play)
    exchange = play.post(request("ping"))
    play.refuse(play.leg("ping"), 404)
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id), headers=(*JSON, UP_2))
    assert not play.sent("notifications/initialized")

    play.answer(play.leg("ping"), result(play.leg("ping").id, {}))
    play.post(notification("notifications/initialized"))

    assert exchange.json["id"] == 5
    assert play.leg("notifications/initialized").session_id == b"up-2"


def test_the_clients_own_late_initialized_during_a_heal_is_swallowed() -> None:
    """R24, W16."""
    play, _ = lost()

    assert play.post(notification("notifications/initialized")).status == 202
    play.heal()

    assert len(play.sent("notifications/initialized")) == 2


def test_the_answer_to_a_heals_initialize_may_be_sse() -> None:
    play, _ = lost()
    leg = play.leg("initialize")
    play.open(leg, (UP_2,))
    play.send(leg, event(log("hello")), event(initialize_answer(leg.id)))

    assert leg.was_drained
    assert play.leg("notifications/initialized").session_id == b"up-2"


def test_a_process_that_goes_away_begins_no_heal() -> None:
    play = opened()
    exchange, leg = open_call(play)
    play.feed(DrainBegun(play.now + 25))
    play.end(leg, LegEnd.BROKEN)

    assert exchange.answer["error"]["data"]["reason"] == "draining"
    assert not play.has_leg("initialize")


def test_a_call_that_meets_404_in_each_new_session_is_given_up() -> None:
    """R28: of what provably did not run one re-issue for each heal, two for each request."""
    play, exchange = lost()
    for number in (2, 3):
        play.heal(b"up-%d" % number)
        play.refuse(play.leg("tools/call"), 404)
        if play.has_leg("ping"):
            play.refuse(play.leg("ping"), 404)

    assert play.runs == 3
    assert exchange.json["error"]["code"] == -32050
    assert [one.outcome for one in play.facts(Reissued)] == ["sent", "sent", "exhausted"]


def test_the_heal_deadline_counts_from_the_first_failure() -> None:
    """R27: retries included."""
    play = opened(heal_deadline_s=45.0, resume_deadline_s=10.0)
    exchange = play.call()
    began = play.now
    while exchange.status is None:
        play.unreachable(play.leg())
        play.advance(1)

    assert 44 <= play.now - began <= 47
    assert exchange.json["error"]["code"] == -32051


def test_a_stream_that_never_broke_goes_on_when_its_session_is_lost() -> None:
    """Section 2: stays if unbroken."""
    play = opened(session_loss=SessionLoss.SURFACE)
    running, leg = open_call(play)
    second = play.call(id=6)
    play.refuse(play.leg("tools/call") if play.leg("tools/call") is not leg else leg, 404)
    play.refuse(play.leg("ping"), 404)
    assert second.status == 404
    assert play.session.state is SessionState.LOST

    play.send(leg, event(result(leg.id)))

    assert running.answer["id"] == 5


def test_a_cursor_is_still_served_when_the_session_is_lost() -> None:
    """Section 2: LOST: journal, errors."""
    play = opened(session_loss=SessionLoss.SURFACE)
    running, leg = open_call(play)
    play.leave(running)
    play.send(leg, event(result(leg.id)))
    quiet(play)
    play.call(id=6)
    play.refuse(play.leg("tools/call"), 404)
    assert play.session.state is SessionState.LOST

    assert play.get(running.last_id).answer == result(5)


def test_a_json_call_whose_client_left_during_the_heal_is_not_run_and_not_kept() -> None:
    """G8: it must not hold the session for ever."""
    play = opened(session_idle_s=20.0)
    exchange = play.call()
    play.cut(play.leg("tools/call"))
    other = play.call("other", id=6)
    play.leave(exchange)
    play.heal()
    leg = play.leg("tools/call")
    assert leg.json["params"]["name"] == "other"
    play.answer(leg, result(leg.id))
    assert other.json["id"] == 6

    play.advance(200)

    assert play.is_forgotten
    assert [one.json["params"]["name"] for one in play.sent("tools/call")] == ["work", "other"]


def test_the_cookie_of_a_heal_replaces_the_clients() -> None:
    """W16: a balancer's affinity."""
    play = opened()
    play.client_headers = (*play.client_headers, (b"Cookie", b"lb=old; own=1"))
    quiet(play)
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.heal(headers=((b"Set-Cookie", b"lb=new; Path=/; HttpOnly"),))
    cookie = http.find(play.leg("tools/call").headers, b"cookie") or b""

    assert sorted(cookie.replace(b" ", b"").split(b";")) == [b"lb=new", b"own=1"]
