"""What comes back on the upstream legs of streams: heads, bodies, ends."""

from __future__ import annotations

import json

import pytest

from epochgate.core.commands import UpstreamFailed
from epochgate.core.events import LegAnswered, LegCompleted, LegEnd, LegRead
from epochgate.core.http import Headers
from epochgate.core.policy import Stamps
from tests.core.messages import event, log, progress, result, retry
from tests.core.playbook import JSON, MARK, UNPROVEN, Play, opened, quiet
from tests.core.scenes import (
    BR,
    EPOCH,
    broken,
    check_rerun,
    open_call,
    rerun,
    resume,
)
from tests.core.sides import Upstream


@pytest.mark.parametrize("how", [LegEnd.NOT_SENT, LegEnd.SILENT, LegEnd.BROKEN])
def test_an_unreachable_server_is_asked_again(how: LegEnd) -> None:
    """A retry after a second would have resumed it (R23)."""
    play, exchange = broken()
    post = play.sent("tools/call")[0]
    play.end(play.leg("GET"), how)
    play.advance(1)

    resume(play, (result(post.id, epoch=EPOCH), 5))

    assert exchange.answer["id"] == 5
    assert play.runs == 1


def test_another_epoch_in_the_header_of_the_resume() -> None:
    """Each carrier seen at `initialize` must agree wherever it is stated (R8)."""
    play, exchange = broken(epoch_header=b"e1")

    resume(play, headers=((b"Mcp-Session-Epoch", b"e2"),))
    rerun(play)

    check_rerun(play, exchange, "epoch_mismatch")


def test_a_resume_answered_in_a_coding_is_a_restart() -> None:
    play, _ = broken()

    play.open(play.leg("GET"), (BR,))

    assert play.reasons == ["not_resumable"]


def test_a_break_in_a_json_answer_of_1_megabyte_falls_under_the_policy() -> None:
    """Nothing of it was written (R34)."""
    play = opened()
    exchange = play.call()
    leg = play.leg("tools/call")
    play.feed(LegAnswered(leg.number, 200, JSON))
    play.feed(LegRead(leg.number, b'{"jsonrpc":"2.0","id":%d,"result":{"text":"' % leg.id))
    play.feed(LegRead(leg.number, b"x" * ((1 << 20) - 100)))
    assert exchange.status is None
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id, {"run": 2}))

    assert exchange.json["result"]["run"] == 2
    assert exchange.json["result"]["_meta"][MARK]["reissued"] is True


def whole(play: Play, leg: Upstream, status: int, headers: Headers, body: bytes) -> None:
    """The server's answer came in one read."""
    play.feed(LegCompleted(leg.number, status, headers, body))
    leg.is_open = False


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_that_came_in_one_read_is_the_servers_with_its_status(status: int) -> None:
    play = opened()
    exchange = play.call()
    leg = play.leg("tools/call")

    whole(play, leg, status, JSON, json.dumps(result(leg.id)).encode())

    assert (exchange.status, exchange.json) == (status, result(5))


def test_an_answer_in_the_name_of_another_session_is_not_believed() -> None:
    """Whatever a balancer put there: this call was sent to `up-1`."""
    play = opened()
    exchange = play.call()
    leg = play.leg("tools/call")

    whole(play, leg, 200, (*JSON, (b"Mcp-Session-Id", b"up-9")), json.dumps(result(leg.id)).encode())

    assert play.reasons == ["session_replaced"]
    assert exchange.status is None


def test_in_one_read_too_what_is_no_stream_for_a_listener_is_an_answer() -> None:
    """405: the server offers no standalone stream."""
    play = opened()
    exchange = play.get()

    whole(play, play.leg("GET"), 405, (), b"")

    assert exchange.status == 405


def test_what_is_passed_on_in_a_coding_comes_as_it_came_and_ends_where_it_broke() -> None:
    """Without stamps the client's own id stands in it."""
    play = opened(stamp=Stamps.OFF)
    exchange = play.call()
    leg = play.leg("tools/call")
    play.feed(LegAnswered(leg.number, 200, (*JSON, BR)))
    play.feed(LegRead(leg.number, b"\x0b\x02"))

    play.cut(leg)

    assert exchange.body == b"\x0b\x02"
    assert exchange.is_aborted


def test_a_second_run_that_is_answered_by_events_goes_on_in_the_answer_that_was_begun() -> None:
    play, exchange = broken()
    play.refuse(play.leg("GET"), 404)
    play.heal(epoch=8)
    again = play.leg("tools/call")
    play.open(again)
    play.send(again, event(result(again.id, epoch=8)))

    assert exchange.answer["id"] == 5
    assert not exchange.is_open


@pytest.mark.parametrize("status", [401, 403])
def test_a_resume_that_is_refused_to_a_client_that_waits_leaves_its_call_unknown(status: int) -> None:
    """Never a heal: the session is there, only not for these credentials."""
    play, exchange = broken()

    play.refuse(play.leg("GET"), status)

    assert exchange.answer["error"]["code"] == -32050
    assert exchange.answer["error"]["data"]["reason"] == "unauthorized"
    assert not play.has_leg("initialize")


def test_comments_of_the_server_are_no_sign_that_it_works() -> None:
    """They reach no client, and the minute goes on."""
    play = opened()
    exchange, leg = open_call(play)
    before = exchange.body
    play.advance(50)
    play.send(leg, b": still here\n\n")
    assert exchange.body == before or exchange.body == before + b": keepalive\n\n" * 2
    play.advance(11)

    assert play.has_leg("ping")


def test_an_event_is_relayed_when_its_last_byte_is_there() -> None:
    play = opened()
    exchange, leg = open_call(play)
    raw = event(result(leg.id))

    play.send(leg, raw[:30])
    assert exchange.answers == []
    play.send(leg, raw[30:])

    assert exchange.answer == result(5)


