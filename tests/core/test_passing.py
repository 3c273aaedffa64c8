"""Events above `max_event_bytes` on a leg that never broke: passed on as they come, or broken off (R9).

Longer than most: its module is to be proven by this file alone.
"""

from __future__ import annotations

import json

import pytest

from epochgate.core import commands as do
from epochgate.core import delivery
from epochgate.core.events import DrainBegun, LegEnd
from epochgate.core.passing import EpochWatch
from tests.core.messages import Json, ask, cancel, event, log, progress, request, result
from tests.core.playbook import Play, opened
from tests.core.scenes import learn_tools, listening, texts
from tests.core.sides import Exchange, Upstream

CAP = 1_000
FILL = "x" * 5_000
CUTS = (1, 7, 900, 4_096)


def calling(*, epoch: Json = None, **settings: Json) -> tuple[Play, Exchange, Upstream]:
    """A call with its SSE answer begun; one small event of it was relayed."""
    play = opened(epoch=epoch, max_event_bytes=CAP, **settings)
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(progress(leg.token, 1, epoch), 7))
    return play, exchange, leg


def pour(play: Play, leg: Upstream, data: bytes, size: int = 900) -> None:
    """Send bytes in reads of this size, as long as the leg is read."""
    for at in range(0, len(data), size):
        if leg.is_open:
            play.send(leg, data[at : at + size])


def large(leg: Upstream, epoch: Json = None) -> Json:
    return result(leg.id, {"content": [{"type": "text", "text": FILL}]}, epoch)


def id_last(message: Json) -> bytes:
    """As the TypeScript SDK writes a response: its id stands at the end."""
    return json.dumps({"result": message["result"], "jsonrpc": "2.0", "id": message["id"]}).encode()


@pytest.mark.parametrize("size", CUTS)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("is_id_last", [False, True])
def test_a_large_answer_passes_as_it_comes_with_the_clients_id(size: int, end: str, is_id_last: bool) -> None:
    """The client's id stands in the place of the stamp wherever the server wrote it (R9)."""
    play, exchange, leg = calling()
    raw: Json = id_last(large(leg)) if is_id_last else large(leg)

    pour(play, leg, event(raw, 8, end=end) + b"\n", size)

    body = exchange.body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    data = body[body.rindex(b"data: ") + 6 :].strip()
    assert json.loads(data) == {**large(leg), "id": 5}
    assert body.count(b"\nid: 8\n") == 0
    assert body.endswith(b"\n\n")
    assert not exchange.is_open
    assert not exchange.is_aborted
    assert play.reasons == []


def test_it_is_written_before_it_is_whole() -> None:
    """What came is not held back beyond the cap (R9)."""
    play, exchange, leg = calling()
    before = len(exchange.body)

    pour(play, leg, event(large(leg))[:3_000])

    assert len(exchange.body) - before > 2_900
    assert exchange.is_open
    assert len(exchange.messages) == 1


def test_an_answer_that_gives_its_id_as_text_is_recognised() -> None:
    """Ids that come back as text with the same digits are the same (R36)."""
    play, exchange, leg = calling()

    pour(play, leg, event(large(leg) | {"id": str(leg.id)}))

    assert exchange.answer["id"] == 5


def test_events_behind_a_large_one_in_the_same_read_go_on() -> None:
    play, exchange, leg = calling()

    pour(play, leg, event(log(FILL), 8)[:-10])
    play.send(leg, event(log(FILL), 8)[-10:] + event(progress(leg.token, 2), 9) + event(result(leg.id), 10))

    assert [one.get("method", "answer") for one in exchange.messages] == [
        "notifications/progress",
        "notifications/message",
        "notifications/progress",
        "answer",
    ]
    assert exchange.answer["id"] == 5


def test_large_progress_carries_the_clients_token() -> None:
    play, exchange, leg = calling()
    message = progress(leg.token, 2)
    message["params"]["message"] = FILL

    pour(play, leg, event(message) + event(result(leg.id)))

    assert [one["params"]["progressToken"] for one in exchange.messages if "params" in one] == [1, 1]


