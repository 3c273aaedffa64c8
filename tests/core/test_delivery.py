"""What a stream gives its client, how it begins and how it ends."""

from __future__ import annotations

import pytest

from epochgate.core import http
from epochgate.core.events import DrainBegun, LegAnswered, LegEnd, LegRead
from epochgate.core.policy import Reissue
from tests.core.messages import Json, ask, cancel, event, progress, request, result
from tests.core.playbook import JSON, Play, opened
from tests.core.scenes import (
    BOB,
    accept_bob,
    begun_for_bob,
    call,
    give,
    id_last,
    lost,
    open_call,
    pour,
    running,
    steps,
    streaming,
)
from tests.core.sides import Exchange, Upstream


def asking(**settings: Json) -> tuple[Play, Exchange, Upstream]:
    """A call whose server asked something under its id 0, which the client has seen."""
    play = opened(**settings)
    exchange, leg = call(play)
    play.send(leg, event(progress(leg.token, 1)), event(ask(0)))
    return play, exchange, leg


def test_a_full_journal_stops_the_server_and_loses_nothing() -> None:
    """Undelivered events of a request stream are never evicted (R13)."""
    play, first, leg = running(1, journal_stream_bytes=1_000)
    play.leave(first)
    give(play, leg, 1, 12)
    assert leg.is_paused

    second = play.get(first.last_id)
    assert not leg.is_paused
    play.send(leg, event(result(leg.id)))

    assert steps(second) == list(range(1, 12))
    assert second.answer == result(5)


def test_a_process_that_goes_away_answers_what_is_owed() -> None:
    """Errors at the end of the drain, never a silent end (W8, W10)."""
    play, first, leg = running(1)
    second = play.call(id=6)

    play.feed(DrainBegun(play.now + 25))
    give(play, leg, 1, 2)
    play.advance(24)
    assert first.is_open
    play.advance(2)

    assert first.answer["error"]["code"] == second.answer["error"]["code"] == -32050
    assert (first.answer["id"], second.answer["id"]) == (5, 6)


@pytest.mark.parametrize("how", [LegEnd.BROKEN, LegEnd.CLEAN])
@pytest.mark.parametrize("left", [2, 40, 4_000])
def test_what_broke_inside_a_large_event_never_looks_whole(how: LegEnd, left: int) -> None:
    """The trace: the client holds half an event, and any end or event behind it would dispatch it (R9)."""
    play, exchange, leg = streaming()
    cursor = exchange.last_id
    pour(play, leg, id_last(leg)[:-left])
    play.end(leg, how)

    assert exchange.is_aborted
    assert exchange.answers == []
    back = play.get(cursor)

    assert back.status == 200
    assert (back.answer["id"], back.answer["error"]["code"]) == (5, -32050)
    assert play.runs == 1


def test_a_question_of_a_failed_call_is_called_off_before_its_error() -> None:
    play, exchange, leg = asking(reissue=Reissue.NEVER)

    play.cut(leg)

    assert [one.get("method", "error") for one in exchange.messages] == [
        "notifications/progress",
        "elicitation/create",
        "notifications/cancelled",
        "error",
    ]


def test_a_stream_that_was_begun_for_its_caller_ends_if_the_session_is_over() -> None:
    play = opened()
    exchange = begun_for_bob(play)
    play.delete()
    play.refuse(play.leg("DELETE"), 200)

    accept_bob(play)

    assert exchange.status == 200
    assert not exchange.is_open


def test_behind_a_heal_the_client_sees_the_id_that_it_knows_and_no_epoch_of_the_server() -> None:
    """It would take either for another session than its own."""
    play, exchange = lost()
    play.heal()
    again = play.leg("tools/call")

    headers = (*JSON, (b"Mcp-Session-Id", b"up-2"), (b"Mcp-Session-Epoch", b"9"), (b"X-Own", b"1"))
    play.answer(again, result(again.id), headers=headers)

    assert exchange.headers == (*JSON, (b"Mcp-Session-Id", b"up-1"), (b"X-Own", b"1"))


def test_a_client_that_checks_epochs_is_told_that_of_the_proxy() -> None:
    play = opened(advertise_epoch=True)
    exchange = play.call()

    play.open(play.leg("tools/call"), ((b"Mcp-Session-Epoch", b"9"),))

    assert http.find(exchange.headers, b"mcp-session-epoch") == b"1"