def test_an_event_too_large_to_be_kept_passes_as_it_comes() -> None:
    play = opened(max_event_bytes=1_000)
    exchange, leg = open_call(play)
    raw = event(log("x" * 5_000))

    play.send(leg, raw[:2_000])
    assert b"x" * 1_500 in exchange.body
    play.send(leg, raw[2_000:])

    assert exchange.messages[-1] == log("x" * 5_000)


@pytest.mark.parametrize(("last", "is_over"), [("answer", True), ("progress", False)])
def test_the_end_of_a_leg_ends_its_last_event_too(last: str, is_over: bool) -> None:
    """A CR behind a line might be followed by its LF; at the end of the leg it was a blank line."""
    play = opened()
    exchange, leg = open_call(play)
    message = result(leg.id) if last == "answer" else progress(leg.token, 2)
    play.send(leg, event(message)[:-1] + b"\r")
    before = len(exchange.messages)

    play.cut(leg)

    assert len(exchange.messages) == before + 1
    assert (exchange.answers == [result(5)]) is is_over
    assert play.reasons == ([] if is_over else ["no_epoch_captured"])


def test_a_call_of_which_no_byte_was_taken_is_sent_again_in_its_session() -> None:
    play = opened()
    exchange = play.call()
    play.unreachable(play.leg("tools/call"))
    assert play.runs == 1
    play.advance(0.2)
    play.unreachable(play.leg("tools/call"))
    play.advance(0.3)
    again = play.leg("tools/call")
    assert again.session_id == b"up-1"

    play.answer(again, result(again.id))

    assert exchange.json == result(5)


def test_a_server_that_takes_no_byte_for_ten_seconds_has_lost_the_call() -> None:
    """It did not run: whether it may run twice is no question."""
    play = opened(never_reissue=frozenset({"work"}))
    exchange = play.call()
    while play.has_leg("tools/call"):
        play.unreachable(play.leg("tools/call"))
        play.advance(1)
    assert play.now >= 1_010
    assert play.reasons == ["upstream_lost"]

    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))

    assert exchange.json["result"]["_meta"][MARK]["reissued"] is False


def test_a_server_that_has_left_its_place_is_not_waited_for() -> None:
    """Nobody will answer there: the session is healed at once, and the call, which did not run, goes up."""
    play = opened(never_reissue=frozenset({"work"}))
    exchange = play.call()
    began = play.now

    play.end(play.leg("tools/call"), LegEnd.GONE)
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))

    assert play.now == began
    assert play.reasons == ["upstream_lost"]
    assert again.session_id == b"up-2"
    assert exchange.json["result"]["_meta"][MARK]["reissued"] is False
    assert not play.sent("DELETE")  # there is nobody to tell that the old session is over


def test_a_resume_from_a_server_that_has_left_is_a_restart_at_once() -> None:
    """Whether the call ran is unknown, so the policy decides."""
    play, exchange = broken()
    began = play.now

    play.end(play.leg("GET"), LegEnd.GONE)
    rerun(play)

    assert play.now == began
    check_rerun(play, exchange, "upstream_lost")


def test_a_refusal_that_comes_in_parts_is_passed_when_it_is_whole() -> None:
    play = opened()
    exchange = play.call()
    leg = play.leg("tools/call")
    play.feed(LegAnswered(leg.number, 500, ((b"Content-Type", b"text/plain"),)))
    play.feed(LegRead(leg.number, b"broken "))
    play.feed(LegRead(leg.number, b"off"))
    assert exchange.body == b""

    play.end(leg, LegEnd.CLEAN)

    assert (exchange.status, exchange.body) == (500, b"broken off")


def test_the_head_of_an_answer_is_a_sign_of_life() -> None:
    """A 404 right behind it may be that of another replica: one ping tells."""
    play = opened()
    quiet(play)
    open_call(play)
    play.call(id=6)

    play.refuse(play.leg("tools/call"), 404)

    assert play.has_leg("ping")
    assert not play.has_leg("initialize")


def test_a_poll_proves_nothing_where_no_epoch_was_stated() -> None:
    """It is accepted for want of better, and the answer says so."""
    play = opened()
    exchange, leg = open_call(play)
    play.send(leg, event(progress(leg.token, 2), 1), retry(100))
    play.end(leg, LegEnd.CLEAN)
    play.advance(1)

    resume(play, (result(leg.id), 2))

    assert exchange.answer["result"]["_meta"] == {UNPROVEN: True}


@pytest.mark.parametrize(
    ("how", "kind"),
    [(LegEnd.SILENT, "headers_timeout"), (LegEnd.NOT_SENT, "connect"), (LegEnd.GONE, "connect")],
)
def test_how_a_resume_failed_is_counted(how: LegEnd, kind: str) -> None:
    play, _ = broken()
    before = len(play.facts(UpstreamFailed))

    play.end(play.leg("GET"), how)

    assert [one.kind for one in play.facts(UpstreamFailed)[before:]] == [kind]


def test_a_leg_that_breaks_inside_the_last_line_end_gives_a_whole_event() -> None:
    play = opened(epoch=EPOCH)
    exchange = play.call(token=1)
    post = play.leg("tools/call")
    play.open(post)
    play.send(post, event(progress(post.token, 1, EPOCH), "a", end="\r\n").removesuffix(b"\n"))
    play.cut(post)
    resume(play, (progress(post.token, 2, EPOCH), "b"), (result(post.id, epoch=EPOCH), "c"))

    assert [one.get("params", {}).get("progress") for one in exchange.messages] == [1, 2, None]
