"""Answers that are a body: kept until they are whole, or passed on as they come (R34, W16)."""

from __future__ import annotations

import json

import pytest

from epochgate.core.commands import Drifted
from epochgate.core.events import (
    LegAnswered,
    LegEnd,
    LegRead,
)
from epochgate.core.policy import Stamps
from tests.core.messages import Json, error, log, request, result
from tests.core.playbook import JSON, MARK, Play, opened, quiet
from tests.core.scenes import BR, open_call
from tests.core.sides import Exchange, Upstream


def begun(**settings: Json) -> tuple[Play, Exchange, Upstream]:
    play = opened(**settings)
    exchange = play.call()
    leg = play.leg("tools/call")
    play.feed(LegAnswered(leg.number, 200, (*JSON, (b"X-Own", b"1"))))
    return play, exchange, leg


@pytest.mark.parametrize("is_id_last", [False, True])
def test_an_answer_above_the_buffer_is_passed_on_with_its_id_put_back(is_id_last: bool) -> None:
    """By a scanner that knows the top level (R34, R36)."""
    play, exchange, leg = begun(max_json_buffer_bytes=1_000)
    text = b'{"text":"' + b"x" * 5_000 + b'","id":%d}' % leg.id
    members = [b'"id":%d' % leg.id, b'"result":' + text]
    raw = b'{"jsonrpc":"2.0",' + b",".join(reversed(members) if is_id_last else members) + b"}"

    for at in range(0, len(raw), 700):
        play.feed(LegRead(leg.number, raw[at : at + 700]))
    assert exchange.status == 200
    assert exchange.is_open
    play.end(leg, LegEnd.CLEAN)

    assert exchange.json["id"] == 5
    assert exchange.json["result"]["id"] == leg.id  # not at the top: left alone
    assert not exchange.is_open
    assert (b"X-Own", b"1") in exchange.headers


def test_an_answer_above_the_buffer_that_breaks_is_aborted() -> None:
    """G3's named exception: it must not look whole (R34)."""
    play, exchange, leg = begun(max_json_buffer_bytes=1_000)
    play.feed(LegRead(leg.number, b'{"jsonrpc":"2.0","result":"' + b"x" * 5_000))

    play.cut(leg)

    assert exchange.is_aborted
    assert play.judged == [("upstream", "fail", "event_too_large")]
    assert play.runs == 1


def test_a_json_answer_on_an_sse_leg_becomes_one_event() -> None:
    """The leg is committed (R34)."""
    play = opened()
    exchange, leg = open_call(play)
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")

    play.answer(again, b'{\n "jsonrpc": "2.0",\n "id": %d,\n "result": {}\n}' % again.id)

    assert exchange.answer["id"] == 5
    assert not exchange.is_open
    assert exchange.events[-1].id is not None


@pytest.mark.parametrize("status", [400, 401, 403, 500, 503])
def test_another_status_on_an_sse_leg_becomes_an_error_that_names_it(status: int) -> None:
    """There is no second status line (R34)."""
    play = opened()
    exchange, leg = open_call(play)
    play.cut(leg)
    play.heal()

    play.refuse(play.leg("tools/call"), status)

    assert exchange.answer["id"] == 5
    assert exchange.answer["error"]["data"]["status"] == status
    assert not exchange.is_open


# --- an answer that is passed on as it comes, and then --------------------------------------------


def test_a_stamped_request_answered_by_events_in_a_coding_gets_an_error() -> None:
    play = opened()
    exchange = play.call()

    play.open(play.leg("tools/call"), (BR,))

    assert exchange.answer["error"]["data"]["reason"] == "content_coding"


def batch(**settings: Json) -> tuple[Play, Exchange, Upstream]:
    """Two requests in one POST, answered by JSON; nothing of the answer's body came yet."""
    play = opened(**settings)
    exchange = play.post([request("tools/list", id=1), request("ping", id=2)])
    leg = play.leg("batch")
    play.feed(LegAnswered(leg.number, 200, JSON))
    return play, exchange, leg


def both(leg: Upstream, text: str = "") -> list[Json]:
    one, two = (member["id"] for member in leg.json)
    return [result(one, {"text": text}), result(two)]


def test_a_batch_above_the_buffer_is_kept_up_to_the_limit_of_an_event() -> None:
    """More than one id would have to be put back on the way."""
    play, exchange, leg = batch(max_json_buffer_bytes=1_000, max_event_bytes=10_000)
    play.feed(LegRead(leg.number, json.dumps(both(leg, "x" * 5_000)).encode()))
    assert exchange.status is None

    play.end(leg, LegEnd.CLEAN)

    assert [one["id"] for one in exchange.json] == [1, 2]


def test_a_batch_above_the_limit_of_an_event_is_an_error_for_each() -> None:
    play, exchange, leg = batch(max_json_buffer_bytes=1_000, max_event_bytes=10_000)

    play.feed(LegRead(leg.number, json.dumps(both(leg, "x" * 20_000)).encode()))

    assert [one["error"]["data"]["reason"] for one in exchange.json] == ["event_too_large"] * 2
    assert not leg.is_open


def test_what_is_left_of_a_batch_is_not_passed_on_past_the_errors_of_the_rest() -> None:
    """A member that may not run again has its error in the one array (R41)."""
    play = opened(never_reissue=frozenset({"pay"}), max_json_buffer_bytes=1_000, max_event_bytes=10_000)
    exchange = play.post([request("tools/call", {"name": "pay"}, id=1), request("tools/list", id=2)])
    play.cut(play.leg("batch"))
    play.heal()
    again = play.leg("batch")
    (member,) = again.json

    play.answer(again, [result(member["id"], {"text": "x" * 5_000})])

    assert sorted(one["id"] for one in exchange.json) == [1, 2]


