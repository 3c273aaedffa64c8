"""A client that comes back with a cursor: whose it is, where it leads, what is replayed (R11-R15, R32)."""

from __future__ import annotations

import pytest

from epochgate.core import cursor as cursors
from epochgate.core.commands import Drifted
from epochgate.core.events import LegEnd
from tests.core.messages import event, initialize_answer, log, progress, result
from tests.core.playbook import JSON, MARK, opened
from tests.core.scenes import (
    BOB,
    UP_2,
    away,
    call,
    cursor,
    drift,
    expired,
    give,
    listening,
    open_call,
    running,
    say,
    steps,
    texts,
)


def test_while_the_server_is_down_a_stranger_gets_nothing() -> None:
    play = opened()
    alice, leg = open_call(play)
    play.leave(alice)
    play.send(leg, event(result(leg.id, {"secret": 1})))
    bob = play.get(alice.last_id, who=BOB)
    play.end(play.leg("ping"), LegEnd.NOT_SENT)
    play.advance(30)

    assert b"secret" not in bob.body


def test_two_resumes_of_a_stream_that_was_given_up_wait_for_one_new_one() -> None:
    """R13, R35: the newer one takes the place of the older one, which has no answer yet."""
    play, away, leg = listening()
    say(play, leg, "a")
    play.leave(away)
    play.advance(301)
    first = play.get(away.last_id)

    second = play.get(away.last_id)

    assert first.status == 409
    assert len([leg for leg in play.sent("GET") if leg.is_open]) == 1
    leg = play.leg("GET")
    play.open(leg)
    say(play, leg, "b")
    assert texts(second) == ["b"]


def test_at_the_end_of_a_call_a_client_whose_standalone_leg_is_gone_means_that_one() -> None:
    """Kotlin ends its own GET when it resumes (W3)."""
    play, listener, stand = listening()
    exchange, leg = open_call(play)
    play.send(leg, event(result(leg.id)))
    assert play.get(exchange.last_id).status == 405
    play.leave(listener)
    back = play.get(exchange.last_id)
    say(play, stand, "x")

    assert back.status == 200
    assert texts(back) == ["x"]


def test_a_tombstone_answers_as_often_as_it_is_asked() -> None:
    """Half-delivered is not delivered; for as long as the session lives (R13)."""
    play, exchange, _ = expired()
    again = exchange

    for _ in range(3):
        again = play.get(exchange.last_id)
        assert again.status == 200
        assert again.answer["id"] == 5
        assert again.answer["error"]["code"] == -32050
        play.advance(1_000)

    assert play.get(again.last_id).status == 405
    assert play.runs == 1


@pytest.mark.parametrize("status", [401, 403, 404, None])
def test_a_refusal_that_comes_late_ends_a_stream_that_has_told_nothing(status: int | None) -> None:
    """(e), (f) A serial server answers behind the long call (R32)."""
    play = opened()
    exchange, leg = away(play)
    bob = play.get(exchange.last_id, who=BOB)
    play.advance(1.6)
    play.send(leg, event(progress(leg.token, 3)))
    assert (bob.status, bob.messages) == (200, [])

    if status is None:
        play.advance(10)
    else:
        play.refuse(play.leg("ping"), status)

    assert bob.messages == []
    assert not bob.is_open
    assert [one["params"]["progress"] for one in play.get(exchange.last_id).messages] == [2, 3]


def test_a_ping_that_shows_a_session_made_anew_is_drift() -> None:
    """It can itself have re-created a session that its server had reaped."""
    play = opened(epoch=7)
    exchange, _ = away(play)
    bob = play.get(exchange.last_id, who=BOB)
    ping = play.leg("ping")

    play.answer(ping, result(ping.id, {}, 8))

    assert play.facts(Drifted) == [Drifted(2)]
    assert bob.status == 200


def test_a_client_that_leaves_while_it_is_asked_about_is_told_nothing() -> None:
    """Neither when its time is up nor when the server says yes."""
    play = opened()
    exchange, _ = away(play)
    bob = play.get(exchange.last_id, who=BOB)
    play.leave(bob)
    play.advance(2)
    assert bob.status is None

    play.answer(play.leg("ping"), result(play.leg("ping").id, {}))

    assert bob.status is None


def test_each_cursor_leads_where_it_says() -> None:
    """To the rest, to the end, to nothing, and what was not given yet to the stream it is of."""
    play = opened()
    exchange, leg = open_call(play)
    play.leave(exchange)
    play.send(leg, event(progress(leg.token, 2)))
    last = exchange.last_id
    back = play.get(last)
    assert steps(back) == [2]
    finished, other = open_call(play, id=6)
    play.send(other, event(result(other.id)))

    assert play.get(finished.last_id).status == 405
    assert play.get(b"x").status == 400
    assert play.get(b"12").status == 400
    assert play.counted == ["unknown_cursors", "unknown_cursors"]

    place = cursors.read(last)
    assert place is not None
    beyond = play.get(b"%d" % cursors.mint(place[0], place[1] + 90))
    play.send(leg, event(result(leg.id)))

    assert beyond.answer == result(5)
    assert play.judged[-1] == ("client", "resume", "superseded")


