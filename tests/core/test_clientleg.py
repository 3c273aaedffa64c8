"""The client's side of a stream: it leaves, is slow, comes back, or does not.

Longer than most: its module is to be proven by this file alone.
"""

from __future__ import annotations

import pytest

from epochgate.core.events import ClientDrained, ClientLeft, ClientStalled, DrainBegun, LegAnswered, LegRead
from epochgate.core.generation import MAX_TASKS
from epochgate.core.policy import Stamps
from tests.core.messages import (
    cancel,
    event,
    initialize,
    initialize_answer,
    progress,
    request,
    result,
)
from tests.core.playbook import JSON, Play, opened
from tests.core.scenes import (
    accept_bob,
    begun_for_bob,
    call,
    cursor,
    expired,
    give,
    listening,
    lost,
    open_call,
    running,
    steps,
)


def test_of_two_legs_for_one_stream_the_newer_wins() -> None:
    """The older ends with the final chunk (R35)."""
    play, first, leg = running(2)

    second = play.get(cursor(first, 1))
    give(play, leg, 2, 3)

    assert not first.is_open
    assert not first.is_aborted
    assert steps(second) == [1, 2]


def test_a_stream_that_was_begun_for_its_caller_ends_if_the_server_offers_none() -> None:
    """A second status would be part of its body."""
    play = opened()
    exchange = begun_for_bob(play)
    accept_bob(play)

    play.refuse(play.leg("GET"), 405)

    assert exchange.status == 200
    assert not exchange.is_open
    assert exchange.body == b""


def test_tombstones_have_a_limit_and_the_oldest_go_first() -> None:
    """What is no longer known is refused, and counted (R13)."""
    play, oldest, _ = expired(max_tombstones=2)
    later = [open_call(play, id=id)[0] for id in (6, 7)]
    for exchange in later:
        play.leave(exchange)
        play.advance(31)

    assert play.get(later[1].last_id).answer["id"] == 7
    assert play.get(oldest.last_id).status == 400
    assert play.counted == ["unknown_cursors"]


def test_a_client_that_leaves_its_initialize_leaves_a_session_that_runs_idle() -> None:
    """Its answer is written to nobody, the first as that of one within a session."""
    play = Play()
    first = play.post(initialize())
    play.leave(first)
    headers = (*JSON, (b"Mcp-Session-Id", b"up-1"))
    play.answer(play.leg("initialize"), initialize_answer(0), headers=headers)
    assert first.status is None
    assert play.registered == [b"up-1"]

    again = play.post(initialize(id=7))
    play.leave(again)
    play.answer(play.leg("initialize"), initialize_answer(7), headers=headers)

    assert again.status is None
    assert play.session.current.number == 2


@pytest.mark.parametrize("comes_back", [False, True])
def test_an_event_that_passes_as_it_comes_is_lost_to_a_client_that_leaves_it(comes_back: bool) -> None:
    """By leaving, or by a newer leg: nothing of it is kept, and half of it is not given twice."""
    play = opened(max_event_bytes=1_000)
    exchange, leg = open_call(play)
    at = exchange.last_id
    play.send(leg, event(result(leg.id, {"text": "x" * 5_000}))[:3_000])
    assert b"x" * 1_000 in exchange.body
    if not comes_back:
        play.leave(exchange)

    back = play.get(at)

    assert not leg.is_open
    assert back.answer["error"]["data"]["reason"] == "event_too_large"
    assert exchange.answers == []


def test_a_call_that_waits_for_a_heal_is_given_up_with_its_client() -> None:
    """It gave no id to come back with."""
    play, exchange = lost()
    play.leave(exchange)

    play.heal()

    assert play.runs == 1


def test_what_is_said_of_a_connection_that_has_ended_is_passed_over() -> None:
    """A slow client's last words come behind the answer."""
    play = opened()
    exchange, leg = open_call(play)
    play.feed(ClientStalled(exchange.number))
    assert leg.is_paused
    play.feed(ClientDrained(exchange.number))
    assert not leg.is_paused
    play.send(leg, event(result(leg.id)))

    assert play.feed(ClientStalled(exchange.number)) == []
    assert play.feed(ClientDrained(exchange.number)) == []
    assert play.feed(ClientLeft(exchange.number)) == []


