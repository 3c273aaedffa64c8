"""Upstream legs: what comes back on one goes to whom it belongs, whole or in pieces, or to nobody."""

from __future__ import annotations

import json

import pytest

from epochgate.core.events import LegAnswered, LegCompleted, LegEnd, LegEnded, LegRead
from epochgate.core.http import Headers
from tests.core.messages import Json, event, initialize, initialize_answer, log, progress, result
from tests.core.playbook import JSON, SSE, Play, opened
from tests.core.scenes import lost, running
from tests.core.sides import Upstream


def complete(play: Play, leg: Upstream, body: Json, headers: Headers = JSON, status: int = 200) -> None:
    """Answer a leg whole, in one read."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    play.feed(LegCompleted(leg.number, status, headers, raw))
    leg.is_open = False


def test_an_answer_in_pieces_and_one_that_came_whole_are_the_same_to_the_client() -> None:
    play = opened()
    pieces, whole = play.call(id=1), play.call(id=2)
    one, two = play.sent("tools/call")

    play.answer(one, result(one.id, {"n": 1}))
    complete(play, two, result(two.id, {"n": 1}))

    assert pieces.json == result(1, {"n": 1})
    assert whole.json == result(2, {"n": 1})
    assert (pieces.status, pieces.headers) == (whole.status, whole.headers) == (200, JSON)


def test_events_that_came_whole_are_a_stream_that_ended() -> None:
    play = opened()
    exchange = play.call(token=1)
    leg = play.leg("tools/call")

    play.feed(
        LegCompleted(leg.number, 200, SSE, event(progress(leg.token, 1)) + event(result(leg.id, {"n": 1})))
    )

    assert exchange.messages == [progress(1, 1), result(5, {"n": 1})]
    assert not exchange.is_open
    assert play.runs == 1


def test_a_listening_stream_that_came_whole_is_told_and_asked_for_again() -> None:
    play = opened()
    exchange = play.get()

    complete(play, play.leg("GET"), event(log("a")), SSE)
    play.advance(2)

    assert exchange.messages == [log("a")]
    assert play.has_leg("GET")


def test_an_event_stream_that_ended_without_anything_in_it_is_a_break() -> None:
    play = opened()
    exchange = play.call()

    complete(play, play.leg("tools/call"), b"", SSE)

    assert exchange.is_open
    assert play.reasons == ["no_epoch_captured"]


def test_the_clients_initialize_may_be_answered_whole() -> None:
    play = Play()
    exchange = play.post(initialize())
    leg = play.leg("initialize")

    complete(play, leg, initialize_answer(0), (*JSON, (b"Mcp-Session-Id", b"up-1")))

    assert exchange.json == initialize_answer(0)
    assert play.registered == [b"up-1"]


def test_the_clients_initialize_may_be_answered_in_pieces() -> None:
    play = Play()
    exchange = play.post(initialize())
    leg = play.leg("initialize")
    raw = json.dumps(initialize_answer(0)).encode()

    play.feed(LegAnswered(leg.number, 200, (*JSON, (b"Mcp-Session-Id", b"up-1"))))
    play.feed(LegRead(leg.number, raw[:9]))
    play.feed(LegRead(leg.number, raw[9:]))
    assert exchange.status is None
    play.end(leg, LegEnd.CLEAN)

    assert exchange.json == initialize_answer(0)
    assert play.registered == [b"up-1"]


def test_a_request_of_the_proxys_own_may_be_answered_whole() -> None:
    play, exchange = lost()
    leg = play.leg("initialize")

    complete(play, leg, initialize_answer(leg.id), (*JSON, (b"Mcp-Session-Id", b"up-2")))
    complete(play, play.leg("notifications/initialized"), b"", (), 202)
    leg = play.leg("tools/list")
    complete(play, leg, result(leg.id, {"tools": []}))
    leg = play.leg("tools/call")
    complete(play, leg, result(leg.id))

    assert leg.session_id == b"up-2"
    assert "result" in exchange.answer


def test_a_request_of_the_proxys_own_is_answered_with_the_event_that_is_its_response() -> None:
    """The leg is read to its end all the same: one that is closed costs its server a broken pipe (W7)."""
    play, _ = lost()
    leg = play.leg("initialize")
    play.open(leg, ((b"Mcp-Session-Id", b"up-2"),))

    play.send(leg, event(initialize_answer(leg.id)))

    assert leg.was_drained
    assert play.has_leg("notifications/initialized")


def test_a_request_of_the_proxys_own_that_gets_no_answer_is_given_up_and_closed() -> None:
    """Within `ping`, its headers too (R22)."""
    play, _, _ = running(1, silence_s=60.0, ping_s=10.0)
    play.advance(60.1)
    leg = play.leg("ping")
    assert leg.within == 10.0

    play.advance(10)

    assert not leg.is_open
    assert not leg.was_drained
    assert play.reasons == ["no_epoch_captured"]


@pytest.mark.parametrize("how", [LegEnd.CLEAN, LegEnd.BROKEN])
def test_once_answered_it_is_not_given_up_later(how: LegEnd) -> None:
    play, exchange, _ = running(1, silence_s=60.0, ping_s=10.0, max_silence_s=1000.0)
    play.advance(60.1)
    leg = play.leg("ping")
    play.feed(LegAnswered(leg.number, 200, JSON))
    play.feed(LegRead(leg.number, json.dumps(result(leg.id)).encode()))
    play.end(leg, how)

    play.advance(20)

    assert play.reasons == []
    assert exchange.is_open


def test_what_was_on_its_way_when_its_leg_was_dropped_changes_nothing() -> None:
    """The answer of a run that was given up is not relayed beside that of the next."""
    play, exchange, leg = running(1, hold_s=30.0)
    play.leave(exchange)
    play.advance(31)
    assert not leg.is_open

    for late in (
        LegAnswered(leg.number, 200, JSON),
        LegRead(leg.number, event(result(leg.id))),
        LegEnded(leg.number, LegEnd.CLEAN),
        LegCompleted(leg.number, 200, JSON, json.dumps(result(leg.id)).encode()),
    ):
        assert play.feed(late) == []
    assert play.get(exchange.last_id).answer["error"]["data"]["reason"] == "expired"


def test_events_that_came_whole_from_another_session_are_not_read() -> None:
    """Their head says so: the leg is dropped before its body is looked at."""
    play = opened()
    exchange = play.call()
    leg = play.leg("tools/call")

    play.feed(
        LegCompleted(leg.number, 200, (*SSE, (b"Mcp-Session-Id", b"other")), event(result(leg.id, {"n": 1})))
    )

    assert exchange.answers == []
    assert play.reasons == ["session_replaced"]
    assert not leg.is_open