def test_the_ids_of_the_server_are_taken_out_and_known() -> None:
    """An `id:` line may stand behind the data, and its number counts for the resume."""
    play, exchange, leg = calling(epoch=7)
    lines = b"event: message\nretry: 5\ndata: %b\nid: 8\n\n" % json.dumps(log(FILL, 7)).encode()

    pour(play, leg, lines, 1)
    play.cut(leg)

    assert b"id: 8" not in exchange.body
    assert exchange.body.count(b"retry: 5\n") == 1
    assert play.leg("GET").last_event_id == b"8"


@pytest.mark.parametrize("size", CUTS)
def test_an_upstream_that_breaks_inside_leaves_an_error_for_the_return(size: int) -> None:
    """The client's leg is broken off, so that half an event cannot look whole; -32050 follows (R9)."""
    play, exchange, leg = calling(epoch=7)
    cursor = exchange.last_id

    pour(play, leg, event(large(leg, 7), 8)[:-20], size)
    play.cut(leg)

    assert exchange.is_aborted
    assert play.judged == [("upstream", "fail", "event_too_large")]
    back = play.get(cursor)
    assert back.answer["id"] == 5
    assert back.answer["error"]["code"] == -32050
    assert back.answer["error"]["data"]["reason"] == "event_too_large"
    assert play.runs == 1


def test_a_clean_end_inside_is_a_break_too() -> None:
    play, exchange, leg = calling()

    pour(play, leg, event(large(leg))[:-20])
    play.end(leg, LegEnd.CLEAN)

    assert exchange.is_aborted


def test_another_epoch_at_the_end_breaks_it_off_and_restarts() -> None:
    """The end is held back until all of it was seen: the client never has the whole event (R3, R9)."""
    play, exchange, leg = calling(epoch=7)
    cursor = exchange.last_id
    raw = json.dumps(large(leg)["result"])[:-1] + ',"_meta":{"session_epoch":8}}'

    pour(play, leg, event(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (leg.id, raw.encode())))

    assert exchange.is_aborted
    assert exchange.answers == []
    assert play.reasons == ["epoch_mismatch"]
    back = play.get(cursor)
    play.heal(epoch=8)
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id, {"run": 2}, 8))
    assert back.answer["result"]["run"] == 2


@pytest.mark.parametrize("size", [1, 300, 900])
def test_the_captured_epoch_passes_at_any_cut(size: int) -> None:
    play, exchange, leg = calling(epoch=7)

    pour(play, leg, event(large(leg, 7)), size)

    assert exchange.answer["id"] == 5


def test_the_watch_sees_another_epoch_at_every_cut() -> None:
    raw = b'{"x":"' + b"y" * 600 + b'","_meta":{"session_epoch" : 8},"z":"' + b"y" * 600 + b'"}'
    for size in range(1, len(raw)):
        watch = EpochWatch(("session_epoch",), b"7")
        for at in range(0, len(raw), size):
            watch.feed(raw[at : at + size])
        watch.finish()
        assert watch.is_other, size


@pytest.mark.parametrize(
    ("stated", "is_other"),
    [(b'"session_epoch":7}', False), (b'"session_epoch": 71}', True), (b'"session\\u005fepoch":8}', True)],
)
def test_the_watch_compares_whole_values(stated: bytes, is_other: bool) -> None:
    watch = EpochWatch(("session_epoch",), b"7")
    watch.feed(b'{"_meta":{' + stated)
    watch.finish()

    assert watch.is_other is is_other


def test_a_foreign_answer_is_broken_off_and_the_stream_goes_on() -> None:
    """It cannot be taken back, so it must not become whole; nothing of the stream is lost (R30)."""
    play, exchange, leg = calling()
    cursor = exchange.last_id

    pour(play, leg, event(large(leg) | {"id": 99}))

    assert exchange.is_aborted
    assert play.dropped == ["foreign"]
    back = play.get(cursor)
    play.send(leg, event(result(leg.id)))
    assert back.answer["id"] == 5


def test_foreign_progress_is_broken_off() -> None:
    play, exchange, leg = calling()
    message = progress(99, 2)
    message["params"]["message"] = FILL

    pour(play, leg, event(message))

    assert exchange.is_aborted
    assert play.dropped == ["foreign"]


