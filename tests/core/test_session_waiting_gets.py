"""GETs that wait, for their server's answer or for their caller's acceptance, when something else happens."""

from __future__ import annotations

from epochgate.core.events import DrainBegun
from tests.core.playbook import opened, quiet
from tests.core.scenes import BOB, accept_bob, say, texts


def test_a_drain_ends_a_stream_that_the_server_has_not_answered_as_any_other() -> None:
    """W10: cleanly, so that the client comes back elsewhere."""
    play = opened()
    exchange = play.get()

    play.feed(DrainBegun(play.now + 25))

    assert exchange.status == 200
    assert not exchange.is_open
    assert not exchange.is_aborted
    leg = play.leg("GET")
    play.open(leg)
    say(play, leg, "kept")
    assert texts(play.get(exchange.last_id)) == ["kept"]


def test_a_stream_that_the_server_has_not_answered_ends_with_the_session() -> None:
    play = opened()
    exchange = play.get()
    play.delete()

    play.refuse(play.leg("DELETE"), 200)

    assert (exchange.status, exchange.body) == (404, b"session not found")
    assert not play.has_leg("GET")


def test_a_caller_who_is_accepted_when_the_session_is_over_opens_nothing() -> None:
    play = opened()
    exchange = play.get(who=BOB)
    play.delete()
    play.refuse(play.leg("DELETE"), 200)

    accept_bob(play)

    assert exchange.status == 404
    assert not play.sent("GET")
    play.advance(61)
    assert play.is_forgotten


def test_a_get_whose_client_left_while_its_session_was_lost_is_in_nobody_s_way() -> None:
    play = opened()
    quiet(play)
    exchange = play.get()
    play.refuse(play.leg("GET"), 404)
    play.leave(exchange)
    play.answer(play.leg("initialize"), b"no session")

    assert play.heals == [("session_gone", "incompatible")]
    assert play.call().status == 404


def test_a_get_after_one_whose_client_left_while_its_session_was_lost_is_asked_for_anew() -> None:
    play = opened()
    quiet(play)
    exchange = play.get()
    play.refuse(play.leg("GET"), 404)
    play.leave(exchange)
    play.heal()

    again = play.get()

    leg = play.leg("GET")
    assert leg.session_id == b"up-2"
    play.open(leg)
    say(play, leg, "live")
    assert texts(again) == ["notifications/tools/list_changed", "live"]
