"""What is run again and what is not, cancels, stray messages, event ids (R28-R31)."""

from __future__ import annotations

import pytest

from epochgate.core.commands import Reissued
from epochgate.core.policy import Reissue, Stamps
from tests.core.messages import Json, ask, cancel, event, notification, progress, request, result
from tests.core.playbook import Play, opened, quiet
from tests.core.scenes import broken, learn_tools, lost, open_call, resume


def listed(play: Play, *tools: Json) -> None:
    """The client reads the list of tools."""
    learn_tools(play, *tools)


# --- R28 --------------------------------------------------------------------------------------------


def test_answers_given_as_a_batch_are_answers_all_the_same() -> None:
    """(a) Revision 2025-03-26 allows arrays of responses (R28)."""
    play = opened(version="2025-03-26", reissue=Reissue.ALWAYS)
    exchange, leg = open_call(play)
    play.send(leg, event(ask(0)), event(ask(1)))
    reply = play.post([result(0, {"action": "accept"}), result(1, {"action": "accept"})])
    for one in play.sent("answer"):
        assert reply.status is None
        play.accept(one)

    assert [one.json for one in play.sent("answer")] == [
        result(0, {"action": "accept"}),
        result(1, {"action": "accept"}),
    ]
    assert reply.status == 202
    play.cut(leg)
    assert exchange.answer["error"]["code"] == -32050
    assert play.runs == 1


@pytest.mark.parametrize(
    ("others", "runs"),
    [
        ([], 2),  # a server that annotates nothing would otherwise never be healed
        ([{"name": "look", "annotations": {"readOnlyHint": True}}], 1),
        ([{"name": "look", "annotations": {"title": "Look"}}], 2),  # a title promises nothing
    ],
)
def test_an_unannotated_tool_by_default(others: list[Json], runs: int) -> None:
    """(b) Unknown is unsafe on a server that annotates any of its tools (R28)."""
    play = opened()
    listed(play, {"name": "work"}, *others)
    exchange, leg = open_call(play)
    play.cut(leg)
    if runs == 2:
        play.heal()
    else:
        assert exchange.answer["error"]["data"]["reason"] == "no_epoch_captured"

    assert play.runs == runs


def test_what_never_ran_is_sent_twice_more_once_for_each_heal() -> None:
    """(c) "Always" has a bound (R28)."""
    play, exchange = lost()
    sent = []
    for number in (2, 3):
        play.heal(b"up-%d" % number)
        quiet(play)
        sent.append(play.leg("tools/call").session_id)
        play.refuse(play.leg("tools/call"), 404)

    assert sent == [b"up-2", b"up-3"]
    assert exchange.json["error"]["code"] == -32050
    outcomes = [(one.outcome, one.reason) for one in play.facts(Reissued)]
    assert outcomes == [("sent", "not_run"), ("sent", "not_run"), ("exhausted", "max_not_run_reissues")]


# --- R29 --------------------------------------------------------------------------------------------


def test_a_call_that_is_cancelled_before_its_heal_is_not_sent_by_it() -> None:
    """POST, leg cut, cancel, heal (R29)."""
    play = opened()
    exchange, leg = open_call(play)
    play.cut(leg)
    play.post(cancel(5))
    if play.has_leg("initialize"):
        play.heal()
    play.advance(6)

    assert play.runs == 1
    assert exchange.answers == []
    assert not exchange.is_open


def test_a_cancel_inside_a_batch_is_mapped_and_remembered() -> None:
    """Arrays of notifications are legal in 2025-03-26 (R29)."""
    play = opened(version="2025-03-26")
    exchange, leg = open_call(play)
    told = play.post([cancel(5), notification("notifications/roots/list_changed")])
    (up,) = play.sent("notifications/cancelled")
    assert up.json["params"]["requestId"] == leg.id
    play.accept(up)
    play.accept(play.leg("notifications/roots/list_changed"))

    assert told.status == 202
    play.cut(leg)
    play.advance(6)
    assert play.runs == 1
    assert exchange.answers == []