def test_an_answer_in_a_coding_to_a_client_that_left_is_read_and_dropped() -> None:
    play = opened(stamp=Stamps.OFF)
    exchange = play.call()
    leg = play.leg("tools/call")
    play.leave(exchange)
    play.feed(LegAnswered(leg.number, 200, (*JSON, BR)))
    play.feed(LegRead(leg.number, b"\x0b\x02"))

    play.end(leg, LegEnd.CLEAN)

    assert exchange.status is None
    assert not play.reasons


@pytest.mark.parametrize(("cut", "is_whole"), [(None, True), (-1, False)])
def test_a_body_that_ends_with_its_connection_is_whole_if_it_is_json(cut: int | None, is_whole: bool) -> None:
    play, exchange, leg = begun()
    play.feed(LegRead(leg.number, json.dumps(result(leg.id)).encode()[:cut]))

    play.end(leg, LegEnd.CLOSED)

    assert (exchange.status == 200) is is_whole
    assert play.has_leg("initialize") is not is_whole


def test_a_refusal_that_ends_with_its_connection_stands_in_its_status() -> None:
    play = opened()
    exchange = play.call()
    leg = play.leg("tools/call")
    play.feed(LegAnswered(leg.number, 500, ((b"Content-Type", b"text/plain"),)))
    play.feed(LegRead(leg.number, b"broken of"))

    play.end(leg, LegEnd.CLOSED)

    assert (exchange.status, exchange.body) == (500, b"broken of")


def test_a_404_that_names_no_method_is_the_loss_of_the_session() -> None:
    play = opened()
    quiet(play)
    exchange = play.call()

    play.refuse(play.leg("tools/call"), 404)

    assert play.has_leg("initialize")
    assert exchange.status is None


def test_a_json_batch_of_another_epoch_with_more_than_answers_is_a_restart() -> None:
    """Its log shows that the run of another session is in it."""
    play, exchange, leg = batch(epoch=1)

    play.feed(LegRead(leg.number, json.dumps([log("x", 2), *both(leg)]).encode()))
    play.end(leg, LegEnd.CLEAN)

    assert play.reasons == ["epoch_mismatch"]
    assert exchange.status is None


def test_a_log_inside_a_json_batch_is_relayed_with_the_answers() -> None:
    play, exchange, leg = batch()

    play.feed(LegRead(leg.number, json.dumps([log("x"), *both(leg)]).encode()))
    play.end(leg, LegEnd.CLEAN)

    assert exchange.json[0] == log("x")
    assert [one["id"] for one in exchange.json[1:]] == [1, 2]


def test_a_json_batch_that_answers_one_of_two_answers_neither() -> None:
    """What is missing would never come: the outcome of both is unknown."""
    play, exchange, leg = batch()

    play.feed(LegRead(leg.number, json.dumps(both(leg)[:1]).encode()))
    play.end(leg, LegEnd.CLEAN)

    assert [(one["id"], one["error"]["data"]["reason"]) for one in exchange.json] == [
        (1, "no_answer"),
        (2, "no_answer"),
    ]


def test_a_json_answer_under_an_id_that_nobody_gave_is_dropped() -> None:
    play, exchange, leg = begun()

    play.feed(LegRead(leg.number, json.dumps(result(99)).encode()))
    play.end(leg, LegEnd.CLEAN)

    assert exchange.json["error"]["data"]["reason"] == "no_answer"
    assert play.dropped == ["foreign"]


@pytest.mark.parametrize("of", [0, 1, None])
def test_a_refusal_that_names_a_request_names_it_as_the_client_knows_it(of: int | None) -> None:
    play, exchange, leg = batch()
    play.legs[leg.number].is_open = True
    id = 99 if of is None else leg.json[of]["id"]
    play.feed(LegAnswered(leg.number, 400, JSON))
    play.feed(LegRead(leg.number, json.dumps(error(id, -32602)).encode()))

    play.end(leg, LegEnd.CLEAN)

    assert (exchange.status, exchange.json) == (400, error(99 if of is None else of + 1, -32602))


def test_a_json_answer_of_another_epoch_is_the_first_of_a_session_that_was_made_anew() -> None:
    """Nothing came before it that could be of another run: it is relayed, and the client told."""
    play = opened(epoch=1)
    exchange = play.call()
    leg = play.leg("tools/call")

    play.answer(leg, result(leg.id, epoch=2))

    assert exchange.json["result"]["_meta"][MARK]["reason"] == "drift"
    assert play.facts(Drifted) == [Drifted(2)]


def test_an_error_of_a_batch_member_that_was_not_run_again_stands_before_the_answers() -> None:
    """Nothing could be told before: the answer was not begun."""
    play = opened(never_reissue=frozenset({"pay"}))
    exchange = play.post([request("tools/call", {"name": "pay"}, id=1), request("tools/list", id=2)])
    play.cut(play.leg("batch"))
    play.heal()
    again = play.leg("batch")

    play.answer(again, [result(again.json[0]["id"])])

    assert [(one["id"], "error" in one) for one in exchange.json] == [(1, True), (2, False)]


def test_a_json_batch_on_an_sse_leg_is_one_event_that_holds_it_whole() -> None:
    """And one answer is one event that holds the answer."""
    play = opened()
    exchange = play.post([request("tools/list", id=1), request("ping", id=2)])
    leg = play.leg("batch")
    play.open(leg)
    play.cut(leg)
    play.heal()
    again = play.leg("batch")

    play.answer(again, both(again))

    (answers,) = exchange.messages
    assert [one["id"] for one in answers] == [1, 2]
