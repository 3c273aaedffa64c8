"""The upstream leg breaks: a resume is proven, or the call is run again and says so (G1, G3, G7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from epochgate.core.events import LegEnd
from tests.core.messages import Json, event, log, progress, result
from tests.core.playbook import JSON, MARK, Play, opened
from tests.core.scenes import EPOCH, broken, check_rerun, rerun, resume
from tests.core.sides import Upstream

Fault = Callable[[Play, Upstream], None]


def _message(*events: tuple[Callable[[Upstream], Json], Json]) -> Fault:
    def fault(play: Play, post: Upstream) -> None:
        resume(play, *[(make(post), id) for make, id in events])

    return fault


def _status(status: int, body: bytes = b"") -> Fault:
    def fault(play: Play, _post: Upstream) -> None:
        play.refuse(play.leg("GET"), status, body)

    return fault


def _headers(*headers: tuple[bytes, bytes]) -> Fault:
    def fault(play: Play, _post: Upstream) -> None:
        resume(play, headers=headers)

    return fault


def _step(done: float, epoch: Json) -> Callable[[Upstream], Json]:
    return lambda post: progress(post.token, done, epoch)


def _three(*events: bytes) -> Fault:
    def fault(play: Play, _post: Upstream) -> None:
        for _ in range(3):
            leg = play.leg("GET")
            play.open(leg)
            if events:
                play.send(leg, *events)
            play.end(leg, LegEnd.CLEAN)
            play.advance(1)

    return fault


def _json_answer(play: Play, post: Upstream) -> None:
    play.answer(play.leg("GET"), result(post.id), headers=JSON)


FAULTS: list[tuple[str, Fault]] = [
    ("epoch_mismatch", _message((_step(4, EPOCH + 1), 5))),
    ("epoch_mismatch", _message((_step(4, str(EPOCH)), 5))),
    ("epoch_mismatch", _message((_step(4, EPOCH), 5), (_step(5, EPOCH + 1), 6))),
    ("no_epoch_on_event", _message((_step(4, None), 5))),
    ("no_epoch_on_event", _message((_step(4, EPOCH), 5), (_step(5, None), 6))),
    ("event_id_gap", _message((_step(5, EPOCH), 6))),
    ("event_id_gap", _message((_step(4, EPOCH), 5), (_step(6, EPOCH), 7))),
    ("event_id_reset", _message((_step(4, EPOCH), 1))),
    ("event_id_reset", _message((_step(9, EPOCH), 4))),
    ("foreign_message", _message((lambda _: result(1234, epoch=EPOCH), 5))),
    ("foreign_message", _message((lambda _: progress("other", 1, EPOCH), 5))),
    ("unproven_request", _message((lambda _: {"jsonrpc": "2.0", "id": 0, "method": "roots/list"}, 5))),
    ("session_gone", _status(404)),
    ("session_gone", _status(400, b'{"error":{"code":-32000,"message":"No valid session ID provided"}}')),
    ("cursor_unknown", _status(400)),
    ("not_resumable", _status(405)),
    ("not_resumable", _status(204)),
    ("not_resumable", _status(500)),
    ("not_resumable", _json_answer),
    ("session_replaced", _headers((b"Mcp-Session-Id", b"up-9"))),
    ("empty_resume", _three()),
    ("empty_resume", _three(b": ping\n\n", b"id: 5\ndata: \n\n")),
]


@pytest.mark.parametrize("how", [LegEnd.BROKEN, LegEnd.CLEAN])
def test_equal_epoch_and_contiguous_ids_go_on_as_one_run(how: LegEnd) -> None:
    """The headers of a resume have a limit (W6)."""
    play = opened(epoch=EPOCH)
    exchange = play.call(token=1)
    post = play.leg("tools/call")
    play.open(post)
    for step in range(4):
        play.send(post, event(progress(post.token, step, EPOCH), step + 1))
    play.end(post, how)

    leg = play.leg("GET")
    assert (leg.session_id, leg.last_event_id, leg.within) == (b"up-1", b"4", 5.0)
    resume(play, (progress(post.token, 4, EPOCH), 5), (result(post.id, epoch=EPOCH), 6))

    assert [one.get("params", {}).get("progress") for one in exchange.messages] == [0, 1, 2, 3, 4, None]
    assert exchange.answer == result(5, epoch=EPOCH)
    assert MARK not in exchange.answer["result"]["_meta"]
    assert play.judged == [("upstream", "resume", "epoch_match")]
    assert (play.runs, len(play.sent("initialize"))) == (1, 1)


def test_ids_that_are_not_comparable_do_not_stand_in_the_way() -> None:
    """Nothing is concluded from them (R31)."""
    play, exchange = broken(ids=("f3a", "09c", "77b", "1d2"))
    post = play.sent("tools/call")[0]
    assert play.leg("GET").last_event_id == b"1d2"

    resume(play, (result(post.id, epoch=EPOCH), "ab0"))

    assert exchange.answer["id"] == 5
    assert play.judged == [("upstream", "resume", "epoch_match")]


def test_a_header_that_states_the_epoch_proves_a_stamped_message() -> None:
    """It satisfies the epoch check (R7)."""
    play = opened(epoch_header=b"e1")
    exchange = play.call(token=1)
    post = play.leg("tools/call")
    play.open(post, ((b"Mcp-Session-Epoch", b"e1"),))
    play.send(post, event(progress(post.token, 1), 1))
    play.cut(post)

    resume(play, (result(post.id), 2), headers=((b"Mcp-Session-Epoch", b"e1"),))

    assert exchange.answer["id"] == 5
    assert play.judged == [("upstream", "resume", "epoch_match")]


@pytest.mark.parametrize("status", [409, 429, 502, 503, 504])
def test_a_busy_server_is_asked_again(status: int) -> None:
    """The trace: a retry after a second would have resumed it (R23)."""
    play, exchange = broken()
    post = play.sent("tools/call")[0]
    for _ in range(3):
        play.refuse(play.leg("GET"), status)
        assert not play.has_leg("GET")
        play.advance(1)

    resume(play, (result(post.id, epoch=EPOCH), 5))

    assert exchange.answer["id"] == 5
    assert play.runs == 1


@pytest.mark.parametrize(("reason", "fault"), FAULTS)
def test_a_resume_that_proves_nothing_is_a_restart(reason: str, fault: Fault) -> None:
    play, exchange = broken()

    fault(play, play.sent("tools/call")[0])
    rerun(play)

    check_rerun(play, exchange, reason)


def test_events_before_the_break_do_not_count_for_an_empty_resume() -> None:
    play = opened(epoch=EPOCH)
    exchange = play.call(token=1)
    post = play.leg("tools/call")
    play.open(post)
    play.send(post, event(log({"id": "looked at one by one"}, EPOCH), 1))
    play.cut(post)

    _three()(play, post)
    rerun(play)

    check_rerun(play, exchange, "empty_resume")


def test_three_resumes_that_only_repeat_what_was_seen() -> None:
    """The trace: a server that replays and ends while it holds the old leg still (R23)."""
    play, exchange = broken()
    post = play.sent("tools/call")[0]
    again = event(progress(post.token, 3, EPOCH), 4)

    _three(again)(play, post)
    rerun(play)

    check_rerun(play, exchange, "not_resumable")


def test_a_new_message_begins_the_count_anew() -> None:
    """Only resumes in a row count (R23)."""
    play, exchange = broken()
    post = play.sent("tools/call")[0]
    for step in (4, 5, 6, 7):
        leg = resume(play, (progress(post.token, step, EPOCH), step + 1))
        play.end(leg, LegEnd.BROKEN)
        play.advance(1)

    resume(play, (result(post.id, epoch=EPOCH), 9))

    assert exchange.answer["id"] == 5
    assert play.runs == 1


def test_a_repeated_event_does_not_blind_the_judge_for_the_next_hole() -> None:
    """Every id is last + 1 (R31)."""
    play, exchange = broken()

    _message((_step(3, EPOCH), 4), (_step(5, EPOCH), 6))(play, play.sent("tools/call")[0])
    rerun(play)

    check_rerun(play, exchange, "event_id_gap")
