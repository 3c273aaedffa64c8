"""The traces of R22 and R23: silence, refusals that pass, and resumes that bring nothing."""

from __future__ import annotations

import pytest

from tests.core.messages import ask, event, progress, result
from tests.core.playbook import Play, opened
from tests.core.scenes import broken, open_call, resume
from tests.core.sides import Upstream

# --- R22: silence -----------------------------------------------------------------------------------


def quiet_but_for_comments(play: Play, leg: Upstream, seconds: int) -> None:
    """Python and TypeScript servers send a comment every 15 seconds, whatever became of the call."""
    for _ in range(0, seconds, 15):
        play.advance(15)
        if leg.is_open:
            play.send(leg, b": ping - 2025-11-25\r\n\r\n")


def test_comments_do_not_hide_that_the_session_is_another() -> None:
    """They come from the connection, not from the call (R22)."""
    play = opened(epoch=7)
    exchange, leg = open_call(play)
    quiet_but_for_comments(play, leg, 60)
    ping = play.leg("ping")

    play.answer(ping, result(ping.id, {}, 8))

    assert not leg.is_open
    assert play.reasons == ["epoch_mismatch"]
    assert exchange.is_open


def test_a_server_that_answers_one_after_the_other_and_sends_comments_is_not_taken_for_dead() -> None:
    """Its ping waits behind the call; the leg shows that it is there (R22)."""
    play = opened()
    exchange, leg = open_call(play)
    quiet_but_for_comments(play, leg, 300)
    assert 3 <= len(play.sent("ping")) <= 5
    assert not play.reasons

    play.send(leg, event(result(leg.id)))

    assert exchange.answer == result(5)
    assert play.runs == 1


def test_comments_for_an_hour_are_silence_too() -> None:
    """Never silence for ever (R22)."""
    play = opened(max_silence_s=3_600.0)
    exchange, leg = open_call(play)
    quiet_but_for_comments(play, leg, 3_540)
    assert exchange.is_open
    quiet_but_for_comments(play, leg, 150)

    assert exchange.answer["error"]["data"]["reason"] == "upstream_silent"


def test_an_event_behind_a_comment_is_a_sign_of_work() -> None:
    """Like any other (R22)."""
    play = opened()
    exchange, leg = open_call(play)
    for step in range(2, 12):
        play.advance(50)
        play.send(leg, b": of the server\n" + event(progress(leg.token, step)))

    assert not play.sent("ping")
    assert exchange.messages[-1]["params"]["progress"] == 11


@pytest.mark.parametrize(("method", "runs"), [("elicitation/create", 1), ("roots/list", 2)])
def test_an_answer_that_a_re_created_session_swallowed_is_no_silence_for_ever(method: str, runs: int) -> None:
    """The trace: a question, an eviction; the answer is taken with 202 by the new session (R22)."""
    play = opened(epoch=7)
    exchange = play.call()
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(ask(0, method, epoch=7)))
    play.post(result(0))
    play.accept(play.leg("answer"))
    play.advance(60.5)
    ping = play.leg("ping")
    play.answer(ping, result(ping.id, {}, 8))

    assert play.reasons == ["epoch_mismatch"]
    if runs == 2:
        play.heal(epoch=8)
        again = play.leg("tools/call")
        play.answer(again, result(again.id, epoch=8))
    assert ("result" in exchange.answer) is (runs == 2)
    assert play.runs == runs


def test_without_epochs_a_silent_server_is_asked_each_minute_and_given_up_at_the_limit() -> None:
    """The trace, where nothing shows that the session is another: an error, in the end (R22)."""
    play = opened(max_silence_s=3_600.0)
    exchange, leg = open_call(play)
    play.send(leg, event(ask(0)))
    play.post(result(0))
    play.accept(play.leg("answer"))
    began = play.now
    while leg.is_open:
        play.advance(30)
        if play.has_leg("ping"):
            play.answer(play.leg("ping"), result(play.leg("ping").id, {}))

    assert 3_600 <= play.now - began <= 3_720
    assert 50 <= len(play.sent("ping")) <= 60
    assert exchange.answer["error"]["data"]["reason"] == "upstream_silent"
    assert play.runs == 1


# --- R23: refusals that pass, and resumes that bring nothing ----------------------------------------


def test_a_server_that_is_restarted_in_the_meantime_is_waited_for() -> None:
    """The trace: refused, 503, 409, and then it goes on where it was (R23)."""
    play, exchange = broken()
    post = play.sent("tools/call")[0]
    play.unreachable(play.leg("GET"))
    play.advance(1)
    for status in (503, 409, 429, 502, 504):
        play.refuse(play.leg("GET"), status)
        play.advance(1)

    resume(play, (result(post.id, epoch=7), 5))

    assert exchange.answer["id"] == 5
    assert play.runs == 1
    assert not play.reasons
