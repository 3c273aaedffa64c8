"""Messages on their way down: taken whole or one by one, under the client's ids, cursors and marks."""

from __future__ import annotations

import json

import pytest

from epochgate.core import journal
from epochgate.core.commands import Drifted
from epochgate.core.events import LegEnd
from epochgate.core.policy import Stamps
from tests.core.messages import (
    ask,
    cancel,
    error,
    event,
    log,
    progress,
    request,
    result,
    retry,
)
from tests.core.playbook import MARK, UNPROVEN, opened
from tests.core.scenes import (
    after,
    broken,
    call,
    listening,
    open_call,
    restarted,
    resume,
    running,
    steps,
    texts,
)


def test_an_answer_of_another_epoch_with_nothing_before_it_is_one_execution() -> None:
    """Relayed, counted as drift, never run a second time (R2)."""
    play = opened(epoch=1)
    exchange, post = call(play)

    play.send(post, event(result(post.id, {"x": 1}, 2)))

    assert exchange.answer["result"]["x"] == 1
    assert play.facts(Drifted) == [Drifted(2)]
    assert play.runs == 1
    assert not play.has_leg("initialize")


def test_without_a_way_to_tell_only_questions_and_the_marked_answer_are_relayed() -> None:
    """The trace: progress of run 2 would seem to go on from that of run 1 (R5)."""
    play, exchange, again, seen = restarted(has_logging=False)
    play.send(again, event(log("new run")), event(progress(again.token, 9)), event(ask(0)))
    play.send(again, event(result(again.id)))

    question, answer = after(exchange, seen)
    assert question["method"] == "elicitation/create"
    assert answer["result"]["_meta"][MARK]["reissued"] is True


def test_an_error_without_id_on_a_resumed_leg_is_dropped_and_answers_nothing() -> None:
    """On a leg that never broke it is relayed (R30)."""
    play, exchange = broken()
    post = play.sent("tools/call")[0]
    before = len(exchange.messages)

    resume(play, (error(None), 5), (result(post.id, epoch=7), 6))

    assert play.dropped == ["unproven"]
    assert exchange.messages[before:] == [result(5, epoch=7)]


def test_the_upstreams_value_is_replaced_on_every_message_that_states_one() -> None:
    """A client's library looks at each (R39)."""
    play = opened(epoch=77, advertise_epoch=True)
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(progress(leg.token, 1, 77)), event(log("none")), event(result(leg.id, epoch=77)))

    stated = [(one.get("params") or one.get("result")).get("_meta") for one in exchange.messages]
    assert stated == [{"session_epoch": 1}, None, {"session_epoch": 1}]


def test_digits_of_a_stamp_inside_other_data_are_left_alone() -> None:
    """TypeScript writes the id last; only the anchored, top-level one is put back (R36)."""
    play = opened()
    exchange = play.call(id=5, token=9)
    leg = play.leg("tools/call")
    play.open(leg)
    inner = {"text": f"{leg.id}", "id": leg.id, "n": leg.id, "progressToken": leg.token}
    play.send(leg, event(json.dumps({"jsonrpc": "2.0", "result": inner, "id": leg.id}).encode()))

    assert exchange.answer == {"jsonrpc": "2.0", "result": inner, "id": 5}


@pytest.mark.parametrize("with_ids", [True, False])
def test_progress_is_relayed_under_cursors_and_the_clients_token(with_ids: bool) -> None:
    """One by one and many in a read; the server's ids are taken out."""
    play, exchange, leg = running(0)
    sent = [event(progress(leg.token, step), step if with_ids else None) for step in range(8)]

    for one in sent[:3]:
        play.send(leg, one)
    play.send(leg, *sent[3:6])
    play.post(cancel(5))
    play.send(leg, *sent[6:])

    assert [one["params"] for one in exchange.messages] == [
        {"progressToken": 1, "progress": step} for step in range(8)
    ]
    ids = [int(one.id or b"") for one in exchange.events]
    assert ids == list(range(ids[0], ids[0] + 9))  # that of priming is the first


