"""The traces of R16 and R17: what is durable before what is sent, and who may send."""

from __future__ import annotations

from epochgate.core.commands import AbortAnswer, Write
from epochgate.core.events import Fenced, Persisted
from epochgate.core.records import CancelRecord, SessionRecord
from tests.core.messages import cancel, event, progress, request, result
from tests.core.playbook import Play, opened
from tests.core.scenes import fenced, open_call


def stored(play: Play) -> list[str]:
    return [type(one.record).__name__ for one in play.persists]


# --- R16: what is durable before what is sent -------------------------------------------------------


def test_each_record_is_durable_before_what_hangs_on_it() -> None:
    """The table: owed before the POST, the commit and the counter before the second run (R16)."""
    play = opened()
    play.is_persisting = False
    exchange = play.call(token=1)
    assert (stored(play), play.runs, exchange.status) == (["OwedRecord"], 0, None)
    play.persist()
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(progress(leg.token, 1)))
    assert (stored(play), len(exchange.messages)) == ([], 1)

    play.cut(leg)
    play.heal()
    assert (stored(play), play.runs) == (["SessionRecord"], 1)
    play.feed(Persisted(play.persists.pop().token))
    assert (stored(play), play.runs) == (["ReissueRecord"], 1)
    play.persist()

    assert play.runs == 2


def test_nothing_is_run_again_before_its_client_is_back() -> None:
    """The third trace: the answer may have been delivered by the process that crashed (R16)."""
    play = opened(epoch=7)
    exchange, leg = open_call(play)
    play.leave(exchange)
    play.cut(leg)
    play.advance(200)
    assert play.runs == 1
    assert not play.has_leg("initialize")

    second = play.get(exchange.last_id)
    play.heal(epoch=7)
    again = play.leg("tools/call")
    play.answer(again, result(again.id, epoch=7))

    assert second.answer["id"] == 5
    assert play.runs == 2


def test_a_session_taken_over_by_drift_is_recorded_as_a_new_generation() -> None:
    """With the epoch that it stated (R16, R1)."""
    play = opened(epoch=1)
    play.is_persisting = False
    play.call()
    play.persist()
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id, epoch=2))

    (persist,) = play.persists
    assert isinstance(persist.record, SessionRecord)
    assert (persist.record.generation, persist.record.upstream_id) == (2, b"up-1")
    assert persist.record.epoch_meta == b"2"


def test_a_cancel_that_is_not_durable_yet_keeps_its_call_from_being_run_again() -> None:
    """It is remembered at once, and acknowledged when a crash can no longer lose it (R16, R29)."""
    play = opened()
    _, leg = open_call(play)
    play.is_persisting = False
    reply = play.post(cancel(5))
    (persist,) = play.persists
    assert isinstance(persist.record, CancelRecord)
    assert reply.status is None

    play.cut(leg)
    play.persist()

    assert reply.status == 202
    assert play.runs == 1
    assert not play.has_leg("initialize")


# --- R17: an owner that is one no longer ------------------------------------------------------------


def test_a_fenced_owner_drops_its_legs_and_cuts_its_clients() -> None:
    """They come back, to the owner; an end would look like that of the stream (R17)."""
    play, exchange, leg = fenced()

    assert not leg.is_open
    assert exchange.is_aborted
    assert play.exchanges[exchange.number + 1].is_aborted
    assert not play.facts(Write)
    assert len(play.facts(AbortAnswer)) == 2


def test_drift_that_is_not_recorded_is_not_restored_into() -> None:
    """Who no longer owns the session must not change its level (R17)."""
    play = opened(epoch=1, has_logging=True)
    play.post(request("logging/setLevel", {"level": "debug"}, id=1))
    leg = play.leg("logging/setLevel")
    play.answer(leg, result(leg.id, {}, 1))
    play.is_persisting = False
    play.post(request("ping", id=2))
    play.persist()
    leg = play.leg("ping")
    play.answer(leg, result(leg.id, {}, 2))
    assert stored(play) == ["SessionRecord"]

    play.feed(Fenced(play.persists.pop().token))

    assert len(play.sent("logging/setLevel")) == 1
