"""Heals that fail: the session is over, or parked for the next caller (R27, R40, R45)."""

from __future__ import annotations

import pytest

from epochgate.core import http
from epochgate.core.states import SessionState
from tests.core.messages import (
    Json,
    event,
    initialize_answer,
    log,
    notification,
    request,
    result,
)
from tests.core.playbook import JSON, opened, quiet
from tests.core.scenes import UP_2, lost, open_call


@pytest.mark.parametrize(
    "changes",
    [
        {"protocolVersion": "2025-03-26"},
        {"serverInfo": {"name": "another", "version": "1"}},
        {"capabilities": {}},
    ],
)
def test_an_incompatible_server_is_the_end_of_the_session(changes: dict[str, Json]) -> None:
    """The client negotiates anew (R27)."""
    play, exchange = lost()
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id, **changes), headers=(*JSON, UP_2))

    assert exchange.json["error"]["code"] == -32051
    assert play.heals == [("session_gone", "incompatible")]
    assert play.leg("DELETE").session_id == b"up-2"
    assert play.call(id=6).status == 404
    assert play.delete().status == 200


@pytest.mark.parametrize("status", [401, 403])
def test_a_heal_that_is_refused_waits_for_other_credentials(status: int) -> None:
    """PARKED; the call waits to its deadline (R27)."""
    play, exchange = lost()
    play.refuse(play.leg("initialize"), status)

    assert play.heals == [("session_gone", "parked")]
    assert not play.has_leg("initialize")
    play.advance(46)
    assert exchange.json["error"]["code"] == -32051


def test_a_heal_that_gets_the_same_upstream_id_back_cancels_the_old_run_first() -> None:
    """Allowed with stamps on (R27)."""
    play = opened()
    exchange, leg = open_call(play)
    play.cut(leg)
    play.heal(b"up-1")

    assert play.leg("notifications/cancelled").json["params"]["requestId"] == leg.id
    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    assert exchange.answer["id"] == 5
    play.accept(play.leg("notifications/cancelled"))
    play.advance(120)
    assert not play.sent("DELETE")  # it would end the session that was just made


def test_a_heal_before_the_clients_initialized_does_not_send_it_for_it() -> None:
    """The client's own goes to the new generation (R45)."""
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
    """The heal sends it (R24, W16)."""
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
    """A balancer's affinity (W16)."""
    play = opened()
    play.client_headers = (*play.client_headers, (b"Cookie", b"lb=old; own=1"))
    quiet(play)
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.heal(headers=((b"Set-Cookie", b"lb=new; Path=/; HttpOnly"),))
    cookie = http.find(play.leg("tools/call").headers, b"cookie") or b""

    assert sorted(cookie.replace(b" ", b"").split(b";")) == [b"lb=new", b"own=1"]


def test_a_waiting_call_of_a_parked_session_goes_up_in_what_its_client_negotiated() -> None:
    """A heal was refused; the client's own initialize is as good as one (R27)."""
    play, exchange = lost()
    play.refuse(play.leg("initialize"), 401)
    again = play.post(request("initialize", {"protocolVersion": "2025-11-25"}, id="again"))
    leg = play.leg("initialize")
    play.answer(
        leg,
        initialize_answer(leg.id),
        headers=((b"Content-Type", b"application/json"), (b"Mcp-Session-Id", b"up-1")),
    )

    assert again.answer["id"] == "again"
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id))
    assert exchange.answer["id"] == 5


def test_a_heal_that_is_refused_is_parked_for_the_next_caller() -> None:
    play, exchange = lost()
    play.refuse(play.leg("initialize"), 401)
    assert play.session.state is SessionState.PARKED

    play.call("other", id=6)

    assert exchange.status is None
    assert play.has_leg("initialize")
