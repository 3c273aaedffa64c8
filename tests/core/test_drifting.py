"""A session that the server made anew by itself: what it is given, and what of the old one goes on (R1)."""

from __future__ import annotations

from tests.core.messages import event, log, request, result
from tests.core.playbook import MARK, opened
from tests.core.scenes import call, drift, listening, texts


def test_it_is_a_generation_of_its_own_under_the_same_id() -> None:
    play = opened(epoch=7)

    drift(play, 8)

    assert play.session.current.number == 2
    assert play.session.current.upstream_id == b"up-1"
    assert not play.has_leg("DELETE")


def test_a_carrier_that_was_not_stated_again_keeps_what_was_captured() -> None:
    """An epoch in the header says nothing of the one in messages (R8)."""
    play = opened(epoch=7, epoch_header=b"h1")
    exchange = play.post(request("ping", id="p"))
    leg = play.leg("ping")
    play.answer(leg, result(leg.id, {}, 8))
    assert exchange.answer["result"]["_meta"][MARK]["reason"] == "drift"

    assert (play.session.current.epoch.meta, play.session.current.epoch.header) == (b"8", b"h1")


def test_an_epoch_that_a_header_alone_states_is_taken_over() -> None:
    play = opened(epoch_header=b"h1")
    play.post(request("ping", id="p"))
    leg = play.leg("ping")
    play.answer(
        leg,
        result(leg.id, {}),
        headers=((b"Content-Type", b"application/json"), (b"Mcp-Session-Epoch", b"h2")),
    )

    assert (play.session.current.epoch.meta, play.session.current.epoch.header) == (None, b"h2")


def test_only_the_current_generation_drifts() -> None:
    """An old one's late answer of another epoch says nothing of the session that took its place."""
    play = opened(epoch=7)
    _, leg = call(play)
    drift(play, 8)

    play.send(leg, event(result(leg.id, {}, 9)))

    assert play.session.current.number == 2


def test_a_session_under_a_heal_does_not_drift() -> None:
    play = opened(epoch=7)
    _, leg = call(play)
    play.advance(6)
    lost_call = play.call(id=6)
    play.refuse(play.sent("tools/call")[-1], 404)
    play.refuse(play.leg("ping"), 404)
    play.send(leg, event(result(leg.id, {}, 9)))

    assert play.session.current.number == 1
    assert lost_call.is_open


def test_its_standalone_stream_is_opened_anew_and_an_older_one_is_not() -> None:
    play, exchange, _ = listening(epoch=7)
    drift(play, 8)
    leg = play.leg("GET")
    play.open(leg)
    play.send(leg, event(log("x", 8)))

    assert texts(exchange) == ["x"]


def test_without_a_listener_there_is_none_to_open() -> None:
    play = opened(epoch=7)

    drift(play, 8)

    assert not play.has_leg("GET")
