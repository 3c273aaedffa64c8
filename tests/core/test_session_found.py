"""What was found where sessions drift, park and poll: each once as it went wrong, and as it is now."""

from __future__ import annotations

from epochgate.core import commands as do
from epochgate.core.events import LegEnd
from epochgate.core.policy import PollWithoutEpoch, Reissue
from epochgate.core.states import SessionState
from tests.core.messages import (
    Json,
    cancel,
    error,
    event,
    initialize_answer,
    log,
    notification,
    progress,
    request,
    result,
)
from tests.core.playbook import JSON, Play, opened
from tests.core.scenes import call, drift, parked, restoring, resume
from tests.core.sides import Exchange, Upstream

# --- polls whose `retry:` stood in the first event alone, as the official SDKs write it --------------


def polled(**settings: Json) -> tuple[Play, Exchange, Upstream]:
    """A stream that began with `retry:`, gave one message with an id, and was closed by its server."""
    play = opened(**settings)
    exchange, leg = call(play)
    epoch = settings.get("epoch")
    play.send(leg, b"id: 1\nretry: 500\ndata: \n\n")
    play.send(leg, event(progress(leg.token, 1, epoch), 2))
    play.end(leg, LegEnd.CLEAN)
    return play, exchange, leg


def test_with_an_epoch_it_is_a_poll_at_the_time_that_the_server_said() -> None:
    """What comes back is proven, so that nothing hangs on where `retry:` stood (R4)."""
    play, exchange, leg = polled(epoch=7)
    assert not play.has_leg("GET")

    play.advance(0.51)
    resume(play, (result(leg.id, {"n": 1}, 7), 3))

    assert exchange.answer["result"]["n"] == 1
    assert play.runs == 1


def test_such_polls_are_not_counted_as_resumes_that_brought_nothing() -> None:
    play, exchange, leg = polled(epoch=7)
    for _ in range(5):
        play.advance(0.51)
        again = resume(play)
        play.send(again, b"id: 9\nretry: 500\ndata: \n\n")
        play.end(again, LegEnd.CLEAN)

    play.advance(0.51)
    resume(play, (result(leg.id, {"n": 1}, 7), 10))
    assert exchange.answer["result"]["n"] == 1
    assert play.runs == 1


def test_without_epochs_it_is_a_break() -> None:
    """A session that expires ends its streams cleanly too (R4)."""
    play, _, _ = polled()

    assert play.reasons == ["no_epoch_captured"]


def test_without_epochs_it_is_a_poll_by_setting() -> None:
    play, exchange, leg = polled(poll_without_epoch=PollWithoutEpoch.PRIMED)

    play.advance(0.51)
    resume(play, (result(leg.id, {"n": 1}), 3))

    assert exchange.answer["result"]["n"] == 1
    assert play.counted == ["unproven_polls"]


def test_resumes_that_bring_nothing_leave_the_server_time_to_notice() -> None:
    """A server that still holds the broken leg needs some of it (R23)."""
    play = opened(epoch=7)
    _, leg = call(play)
    play.send(leg, event(progress(leg.token, 1, 7), 1))
    play.cut(leg)
    play.end(resume(play), LegEnd.CLEAN)

    play.advance(0.4)
    assert not play.has_leg("GET")
    play.advance(0.2)
    assert play.has_leg("GET")


# --- drift ------------------------------------------------------------------------------------------


def test_a_ping_answered_by_the_session_made_anew_says_nothing_of_the_old_one() -> None:
    """What runs in the old generation goes on (R1, R22)."""
    play = opened(epoch=7)
    exchange, leg = call(play)
    play.send(leg, event(progress(leg.token, 1, 7)))
    drift(play, 8)

    play.advance(61)
    play.answer(play.leg("ping"), result(play.leg("ping").id, {}, 8))
    play.send(leg, event(result(leg.id, {"n": 1}, 7)))

    assert exchange.answer["result"]["n"] == 1
    assert play.reasons == []


# --- heals that cannot restore what was there -------------------------------------------------------


