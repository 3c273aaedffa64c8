"""A server that ends a stream and means to be asked again (R4)."""

from __future__ import annotations

import pytest

from epochgate.core.events import LegEnd
from epochgate.core.policy import PollWithoutEpoch
from tests.core.messages import Json, ask, event, progress, result, retry
from tests.core.playbook import UNPROVEN, Play, opened
from tests.core.sides import Exchange, Upstream


def polled(
    *announcement: bytes, epoch: Json = None, id: Json = 1, **settings: Json
) -> tuple[Play, Exchange, Upstream]:
    """A call that gave one event and then ended cleanly, after this announcement."""
    play = opened(epoch=epoch, **settings)
    exchange = play.call(token=1)
    post = play.leg("tools/call")
    play.open(post)
    play.send(post, event(progress(post.token, 1, epoch), id))
    for part in announcement:
        play.send(post, part)
    play.end(post, LegEnd.CLEAN)
    return play, exchange, post


def test_an_announced_end_is_polled_after_the_time_that_the_server_named() -> None:
    """By the proxy; the client's leg stays open (R4)."""
    play, exchange, post = polled(retry(2_000), epoch=7)
    play.advance(1.9)
    assert not play.has_leg("GET")
    assert exchange.is_open
    play.advance(0.2)

    leg = play.leg("GET")
    assert leg.last_event_id == b"1"
    play.open(leg)
    play.send(leg, event(result(post.id, epoch=7), 2))

    assert exchange.answer["id"] == 5
    assert play.judged == [("upstream", "resume", "epoch_match")]
    assert play.runs == 1


@pytest.mark.parametrize(
    "announcement", [retry(100), b"id: 2\nretry: 100\ndata: \n\n", b"event: close\ndata: {}\n\n"]
)
def test_without_epochs_an_announced_poll_is_accepted_and_marked(announcement: bytes) -> None:
    """By default, since every polling server without epochs would be worse off than without a proxy (R4)."""
    play, exchange, post = polled(announcement)
    play.advance(1)

    leg = play.leg("GET")
    play.open(leg)
    play.send(leg, event(result(post.id), 3))

    assert exchange.answer["result"]["_meta"] == {UNPROVEN: True}
    assert play.judged == [("upstream", "resume", "server_poll")]
    assert play.counted == ["unproven_polls"]
    assert play.runs == 1


def test_many_polls_without_a_message_are_no_strikes() -> None:
    play, exchange, post = polled(retry(100), epoch=7)
    for _ in range(6):
        play.advance(1)
        leg = play.leg("GET")
        play.open(leg)
        play.send(leg, retry(100))
        play.end(leg, LegEnd.CLEAN)

    play.advance(1)
    leg = play.leg("GET")
    play.open(leg)
    play.send(leg, event(result(post.id, epoch=7), 2))

    assert exchange.answer["id"] == 5
    assert not play.reasons


def test_a_poll_goes_on_from_its_own_id_where_the_server_primes_other_streams_beside_it() -> None:
    """Only what carries a stamp moves the cursor (R6): two polls would swap their streams for ever."""
    play, exchange, post = polled(retry(100), epoch=7, id="mine")
    play.advance(1)
    leg = play.leg("GET")
    play.open(leg)
    play.send(leg, b"id: another\nretry: 100\ndata: \n\n")
    play.end(leg, LegEnd.CLEAN)
    play.advance(1)

    leg = play.leg("GET")
    assert leg.last_event_id == b"mine"
    play.open(leg)
    play.send(leg, event(result(post.id, epoch=7), "mine too"))
    assert exchange.answer["id"] == 5


def test_without_epochs_a_poll_can_be_refused() -> None:
    """`poll_without_epoch` (R4)."""
    play, exchange, _ = polled(retry(100), poll_without_epoch=PollWithoutEpoch.RESTART)

    assert play.reasons == ["poll_unproven"]
    assert not play.has_leg("GET")
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    assert exchange.answer["id"] == 5


def test_a_poll_of_a_stream_that_gave_no_id_cannot_be_rejoined() -> None:
    play, _, _ = polled(retry(100), id=None)

    assert play.reasons == ["poll_unproven"]


@pytest.mark.parametrize("last", [(), (retry(100), event(progress("x", 1)))])
def test_a_clean_end_that_was_not_announced_last_is_a_break(last: tuple[bytes, ...]) -> None:
    """The trace: a server may end a stream because the session expired (R4)."""
    play, _, _ = polled(*last)

    assert play.reasons == ["no_epoch_captured"]


def test_an_announced_end_that_is_not_clean_is_a_break() -> None:
    play = opened()
    play.call(token=1)
    post = play.leg("tools/call")
    play.open(post)
    play.send(post, event(progress(post.token, 1), 1), retry(100))

    play.cut(post)

    assert play.reasons == ["no_epoch_captured"]


def test_a_stranger_in_an_accepted_poll_is_a_restart() -> None:
    """Stamps must hold (R4, R6)."""
    play, exchange, _ = polled(retry(100))
    play.advance(1)
    leg = play.leg("GET")
    play.open(leg)
    before = exchange.body

    play.send(leg, event(ask(0), 2))

    assert exchange.body == before
    assert play.reasons == ["unproven_request"]


def test_another_epoch_in_a_poll_is_a_restart() -> None:
    play, _, post = polled(retry(100), epoch=7)
    play.advance(1)
    leg = play.leg("GET")
    play.open(leg)

    play.send(leg, event(result(post.id, epoch=8), 2))

    assert play.reasons == ["epoch_mismatch"]


def test_a_poll_is_not_given_up_sooner_than_the_server_may_be_back() -> None:
    """Grace is the larger of the setting and twice the time that the server named (R4)."""
    play, exchange, post = polled(retry(20_000), poll_grace_s=30.0)
    play.advance(20)
    while play.now < 1_000 + 55:
        play.unreachable(play.leg("GET"))
        play.advance(1)
    assert not play.reasons

    leg = play.leg("GET")
    play.open(leg)
    play.send(leg, event(result(post.id), 2))

    assert exchange.answer["id"] == 5
