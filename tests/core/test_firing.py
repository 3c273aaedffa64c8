"""What each timer's time leads to: nothing waits for ever, and nothing happens before its time."""

from __future__ import annotations

from epochgate.core import http
from epochgate.core.commands import Forget
from epochgate.core.events import DrainBegun
from epochgate.core.states import SessionState
from tests.core.messages import cancel, event, initialize, progress, result
from tests.core.playbook import opened
from tests.core.scenes import cursor, listening, lost, running

COMMENT = b": keepalive\n\n"


def test_a_quiet_leg_of_a_client_is_kept_alive_with_a_comment() -> None:
    play, exchange, _ = running(1, keepalive_s=20.0)
    before = exchange.body

    play.advance(19.9)
    assert exchange.body == before
    play.advance(0.2)

    assert exchange.body == before + COMMENT


def test_a_client_that_stays_away_for_hold_is_owed_an_error() -> None:
    play, exchange, leg = running(1, hold_s=30.0)
    play.leave(exchange)

    play.advance(29.9)
    assert leg.is_open
    play.advance(0.2)

    assert not leg.is_open
    assert play.get(exchange.last_id).answer["error"]["data"]["reason"] == "expired"


def test_an_answer_is_forgotten_when_it_was_retained_long_enough() -> None:
    play, exchange, leg = running(1, retain_s=60.0)
    play.send(leg, event(result(leg.id)))

    play.advance(60.1)

    assert play.get(cursor(exchange, 1)).answer["error"]["data"]["reason"] == "expired"


def test_a_cancelled_request_has_its_grace_to_be_answered_all_the_same() -> None:
    play, exchange, leg = running(1, cancel_grace_s=5.0)
    play.post(cancel(5))

    play.advance(4.9)
    assert exchange.is_open
    play.advance(0.2)

    assert not exchange.is_open
    assert not leg.is_open
    assert exchange.answers == []


def test_a_request_of_which_no_byte_was_accepted_is_written_again_after_a_back_off() -> None:
    play = opened()
    play.call()
    play.unreachable(play.leg("tools/call"))
    assert play.runs == 1

    play.advance(0.1)

    assert play.runs == 2
    assert play.leg("tools/call").session_id == b"up-1"


def test_who_waits_for_a_heal_waits_for_its_deadline_at_most() -> None:
    play, _ = lost(heal_deadline_s=45.0)
    waiting = play.call(id=6)

    play.advance(44.9)
    assert waiting.status is None
    play.advance(0.2)

    assert waiting.answer["error"]["code"] == -32051
    assert play.runs == 1


def test_a_heal_that_met_nobody_is_tried_again_after_a_back_off() -> None:
    play, exchange = lost()
    play.unreachable(play.leg("initialize"))
    assert not play.has_leg("initialize")

    play.advance(0.1)
    play.heal()
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id))

    assert len(play.sent("initialize")) == 3
    assert "result" in exchange.answer


def test_silence_with_an_answer_owed_is_probed() -> None:
    play, _, _ = running(1, silence_s=60.0)

    play.advance(59.9)
    assert not play.has_leg("ping")
    play.advance(0.2)

    assert play.has_leg("ping")


def test_a_standalone_stream_that_broke_is_reopened_after_a_back_off() -> None:
    play, exchange, leg = listening()
    play.cut(leg)
    assert not play.has_leg("GET")

    play.advance(1.0)

    assert play.has_leg("GET")
    assert exchange.is_open


def test_a_request_of_the_proxys_own_that_gets_no_answer_in_time_failed() -> None:
    play, exchange = lost(ping_s=10.0)
    leg = play.leg("initialize")

    play.advance(9.9)
    assert leg.is_open
    play.advance(0.3)

    assert not leg.is_open
    assert len(play.sent("initialize")) == 3  # the client's, and two of the heal
    assert exchange.is_open


def test_a_stranger_that_the_server_says_nothing_about_has_its_stream_soon_and_nothing_on_it() -> None:
    """Clients give a resume little more than two seconds (R32)."""
    play, exchange, leg = running(1)
    play.leave(exchange)
    play.send(leg, event(progress(leg.token, 2)))
    other = play.get(exchange.last_id, who=b"bob")

    play.advance(1.4)
    assert other.status is None
    play.advance(0.2)

    assert other.status == 200
    assert [(one.id, one.data) for one in other.events] == [(exchange.last_id, b"")]


def test_a_session_that_nobody_uses_is_ended_on_the_server_too() -> None:
    play = opened(session_idle_s=3600.0)

    play.advance(3599)
    assert not play.has_leg("DELETE")
    play.advance(2)

    assert play.leg("DELETE").session_id == b"up-1"
    assert play.session.state is SessionState.ENDED
    play.accept(play.leg("DELETE"))
    play.advance(3600)
    assert play.facts(Forget) == [Forget()]


def test_a_process_that_goes_away_owes_answers_until_its_end_and_errors_then() -> None:
    play, exchange, _ = running(1)
    play.feed(DrainBegun(play.now + 25))

    play.advance(24.9)
    assert exchange.is_open
    play.advance(0.2)

    assert exchange.answer["error"]["data"]["reason"] == "draining"
    assert not exchange.is_open


def test_timers_that_are_due_together_fire_in_one_event_in_the_order_of_their_times() -> None:
    """A clock that stood still does not turn what came first into what came last."""
    play, exchange, leg = running(1, hold_s=30.0, keepalive_s=20.0)
    other = play.call(id=6, token=6)
    second = play.leg("tools/call")
    play.open(second)
    play.leave(exchange)

    play.now += 60
    play.advance(0)

    assert not leg.is_open
    assert other.body.endswith(COMMENT)
    assert http.media_type(other.headers) == b"text/event-stream"


def test_an_initialize_within_a_session_waits_for_its_server_as_long_as_any_request() -> None:
    play = opened(max_silence_s=100.0)
    exchange = play.post(initialize(id="again"))
    leg = play.leg("initialize")

    play.advance(99.9)
    assert leg.is_open
    play.advance(0.2)

    assert not leg.is_open
    assert exchange.answer["error"]["data"]["reason"] == "upstream_silent"