def test_logs_keep_their_order_whatever_way_the_server_writes_ids() -> None:
    play, exchange, leg = running(0)

    play.send(leg, event(log("a"), 1))
    play.send(leg, event(log("b"), 2), event(log("c"), 3))
    play.send(leg, event(log("d")), event(log("e"), 5))
    play.send(leg, event(log("f"), 6), b"event: message\nid: 7\nretry: 10\ndata: {}\n\n")

    assert [one["params"]["data"] for one in exchange.messages[:6]] == list("abcdef")


def test_a_key_that_is_written_in_escapes_is_read_like_any_other() -> None:
    """An answer that hides its `id` is the answer."""
    play, exchange, leg = running(1)
    hidden = json.dumps(result(leg.id)).replace('"id"', '"\\u0069d"').encode()

    play.send(leg, event(hidden))

    assert exchange.answer == result(5)


def test_progress_of_two_calls_in_one_read_is_told_apart() -> None:
    """Each under the token of its own client request."""
    play, first, one = running(1)
    second = play.call(id=6, token="b")
    two = play.leg("tools/call")
    play.open(two)

    play.send(one, event(progress(one.token, 1)), event(progress(two.token, 9)))

    assert steps(first) == [0, 1, 9]
    assert first.messages[-1]["params"]["progressToken"] == "b"
    assert second.messages == []


def test_a_read_that_begins_with_something_else_teaches_no_form_of_progress() -> None:
    """It is relayed all the same, now and later."""
    play, exchange, leg = running(0)

    play.send(leg, event(log("x")), event(progress(leg.token, 1)))
    play.send(leg, event(progress(leg.token, 2)))

    assert [one["params"].get("progress") for one in exchange.messages] == [None, 1, 2]


@pytest.mark.parametrize(("header", "reasons"), [(b"e1", []), (b"e2", ["epoch_mismatch"])])
def test_an_epoch_in_the_head_holds_for_what_follows_it(header: bytes, reasons: list[str]) -> None:
    play = opened(epoch_header=b"e1")
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg, ((b"Mcp-Session-Epoch", header),))

    play.send(leg, event(progress(leg.token, 1)))

    assert play.reasons == reasons
    assert len(exchange.messages) == (0 if reasons else 1)


def test_comments_and_empty_events_of_the_server_reach_no_client() -> None:
    play, exchange, leg = running(1)
    before = exchange.body

    play.send(leg, b": hello\n\n", b"event: ping\n\n")

    assert exchange.body == before


def test_history_that_a_reopened_listener_replays_is_not_given_twice() -> None:
    """Some servers replay from their first event on every GET."""
    play, exchange, leg = listening()
    history = [event(log(word), number) for number, word in enumerate("ab", 1)]
    play.send(leg, *history)
    play.cut(leg)
    play.advance(1.1)
    play.open(play.leg("GET"))

    play.send(play.leg("GET"), *history, event(log("c"), 3))

    assert texts(exchange) == ["a", "b", "c"]


def test_a_read_of_more_events_than_a_block_of_cursors_has_goes_on_in_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "BLOCK_SPAN", 3)
    play, exchange, leg = running(0)

    play.send(leg, event(ask("q")), *[event(log(str(step))) for step in range(8)])

    assert [one["params"].get("data") for one in exchange.messages] == [None, *"01234567"]
    assert len({one.id for one in exchange.events}) == 10


def test_retry_goes_on_and_other_kinds_of_events_until_the_leg_broke() -> None:
    """Nothing on a resumed leg proves whose they are."""
    other = b'event: weather\ndata: "rain"\n\n'
    play = opened(epoch=7)
    exchange, leg = call(play)
    play.send(leg, event(progress(leg.token, 1, 7), 1), b"id: 2\ndata: \n\n", retry(2_000), other)
    assert b"retry: 2000\n\n" in exchange.body
    assert b'event: weather\ndata: "rain"\n\n' in exchange.body
    play.cut(leg)
    before = exchange.body

    play.open(play.leg("GET"))
    play.send(play.leg("GET"), other)

    assert exchange.body == before


def test_an_answer_that_came_by_an_unproven_poll_says_so() -> None:
    play = opened()
    exchange, leg = call(play)
    play.send(leg, event(progress(leg.token, 1), 1), retry(100))
    play.end(leg, LegEnd.CLEAN)
    play.advance(1)

    resume(play, (result(leg.id), 2))

    assert exchange.answer["result"]["_meta"] == {UNPROVEN: True}
    assert play.counted == ["unproven_polls"]


