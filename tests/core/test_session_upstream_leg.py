"""The upstream leg breaks: a resume is proven, or the call is run again and says so (G1, G3, G7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from epochgate.core.commands import Discarded, Reissued
from epochgate.core.events import LegEnd
from tests.core.messages import Json, event, log, progress, result
from tests.core.playbook import JSON, MARK, Play, opened
from tests.core.sides import Exchange, Upstream

EPOCH = 7


def broken(
    *, epoch: Json = EPOCH, ids: tuple[Json, ...] = (1, 2, 3, 4), **settings: Json
) -> tuple[Play, Exchange]:
    """A call that gave four events under these ids, and whose leg was then cut."""
    play = opened(epoch=epoch, **settings)
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)
    for step, id in enumerate(ids):
        play.send(leg, event(progress(leg.token, step, epoch), id))
    play.cut(leg)
    return play, exchange


def resume(play: Play, *events: tuple[Json, Json], headers: tuple[tuple[bytes, bytes], ...] = ()) -> Upstream:
    """Answer the resume with events (message, id)."""
    leg = play.leg("GET")
    play.open(leg, headers)
    for message, id in events:
        if leg.is_open:
            play.send(leg, event(message, id))
    return leg


def rerun(play: Play, epoch: Json = EPOCH + 1) -> None:
    """Let the heal and the second run succeed."""
    play.heal(epoch=epoch)
    leg = play.sent("tools/call")[-1]
    assert leg.session_id == b"up-2"
    play.answer(leg, result(leg.id, {"run": 2}, epoch))


def check_rerun(play: Play, exchange: Exchange, reason: str) -> None:
    """One answer, of the second run alone, marked and counted; initialize = initialized = runs = 2."""
    assert exchange.answer["id"] == 5
    assert exchange.answer["result"]["run"] == 2
    mark = exchange.answer["result"]["_meta"][MARK]
    assert (mark["reason"], mark["generation"], mark["reissued"]) == (reason, 2, True)
    assert not exchange.is_open
    assert play.reasons == [reason]
    assert len(play.sent("initialize")) == 2
    assert len(play.sent("notifications/initialized")) == 2
    assert play.runs == 2


# --- the same session, shown ------------------------------------------------------------------------


@pytest.mark.parametrize("how", [LegEnd.BROKEN, LegEnd.CLEAN])
def test_equal_epoch_and_contiguous_ids_go_on_as_one_run(how: LegEnd) -> None:
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
    play, exchange = broken(ids=("f3a", "09c", "77b", "1d2"))
    post = play.sent("tools/call")[0]
    assert play.leg("GET").last_event_id == b"1d2"

    resume(play, (result(post.id, epoch=EPOCH), "ab0"))

    assert exchange.answer["id"] == 5
    assert play.judged == [("upstream", "resume", "epoch_match")]


def test_the_last_event_again_is_dropped() -> None:
    """R31: rmcp re-sends it."""
    play, exchange = broken()
    post = play.sent("tools/call")[0]

    resume(play, (progress(post.token, 3, EPOCH), 4), (result(post.id, epoch=EPOCH), 5))

    assert play.dropped == ["duplicate"]
    assert exchange.answer["id"] == 5
    assert play.runs == 1


def test_a_header_that_states_the_epoch_proves_a_stamped_message() -> None:
    """R7."""
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
    """R23: a retry after a second would have resumed it."""
    play, exchange = broken()
    post = play.sent("tools/call")[0]
    for _ in range(3):
        play.refuse(play.leg("GET"), status)
        assert not play.has_leg("GET")
        play.advance(1)

    resume(play, (result(post.id, epoch=EPOCH), 5))

    assert exchange.answer["id"] == 5
    assert play.runs == 1


@pytest.mark.parametrize("how", [LegEnd.NOT_SENT, LegEnd.SILENT, LegEnd.BROKEN])
def test_an_unreachable_server_is_asked_again(how: LegEnd) -> None:
    play, exchange = broken()
    post = play.sent("tools/call")[0]
    play.end(play.leg("GET"), how)
    play.advance(1)

    resume(play, (result(post.id, epoch=EPOCH), 5))

    assert exchange.answer["id"] == 5
    assert play.runs == 1


# --- another session, or not shown to be the same ---------------------------------------------------

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


@pytest.mark.parametrize(("reason", "fault"), FAULTS)
def test_a_resume_that_proves_nothing_is_a_restart(reason: str, fault: Fault) -> None:
    play, exchange = broken()

    fault(play, play.sent("tools/call")[0])
    rerun(play)

    check_rerun(play, exchange, reason)


def test_another_epoch_in_the_header_of_the_resume() -> None:
    play, exchange = broken(epoch_header=b"e1")

    resume(play, headers=((b"Mcp-Session-Epoch", b"e2"),))
    rerun(play)

    check_rerun(play, exchange, "epoch_mismatch")


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
    """R23: resumes in a row without a new message."""
    play, exchange = broken()
    post = play.sent("tools/call")[0]
    again = event(progress(post.token, 3, EPOCH), 4)

    _three(again)(play, post)
    rerun(play)

    check_rerun(play, exchange, "not_resumable")


def test_a_new_message_begins_the_count_anew() -> None:
    play, exchange = broken()
    post = play.sent("tools/call")[0]
    for step in (4, 5, 6, 7):
        leg = resume(play, (progress(post.token, step, EPOCH), step + 1))
        play.end(leg, LegEnd.BROKEN)
        play.advance(1)

    resume(play, (result(post.id, epoch=EPOCH), 9))

    assert exchange.answer["id"] == 5
    assert play.runs == 1


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"epoch": None}, "no_epoch_captured"),
        ({"epoch": None, "ids": (None,)}, "no_epoch_captured"),
        ({"ids": (None, None)}, "no_upstream_id"),
        ({"ids": ()}, "no_upstream_id"),
    ],
)
def test_without_what_a_proof_needs_no_resume_is_tried(settings: dict[str, Json], reason: str) -> None:
    play, exchange = broken(**settings)
    assert not play.sent("GET")

    rerun(play)

    check_rerun(play, exchange, reason)


@pytest.mark.parametrize(
    ("status", "reason"), [(503, "not_resumable"), (409, "not_resumable"), (None, "upstream_lost")]
)
def test_at_the_deadline_a_busy_or_unreachable_server_is_a_restart(status: int | None, reason: str) -> None:
    """R23."""
    play, exchange = broken(resume_deadline_s=10.0)
    began = play.now
    while play.has_leg("GET"):
        if status is None:
            play.unreachable(play.leg("GET"))
        else:
            play.refuse(play.leg("GET"), status)
        play.advance(1.0)

    assert 10 <= play.now - began <= 12
    assert 8 <= len(play.sent("GET")) <= 20
    rerun(play)
    check_rerun(play, exchange, reason)


def test_a_post_that_broke_before_its_head_may_have_run() -> None:
    play = opened()
    exchange = play.call()
    play.cut(play.leg("tools/call"))

    rerun(play)

    assert exchange.json["result"]["run"] == 2
    assert exchange.json["result"]["_meta"][MARK]["reason"] == "no_epoch_captured"
    assert play.runs == 2


def test_a_post_of_which_no_byte_was_written_is_sent_again_in_its_own_session() -> None:
    """Design, section 6: it provably did not run."""
    play = opened()
    exchange = play.call()
    for _ in range(3):
        play.unreachable(play.leg("tools/call"))
        play.advance(1)

    leg = play.leg("tools/call")
    assert leg.session_id == b"up-1"
    play.answer(leg, result(leg.id))

    assert exchange.json == result(5)
    assert not play.reasons


def test_an_upstream_that_stays_away_is_healed_and_the_call_told_apart_from_a_second_run() -> None:
    play = opened()
    exchange = play.call()
    while play.has_leg("tools/call"):
        play.unreachable(play.leg("tools/call"))
        play.advance(1.0)
    assert play.reasons == ["upstream_lost"]

    play.heal()
    leg = play.leg("tools/call")
    assert leg.session_id == b"up-2"
    play.answer(leg, result(leg.id))

    assert exchange.json["id"] == 5
    assert [one.reason for one in play.facts(Reissued)] == ["not_run"]


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_on_a_resume_never_heal(status: int) -> None:
    play, exchange = broken()

    play.refuse(play.leg("GET"), status)

    assert exchange.answer["error"]["code"] == -32050
    assert play.judged == [("upstream", "pass", "unauthorized")]
    assert not play.has_leg("initialize")


def test_an_event_above_the_limit_on_a_resumed_leg() -> None:
    """R9: its stamp and epoch may come last, so it is never streamed through."""
    play, exchange = broken(max_event_bytes=1_000)
    leg = play.leg("GET")
    play.open(leg)
    before = exchange.body

    play.send(leg, b'id: 5\ndata: {"x":"' + b"y" * 1_200)
    assert exchange.body == before
    rerun(play)

    check_rerun(play, exchange, "event_too_large")


def test_the_price_is_counted_and_told() -> None:
    """G7."""
    play = opened()
    exchange = play.call(token=1)
    post = play.leg("tools/call")
    play.open(post)
    play.send(post, *[event(progress(post.token, step)) for step in range(3)])
    play.advance(12)
    play.cut(post)
    rerun(play)

    assert play.facts(Discarded) == [Discarded(3, 12.0)]
    assert exchange.answer["result"]["_meta"][MARK]["discarded_events"] == 3
    assert [(one.method, one.outcome) for one in play.facts(Reissued)] == [("tools/call", "sent")]


def test_a_second_break_exhausts_the_policy() -> None:
    """G4: at most `max_reissues` times after an unknown outcome."""
    play, exchange = broken(epoch=None)
    play.heal()
    play.cut(play.leg("tools/call"))

    assert exchange.answer["error"]["code"] == -32050
    assert play.runs == 2
    assert [one.outcome for one in play.facts(Reissued)] == ["sent", "exhausted"]


def test_a_destructive_call_is_withheld_and_says_so() -> None:
    play = opened(tools=[{"name": "work", "annotations": {"destructiveHint": True}}])
    play.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    play.answer(play.leg("tools/list"), result(play.leg("tools/list").id, {"tools": play.tools}))
    exchange = play.call(token=1)
    post = play.leg("tools/call")
    play.open(post)
    play.send(post, event(progress(post.token, 1)))

    play.cut(post)

    data = exchange.answer["error"]["data"]
    assert exchange.answer["error"]["code"] == -32050
    assert (data["reason"], data["method"], data["generation"]) == ("no_epoch_captured", "tools/call", 1)
    assert data[MARK] == {
        "reason": "no_epoch_captured",
        "generation": 1,
        "discarded_events": 1,
        "reissued": False,
    }
    assert play.runs == 1
    assert not play.has_leg("initialize")  # R21: a stream's restart heals only to send again
