"""DELETE wins over everything; what has no id is acknowledged and never sent again (R25, R37)."""

from __future__ import annotations

import pytest

from epochgate.core.commands import UpstreamFailed
from epochgate.core.events import LegEnd
from epochgate.core.states import SessionState
from tests.core.messages import Json, ask, event, initialize_answer, log, notification, progress, result
from tests.core.playbook import JSON, Play, opened, quiet
from tests.core.scenes import UP_2, lost, open_call
from tests.core.sides import Upstream

ROOTS = "notifications/roots/list_changed"


def healing_begun() -> Play:
    """A call that met 404; the heal's `initialize` is under way."""
    play, _ = lost()
    assert play.has_leg("initialize")
    return play


def answer_initialize(play: Play) -> None:
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id), headers=(*JSON, UP_2))


# --- R25 --------------------------------------------------------------------------------------------


def test_the_session_that_a_heal_makes_behind_a_delete_is_ended_and_runs_nothing() -> None:
    """POST, 404, heal's `initialize` under way, DELETE (404 is success): no hidden run in an orphan (R25)."""
    play = healing_begun()
    call = play.exchanges[max(play.exchanges)]
    exchange = play.delete()
    play.refuse(next(leg for leg in play.sent("DELETE") if leg.session_id == b"up-1"), 404)
    assert (exchange.status, call.json["error"]["data"]["reason"]) == (200, "session_ended")

    answer_initialize(play)

    assert [leg.session_id for leg in play.sent("DELETE")] == [b"up-1", b"up-2"]
    assert not [leg for leg in play.legs.values() if leg.session_id == b"up-2" and leg.rpc != "DELETE"]
    assert play.runs == 1
    assert play.session.state is SessionState.ENDED


def test_a_delete_pauses_the_calls_that_a_heal_puts_back() -> None:
    """A prelude is made of tool calls: none runs for a client that has gone (R25)."""
    play = opened(replay_tools=("login",))
    play.call("login", id=1)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    quiet(play)
    play.call("work", id=2)
    play.refuse(play.leg("tools/call"), 404)
    play.delete()
    answer_initialize(play)
    if play.has_leg("notifications/initialized"):
        play.accept(play.leg("notifications/initialized"))
    assert play.runs == 2

    play.refuse(next(leg for leg in play.sent("DELETE") if leg.session_id == b"up-1"), 200)

    assert play.runs == 2
    assert b"up-2" in [leg.session_id for leg in play.sent("DELETE")]


@pytest.mark.parametrize("status", [401, 403, 405])
def test_a_refused_delete_lets_a_prelude_go_on(status: int) -> None:
    """Heals pause, and go on when the session is kept after all (R25)."""
    play = opened(replay_tools=("login",))
    play.call("login", id=1)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    quiet(play)
    exchange = play.call("work", id=2)
    play.refuse(play.leg("tools/call"), 404)
    deleted = play.delete()
    answer_initialize(play)
    if play.has_leg("notifications/initialized"):
        play.accept(play.leg("notifications/initialized"))
    play.refuse(play.sent("DELETE")[0], status)
    assert deleted.status == status

    if play.has_leg("notifications/initialized"):
        play.accept(play.leg("notifications/initialized"))
    while exchange.status is None:
        leg = play.leg()
        play.answer(leg, result(leg.id, {"tools": [{"name": "work"}]}))

    assert [leg.json["params"]["name"] for leg in play.sent("tools/call")][2:] == ["login", "work"]
    assert exchange.json["id"] == 2


