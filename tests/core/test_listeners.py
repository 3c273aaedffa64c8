"""The one standalone stream: held, taken over, reopened, never opened twice (R12, R13, R21, R35)."""

from __future__ import annotations

import pytest

from epochgate.core import http
from epochgate.core.events import DrainBegun
from tests.core.messages import event, initialize_answer, log, progress, result
from tests.core.playbook import JSON, opened, quiet
from tests.core.scenes import cursor, listening, say, texts


def test_a_get_opens_it_and_primes_at_once() -> None:
    """It has no event to wait for (R10)."""
    play, exchange, leg = listening()

    assert (leg.session_id, leg.last_event_id) == (b"up-1", None)
    assert [one.data for one in exchange.events] == [b""]
    say(play, leg, "a", "b")
    assert texts(exchange) == ["a", "b"]


def test_a_server_that_cannot_be_reached_costs_the_stream_only() -> None:
    """No 5xx inside a session (W4)."""
    play = opened()
    exchange = play.get()

    play.unreachable(play.leg("GET"))

    assert exchange.status == 405


def test_a_get_without_a_cursor_gets_what_no_leg_was_given_and_then_live() -> None:
    """It takes over, and never sends a second GET upstream (R12, R35)."""
    play, first, leg = listening()
    say(play, leg, "a")
    play.leave(first)
    say(play, leg, "b")

    second = play.get()
    say(play, leg, "c")

    assert texts(second) == ["b", "c"]
    assert len(play.sent("GET")) == 1


def test_a_live_leg_is_taken_over_at_most_once_in_five_seconds() -> None:
    """Against a live leg the limit applies; the old one ends with the final chunk (R35)."""
    play, first, _ = listening()
    play.advance(6)
    second = play.get()
    assert (second.status, first.is_open, first.is_aborted) == (200, False, False)

    play.advance(1)
    third = play.get()
    assert third.status == 409
    assert http.find(third.headers, b"retry-after") == b"5"
    play.advance(5)
    assert play.get().status == 200
    assert not second.is_open


def test_a_leg_that_is_known_dead_is_taken_over_at_once() -> None:
    """A flaky client tries twice in 2.5 s (R35)."""
    play, first, _ = listening()
    for _ in range(4):
        play.leave(first)
        play.advance(0.5)
        first = play.get()
        assert first.status == 200


def test_after_hold_it_is_given_up_and_a_cursor_of_it_still_gets_200() -> None:
    """The gap is counted (R13)."""
    play, first, leg = listening(hold_s=30.0)
    say(play, leg, "a")
    play.leave(first)
    play.advance(31)
    assert not leg.is_open

    second = play.get(first.last_id)
    play.open(play.leg("GET"))

    assert second.status == 200
    assert play.counted == ["standalone_gaps"]


def test_with_epoch_and_id_it_is_resumed_and_proven() -> None:
    play, exchange, leg = listening(epoch=7)
    play.send(leg, event(log("a", 7), 1))
    play.cut(leg)
    resumed = play.leg("GET")
    assert resumed.last_event_id == b"1"
    play.open(resumed)
    play.send(resumed, event(log("b", 7), 2))

    assert texts(exchange) == ["a", "b"]
    assert play.judged == [("upstream", "resume", "epoch_match")]


def test_a_client_that_resumes_at_the_end_of_a_call_means_the_standalone_one() -> None:
    """Kotlin ends its own GET when it resumes (W3)."""
    play, first, leg = listening()
    call = play.call(token=1)
    post = play.leg("tools/call")
    play.open(post)
    play.send(post, event(result(post.id)))
    play.leave(first)

    exchange = play.get(call.last_id)
    say(play, leg, "x")

    assert exchange.status == 200
    assert texts(exchange) == ["x"]


def test_a_message_of_another_session_never_gets_on_it() -> None:
    """G2: responses and strange progress."""
    play, exchange, leg = listening()

    play.send(
        leg,
        event(result(123)),
        event(progress(9, 1)),
    )

    assert exchange.messages == []
    assert play.dropped == ["foreign", "foreign"]