def test_while_nobody_reads_the_server_is_not_read_on() -> None:
    """It cannot be kept: its client is waited for (R9, R13)."""
    play, exchange, leg = calling()
    play.leave(exchange)

    pour(play, leg, event(large(leg))[:1_800])
    assert leg.is_paused
    back = play.get(exchange.last_id)
    assert not leg.is_paused
    pour(play, leg, event(large(leg))[1_800:])

    assert back.answer["id"] == 5


def test_a_client_that_leaves_inside_gets_an_error_when_it_returns() -> None:
    """Nothing of the event was kept that could come again (R9)."""
    play, exchange, leg = calling()
    pour(play, leg, event(large(leg))[:3_000])

    play.leave(exchange)

    assert not leg.is_open
    assert play.get(exchange.last_id).answer["error"]["data"]["reason"] == "event_too_large"


def test_a_newer_leg_inside_breaks_the_older_one_off() -> None:
    """The older must not end cleanly in the middle of an event (R9, R35)."""
    play, exchange, leg = calling()
    pour(play, leg, event(large(leg))[:3_000])

    back = play.get(exchange.last_id)

    assert exchange.is_aborted
    assert back.answer["error"]["data"]["reason"] == "event_too_large"


def test_behind_a_large_event_older_cursors_lead_to_an_error() -> None:
    """It was not kept, so a replay from before it would have a hole (R9, R13)."""
    play, exchange, leg = calling()
    before = exchange.last_id
    pour(play, leg, event(log(FILL)) + event(progress(leg.token, 2)))
    play.leave(exchange)

    assert play.get(exchange.last_id).is_open
    assert play.get(before).answer["error"]["data"]["reason"] == "expired"


def test_a_cancelled_call_inside_is_broken_off_when_its_grace_is_over() -> None:
    play, exchange, leg = calling()
    pour(play, leg, event(large(leg))[:3_000])

    play.post(cancel(5))
    play.advance(5.1)

    assert exchange.is_aborted
    assert not leg.is_open


def test_no_comment_stands_inside() -> None:
    play, exchange, leg = listening(max_event_bytes=CAP)
    pour(play, leg, event(log(FILL))[:3_000])

    play.advance(30)
    pour(play, leg, event(log(FILL))[3_000:])

    assert b": keepalive" not in exchange.body
    assert texts(exchange) == [FILL]


def test_a_message_of_ours_follows_the_event_under_way() -> None:
    """A commit tells of changed lists; on the leg of an event under way that waits for its end."""
    play, exchange, leg = listening(max_event_bytes=CAP)
    pour(play, leg, event(log(FILL))[:3_000])
    standalone = play.session.standalone
    assert standalone is not None

    delivery.deliver_message(play.session, standalone, b'{"method":"notifications/tools/list_changed"}')
    pour(play, leg, event(log(FILL))[3_000:])

    assert texts(exchange) == [FILL, "notifications/tools/list_changed"]


def test_a_heal_breaks_a_standalone_leg_off_inside_an_event() -> None:
    """Its place is taken by a stream of the new session, which the next GET gets (R9, R12)."""
    play, exchange, leg = listening(max_event_bytes=CAP)
    pour(play, leg, event(log(FILL))[:3_000])
    play.advance(6)
    call = play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.refuse(play.leg("ping"), 404)

    play.heal()

    assert exchange.is_aborted
    assert not leg.is_open
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    assert call.answer["id"] == 5


def test_a_standalone_leg_that_breaks_inside_is_reopened() -> None:
    """The gap is counted; a standalone stream never fails (R21)."""
    play, exchange, leg = listening(max_event_bytes=CAP)
    pour(play, leg, event(log(FILL))[:3_000])

    play.cut(leg)
    assert exchange.is_aborted
    play.advance(1.1)
    play.open(play.leg("GET"))
    back = play.get()
    play.send(play.leg("GET"), event(log("again")))

    assert texts(back) == ["again"]
    assert play.counted == ["standalone_gaps"]


def test_a_large_notification_passes_on_the_standalone_stream() -> None:
    play, exchange, leg = listening(max_event_bytes=CAP)

    pour(play, leg, event(log(FILL)) + event(log("small")))

    assert texts(exchange) == [FILL, "small"]