@pytest.mark.parametrize("status", [401, 403, 405])
def test_a_refused_delete_lets_a_broken_call_be_healed(status: int) -> None:
    """A stream that broke meanwhile is attended to then (R25)."""
    play = opened()
    exchange, leg = open_call(play)
    deleted = play.delete()
    play.end(leg, LegEnd.CLEAN)
    assert not play.has_leg("initialize")

    play.refuse(play.leg("DELETE"), status)
    assert deleted.status == status
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))

    assert exchange.answer["id"] == 5


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b""),
        (400, b'{"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}'),
    ],
)
def test_a_delete_that_finds_the_session_gone_is_a_success(status: int, body: bytes) -> None:
    """The widely copied TypeScript sample says 400 for it (R25, W5)."""
    play = opened()
    running, _ = open_call(play)
    exchange = play.delete()
    play.answer(play.leg("DELETE"), body, status=status)

    assert exchange.status == 200
    assert running.answer["error"]["code"] == -32051
    assert play.call(id=6).status == 404


def test_a_delete_of_a_parked_session_ends_it() -> None:
    """Section 2, PARKED: nothing is there to be told (R25)."""
    play, call = lost()
    play.refuse(play.leg("initialize"), 401)
    exchange = play.delete()

    assert exchange.status == 200
    assert call.json["error"]["data"]["reason"] == "session_ended"
    assert play.runs == 1


# --- R37 --------------------------------------------------------------------------------------------


def failing(play: Play, leg: Upstream, how: LegEnd | int) -> None:
    if isinstance(how, int):
        play.refuse(leg, how)
    else:
        play.end(leg, how)


@pytest.mark.parametrize("how", [LegEnd.BROKEN, LegEnd.NOT_SENT, LegEnd.SILENT])
@pytest.mark.parametrize("method", [ROOTS, "notifications/progress"])
def test_a_notification_that_fails_upstream_is_202_and_counted(method: str, how: LegEnd) -> None:
    """And never sent again (R37)."""
    play = opened()
    exchange = play.post(notification(method, {"progressToken": "x", "progress": 1}))
    failing(play, play.leg(method), how)
    play.advance(120)

    assert exchange.status == 202
    assert len(play.facts(UpstreamFailed)) == 1
    assert len(play.sent(method)) == 1


@pytest.mark.parametrize("how", [500, 502, 503])
def test_an_answer_that_the_server_fails_to_take_is_202(how: int) -> None:
    """A 5xx would end Python 1.30's session (R37)."""
    play = opened()
    exchange, leg = open_call(play)
    play.send(leg, event(ask(0)))
    reply = play.post(result(0, {"action": "accept"}))
    failing(play, play.leg("answer"), how)

    assert reply.status == 202
    assert exchange.is_open


@pytest.mark.parametrize("how", [LegEnd.BROKEN, LegEnd.NOT_SENT, LegEnd.SILENT])
def test_an_elicitation_answer_that_meets_a_dead_upstream_has_its_stream_probed(how: LegEnd) -> None:
    """202 alone would hide that the call hangs (R37)."""
    play = opened()
    exchange, leg = open_call(play)
    play.send(leg, event(ask(0)))
    reply = play.post(result(0, {"action": "accept"}))
    play.end(play.leg("answer"), how)

    assert reply.status == 202
    assert len(play.facts(UpstreamFailed)) == 1
    play.end(play.leg("ping"), LegEnd.SILENT)
    assert exchange.answer["error"]["code"] == -32050  # its question was answered: never again


@pytest.mark.parametrize("message", [log("x"), progress("x", 1), notification("notifications/x")])
def test_a_notification_that_finds_the_session_gone_is_not_sent_after_the_heal(message: Json) -> None:
    """It belonged to a session that is no more (R37)."""
    play = opened()
    quiet(play)
    exchange = play.post(message)
    play.refuse(play.leg(message["method"]), 404)
    play.call()
    play.heal()

    assert exchange.status == 202
    assert len(play.sent(message["method"])) == 1


def test_changed_roots_that_found_the_session_gone_are_told_to_the_next_one() -> None:
    """The one notification that is sent again (R37)."""
    play = opened()
    quiet(play)
    assert play.post(notification(ROOTS)).status is None
    play.refuse(play.leg(ROOTS), 404)
    play.call()
    play.heal()

    assert [leg.session_id for leg in play.sent(ROOTS)] == [b"up-1", b"up-2"]
