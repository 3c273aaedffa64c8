"""A heal: how it begins, what ends it, and what follows from either (R24-R27).

Longer than most: its module is to be proven by this file alone.
"""

from __future__ import annotations

import pytest

from epochgate.core.commands import HealBegun
from epochgate.core.events import DrainBegun, LegEnd, Persisted
from epochgate.core.policy import SessionLoss, Stamps
from epochgate.core.states import SessionState
from tests.core.messages import (
    Json,
    event,
    initialize,
    initialize_answer,
    log,
    notification,
    request,
    result,
)
from tests.core.playbook import JSON, Play, opened, quiet
from tests.core.scenes import UP_2, answer_initialize, listening, lost, open_call, parked, texts
from tests.core.sides import Upstream


def healing_begun() -> Play:
    """A call that met 404; the heal's `initialize` is under way."""
    play, _ = lost()
    assert play.has_leg("initialize")
    return play


def answered(play: Play, rpc: str, value: Json = None) -> Upstream:
    leg = play.leg(rpc)
    play.answer(leg, result(leg.id, value or {"content": []}))
    return leg


def test_many_losses_of_one_generation_are_one_heal() -> None:
    """Single flight."""
    play = opened()
    calls = [open_call(play, id=id) for id in (1, 2, 3)]
    for _, leg in calls:
        play.cut(leg)

    play.heal()
    for leg in play.sent("tools/call")[3:]:
        play.answer(leg, result(leg.id))

    assert len(play.facts(HealBegun)) == 1
    assert [exchange.answer["id"] for exchange, _ in calls] == [1, 2, 3]
    assert len(play.sent("initialize")) == 2


def test_a_request_waits_at_most_the_heal_deadline() -> None:
    """Then -32051 (R24, R27)."""
    play, first = lost(heal_deadline_s=45.0)
    play.advance(5)
    second = play.call(id=6)
    while play.has_leg("initialize"):
        play.unreachable(play.leg("initialize"))
        play.advance(3)

    assert first.json["error"]["code"] == second.json["error"]["code"] == -32051
    assert first.json["error"]["data"]["reason"] == "heal_deadline"
    assert play.runs == 1
    assert play.session.state is SessionState.PARKED


def test_answers_notifications_and_cancels_never_wait() -> None:
    """The table of what arrives during a heal (R24)."""
    play, first = lost()
    second = play.call("other", id=6)

    assert play.post(notification("notifications/roots/list_changed")).status == 202
    assert play.post(result(99)).status == 202
    assert play.post(notification("notifications/cancelled", {"requestId": 6})).status == 202
    play.heal()

    assert play.runs == 2  # the cancelled one was taken off the queue
    play.advance(6)
    assert not second.is_open
    assert first.is_open


def test_a_lost_session_is_healed_while_somebody_listens() -> None:
    play, exchange, leg = listening(epoch=7)
    play.send(leg, event(log("a", 7), 1))
    play.cut(leg)
    play.refuse(play.leg("GET"), 404)
    play.heal(epoch=8)
    again = play.leg("GET")
    assert (again.session_id, again.last_event_id) == (b"up-2", None)
    play.open(again)
    play.send(again, event(log("b", 8), 1))

    assert [word for word in texts(exchange) if word in "ab"] == ["a", "b"]
    assert exchange.is_open


def test_an_initialize_without_a_session_id_is_the_end() -> None:
    """LOST: there is nothing to name the new session by (R27)."""
    play, exchange = lost()
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id))

    assert play.heals == [("session_gone", "incompatible")]
    assert exchange.json["error"]["code"] == -32051


def test_a_process_that_goes_away_begins_no_heal() -> None:
    play = opened()
    exchange, leg = open_call(play)
    play.feed(DrainBegun(play.now + 25))
    play.end(leg, LegEnd.BROKEN)

    assert exchange.answer["error"]["data"]["reason"] == "draining"
    assert not play.has_leg("initialize")


def test_a_heal_that_nobody_waits_for_is_parked_at_its_first_failure() -> None:
    play, exchange = lost()
    play.leave(exchange)
    play.unreachable(play.leg("initialize"))
    play.advance(60)

    assert play.heals == [("session_gone", "parked")]
    assert len(play.sent("initialize")) == 2


