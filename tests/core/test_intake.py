"""What a session does with a client's request, by its state."""

from __future__ import annotations

import pytest

from epochgate.core import http
from epochgate.core.commands import SendUpstream
from epochgate.core.states import SessionState
from tests.core.messages import (
    event,
    initialize,
    initialize_answer,
    log,
    notification,
    request,
    result,
)
from tests.core.playbook import JSON, Play, opened
from tests.core.scenes import BOB, accept_bob, begun_for_bob, fenced, listening, lost, open_call, say


def test_more_streams_than_the_limit_are_refused_at_once() -> None:
    """G8."""
    play = opened(max_streams=2)
    play.call(id=1)
    play.call(id=2)

    exchange = play.call(id=3)

    assert exchange.json["error"]["code"] == -32052
    assert len(play.sent("tools/call")) == 2


def test_against_a_live_leg_the_answer_is_ours_and_says_when_to_return() -> None:
    """409 with Retry-After; a leg that is taken over ends with the final chunk (R35)."""
    play, first, _ = listening()
    play.advance(6)
    second = play.get()
    third = play.get()

    assert (first.is_open, first.is_aborted) == (False, False)
    assert second.is_open
    assert (third.status, http.find(third.headers, b"retry-after")) == (409, b"5")
    assert len(play.sent("GET")) == 1


def test_a_stream_that_was_begun_for_its_caller_ends_if_a_newer_one_takes_its_place() -> None:
    play = opened()
    first = begun_for_bob(play)
    accept_bob(play)

    second = play.get(who=BOB)

    assert first.status == 200
    assert not first.is_open
    leg = play.leg("GET")
    play.open(leg)
    say(play, leg, "live")
    assert second.messages == [log("live")]


@pytest.mark.parametrize("status", [404, 500, 503, None])
def test_what_does_not_answer_as_mcp_is_tried_again_and_then_parked(status: int | None) -> None:
    """An ingress that says 404 during a deploy (R27)."""
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


def test_a_fenced_owner_says_nothing_more_to_anybody() -> None:
    """Neither a ping nor an answer, a replay or a second run (R17)."""
    play, exchange, _ = fenced()
    play.steps.clear()

    resumed = play.get(exchange.last_id)
    answered = play.post(result(0))
    play.advance(600)

    assert not play.facts(SendUpstream)
    assert resumed.messages == []
    assert not resumed.is_open
    assert not answered.is_open


def test_what_cannot_be_read_is_left_to_the_server() -> None:
    play = opened()
    exchange = play.post(b"no JSON")
    (leg,) = [leg for leg in play.legs.values() if leg.body == b"no JSON"]

    play.refuse(leg, 400, b"what?")

    assert (exchange.status, exchange.body) == (400, b"what?")


def test_what_cannot_be_read_is_not_found_when_the_session_is_over() -> None:
    play = opened()
    play.delete()
    play.refuse(play.leg("DELETE"), 200)

    assert play.post(b"no JSON").status == 404
    assert play.post(request("ping", id=1)).status == 404
    assert play.get().status == 404


def test_a_request_before_the_answer_to_initialize_is_too_early() -> None:
    play = Play()
    play.post(initialize())

    early = play.post(request("ping", id=1))

    assert (early.status, early.body) == (400, b"the session is still being opened")
    assert len(play.legs) == 1


def test_during_a_heal_requests_wait_and_all_else_is_acknowledged() -> None:
    play, _ = lost()

    waiting = play.call("other", id=6)
    assert play.post(notification("notifications/x")).status == 202
    assert play.post(result(9)).status == 202
    assert waiting.status is None
    play.heal()

    names = [leg.json["params"]["name"] for leg in play.sent("tools/call")]
    assert sorted(names) == ["other", "work", "work"]


def test_initialize_in_a_session_that_lives_is_the_servers_to_answer() -> None:
    play = opened()
    exchange = play.post(initialize(id=7))
    leg = play.leg("initialize")
    assert leg.session_id == b"up-1"

    play.answer(leg, initialize_answer(7), headers=(*JSON, (b"Mcp-Session-Id", b"up-1")))

    assert exchange.json == initialize_answer(7)


def test_a_call_whose_client_left_while_its_record_was_written_is_not_sent() -> None:
    play = opened()
    play.is_persisting = False
    play.leave(play.call())

    play.persist()

    assert play.runs == 0


def test_a_call_whose_session_was_made_anew_while_its_record_was_written_goes_to_the_new_one() -> None:
    """Under stamps of that generation: the old one's mean nothing there."""
    play = opened(epoch=1)
    play.post(request("ping", id="p"))
    play.is_persisting = False
    exchange = play.call()
    ping = play.leg("ping")
    play.answer(ping, result(ping.id, {}, 2))
    assert play.session.current.number == 2

    play.persist()

    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id, epoch=2))
    assert exchange.json["id"] == 5
    assert play.runs == 1


def test_a_cursor_is_of_no_use_to_a_client_that_takes_no_stream() -> None:
    play = opened()
    exchange, leg = open_call(play)
    play.leave(exchange)
    own = play.client_headers
    play.client_headers = (*own, (b"Accept", b"application/json"))
    assert play.get(exchange.last_id).status == 406
    play.client_headers = own

    back = play.get(exchange.last_id)
    play.send(leg, event(result(leg.id)))

    assert back.answer == result(5)


def test_a_new_call_has_a_parked_session_healed_and_waits() -> None:
    play, first = lost()
    play.refuse(play.leg("initialize"), 401)
    assert play.session.state is SessionState.PARKED

    second = play.call("other", id=6)

    assert play.has_leg("initialize")
    assert first.status is None
    assert second.status is None