@pytest.mark.parametrize(
    "message",
    [ask(0) | {"params": {"message": FILL}}, cancel(0) | {"fill": FILL}, {"fill": FILL}],
    ids=["a question", "a cancel", "no message"],
)
def test_what_cannot_be_given_in_parts_is_an_error(message: Json) -> None:
    """Ids of questions are mapped, which needs the whole of them (R9, R19)."""
    play, exchange, leg = calling()

    pour(play, leg, event(message))

    assert exchange.answer["error"]["data"]["reason"] == "event_too_large"
    assert not leg.is_open


def test_a_line_that_is_no_data_is_not_held_for_ever() -> None:
    play, exchange, leg = calling()

    pour(play, leg, b'data: {"jsonrpc":"2.0","id":%d,"result":{' % leg.id + b" " * CAP + b"}}\n: ")
    pour(play, leg, b"x" * 70_000)

    assert exchange.is_aborted
    assert play.judged == [("upstream", "fail", "event_too_large")]


def test_an_answer_that_must_carry_a_mark_does_not_pass() -> None:
    """The answer of a second run is marked, which needs the whole of it (R5)."""
    play, exchange, leg = calling()
    play.cut(leg)
    play.heal()
    leg = play.leg("tools/call")
    play.open(leg)

    pour(play, leg, event(large(leg)))

    assert exchange.answer["error"]["data"]["reason"] == "event_too_large"


def test_a_large_answer_to_a_call_leaves_state_behind() -> None:
    """As every answered call of a tool that is not read-only does (R21)."""
    play = opened(max_event_bytes=CAP)
    learn_tools(play, {"name": "work", "annotations": {"destructiveHint": False}})
    play.call()
    leg = play.leg("tools/call")
    play.open(leg)
    pour(play, leg, event(large(leg)))
    play.advance(6)

    exchange = play.call(id=6)
    play.refuse(play.leg("tools/call"), 404)

    assert exchange.status == 404


def test_a_batch_does_not_pass_in_parts() -> None:
    play = opened(max_event_bytes=CAP)
    exchange = play.post([request("ping", id=1), request("ping", id=2)])
    leg = play.leg("batch")
    play.open(leg)

    pour(play, leg, event(result(1, {"fill": FILL})))

    assert {one["error"]["data"]["reason"] for one in exchange.answers} == {"event_too_large"}


def test_a_restart_before_it_in_the_same_read_is_what_counts() -> None:
    play, exchange, leg = calling(epoch=7)

    play.send(leg, event(progress(leg.token, 2, 8), 8) + event(large(leg, 8))[:3_000])

    assert play.reasons == ["epoch_mismatch"]
    assert not exchange.is_aborted


def test_a_session_that_ends_inside_breaks_the_leg_off() -> None:
    play, exchange, leg = calling()
    pour(play, leg, event(large(leg))[:3_000])

    play.delete()
    play.answer(play.leg("DELETE"), b"")

    assert exchange.is_aborted


def test_a_drain_breaks_only_standalone_legs_off() -> None:
    """Owed answers have their time (W10)."""
    play, exchange, leg = calling()
    pour(play, leg, event(large(leg))[:3_000])
    play.feed(DrainBegun(play.now + 20))
    pour(play, leg, event(large(leg))[3_000:])

    assert exchange.answer["id"] == 5


def test_a_drain_breaks_a_standalone_leg_off_inside_an_event() -> None:
    play, exchange, leg = listening(max_event_bytes=CAP)
    pour(play, leg, event(log(FILL))[:3_000])

    play.feed(DrainBegun(play.now + 20))

    assert exchange.is_aborted


def test_a_half_closed_client_is_not_probed_inside_an_event() -> None:
    """A comment there would be part of the event."""
    play, _, leg = calling()
    pour(play, leg, event(log(FILL)))

    probes = [step.probe for step in play.steps if isinstance(step, (do.OpenAnswer, do.Probe))]
    assert probes == [b": keepalive\n\n", b"", b": keepalive\n\n"]


def test_nor_inside_a_body_that_is_passed_on() -> None:
    play = opened(max_json_buffer_bytes=CAP)
    play.call()
    leg = play.leg("tools/call")
    play.answer(leg, large(leg))

    assert [step.probe for step in play.facts(do.OpenAnswer)] == [b""]