def test_initialized_that_comes_while_the_commit_is_written_still_reaches_the_new_session() -> None:
    """Between the comparison and the durable commit (R45)."""
    play = opened(is_initialized=False)
    quiet(play)
    exchange = play.post(request("ping", id=2))
    play.refuse(play.leg("ping"), 404)
    play.is_persisting = False
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id), headers=(*JSON, UP_2))

    told = play.post(notification("notifications/initialized"))
    play.is_persisting = True
    play.persist()
    for one in play.sent("notifications/initialized"):
        play.accept(one)

    assert told.status == 202
    assert [one.session_id for one in play.sent("notifications/initialized")] == [b"up-2"]
    answered(play, "ping", {})
    assert exchange.json["id"] == 2


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


def answer_heal(play: Play, session_id: bytes = b"up-2", **changes: Json) -> None:
    """The server's answer to the `initialize` of the heal."""
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id, **changes), headers=(*JSON, (b"Mcp-Session-Id", session_id)))


def test_a_loss_during_a_delete_is_healed_if_the_server_refuses_it() -> None:
    play = opened()
    quiet(play)
    play.call()
    play.delete()
    play.refuse(play.leg("tools/call"), 404)
    assert not play.has_leg("initialize")

    play.refuse(play.leg("DELETE"), 405)

    assert play.has_leg("initialize")


def test_in_a_session_that_was_shown_as_lost_nothing_is_healed_any_more() -> None:
    """A call that went on there and breaks later gets its error."""
    play = opened(session_loss=SessionLoss.SURFACE)
    exchange, leg = open_call(play)
    play.call(id=6)
    play.advance(6)
    play.refuse(play.leg("tools/call"), 404)
    play.refuse(play.leg("ping"), 404)

    play.cut(leg)

    assert exchange.answer["error"]["code"] == -32051
    assert exchange.answer["error"]["data"]["reason"] == "session_lost"
    assert not play.has_leg("initialize")


def test_more_heals_than_the_budget_of_a_minute_are_the_end_of_the_session() -> None:
    play = opened(max_heals_per_minute=1)
    first, leg = open_call(play)
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    assert first.answer["id"] == 5
    second, leg = open_call(play, id=6)

    play.cut(leg)

    assert second.answer["error"]["data"]["reason"] == "heal_budget"
    assert play.heals[-1] == ("stream_restart", "lost")
    assert play.call(id=7).status == 404


def test_a_heal_ends_with_its_session_though_it_was_to_be_tried_again() -> None:
    play, exchange = lost()
    play.unreachable(play.leg("initialize"))
    play.delete()
    play.refuse(play.leg("DELETE"), 200)
    assert exchange.json["error"]["data"]["reason"] == "session_ended"

    play.advance(5)

    assert len(play.sent("initialize")) == 2


def test_without_stamps_the_same_session_id_again_is_no_new_session() -> None:
    """Two runs under one id could not be told apart in it."""
    play = opened(stamp=Stamps.OFF)
    quiet(play)
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    waiting = play.call(id=6)

    answer_heal(play, b"up-1")

    assert play.heals == [("session_gone", "incompatible")]
    assert waiting.json["error"]["data"]["reason"] == "incompatible"


def test_a_server_of_another_revision_is_another_server_and_ends_what_hung_on_the_session() -> None:
    """Waiting calls get their error, a listener the final chunk, and the session that was made is ended."""
    play, listener, leg = listening()
    quiet(play)
    exchange = play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.refuse(play.leg("ping"), 404)

    answer_heal(play, protocolVersion="2025-03-26")

    assert exchange.json["error"]["data"]["reason"] == "incompatible"
    assert (listener.is_open, listener.is_aborted, leg.is_open) == (False, False, False)
    assert play.leg("DELETE").session_id == b"up-2"


def test_initialized_that_is_answered_behind_the_end_of_the_session_restores_nothing() -> None:
    play, _ = lost()
    answer_heal(play)
    told = play.leg("notifications/initialized")
    play.delete()
    play.refuse(play.sent("DELETE")[0], 200)

    play.accept(told)

    assert not play.sent("tools/list")
    assert play.runs == 1


def test_a_server_that_refuses_initialized_is_asked_for_another_session() -> None:
    """The one that was made is of no use: it is ended."""
    play, exchange = lost()
    answer_heal(play)
    play.refuse(play.leg("notifications/initialized"), 503)
    assert play.leg("DELETE").session_id == b"up-2"
    play.advance(0.2)

    play.heal(b"up-3")

    again = play.leg("tools/call")
    assert again.session_id == b"up-3"
    play.answer(again, result(again.id))
    assert exchange.json["id"] == 5