def test_a_cancel_in_one_batch_with_a_request_is_remembered_and_told() -> None:
    """Its id means nothing upstream (R29)."""
    play = opened(version="2025-03-26")
    exchange, leg = open_call(play)
    play.post([request("ping", id=6), cancel(5)])
    told = play.leg("notifications/cancelled")
    assert (told.session_id, told.json["params"]["requestId"]) == (b"up-1", leg.id)
    play.cut(leg)
    play.advance(6)

    assert play.runs == 1
    assert exchange.answers == []


def test_initialized_in_one_batch_with_a_request_counts() -> None:
    """A heal restores what the client has finished opening (R45)."""
    play = opened(is_initialized=False)
    play.post([notification("notifications/initialized"), request("ping", id=1)])
    leg = play.leg("batch")
    play.answer(leg, [result(leg.json[1]["id"], {})])
    quiet(play)
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.heal()

    assert [one.session_id for one in play.sent("notifications/initialized")] == [b"up-2"]


def test_a_cancelled_stream_that_the_server_never_ends_is_over_after_five_seconds() -> None:
    """TypeScript servers leave it open for ever; at most one response (R29)."""
    play = opened()
    exchange, leg = open_call(play)
    play.post(cancel(5))
    play.accept(play.leg("notifications/cancelled"))
    play.send(leg, event(progress(leg.token, 2)))
    play.advance(5.1)

    assert (exchange.is_open, exchange.answers, leg.is_open) == (False, [], False)


# --- R30 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stray", [result(4711, epoch=7), progress("nobody", 1, 7)])
def test_the_same_stray_on_a_resumed_leg_is_a_restart(stray: Json) -> None:
    """There it proves that the stream is another one (R30)."""
    play, _ = broken()

    resume(play, (stray, 5))

    assert play.reasons == ["foreign_message"]


def test_progress_of_a_task_comes_on_any_stream_of_its_session_after_its_answer() -> None:
    """K11: a task's token lives as long as the task (R30)."""
    play = opened()
    play.call(token="mine", task={"ttl": 600_000})
    post = play.leg("tools/call")
    play.answer(post, result(post.id, {"task": {"taskId": "t", "status": "working"}}))
    play.advance(300)
    other = play.post(request("tasks/result", {"taskId": "t"}, id=9))
    leg = play.leg("tasks/result")
    play.open(leg)

    play.send(leg, event(progress(post.token, 3)), event(result(leg.id)))

    assert other.messages == [progress("mine", 3), result(9)]


# --- R31 --------------------------------------------------------------------------------------------


def test_ids_of_a_counter_that_two_streams_share_make_no_gap() -> None:
    """Python's example store and mcp-go count over all streams: steps of more than one (R31)."""
    play, exchange = broken(ids=(1, 3, 4, 7, 8, 9))
    post = play.sent("tools/call")[0]

    resume(play, (progress(post.token, 6, 7), 12), (result(post.id, epoch=7), 14))

    assert exchange.answer["id"] == 5
    assert play.judged == [("upstream", "resume", "epoch_match")]
    assert play.runs == 1


def test_too_few_steps_teach_nothing() -> None:
    """Two could be chance: comparable after three (R31)."""
    play, exchange = broken(ids=(1, 2, 3))
    post = play.sent("tools/call")[0]

    resume(play, (result(post.id, epoch=7), 9))

    assert exchange.answer["id"] == 5
    assert not play.reasons


@pytest.mark.parametrize("prefix", ["", "stream_", "a_b_"])
def test_every_id_behind_a_resume_is_looked_at(prefix: str) -> None:
    """A store that skips expired events later than the first would pass otherwise (R31)."""
    play, exchange = broken(ids=tuple(f"{prefix}{number}" for number in (1, 2, 3, 4)))
    post = play.sent("tools/call")[0]
    before = len(exchange.messages)
    steps = [(progress(post.token, at, 7), f"{prefix}{at + 1}") for at in (4, 5, 7)]

    resume(play, *steps)

    assert len(exchange.messages) - before == 2
    assert play.reasons == ["event_id_gap"]


def test_with_stamps_off_nothing_unproven_is_sent_again() -> None:
    """A second run under the same id in one session steals the first one's route (R28, R36)."""
    play = opened(stamp=Stamps.OFF, reissue=Reissue.ALWAYS)
    exchange, leg = open_call(play)
    play.cut(leg)

    assert exchange.answer["error"]["code"] == -32050
    assert play.runs == 1
