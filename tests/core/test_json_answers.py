"""JSON answers that break or are large, and answers on a leg that is committed to SSE (R34)."""

from __future__ import annotations

from epochgate.core.events import ClientDrained, ClientStalled, DrainBegun, LegAnswered, LegEnd, LegRead
from tests.core.messages import Json, cancel, error, event, progress, result
from tests.core.playbook import JSON, MARK, Play, opened
from tests.core.scenes import open_call
from tests.core.sides import Exchange, Upstream


def begun(**settings: Json) -> tuple[Play, Exchange, Upstream]:
    play = opened(**settings)
    exchange = play.call()
    leg = play.leg("tools/call")
    play.feed(LegAnswered(leg.number, 200, (*JSON, (b"X-Own", b"1"))))
    return play, exchange, leg


def passing() -> tuple[Play, Exchange, Upstream]:
    """A large JSON answer of which the client was written a part."""
    play, exchange, leg = begun(max_json_buffer_bytes=1_000)
    play.feed(LegRead(leg.number, b'{"jsonrpc":"2.0","id":%d,"result":"' % leg.id + b"x" * 5_000))
    assert exchange.is_open
    assert exchange.status == 200
    return play, exchange, leg


def check_not_whole(exchange: Exchange) -> None:
    """Aborted, and nothing but the answer's own bytes in it."""
    assert exchange.is_aborted
    assert exchange.body.rstrip(b"x").endswith(b'"result":"')


def test_a_json_answer_is_sent_after_its_last_byte_came() -> None:
    """A break before it falls under the policy (R34)."""
    play, exchange, leg = begun()
    raw = b'{"jsonrpc":"2.0","id":%d,"result":{}}' % leg.id
    play.feed(LegRead(leg.number, raw[:20]))
    play.feed(LegRead(leg.number, raw[20:]))
    assert exchange.status is None

    play.end(leg, LegEnd.CLEAN)

    assert exchange.json == {"jsonrpc": "2.0", "id": 5, "result": {}}


def test_a_json_answer_that_breaks_falls_under_the_policy() -> None:
    """Nothing of it was written (R34)."""
    play, exchange, leg = begun()
    play.feed(LegRead(leg.number, b'{"jsonrpc":"2.0","id":'))
    play.cut(leg)
    assert exchange.status is None

    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id, {"run": 2}))

    assert exchange.json["result"]["run"] == 2
    assert exchange.json["result"]["_meta"][MARK]["reissued"] is True


def test_an_sse_answer_of_the_second_run_to_a_client_that_has_no_head_yet() -> None:
    play, exchange, leg = begun()
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    play.open(again)
    play.send(again, event(result(again.id, {"run": 2})))

    assert exchange.answer["result"]["run"] == 2


def test_the_answer_of_a_client_that_left_is_kept_if_it_was_given_an_id() -> None:
    play = opened()
    exchange, leg = open_call(play)
    play.leave(exchange)
    play.send(leg, event(progress(leg.token, 2)), event(error(leg.id)))

    assert play.get(exchange.last_id).answer == error(5)


def test_a_passed_on_answer_that_is_cancelled_does_not_look_whole() -> None:
    play, exchange, _ = passing()
    play.post(cancel(5))
    play.advance(6)

    check_not_whole(exchange)


def test_a_passed_on_answer_that_a_delete_ends_does_not_look_whole() -> None:
    play, exchange, _ = passing()
    play.delete()
    play.refuse(play.leg("DELETE"), 200)

    check_not_whole(exchange)


def test_a_passed_on_answer_that_falls_silent_is_never_begun_again() -> None:
    """A second run in the middle of the first one's JSON would be a splice."""
    play, exchange, _ = passing()
    play.advance(61)
    play.refuse(play.leg("ping"), 404)
    if play.has_leg("initialize"):
        play.heal()

    assert play.runs == 1
    check_not_whole(exchange)


def test_a_passed_on_answer_at_the_end_of_a_drain_does_not_look_whole() -> None:
    play, exchange, _ = passing()
    play.feed(DrainBegun(play.now + 5))
    play.advance(6)

    check_not_whole(exchange)


def test_a_passed_on_answer_gets_no_keepalive() -> None:
    play, exchange, _ = passing()
    play.advance(50)

    assert b"keepalive" not in exchange.body


def test_a_client_that_leaves_a_passed_on_answer_harms_nothing() -> None:
    play, exchange, leg = passing()
    before = exchange.body
    play.leave(exchange)
    play.feed(LegRead(leg.number, b'x"}'))
    play.end(leg, LegEnd.CLEAN)

    assert exchange.body == before


def test_a_slow_client_of_a_passed_on_answer_slows_the_server() -> None:
    """G8."""
    play, exchange, leg = passing()
    play.feed(ClientStalled(exchange.number))
    assert leg.is_paused
    play.feed(ClientDrained(exchange.number))
    assert not leg.is_paused