def test_a_commit_waits_for_what_the_server_says_to_a_delete() -> None:
    play = opened(is_initialized=False)
    quiet(play)
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.delete()
    answer_heal(play)
    assert not play.heals

    play.refuse(play.sent("DELETE")[0], 405)

    assert play.heals == [("session_gone", "healed")]


def test_the_same_session_id_again_is_a_new_session_under_new_stamps() -> None:
    """The old run is cancelled in it, and the id is not ended with the old generation."""
    play = opened()
    exchange, leg = open_call(play)
    play.cut(leg)
    play.heal(b"up-1")
    again = play.leg("tools/call")
    assert again.id != leg.id

    play.accept(play.leg("notifications/cancelled"))
    play.answer(again, result(again.id))

    assert exchange.answer["id"] == 5
    assert not play.sent("DELETE")


def test_a_commit_that_is_durable_behind_the_end_of_the_session_sends_nothing() -> None:
    play, exchange = lost()
    play.is_persisting = False
    play.heal()
    (commit,) = play.persists
    play.delete()
    play.refuse(play.sent("DELETE")[0], 200)
    play.feed(Persisted(play.persists[1].token))
    assert exchange.json["error"]["data"]["reason"] == "session_ended"

    play.feed(Persisted(commit.token))

    assert play.runs == 1


@pytest.mark.parametrize("status", [200, 405])
def test_a_commit_that_is_durable_while_a_delete_is_under_way_waits_for_what_comes_of_it(status: int) -> None:
    """What waits for the heal goes up behind a DELETE only if it was refused (R25)."""
    play, exchange = lost()
    again = play.post(initialize(id=9))
    play.is_persisting = False
    play.heal()
    gone = play.delete()
    play.persist()
    assert play.runs == 1
    assert len(play.sent("initialize")) == 2

    play.refuse(next(one for one in play.sent("DELETE") if one.session_id == b"up-2"), status)
    play.persist()

    assert gone.status == status
    assert (play.runs, len(play.sent("initialize"))) == ((1, 2) if status == 200 else (2, 3))
    assert (exchange.status, again.status) == ((200, 404) if status == 200 else (None, None))


def test_a_listener_of_a_client_that_is_not_initialized_yet_follows_with_the_commit() -> None:
    """The heal tells the server nothing of it before."""
    play = opened(is_initialized=False)
    exchange = play.get()
    leg = play.leg("GET")
    play.open(leg)
    play.cut(leg)
    play.advance(6)
    play.refuse(play.leg("GET"), 404)

    play.heal()

    assert play.leg("GET").session_id == b"up-2"
    assert exchange.is_open


def test_a_session_whose_heals_are_refused_is_never_lost() -> None:
    """401 and 403 park; beyond the budget nothing is tried, and its callers get errors (R27)."""
    play = parked()
    for number in range(2):
        exchange = play.call(id=number)
        play.leave(exchange)
        play.refuse(play.leg("initialize"), 401)

    exchange = play.call(id=9)
    assert exchange.answer["error"]["data"]["reason"] == "unauthorized"
    play.advance(61)
    play.call(id=10)
    play.heal()
    assert play.session.state is SessionState.LIVE


def test_a_heal_is_not_tried_again_while_a_delete_is_under_way() -> None:
    """R25: from its arrival heals pause."""
    play, _ = lost()
    play.unreachable(play.leg("initialize"))
    play.delete()
    play.advance(5)

    assert len(play.sent("initialize")) == 2  # the client's own, and the one before the DELETE


def test_what_waited_for_a_heal_that_was_refused_goes_up_when_its_client_negotiates_anew() -> None:
    """In order: what was lost, then what was never sent (R27)."""
    play, exchange = lost()
    waiting = play.call(id=6)
    play.refuse(play.leg("initialize"), 401)
    again = play.post(initialize(id="again"))
    leg = play.leg("initialize")

    play.answer(leg, initialize_answer(leg.id), headers=(*JSON, (b"Mcp-Session-Id", b"up-1")))
    for leg in play.sent("tools/call")[-2:]:
        play.answer(leg, result(leg.id))

    assert again.answer["id"] == "again"
    assert (exchange.answer["id"], waiting.answer["id"]) == (5, 6)
