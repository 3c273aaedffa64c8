"""A server that ends a stream and means to be asked again (R4)."""

from __future__ import annotations

import pytest

from epochgate.core.commands import UpstreamFailed
from epochgate.core.events import LegEnd
from epochgate.core.policy import PollWithoutEpoch
from tests.core.messages import Json, ask, cancel, event, notification, progress, result, retry
from tests.core.playbook import UNPROVEN, Play, opened
from tests.core.scenes import broken, listening, open_call, resume
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


def test_polls_that_bring_nothing_end_with_the_longest_silence() -> None:
    """R22: never an endless wait (G3)."""
    play, exchange, _ = polled(retry(100), epoch=7, max_silence_s=5.0)
    for _ in range(6):
        play.advance(1)
        if play.has_leg("GET"):
            leg = play.leg("GET")
            play.open(leg)
            play.send(leg, retry(100))
            play.end(leg, LegEnd.CLEAN)

    assert exchange.answer["error"]["data"]["reason"] == "upstream_silent"
    assert not play.has_leg("GET")


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


def test_only_resumes_in_a_row_without_a_message_are_counted() -> None:
    """One that brought a message is not the first of three (R23)."""
    play, exchange = broken()
    post = play.sent("tools/call")[0]
    first = resume(play, (progress(post.token, 4, 7), 5))
    play.cut(first)
    for _ in range(2):
        empty = play.leg("GET")
        play.open(empty)
        play.end(empty, LegEnd.CLEAN)
        play.advance(1)
    assert not play.reasons

    resume(play, (result(post.id, epoch=7), 6))

    assert exchange.answer["id"] == 5
    assert play.runs == 1


def test_a_cancelled_call_is_over_when_its_leg_breaks() -> None:
    """It is neither resumed nor run again."""
    play = opened(epoch=7)
    exchange, leg = open_call(play)
    play.post(cancel(5))

    play.cut(leg)

    assert not exchange.is_open
    assert exchange.answers == []
    assert not play.has_leg("GET")
    assert not play.reasons


def test_a_call_that_broke_during_a_delete_is_left_to_what_the_server_says_of_it() -> None:
    play = opened(epoch=7)
    exchange, leg = open_call(play)
    play.send(leg, event(progress(leg.token, 2, 7), 1))
    play.delete()
    play.cut(leg)
    assert not play.has_leg("GET")

    play.refuse(play.leg("DELETE"), 405)

    assert play.leg("GET").last_event_id == b"1"
    assert exchange.is_open


def test_a_standalone_stream_of_a_server_without_epochs_is_not_resumed_but_opened_anew() -> None:
    """Nothing on a resumed one could be proven, so that it would be mute."""
    play, exchange, leg = listening()
    play.send(leg, event(notification("notifications/tools/list_changed"), 1))
    play.cut(leg)
    assert not play.has_leg("GET")
    play.advance(1.1)

    assert play.leg("GET").last_event_id is None
    assert exchange.is_open


def test_a_leg_whose_session_answers_no_ping_is_broken() -> None:
    play = opened()
    exchange, leg = open_call(play)
    play.advance(60.5)

    play.end(play.leg("ping"), LegEnd.SILENT)

    assert not leg.is_open
    assert play.reasons == ["no_epoch_captured"]
    assert exchange.is_open


def test_an_answer_to_a_question_that_may_not_have_arrived_has_the_session_asked() -> None:
    """The call would wait for it for ever."""
    play = opened()
    _, leg = open_call(play)
    play.send(leg, event(ask(0)))
    play.post(result(0, {"action": "accept"}))

    play.cut(play.leg("answer"))

    assert play.leg("ping").session_id == b"up-1"


@pytest.mark.parametrize(("repeats", "reason"), [(True, "not_resumable"), (False, "empty_resume")])
def test_three_resumes_without_a_new_message_are_enough(repeats: bool, reason: str) -> None:
    play, _ = broken()
    post = play.sent("tools/call")[0]
    for _ in range(3):
        resume(play, *([(progress(post.token, 3, 7), 4)] if repeats else []))
        play.cut(play.leg("GET"))
        play.advance(1)

    assert play.reasons == [reason]


@pytest.mark.parametrize(
    ("how", "kinds"),
    [(LegEnd.BROKEN, ["reset"]), (LegEnd.SILENT, ["headers_timeout"]), (LegEnd.CLEAN, [])],
)
def test_how_a_leg_broke_is_counted_where_it_was_no_clean_end(how: LegEnd, kinds: list[str]) -> None:
    play = opened()
    _, leg = open_call(play)

    play.end(leg, how)

    assert [one.kind for one in play.facts(UpstreamFailed)] == kinds
