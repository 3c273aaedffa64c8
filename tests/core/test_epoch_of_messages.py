"""Every message is watched: what states another epoch, wherever it comes, is another run (R1-R3, R6-R8)."""

from __future__ import annotations

import json

import pytest

from epochgate.core.commands import Drifted
from epochgate.core.policy import Reissue
from tests.core.messages import event, log, progress, request, result
from tests.core.playbook import MARK, opened
from tests.core.scenes import call, drift


def test_a_buffer_that_outlived_its_session_ends_in_one_answer_of_one_run() -> None:
    """900 events read; 901-950 from the surviving buffer, rightly tagged; 951 on from re-created state."""
    play = opened(epoch=1, has_logging=True)
    exchange, post = call(play)
    play.send(post, *[event(progress(post.token, n, 1), n) for n in range(1, 901)])
    play.cut(post)

    leg = play.leg("GET")
    assert leg.last_event_id == b"900"
    play.open(leg)
    for n in range(901, 951):
        play.send(leg, event(progress(post.token, n, 1), n))
    play.send(leg, event(progress(post.token, 951, 2), 951))
    assert not leg.is_open
    play.heal(epoch=2)
    again = play.leg("tools/call")
    play.open(again)
    play.send(again, *[event(progress(again.token, n, 2), n) for n in range(1, 1001)])
    play.send(again, event(result(again.id, {"total": 1000}, 2), 1001))

    assert play.judged == [("upstream", "resume", "epoch_match"), ("upstream", "restart", "epoch_mismatch")]
    told = [one["params"] for one in exchange.messages if one.get("method") == "notifications/message"]
    assert [one["data"]["reason"] for one in told] == ["epoch_mismatch"]
    steps = [one["params"].get("progress", "notice") for one in exchange.messages[:-1]]
    assert steps == [*range(1, 951), "notice", *range(951, 1001)]  # R38: of run 2 what exceeds run 1
    assert exchange.answer["result"]["total"] == 1000
    assert exchange.answer["result"]["_meta"][MARK]["discarded_events"] == 950
    assert play.runs == 2


def test_a_stream_is_judged_for_life_by_the_epoch_its_post_was_sent_in() -> None:
    """The first trace: drift elsewhere does not move what this stream is compared with (R1)."""
    play = opened(epoch=1)
    exchange, post = call(play)
    play.send(post, event(progress(post.token, 1, 1)))
    drift(play, 2)
    assert play.facts(Drifted) == [Drifted(2)]
    before = exchange.body

    play.send(post, event(progress(post.token, 2, 2)))

    assert b'"progress":2' not in exchange.body[len(before) :]
    assert play.reasons == ["epoch_mismatch"]


def test_a_stream_of_the_old_epoch_goes_on_beside_the_new() -> None:
    """The in-flight streams of the old generation are judged as before (R1)."""
    play = opened(epoch=1)
    exchange, post = call(play)
    drift(play, 2)

    play.send(post, event(progress(post.token, 1, 1)), event(result(post.id, epoch=1)))

    assert exchange.answer["id"] == 5
    assert play.runs == 1
    assert not play.reasons


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_second_run_in_the_same_upstream_session_cancels_the_first(is_cut: bool) -> None:
    """The second trace: the generation taken over by drift has the same upstream id (R1)."""
    play = opened(epoch=1, reissue=Reissue.ALWAYS)
    exchange, post = call(play)
    play.send(post, event(progress(post.token, 1, 1)))  # without an id: no resume can be tried
    drift(play, 2)

    if is_cut:
        play.cut(post)
    else:
        play.send(post, event(progress(post.token, 2, 2)))

    cancelled = play.leg("notifications/cancelled")
    again = play.leg("tools/call")
    assert cancelled.number < again.number
    assert cancelled.json["params"]["requestId"] == post.id
    assert again.session_id == cancelled.session_id == b"up-1"
    assert again.id != post.id
    play.answer(again, result(again.id, epoch=2))
    assert exchange.answer["id"] == 5
    assert len(play.sent("initialize")) == 1  # taken over without one