@pytest.mark.parametrize("has_left", [True, False])
def test_a_client_that_comes_back_into_a_heal_waits_on_its_newest_leg(has_left: bool) -> None:
    play = opened()
    exchange, leg = open_call(play)
    at = exchange.last_id
    play.cut(leg)
    if has_left:
        play.leave(exchange)

    back = play.get(at)
    assert back.messages == []
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))

    assert back.answer["id"] == 5
    assert not exchange.is_open or has_left


def test_no_comment_stands_inside_an_event_that_passes_as_it_comes() -> None:
    """It would be part of it."""
    play = opened(max_event_bytes=1_000)
    exchange, leg = open_call(play)
    raw = event(result(leg.id, {"text": "x" * 5_000}))
    play.send(leg, raw[:3_000])
    before = exchange.body

    play.advance(50)
    assert exchange.body == before
    play.send(leg, raw[3_000:])

    assert exchange.answer == result(5, {"text": "x" * 5_000})


def test_comments_come_when_nothing_was_written_for_twenty_seconds() -> None:
    """Each event puts the next one off."""
    play = opened()
    exchange, leg = open_call(play)
    play.advance(15)
    play.send(leg, event(progress(leg.token, 2)))
    play.advance(15)
    assert b"keepalive" not in exchange.body

    play.advance(6)

    assert exchange.body.count(b": keepalive\n") == 1


def test_an_answer_that_came_while_its_client_was_away_is_kept_as_long_as_the_client_is_held() -> None:
    play = opened(hold_s=30.0)
    exchange, leg = open_call(play)
    play.leave(exchange)
    play.send(leg, event(result(leg.id)))
    play.advance(29)
    assert repr(play.session) == "<Session live g1, 1 streams>"

    play.advance(2)

    assert repr(play.session) == "<Session live g1, 0 streams>"
    stone = play.get(exchange.last_id)
    assert stone.answer["error"]["data"]["reason"] == "expired"


def test_a_listener_that_is_given_up_takes_the_streams_of_before_its_heals_along() -> None:
    play, listener, _ = listening(hold_s=30.0)
    _, leg = open_call(play)
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    play.leave(listener)
    play.advance(20)
    play.get(listener.last_id)
    play.leave(play.exchanges[max(play.exchanges)])

    play.advance(61)

    assert not [one for one in play.session.streams.values() if not one.is_request]


def test_requests_without_stamps_leave_nothing_behind_that_could_be_late() -> None:
    play = opened(stamp=Stamps.OFF)
    exchange, leg = call(play)
    play.send(leg, event(progress(1, 1)), event(result(5)))
    assert exchange.answer == result(5)
    play.advance(61)
    again, leg = call(play)

    play.send(leg, event(result(5, {"run": 2})))

    assert again.answer == result(5, {"run": 2})


def test_a_cancelled_member_leaves_the_rest_of_its_batch_alone() -> None:
    play = opened()
    exchange = play.post([request("tools/list", id=1), request("ping", id=2)])
    leg = play.leg("batch")
    play.open(leg)
    play.post(cancel(1))
    play.advance(6)
    assert leg.is_open

    play.send(leg, event(result(leg.json[1]["id"])))
    play.post(cancel(2))

    assert [one["id"] for one in exchange.answers] == [2]


