"""What goes up once, what is tried again, and for how long (R4, R16, R27)."""

from __future__ import annotations

import pytest

from epochgate.core.events import LegEnd, Persisted
from epochgate.core.records import ReissueRecord
from tests.core.messages import cancel, event, progress, result, retry
from tests.core.playbook import Play, opened
from tests.core.scenes import broken, call, lost, open_call, resume
from tests.core.sides import Exchange


def test_a_server_that_asks_for_a_minute_gets_it() -> None:
    """`retry: 60000` is longer than the grace: the client's leg is held, nothing is run again (R4)."""
    play = opened(poll_grace_s=30.0)
    exchange, post = call(play)
    play.send(post, event(progress(post.token, 1), 1), retry(60_000))
    play.end(post, LegEnd.CLEAN)
    play.advance(59.9)
    assert exchange.is_open
    assert not play.has_leg("GET")
    play.advance(0.2)

    resume(play, (result(post.id), 2))

    assert exchange.answer["id"] == 5
    assert play.runs == 1
    assert not play.reasons


def test_the_heal_deadline_counts_from_the_first_failure() -> None:
    """Retries included (R27)."""
    play = opened(heal_deadline_s=45.0, resume_deadline_s=10.0)
    exchange = play.call()
    began = play.now
    while exchange.status is None:
        for rpc in ("tools/call", "initialize"):
            if play.has_leg(rpc):
                play.unreachable(play.leg(rpc))
        play.advance(1)

    assert 44 <= play.now - began <= 47
    assert exchange.json["error"]["code"] == -32051


def test_a_taker_whose_resume_meets_409_tries_again() -> None:
    """The server has not seen yet that the first owner let go of the stream (R17, R23)."""
    play, exchange = broken()
    post = play.sent("tools/call")[0]
    for _ in range(4):
        play.refuse(play.leg("GET"), 409)
        play.advance(1)

    resume(play, (result(post.id, epoch=7), 5))

    assert exchange.answer["id"] == 5
    assert play.runs == 1


def test_a_call_that_is_cancelled_before_it_is_durable_is_never_sent() -> None:
    play = opened()
    play.is_persisting = False
    play.call()
    play.post(cancel(5))

    play.persist()

    assert play.runs == 0


def test_a_call_that_is_cancelled_while_it_waits_for_a_heal_is_not_sent_behind_it() -> None:
    play, _ = lost()
    waiting = play.call("other", id=6)
    play.is_persisting = False
    play.post(cancel(6))
    play.heal()
    play.persist()

    assert [leg.json["params"]["name"] for leg in play.sent("tools/call")] == ["work", "work"]
    play.advance(1)
    assert waiting.json["error"]["data"]["reason"] == "cancelled"


def test_a_second_run_that_the_end_of_its_session_overtook_is_never_sent() -> None:
    """The record that it hangs on was being written."""
    play = opened()
    exchange, leg = call(play)
    play.cut(leg)
    play.is_persisting = False
    play.heal()
    play.feed(Persisted(play.persists.pop(0).token))
    (record,) = play.persists
    play.delete()
    play.refuse(play.sent("DELETE")[-1], 200)
    play.feed(Persisted(play.persists[1].token))
    assert exchange.answer["error"]["data"]["reason"] == "session_ended"

    play.feed(Persisted(record.token))

    assert play.runs == 1


def refused_while_away() -> tuple[Play, Exchange]:
    """A resume met 401 while nobody was there; it waits for other credentials (R32)."""
    play, exchange = broken()
    play.leave(exchange)
    play.refuse(play.leg("GET"), 401)
    return play, exchange


def test_a_resume_that_was_refused_is_sent_again_when_the_client_is_back() -> None:
    """With whatever credentials it has then."""
    play, exchange = refused_while_away()
    play.advance(5)
    assert not play.has_leg("GET")

    play.get(exchange.last_id)

    assert play.leg("GET").last_event_id == b"4"


def test_a_client_that_comes_back_during_a_resume_or_its_back_off_sends_no_second_one() -> None:
    play, exchange = broken()
    play.leave(exchange)
    second = play.get(exchange.last_id)
    assert len(play.sent("GET")) == 1
    play.refuse(play.leg("GET"), 503)

    play.get(second.last_id)

    assert len(play.sent("GET")) == 1
    play.advance(1)
    assert len(play.sent("GET")) == 2


def test_a_second_run_that_the_server_did_not_take_waits_for_a_client_that_left() -> None:
    play = opened()
    exchange, leg = open_call(play)
    play.cut(leg)
    play.heal()
    play.unreachable(play.leg("tools/call"))
    play.leave(exchange)
    play.advance(60)
    assert play.runs == 2

    play.get(exchange.last_id)
    play.heal(b"up-3")
    assert play.runs == 3


@pytest.mark.parametrize(("status", "runs"), [(405, 2), (200, 1)])
def test_a_second_run_that_was_being_counted_waits_for_a_delete(status: int, runs: int) -> None:
    """DELETE pauses what is not sent yet, as well (R25)."""
    play = opened()
    exchange, leg = open_call(play)
    play.cut(leg)
    play.is_persisting = False
    play.heal()
    play.feed(Persisted(play.persists.pop().token))
    assert isinstance(play.persists[0].record, ReissueRecord)
    play.delete()

    play.is_persisting = True
    play.persist()
    assert play.runs == 1
    play.refuse(next(leg for leg in play.sent("DELETE") if leg.session_id == b"up-2"), status)

    assert play.runs == runs
    assert exchange.is_open == (runs == 2)


def test_a_second_run_that_the_server_did_not_take_is_given_up_when_nobody_can_return_for_it() -> None:
    """Its client left without a cursor, so that no return can be waited for (G4)."""
    play = opened()
    exchange = play.call()
    play.cut(play.leg("tools/call"))
    play.heal()
    play.unreachable(play.leg("tools/call"))

    play.leave(exchange)
    play.advance(60)

    assert play.runs == 2
    assert not play.session.running
