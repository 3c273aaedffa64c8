"""A client that comes back with a cursor gets each event once and in order (R10-R14)."""

from __future__ import annotations

import pytest

from epochgate.core import http
from tests.core.messages import error, event, result
from tests.core.playbook import opened
from tests.core.scenes import EVENTS, cursor, give, open_call, running, steps


@pytest.mark.parametrize("read", range(EVENTS + 1))
@pytest.mark.parametrize("meanwhile", [0, 2, EVENTS, EVENTS + 1])
def test_after_a_cut_at_any_event_each_is_there_once_and_in_order(read: int, meanwhile: int) -> None:
    """The leg is cut after `read` events; the server is at event `meanwhile` or further by the return."""
    play, first, leg = running(read)
    play.leave(first)
    give(play, leg, read, min(meanwhile, EVENTS))
    if meanwhile > EVENTS:
        play.send(leg, event(result(leg.id)))

    second = play.get(cursor(first, read))
    give(play, leg, max(read, meanwhile), EVENTS)
    if meanwhile <= EVENTS:
        play.send(leg, event(result(leg.id)))

    assert second.status == 200
    assert steps(first)[:read] + steps(second) == list(range(EVENTS))
    assert second.answer == result(5)
    assert not second.is_open
    assert play.runs == 1


@pytest.mark.parametrize("read", range(EVENTS))
def test_an_event_that_was_written_but_not_read_comes_again(read: int) -> None:
    """Half-delivered is not delivered: the cut is inside what was written."""
    play, first, leg = running(EVENTS)
    play.leave(first)

    second = play.get(cursor(first, read))

    assert steps(second) == list(range(read, EVENTS))
    play.send(leg, event(result(leg.id)))
    assert second.answer == result(5)


def test_a_client_that_returns_again_and_again_loses_nothing() -> None:
    play, exchange, leg = running(1)
    seen = steps(exchange)
    for step in range(1, EVENTS):
        play.leave(exchange)
        give(play, leg, step, step + 1)
        exchange = play.get(exchange.last_id)
        seen += steps(exchange)

    assert seen == list(range(EVENTS))


def test_a_leg_with_nothing_to_replay_is_primed_behind_everything_journalled() -> None:
    """The trace: a priming event never stands for events that were not delivered (R10)."""
    play, first, leg = running(3)
    play.leave(first)
    second = play.get(first.last_id)
    assert [one.data for one in second.events] == [b""]
    assert int(second.last_id) == int(first.last_id) + 1
    play.leave(second)
    give(play, leg, 3, 5)

    third = play.get(second.last_id)
    play.leave(third)
    fourth = play.get(second.last_id)

    assert steps(third) == [3, 4]
    assert steps(fourth) == [3, 4]
    assert all(one.data for one in third.events)  # a replay carries no priming event


def test_priming_is_skipped_on_replay() -> None:
    """It is no event of the stream (R10)."""
    play, first, leg = running(2)
    play.leave(first)
    play.leave(play.get(first.last_id))
    give(play, leg, 2, 3)

    replay = play.get(cursor(first, 0))

    assert [one.data == b"" for one in replay.events] == [False, False, False]
    assert steps(replay) == [0, 1, 2]


def test_a_client_of_an_older_revision_is_never_primed() -> None:
    """It cannot parse one (R10)."""
    play, first, leg = running(2, version="2025-06-18")
    assert b"data: \n" not in first.body
    play.leave(first)

    second = play.get(first.last_id)

    assert second.status == 200
    assert second.body == b""
    play.send(leg, event(result(leg.id)))
    assert second.answer == result(5)


def test_the_cursor_of_the_last_event_of_a_finished_stream_is_refused_with_405() -> None:
    """Nothing follows it (R14, W3)."""
    play, first, leg = running(2)
    play.send(leg, event(result(leg.id)))

    exchange = play.get(first.last_id)

    assert exchange.status == 405
    assert http.find(exchange.headers, b"allow") == b"POST, DELETE"
    assert play.judged[-1] == ("client", "end", "finished")


def test_an_answer_that_was_cut_in_flight_is_replayed() -> None:
    """The cursor before the last event is not the end (R14)."""
    play, first, leg = running(2)
    play.send(leg, event(result(leg.id)))
    before_answer = cursor(first, 2)

    second = play.get(before_answer)

    assert second.status == 200
    assert second.answer == result(5)
    assert not second.is_open
    assert play.runs == 1