def test_a_question_that_the_server_gives_up_is_given_up_under_the_id_that_the_client_knows() -> None:
    """Another session asked under the same id before."""
    play = opened(has_logging=True)
    _, one = open_call(play, id=1)
    play.send(one, event(ask(0)))
    exchange, two = open_call(play, id=2)
    play.cut(two)
    play.heal()
    again = play.leg("tools/call")
    play.open(again)
    play.send(again, event(ask(0)))
    asked = exchange.messages[-1]["id"]
    assert asked != 0

    play.send(again, event(cancel(0)))

    assert exchange.messages[-1] == cancel(asked)


def test_without_stamps_an_answer_passes_as_it_is_written() -> None:
    play = opened(stamp=Stamps.OFF)
    exchange, leg = call(play)

    play.send(leg, event(b'{ "id" : 5, "jsonrpc":"2.0", "result":{} }'))

    assert b'data: { "id" : 5, "jsonrpc":"2.0", "result":{} }\n' in exchange.body


def test_a_mark_that_nobody_was_there_to_read_stands_in_the_next_answer_too() -> None:
    """Until one was delivered: that of the second run waits for its client."""
    play = opened()
    exchange, leg = open_call(play)
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    play.leave(exchange)
    play.open(again)
    play.send(again, event(result(again.id)))

    others = []
    for number in (8, 9):
        others.append(play.call(id=number))
        play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))

    assert others[0].json["result"]["_meta"][MARK]["generation"] == 2
    assert others[1].json == result(9)
    assert play.get(exchange.last_id).answer["result"]["_meta"][MARK]["reissued"] is True


def test_a_batch_inside_an_event_keeps_its_members_together() -> None:
    """As one event, under one cursor (R41)."""
    play, exchange, leg = running(0)
    play.send(leg, event([progress(leg.token, 1), result(leg.id)]))

    (data,) = [one.json for one in exchange.events if one.json is not None]
    assert data == [progress(1, 1), result(5)]
    assert not exchange.is_open


def batch() -> list[object]:
    """Two calls: of `work`, id 5, and of `pay`, id 6."""
    tools = {5: "work", 6: "pay"}
    return [
        request("tools/call", {"name": name, "_meta": {"progressToken": id}}, id=id)
        for id, name in tools.items()
    ]


def test_a_batch_ends_when_only_cancelled_members_are_unanswered() -> None:
    """R29: some servers keep the stream open for ever."""
    play = opened()
    exchange = play.post(batch())
    leg = play.leg("batch")
    play.open(leg)
    play.send(leg, event(progress(leg.json[0]["params"]["_meta"]["progressToken"], 1)))
    play.post(cancel(5))
    play.advance(6)
    play.send(leg, event(result(leg.json[1]["id"])))
    play.advance(6)

    assert not exchange.is_open
    assert exchange.answers == [result(6)]


def test_an_answer_in_a_batch_that_must_not_be_relayed_is_a_restart() -> None:
    """Relayed whole or not at all (R41): dropped without more, its call would wait for ever."""
    play = opened()
    exchange, post = open_call(play)
    play.send(post, event(progress(post.token, 2), "a"), retry(100))
    play.end(post, LegEnd.CLEAN)
    play.advance(1)
    leg = play.leg("GET")
    play.open(leg)

    play.send(leg, event([log("whose?"), result(post.id)], "b"))
    play.heal()

    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    assert exchange.answer["id"] == 5
    assert play.reasons == ["not_resumable"]


def test_a_batch_without_an_answer_that_must_not_be_relayed_is_dropped() -> None:
    """The run goes on: nothing owed is lost with it (R41)."""
    play = opened()
    exchange, post = open_call(play)
    play.send(post, event(progress(post.token, 2), "a"), retry(100))
    play.end(post, LegEnd.CLEAN)
    play.advance(1)
    leg = play.leg("GET")
    play.open(leg)

    play.send(leg, event([log("whose?"), progress(post.token, 3)], "b"), event(result(post.id), "c"))

    assert exchange.answer["id"] == 5
    assert play.dropped == ["unproven"]
    assert play.runs == 1