@pytest.mark.parametrize("how", ["unborn", "begun", "passed on"])
def test_a_cancelled_call_that_the_server_never_ends_is_over_after_five_seconds(how: str) -> None:
    """With an error where nothing was begun, else with what there is; cut inside a body."""
    play = opened(max_json_buffer_bytes=100)
    exchange = play.call()
    leg = play.leg("tools/call")
    if how == "begun":
        play.open(leg)
    elif how == "passed on":
        play.feed(LegAnswered(leg.number, 200, JSON))
        play.feed(LegRead(leg.number, b'{"jsonrpc":"2.0","id":%d,"result":{"x":"%b' % (leg.id, b"x" * 200)))
    play.post(cancel(5))

    play.advance(6)

    assert not leg.is_open
    assert not exchange.is_open
    assert exchange.is_aborted is (how == "passed on")
    if how == "unborn":
        assert exchange.json["error"]["data"]["reason"] == "cancelled"


def test_a_process_that_goes_away_ends_listeners_at_once_and_answers_calls_at_the_end() -> None:
    """Those without a client need neither."""
    play, listener, _ = listening()
    owed, _ = open_call(play, id=1)
    done, two = open_call(play, id=2)
    play.send(two, event(result(two.id)))
    away, _ = open_call(play, id=3)
    play.leave(away)

    play.feed(DrainBegun(play.now + 10))
    assert (listener.is_open, listener.is_aborted) == (False, False)
    assert owed.is_open
    play.advance(11)

    assert owed.answer["error"]["data"]["reason"] == "draining"
    assert done.answer == result(2)
    assert away.answers == []


def test_while_clients_can_come_back_a_process_that_goes_away_ends_no_listener() -> None:
    """It begins no heal all the same: the server may be going away before it."""
    play, listener, _ = listening()
    owed, leg = open_call(play)

    play.feed(DrainBegun(play.now + 10, is_listening=True))
    play.cut(leg)
    assert owed.answer["error"]["data"]["reason"] == "draining"
    assert not play.has_leg("initialize")
    assert listener.is_open

    play.feed(DrainBegun(play.now + 5))
    assert (listener.is_open, listener.is_aborted) == (False, False)


@pytest.mark.parametrize("has_left", [True, False])
def test_a_listener_that_the_server_has_not_answered_ends_as_any_other(has_left: bool) -> None:
    """A process that goes away is no refusal."""
    play = opened()
    exchange = play.get()
    if has_left:
        play.leave(exchange)

    play.feed(DrainBegun(play.now + 10))
    play.advance(11)

    assert exchange.status == (None if has_left else 200)
    assert not exchange.is_open or has_left


@pytest.mark.parametrize("is_known", [False, True])
def test_an_oversized_answer_to_initialize_waits_for_a_slow_client(is_known: bool) -> None:
    play = opened(max_event_bytes=1_000) if is_known else Play(opened(max_event_bytes=1_000).policy)
    exchange = play.post(initialize(id="big"))
    leg = play.leg("initialize")
    play.feed(LegAnswered(leg.number, 200, JSON))
    play.feed(LegRead(leg.number, b'{"x":"' + b"y" * 2_000))

    play.feed(ClientStalled(exchange.number))
    assert leg.is_paused
    play.feed(ClientDrained(exchange.number))
    assert not leg.is_paused


def test_tokens_of_tasks_are_kept_up_to_so_many() -> None:
    """Progress of a task comes after its request was answered; it never ends by itself here (R30, G8)."""
    play = opened()
    for number in range(MAX_TASKS + 10):
        play.call(id=number, token=number, task={})
        leg = play.leg("tools/call")
        play.answer(leg, result(leg.id))
        play.advance(0)

    assert len(play.session.current.tokens) <= MAX_TASKS + 1


def test_what_is_left_of_a_batch_and_then_cancelled_leaves_the_errors_of_the_rest() -> None:
    """A member that may not run again was answered when the others went up anew (R41, G3)."""
    play = opened(never_reissue=frozenset({"pay"}))
    exchange = play.post([request("tools/call", {"name": "pay"}, id=1), request("tools/list", id=2)])
    play.cut(play.leg("batch"))
    play.heal()

    play.post(cancel(2))
    play.advance(6)

    reasons = {one["id"]: one["error"]["data"]["reason"] for one in exchange.json}
    assert reasons == {1: "no_epoch_captured", 2: "cancelled"}