def test_a_delivered_answer_is_kept_for_retain_and_then_an_error_stands_for_it() -> None:
    """Finished, its answer no longer kept (R13, W3)."""
    play, first, leg = running(2, retain_s=60.0)
    play.send(leg, event(result(leg.id)))
    play.advance(59)
    assert play.get(cursor(first, 2)).answer == result(5)

    play.advance(61)
    late = play.get(cursor(first, 2))
    at_the_end = play.get(first.last_id)

    assert late.status == 200
    assert late.answer["id"] == 5
    assert late.answer["error"]["code"] == -32050
    assert not late.is_open
    assert at_the_end.status == 405


def test_an_answer_that_nobody_was_written_stays_for_hold() -> None:
    """`retain` counts from the last write to a leg (R14)."""
    play, first, leg = running(2, hold_s=300.0, retain_s=60.0)
    play.leave(first)
    play.send(leg, event(result(leg.id)))

    play.advance(290)

    assert play.get(cursor(first, 2)).answer == result(5)


def test_a_client_that_stays_away_too_long_is_owed_an_error() -> None:
    """The trace: never silence (R13)."""
    play, first, leg = running(2, hold_s=30.0)
    play.leave(first)

    play.advance(31)
    assert not leg.is_open
    second = play.get(first.last_id)

    assert second.status == 200
    assert second.events[0].data == b""  # priming first
    assert second.answer["error"]["code"] == -32050
    assert second.answer["error"]["data"]["reason"] == "expired"
    assert not second.is_open


@pytest.mark.parametrize("text", [b"1", b"0", b"x", b"-1", b"9007199254740992", b"1e3"])
def test_a_cursor_of_another_session_is_refused_and_counted(text: bytes) -> None:
    """Whatever it looks like (R13, R15); G2."""
    play, _, _ = running(2)

    exchange = play.get(text)

    assert exchange.status == 400
    assert play.judged == [("client", "refuse", "cursor_unknown")]
    assert play.counted == ["unknown_cursors"]


def test_a_client_that_leaves_does_not_end_the_work() -> None:
    play, first, leg = running(2)

    play.leave(first)

    assert leg.is_open
    assert not play.has_leg("notifications/cancelled")


def test_a_client_that_was_given_no_id_cannot_return_and_harms_nothing() -> None:
    """G5 covers streams that gave the client an id (R34)."""
    play = opened()
    exchange = play.call()
    leg = play.leg("tools/call")
    play.leave(exchange)

    play.answer(leg, result(leg.id))

    assert exchange.status is None
    assert play.runs == 1


def test_a_client_that_leaves_before_the_sse_head_harms_nothing() -> None:
    play = opened()
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.leave(exchange)

    play.open(leg)
    give(play, leg, 0, 3)
    play.send(leg, event(result(leg.id)))

    assert exchange.status is None


def test_an_error_of_the_server_is_an_answer_too() -> None:
    play, first, leg = running(1)
    play.leave(first)
    play.send(leg, event(error(leg.id)))

    assert play.get(first.last_id).answer == error(5)


def test_a_client_that_returned_in_time_is_not_given_up_later() -> None:
    """The hold is over with its return (R13)."""
    play, first, leg = running(1, hold_s=30.0)
    play.leave(first)
    play.advance(20)
    second = play.get(first.last_id)
    play.advance(35)

    assert second.is_open
    play.send(leg, event(result(leg.id)))
    assert second.answer == result(5)


@pytest.mark.parametrize(
    ("accept", "status"),
    [(None, 200), (b"text/event-stream", 200), (b"*/*", 200), (b"application/json", 406)],
)
def test_a_replay_is_refused_to_a_client_that_takes_no_stream_and_to_no_other(
    accept: bytes | None, status: int
) -> None:
    play, exchange, leg = running(1)
    play.send(leg, event(result(leg.id)))
    if accept is not None:
        play.client_headers = (*play.client_headers, (b"Accept", accept))
    first = cursor(exchange, 0)

    assert play.get(first).status == status

    play.client_headers = play.client_headers[:1]
    assert play.get(first).answer == result(5), "the refusal took nothing away"


def test_all_runs_of_a_call_are_forgotten_and_their_cursors_told_so() -> None:
    play = opened(retain_s=10.0)
    exchange, leg = open_call(play)
    at = exchange.last_id
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    play.open(again)
    play.send(again, event(result(again.id)))
    assert exchange.answer["id"] == 5

    play.advance(11)

    assert repr(play.session) == "<Session live g2, 0 streams>"
    assert play.get(at).answer["error"]["data"]["reason"] == "expired"