def test_a_cursor_of_a_run_that_was_restarted_leads_to_its_second_run() -> None:
    """From its beginning: none of the dead run's events is given."""
    play = opened(has_logging=True)
    exchange, leg = open_call(play)
    at = exchange.last_id
    play.leave(exchange)
    play.cut(leg)
    second = play.get(at)
    play.heal()
    again = play.leg("tools/call")
    play.open(again)
    play.send(again, event(progress(again.token, 9)))
    play.leave(second)

    third = play.get(at)
    play.send(again, event(result(again.id)))

    methods = [one.get("method") for one in third.messages]
    assert methods == ["notifications/message", "notifications/progress", None]
    assert third.answer["result"]["_meta"][MARK]["reissued"] is True


def test_a_cursor_before_what_is_kept_leads_to_an_error_for_a_call_and_to_a_gap_for_a_listener() -> None:
    """Delivered events go first when the journal is full."""
    play, first, leg = running(30, journal_stream_bytes=1_000)
    play.leave(first)
    gone = play.get(cursor(first, 1))
    assert gone.answer["error"]["data"]["reason"] == "expired"

    play, listener, leg = listening(journal_stream_bytes=1_000)
    for number in range(30):
        say(play, leg, f"word {number}")
    back = play.get(cursor(listener, 1))

    assert texts(back)[-1] == "word 29"
    assert "word 2" not in texts(back)
    assert "standalone_gaps" in play.counted


def test_a_cursor_that_was_never_given_out_names_nothing() -> None:
    play = opened()
    exchange, leg = call(play)
    give(play, leg, 0, 2)
    play.send(leg, event(result(leg.id)))

    beyond = b"%d" % (int(exchange.last_id) + 5)
    assert play.get(beyond).status == 400


def test_a_lost_session_still_gives_a_listener_what_it_has_not_read() -> None:
    """LOST, GET with a cursor: the journal, and after it that the session is gone (G5)."""
    play, first, leg = listening(epoch=7)
    play.send(leg, event(log("a", 7), 1))
    play.leave(first)
    play.send(leg, event(log("b", 7), 2))
    play.call()
    play.cut(play.leg("tools/call"))
    again = play.leg("initialize")
    play.answer(again, initialize_answer(again.id, capabilities={}), headers=(*JSON, UP_2))
    assert play.heals == [("stream_restart", "incompatible")]

    second = play.get(first.last_id)
    assert texts(first, second) == ["a", "b"]
    assert not second.is_open

    third = play.get(second.last_id)
    play.refuse(play.leg("GET"), 404)
    assert third.status == 404


def test_void_events_are_not_replayed_to_a_client_that_returns_into_a_restart() -> None:
    """What follows the notice is one run: G5 has this exception (R43); G1."""
    play = opened(has_logging=True)
    exchange, leg = open_call(play)
    play.leave(exchange)
    play.send(leg, event(log("of the dead run")))
    play.cut(leg)
    second = play.get(exchange.last_id)
    play.heal()
    again = play.leg("tools/call")
    play.open(again)
    play.send(again, event(log("of the new run")), event(result(again.id)))

    words = [one["params"]["data"] for one in second.messages if one.get("method") == "notifications/message"]
    assert words[0]["reason"] == "no_epoch_captured"
    assert words[1:] == ["of the new run"]


def test_what_the_server_says_of_one_stranger_says_nothing_of_another() -> None:
    """Each is asked about by itself (R32)."""
    play = opened()
    alice, leg = open_call(play)
    play.leave(alice)
    mallory, bob = play.get(alice.last_id, who=b"mallory"), play.get(alice.last_id, who=BOB)
    first, second = play.sent("ping")

    play.answer(second, result(second.id, {}))
    play.send(leg, event(progress(leg.token, 2)))

    assert mallory.status is None
    assert bob.messages == [progress(5, 2)]
    assert play.sent("ping") == [first, second]
    play.refuse(first, 401)
    assert mallory.status == 401


def test_a_ping_of_a_session_that_is_being_healed_is_no_drift() -> None:
    """Which session is the current one, the heal decides (R1)."""
    play = opened(epoch=7)
    alice, _ = open_call(play)
    play.leave(alice)
    bob = play.get(alice.last_id, who=BOB)
    ping = play.leg("ping")
    _, other = open_call(play, id=6)
    play.cut(other)
    assert play.has_leg("initialize")

    play.answer(ping, result(ping.id, {}, 8))

    assert bob.status == 200
    assert play.facts(Drifted) == []
    assert play.session.current.number == 1


def test_a_cursor_of_a_listener_that_was_given_up_gets_what_each_one_after_it_was_told() -> None:
    """Its client has read nothing of them, whichever session told it (G5)."""
    play, first, leg = listening(epoch=7, hold_s=30.0)
    play.leave(first)
    play.advance(31)
    play.get()
    leg = play.leg("GET")
    play.open(leg)
    play.send(leg, event(log("a", 7)))
    drift(play, 8)
    leg = play.leg("GET")
    play.open(leg)
    play.send(leg, event(log("b", 8)))

    back = play.get(first.last_id)
    play.send(leg, event(log("c", 8)))

    assert texts(back) == ["a", "b", "c"]