def test_tools_are_asked_for_where_no_heal_is_needed() -> None:
    """Nothing is known of the tool, and the session lives already (R20)."""
    play = opened(epoch=1)
    exchange, post = call(play)
    play.send(post, event(progress(post.token, 1, 1)))
    drift(play, 2)
    play.cut(post)

    asked = play.leg("tools/list")
    play.answer(asked, result(asked.id, {"tools": play.tools}, 2))
    again = play.leg("tools/call")
    play.answer(again, result(again.id, epoch=2))

    assert exchange.answer["id"] == 5
    assert "result" in exchange.answer


def test_drift_restores_level_and_subscriptions_into_the_re_created_session() -> None:
    """Without `initialize`: a third session would lose the state just reported (R1)."""
    play = opened(epoch=1, has_logging=True)
    for message in (
        request("logging/setLevel", {"level": "debug"}, id=1),
        request("resources/subscribe", {"uri": "file:///a"}, id=2),
        request("resources/subscribe", {"uri": "file:///b"}, id=3),
        request("resources/unsubscribe", {"uri": "file:///b"}, id=4),
    ):
        play.post(message)
        play.answer(play.leg(), result(play.leg().id, {}, 1))

    drift(play, 2)

    assert [leg.json["params"] for leg in play.sent("logging/setLevel")] == [{"level": "debug"}] * 2
    assert [leg.json["params"]["uri"][-1] for leg in play.sent("resources/subscribe")] == ["a", "b", "a"]


@pytest.mark.parametrize("reads", [1, 2])
def test_an_answer_of_another_epoch_after_an_event_is_a_splice(reads: int) -> None:
    """And so is any other first message, whether or not both came in one read (R2)."""
    play = opened(epoch=1)
    exchange, post = call(play)
    events = event(log("one", 1)), event(result(post.id, {"run": 0}, 2))
    if reads == 1:
        play.send(post, *events)
    else:
        play.send(post, events[0])
        play.send(post, events[1])
    play.heal(epoch=2)
    again = play.leg("tools/call")
    play.answer(again, result(again.id, {"run": 1}, 2))

    assert exchange.answer["result"]["run"] == 1
    assert play.reasons == ["epoch_mismatch"]


def test_a_first_message_that_is_no_answer_and_states_another_epoch() -> None:
    """The first trace: a log pinned to the new epoch, produced by the old session (R2)."""
    play = opened(epoch=1)
    exchange, post = call(play)

    play.send(post, event(log("produced before", 2)))

    assert exchange.messages == []
    assert play.reasons == ["epoch_mismatch"]


def test_another_epoch_on_the_same_connection_is_never_relayed() -> None:
    """The trace: that the connection never broke excuses nothing (R3)."""
    play = opened(epoch=1)
    exchange, post = call(play)
    play.send(post, event(log("a", 1)), event(log("b")), event(progress(post.token, 1, 2)))

    assert [one["params"]["data"] for one in exchange.messages] == ["a", "b"]
    assert play.reasons == ["epoch_mismatch"]


def test_an_epoch_deeper_down_in_a_result_means_nothing() -> None:
    """A byte search would find it (R8, W15)."""
    play = opened(epoch=1)
    exchange, post = call(play)
    inner = {"content": [{"type": "text", "_meta": {"session_epoch": 2}}], "session_epoch": 3}

    play.send(post, event(result(post.id, inner, 1)))

    assert exchange.answer["id"] == 5
    assert not play.facts(Drifted)


def test_a_message_that_contradicts_itself_is_a_mismatch() -> None:
    """It equals nothing (R8)."""
    play = opened(epoch=1)
    exchange, post = call(play)
    play.send(post, event(log("a", 1)))
    stated = b'{"_meta":{"session_epoch":1,"session_epoch":2}}'
    raw = b'{"jsonrpc":"2.0","method":"notifications/message","params":%b}' % stated

    play.send(post, event(raw))

    assert len(exchange.messages) == 1
    assert play.reasons == ["epoch_mismatch"]


def test_a_batch_in_an_event_is_as_good_as_its_worst_member() -> None:
    """Two members of different epochs (R8)."""
    play = opened(epoch=1)
    exchange, post = call(play)
    play.send(post, event(log("a", 1)))

    play.send(post, event(json.dumps([progress(post.token, 1, 1), progress(post.token, 2, 2)]).encode()))

    assert len(exchange.messages) == 1
    assert play.reasons == ["epoch_mismatch"]