def test_a_subscription_that_is_refused_makes_the_heal_fail() -> None:
    """Nobody is told that all is well while what it waits for will never come."""
    play, exchange, leg = restoring()

    play.answer(leg, error(leg.id, -32602, "no such resource"))

    assert play.heals == [("session_gone", "incompatible")]
    assert exchange.answer["error"]["code"] == -32051
    assert play.call(id=6).status == 404


# --- strangers and refused heals --------------------------------------------------------------------


def test_a_stranger_of_a_parked_session_hears_what_the_server_says() -> None:
    """A token that changed while it was lost cannot be accepted in it: its caller begins anew (R32)."""
    play = parked()
    before = play.session.state

    exchange = play.call(id=6, who=b"alice-2")
    play.refuse(play.leg("tools/call"), 404)

    assert before is SessionState.PARKED
    assert exchange.status == 404
    assert not play.has_leg("initialize")


def test_a_ping_that_shows_another_epoch_tells_of_a_loss_and_of_no_other_replica() -> None:
    """R26."""
    play = opened(epoch=7)
    exchange = play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.answer(play.leg("ping"), result(play.leg("ping").id, {}, 8))

    assert play.counted == []
    play.heal(epoch=9)
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id, {}, 9))
    assert exchange.answer["id"] == 5


# --- batches ----------------------------------------------------------------------------------------


def test_only_what_a_client_cannot_have_read_of_a_forgotten_batch_is_an_error() -> None:
    """The answer that stood before its cursor was given (R13, R41)."""
    play = opened()
    exchange = play.post([request("ping", id=1), request("ping", id=2)])
    leg = play.leg("batch")
    stamps = [one["id"] for one in leg.json]
    play.open(leg)
    play.send(leg, event(result(stamps[0])))
    play.leave(exchange)
    play.advance(301)

    back = play.get(exchange.last_id)

    assert [one["id"] for one in back.answers] == [2]
    assert play.get(back.last_id).status == 405


def test_behind_every_answer_of_a_forgotten_stream_nothing_is_left() -> None:
    play = opened()
    exchange = play.post([request("ping", id=1), request("ping", id=2)])
    leg = play.leg("batch")
    stamps = [one["id"] for one in leg.json]
    play.open(leg)
    play.send(leg, event(result(stamps[0])), event(result(stamps[1])))
    play.advance(61)

    assert play.get(exchange.last_id).status == 405


# --- bounds -----------------------------------------------------------------------------------------


def test_a_standalone_stream_of_a_drifted_session_gives_what_came_before_too() -> None:
    play = opened(epoch=7)
    listener = play.get()
    leg = play.leg("GET")
    play.open(leg)
    play.leave(listener)
    play.send(leg, event(log("while away", 7)))
    drift(play, 8)

    back = play.get()
    assert [one["params"]["data"] for one in back.messages] == ["while away"]
    assert play.facts(do.Drifted)


def test_a_strangers_cancel_in_a_batch_cancels_nothing() -> None:
    """What it asks for goes up, and the owner's call goes on (R29, R32)."""
    play = opened()
    exchange, leg = call(play)
    play.post([request("ping", id="s"), cancel(5)], who=b"mallory")
    play.refuse(play.leg("batch"), 403)

    play.advance(6)
    play.send(leg, event(result(leg.id)))

    assert exchange.answer["id"] == 5


def test_a_listener_that_returns_when_no_heal_is_left_gets_an_end() -> None:
    """Its stream is over with the session, and nothing of it comes up later (R26)."""
    play = opened(version="2025-06-18", max_heals_per_minute=1, reissue=Reissue.ALWAYS)
    play.call()
    play.cut(play.leg("tools/call"))
    leg = play.leg("initialize")
    again = initialize_answer(leg.id, version="2025-06-18")
    play.answer(leg, again, headers=(*JSON, (b"Mcp-Session-Id", b"up-2")))
    play.accept(play.leg("notifications/initialized"))
    listener = play.get()
    play.open(play.leg("GET"))
    play.leave(listener)
    play.cut(play.leg("GET"))
    play.post(notification("notifications/x"))
    play.refuse(play.leg("notifications/x"), 404)
    play.refuse(play.leg("ping"), 404)

    back = play.get()
    play.advance(61)

    assert (back.status, back.is_open) == (200, False)
    assert play.session.state is SessionState.LOST