def test_it_ends_cleanly_when_the_process_goes_away() -> None:
    """Owed answers come later (W10)."""
    play, exchange, _ = listening()

    play.feed(DrainBegun(play.now + 25))

    assert not exchange.is_open
    assert not exchange.is_aborted


def test_progress_of_a_running_call_may_come_on_it() -> None:
    """Mapped back and relayed where the server put it (R30, W1)."""
    play, exchange, leg = listening()
    play.call(token="mine")
    post = play.leg("tools/call")

    play.send(leg, event(progress(post.token, 3)))

    assert exchange.messages == [progress("mine", 3)]


def test_progress_of_a_task_comes_after_its_answer() -> None:
    """A task's token lives as long as the task (R30)."""
    play, exchange, leg = listening()
    play.call(token="mine", task={"ttl": 60_000})
    post = play.leg("tools/call")
    play.answer(post, result(post.id, {"task": {"taskId": "t", "status": "working"}}))
    play.advance(120)

    play.send(leg, event(progress(post.token, 3)))

    assert exchange.messages[-1] == progress("mine", 3)


def test_an_event_type_of_its_own_passes_until_the_leg_broke() -> None:
    """It can prove nothing (R6)."""
    play, exchange, leg = listening(epoch=7)
    play.send(leg, b"id: 1\nevent: vendor\ndata: one\n\n")
    assert b"data: one" in exchange.body
    play.cut(leg)
    resumed = play.leg("GET")
    play.open(resumed)
    play.send(resumed, b"id: 2\nevent: vendor\ndata: two\n\n")

    assert b"data: two" not in exchange.body


def test_a_cursor_of_one_that_was_given_up_gets_all_of_what_followed_it() -> None:
    """Written to a leg that was dead, and read by nobody (G5)."""
    play, first, leg = listening(hold_s=30.0)
    say(play, leg, "a")
    play.leave(first)
    play.advance(31)
    play.get(first.last_id)
    again = play.leg("GET")
    play.open(again)
    say(play, again, "b")

    third = play.get(first.last_id)
    say(play, again, "c")

    assert texts(third) == ["b", "c"]


@pytest.mark.parametrize("how", ["drain", "withdrawn", "lost", "deleted"])
def test_a_standalone_leg_always_ends_with_the_final_chunk(how: str) -> None:
    """Python counts aborted GETs over a session's life (W8)."""
    play, exchange, leg = listening()
    match how:
        case "drain":
            play.feed(DrainBegun(play.now + 25))
        case "withdrawn":
            play.cut(leg)
            play.advance(2)
            play.refuse(play.leg("GET"), 405)
        case "lost":
            quiet(play)
            play.cut(leg)
            play.call()
            play.refuse(play.leg("tools/call"), 404)
            made = play.leg("initialize")
            play.answer(made, initialize_answer(made.id, capabilities={}), headers=JSON)
        case _:
            play.delete()
            play.refuse(play.leg("DELETE"), 200)

    assert (exchange.is_open, exchange.is_aborted) == (False, False)


def test_a_cursor_of_a_listener_that_was_given_up_takes_over_the_one_that_is_open() -> None:
    """What lies between is a gap, and counted."""
    play, old, leg = listening(hold_s=30.0)
    say(play, leg, "a")
    play.leave(old)
    play.advance(31)
    new = play.get()
    play.open(play.leg("GET"))

    back = play.get(old.last_id)
    say(play, play.leg("GET"), "b")

    assert texts(back) == ["b"]
    assert not new.is_open
    assert "standalone_gaps" in play.counted


def test_a_cursor_of_a_listener_leads_to_what_it_has_not_read() -> None:
    play, listener, leg = listening()
    say(play, leg, "a", "b")

    assert texts(play.get(cursor(listener, 1))) == ["b"]
    assert "standalone_gaps" not in play.counted
