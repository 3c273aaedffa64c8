"""What is durable before what is sent (R16), and what a fenced owner still does (R17): nothing."""

from __future__ import annotations

from epochgate.core.commands import OpenAnswer, Respond, SendUpstream, Write
from epochgate.core.events import Fenced, Persisted
from epochgate.core.records import EndRecord, OwedRecord, ReissueRecord, SessionRecord
from tests.core.messages import event, initialize_answer, progress, request, result
from tests.core.playbook import JSON, Play, opened
from tests.core.scenes import open_call


def slow() -> Play:
    """A live session whose store has not answered yet."""
    play = opened()
    play.is_persisting = False
    return play


def test_nothing_goes_up_before_what_is_owed_is_durable() -> None:
    """Post, crash, return: it would be refused (R16)."""
    play = slow()
    exchange = play.call(id=5)
    assert play.runs == 0
    (persist,) = play.persists
    assert isinstance(persist.record, OwedRecord)
    assert (persist.record.ids, persist.record.generation) == ((b"5",), 1)

    play.persist()
    assert play.runs == 1
    assert exchange.status is None


def test_a_client_that_left_while_the_record_was_written_costs_no_run() -> None:
    play = slow()
    play.leave(play.call())

    play.persist()

    assert play.runs == 0


def test_the_new_generation_is_durable_before_anything_is_sent_again() -> None:
    """A heal's commit comes before its first second run (R16)."""
    play = opened()
    _, leg = open_call(play)
    play.cut(leg)
    play.is_persisting = False
    play.heal()
    (persist,) = play.persists
    assert isinstance(persist.record, SessionRecord)
    assert (persist.record.generation, persist.record.upstream_id) == (2, b"up-2")
    assert play.runs == 1


def test_the_counter_is_durable_before_the_second_run() -> None:
    """A crash in between must not lead to a third (R16); G4."""
    play = opened()
    _, leg = open_call(play)
    play.cut(leg)
    play.is_persisting = False
    play.heal()
    play.feed(Persisted(play.persists.pop(0).token))

    (persist,) = play.persists
    assert isinstance(persist.record, ReissueRecord)
    assert persist.record.reissues == 1
    assert play.runs == 1
    play.persist()
    assert play.runs == 2


def test_the_end_is_durable_before_the_client_is_told() -> None:
    play = slow()
    exchange = play.delete()
    play.refuse(play.leg("DELETE"), 200)
    assert exchange.status is None
    (persist,) = play.persists
    assert isinstance(persist.record, EndRecord)

    play.persist()
    assert exchange.status == 200


def test_events_and_answers_do_not_wait_for_the_store() -> None:
    """With the records above they may be relayed before they are durable (R16)."""
    play = opened()
    exchange, leg = open_call(play)
    play.is_persisting = False

    play.send(leg, event(progress(leg.token, 2)), event(result(leg.id)))

    assert exchange.answer == result(5)


def test_a_refused_owed_record_sends_nothing_and_answers_the_client() -> None:
    """A fenced owner sends nothing up, and its client does not wait for ever (R17); G3."""
    play = slow()
    exchange = play.call()
    play.feed(Fenced(play.persists.pop().token))

    assert play.runs == 0
    play.advance(60)
    assert not exchange.is_open


def test_a_heal_that_lost_the_race_deletes_the_session_that_it_made() -> None:
    """Who loses the heal's compare-and-set (R17)."""
    play = opened()
    _, leg = open_call(play)
    play.cut(leg)
    play.is_persisting = False
    play.heal()

    play.feed(Fenced(play.persists.pop().token))

    assert play.runs == 1
    assert play.leg("DELETE").session_id == b"up-2"


def test_a_fenced_owner_relays_nothing_more() -> None:
    """The first trace: another owner re-issues, and the first relays its own run (R17)."""
    play = opened()
    exchange, leg = open_call(play)
    play.is_persisting = False
    play.call(id=6)
    play.feed(Fenced(play.persists.pop().token))
    before = exchange.body

    if leg.is_open:
        play.send(leg, event(progress(leg.token, 2)))

    assert exchange.body == before


def test_what_happened_while_a_record_was_written_is_looked_at_again() -> None:
    """The commit of a heal that a DELETE overtook sends nothing."""
    play = opened()
    exchange, leg = open_call(play)
    play.cut(leg)
    play.is_persisting = False
    play.heal()
    play.delete()
    play.refuse(play.leg("DELETE"), 200)
    play.persist()

    assert play.runs == 1
    assert exchange.answer["error"]["data"]["reason"] == "session_ended"


def test_a_session_that_could_not_be_recorded_is_not_told_to_the_client() -> None:
    play = Play(is_persisting=False)
    exchange = play.post(request("initialize", {"protocolVersion": "2025-11-25"}, id=0))
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(0), headers=(*JSON, (b"Mcp-Session-Id", b"up-1")))

    sent = [step for step in play.steps if isinstance(step, Respond | OpenAnswer | Write)]
    assert sent == []
    assert exchange.status is None
    assert [step.method for step in play.facts(SendUpstream)] == [b"POST"]