def test_errors_of_a_batch_that_could_not_be_told_come_first_when_its_rest_is_answered_by_events() -> None:
    play = opened(never_reissue=frozenset({"pay"}))
    exchange = play.post([request("tools/call", {"name": "pay"}, id=1), request("tools/list", id=2)])
    play.cut(play.leg("batch"))
    play.heal()
    again = play.leg("batch")
    play.open(again)
    assert [one["id"] for one in exchange.answers] == [1]

    play.send(again, event(result(again.json[0]["id"])))

    assert [(one["id"], "error" in one) for one in exchange.answers] == [(1, True), (2, False)]


def test_a_stream_that_was_begun_for_its_caller_goes_on_when_the_server_accepts_it() -> None:
    """Its head is not given twice."""
    play = opened()
    exchange, leg = open_call(play)
    play.leave(exchange)
    play.send(leg, event(progress(leg.token, 2)))
    bob = play.get(exchange.last_id, who=BOB)
    play.advance(1.6)
    assert bob.status == 200

    accept_bob(play)
    play.send(leg, event(result(leg.id)))

    assert [one.get("params", {}).get("progress") for one in bob.messages] == [2, None]


def test_a_client_of_an_older_revision_gets_no_priming() -> None:
    """It could not parse one."""
    play = opened(version="2025-06-18")
    exchange = play.call()
    leg = play.leg("tools/call")
    play.open(leg)
    assert exchange.body == b""
    play.leave(exchange)
    play.send(leg, event(result(leg.id)))

    assert not exchange.events


def test_an_end_behind_nothing_that_was_written_is_an_end_all_the_same() -> None:
    """A cancelled call: its client is owed no event."""
    play = opened()
    exchange, leg = open_call(play)
    play.post(cancel(5))
    before = exchange.body

    play.advance(6)

    assert (exchange.is_open, exchange.is_aborted, exchange.body) == (False, False, before)
    assert not leg.is_open


def test_an_end_takes_along_what_was_written_to_its_client_and_to_no_other() -> None:
    """Two calls whose session is over end in one step, each with its own error."""
    play = opened()
    calls = [open_call(play, id=id) for id in (1, 2)]

    play.delete()
    play.refuse(play.leg("DELETE"), 200)

    for (exchange, _), id in zip(calls, (1, 2), strict=True):
        assert exchange.answer["id"] == id
        assert not exchange.is_open


def test_what_runs_again_with_nobody_there_needs_no_comments() -> None:
    """`reissue_when_away`."""
    play = opened(reissue_when_away=True)
    exchange, leg = open_call(play)
    play.leave(exchange)
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    play.open(again)
    play.advance(30)
    play.send(again, event(result(again.id)))

    back = play.get(exchange.last_id)

    assert b"keepalive" not in back.body
    assert back.answer["id"] == 5


@pytest.mark.parametrize("is_json", [True, False])
def test_what_a_client_that_cannot_come_back_was_owed_is_dropped(is_json: bool) -> None:
    """It was given no id."""
    play = opened()
    exchange = play.call()
    leg = play.leg("tools/call")
    play.leave(exchange)

    if is_json:
        play.answer(leg, result(leg.id))
    else:
        play.open(leg)
        play.send(leg, event(result(leg.id)))

    assert exchange.status is None
    assert repr(play.session) == "<Session live g1, 0 streams>"


@pytest.mark.parametrize("has_left", [True, False])
def test_an_answer_that_is_passed_on_and_fails_is_cut(has_left: bool) -> None:
    """There is no place for an error in it."""
    play = opened(max_json_buffer_bytes=100)
    exchange = play.call()
    leg = play.leg("tools/call")
    play.feed(LegAnswered(leg.number, 200, JSON))
    play.feed(LegRead(leg.number, b'{"jsonrpc":"2.0","id":%d,"result":{"x":"%b' % (leg.id, b"x" * 200)))
    if has_left:
        play.leave(exchange)

    play.feed(DrainBegun(play.now + 1))
    play.delete()
    play.refuse(play.leg("DELETE"), 200)

    assert exchange.is_aborted is not has_left
    assert not leg.is_open


def test_a_client_that_leaves_inside_a_large_event_ends_the_run() -> None:
    """Nothing of it was kept: what comes back gets an error."""
    play, exchange, leg = streaming()
    at = exchange.last_id
    pour(play, leg, id_last(leg)[:-40])
    play.leave(exchange)

    assert not leg.is_open
    assert play.get(at).answer["error"]["data"]["reason"] == "event_too_large"


def test_a_call_that_is_cancelled_while_it_waits_for_a_heal_ends_at_once() -> None:
    """Nothing of it runs that could still answer."""
    play = opened()
    exchange, leg = open_call(play)
    play.cut(leg)

    play.post(cancel(5))
    play.advance(0.1)

    assert (exchange.is_open, exchange.is_aborted) == (False, False)
    assert exchange.answers == []
