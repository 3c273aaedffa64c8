"""What is durable before what is sent (R16), and what a fenced owner still does (R17): nothing."""

from __future__ import annotations

import json

import pytest

from epochgate.core import commands as do
from epochgate.core.commands import OpenAnswer, Respond, SendUpstream, Write
from epochgate.core.events import (
    Adopted,
    ClientDrained,
    ClientStalled,
    DrainBegun,
    Evicted,
    Fenced,
    LegAnswered,
    LegCompleted,
    LegEnd,
    LegEnded,
    LegRead,
    Persisted,
    PostArrived,
    RequestHead,
)
from epochgate.core.journal import Budget
from epochgate.core.jsonrpc import read_body
from epochgate.core.policy import Policy
from epochgate.core.records import EndRecord, OwedRecord, ReissueRecord, SessionRecord
from epochgate.core.session import Session
from tests.core.messages import (
    event,
    initialize,
    initialize_answer,
    notification,
    progress,
    request,
    result,
)
from tests.core.playbook import JSON, Play, opened
from tests.core.scenes import open_call, running


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


@pytest.mark.parametrize("status", [401, 403, 405])
def test_a_refused_delete_lets_a_broken_call_be_healed(status: int) -> None:
    """A stream that broke meanwhile is attended to then (R25)."""
    play = opened()
    exchange, leg = open_call(play)
    deleted = play.delete()
    play.end(leg, LegEnd.CLEAN)
    assert not play.has_leg("initialize")

    play.refuse(play.leg("DELETE"), status)
    assert deleted.status == status
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))

    assert exchange.answer["id"] == 5


def test_what_is_recorded_behind_the_loss_of_a_session_to_another_owner_sends_nothing() -> None:
    """Two records were being written, and the store refused the first."""
    play = opened()
    play.is_persisting = False
    play.call(id=5)
    play.call(id=6)
    first, second = play.persists

    play.feed(Fenced(first.token))
    play.feed(Persisted(second.token))

    assert play.runs == 0


def test_without_a_store_nothing_waits_for_one() -> None:
    """A record is then as durable as it will be."""
    session = Session(Policy(), lambda bits: bits, Budget(1 << 20), is_volatile=True)
    raw = json.dumps(initialize()).encode()
    head = RequestHead(b"/mcp", JSON, b"alice")
    (sent,) = session.handle(PostArrived(1, head, raw, read_body(raw)), 0.0)
    assert isinstance(sent, SendUpstream)
    session.handle(LegAnswered(sent.leg, 200, (*JSON, (b"Mcp-Session-Id", b"up-1"))), 0.0)
    session.handle(LegRead(sent.leg, json.dumps(initialize_answer(0)).encode()), 0.0)

    steps = session.handle(LegEnded(sent.leg, LegEnd.CLEAN), 0.0)

    assert not [step for step in steps if isinstance(step, do.Persist)]
    (answer,) = [step for step in steps if isinstance(step, Respond)]
    assert json.loads(answer.body) == initialize_answer(0)


def test_an_answer_that_came_in_one_piece_is_one_event() -> None:
    play = opened()
    exchange = play.call()
    leg = play.leg("tools/call")

    play.feed(LegCompleted(leg.number, 200, JSON, json.dumps(result(leg.id)).encode()))

    assert exchange.json == result(5)


def test_it_says_what_state_it_is_in() -> None:
    play = Play()
    assert repr(play.session) == "<Session opening g0, 0 streams>"

    play = opened()
    play.call()

    assert repr(play.session) == "<Session live g1, 1 streams>"


def test_a_deadline_sooner_than_the_one_that_was_told_is_new() -> None:
    """Only then does the driver set its clock anew."""
    play = opened()
    play.session.next_deadline()
    assert not play.session.has_new_deadline

    play.call()

    assert play.session.has_new_deadline


def test_a_call_that_two_deletes_found_running_is_healed_when_both_were_refused() -> None:
    play = opened()
    _, leg = open_call(play)
    play.delete()
    play.delete()
    play.cut(leg)
    first, second = play.sent("DELETE")

    play.refuse(first, 405)
    assert not play.has_leg("initialize")
    play.refuse(second, 405)

    assert play.has_leg("initialize")


def test_each_event_finds_its_way() -> None:
    """A slow client, a listener, one that leaves, the process that goes away, and a session that is not
    used any more."""
    play, exchange, leg = running(1)
    play.feed(ClientStalled(exchange.number))
    assert leg.is_paused
    play.feed(ClientDrained(exchange.number))
    assert not leg.is_paused
    play.send(leg, event(result(leg.id)))
    listener = play.get()
    play.open(play.leg("GET"))
    play.send(play.leg("GET"), event(notification("notifications/tools/list_changed")))
    assert listener.messages == [notification("notifications/tools/list_changed")]
    assert play.feed(Adopted()) == []

    play.feed(DrainBegun(play.now + 10))
    assert not listener.is_open
    play.delete()
    play.refuse(play.leg("DELETE"), 200)
    play.feed(Evicted())

    assert play.is_forgotten


def test_a_stream_whose_client_left_is_let_go_with_its_answer() -> None:
    """Nobody can come back to it: no id of it was given."""
    play = opened()
    exchange = play.call()
    leg = play.leg("tools/call")
    play.leave(exchange)
    play.open(leg)
    assert repr(play.session) == "<Session live g1, 1 streams>"

    play.send(leg, event(result(leg.id)))

    assert repr(play.session) == "<Session live g1, 0 streams>"
