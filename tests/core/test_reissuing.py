"""What restarts without a resume, what a restart costs, and what is never run again (G4, G7, R23)."""

from __future__ import annotations

import pytest

from epochgate.core.commands import Discarded, Reissued
from tests.core.messages import Json, cancel, event, log, progress, request, result
from tests.core.playbook import MARK, opened, quiet
from tests.core.scenes import (
    after,
    broken,
    check_rerun,
    learn_tools,
    open_call,
    rerun,
    restarted,
)


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
    """Not sooner (R23)."""
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
    """Its stamp and epoch may come last, so it is never streamed through (R9)."""
    play, exchange = broken(max_event_bytes=1_000)
    leg = play.leg("GET")
    play.open(leg)
    before = exchange.body

    play.send(leg, b'id: 5\ndata: {"x":"' + b"y" * 1_200)
    assert exchange.body == before
    rerun(play)

    check_rerun(play, exchange, "event_too_large")


def test_the_price_is_counted_and_told() -> None:
    """What a restart made void is an exception of G5 (R43); G7."""
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
    """A stream's restart heals only to send again (R20, R21)."""
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


def test_the_notice_comes_first_on_that_stream() -> None:
    """Before any message of the new run (R5)."""
    play, exchange, again, seen = restarted(has_logging=True)
    play.send(again, event(log("new run")), event(result(again.id)))

    notice, message, answer = after(exchange, seen)
    assert notice == {
        "jsonrpc": "2.0",
        "method": "notifications/message",
        "params": {
            "level": "warning",
            "logger": "epochgate",
            "data": {"reason": "no_epoch_captured", "generation": 2, "discarded_events": 1, "reissued": True},
        },
    }
    assert message == log("new run")
    assert answer["result"]["_meta"][MARK] == notice["params"]["data"]


def test_the_unanswered_members_go_up_again_as_one_batch_behind_the_errors_of_the_withheld() -> None:
    """One verdict for the stream, the policy for each member (R41)."""
    play = opened(never_reissue=frozenset({"pay"}))
    members = [
        request("tools/call", {"name": "pay"}, id=1),
        request("tools/list", id=2),
        request("prompts/list", id=3),
        request("ping", id=4),
    ]
    exchange = play.post(members)
    leg = play.leg("batch")
    play.open(leg)
    play.send(leg, event(result(leg.json[3]["id"], {"n": 4})))
    play.cut(leg)
    play.heal()

    again = play.leg("batch")
    assert [one["method"] for one in again.json] == ["tools/list", "prompts/list"]
    assert [one["id"] for one in exchange.answers] == [4, 1]
    assert exchange.answers[1]["error"]["code"] == -32050
    play.answer(again, [result(one["id"]) for one in again.json])
    assert sorted(one["id"] for one in exchange.answers) == [1, 2, 3, 4]
    assert play.reasons == ["no_epoch_captured"]


def test_a_call_that_is_run_again_with_nobody_there_keeps_its_answer_for_the_client() -> None:
    """`reissue_when_away`: the client finds the second run where it looked for the first."""
    play = opened(reissue_when_away=True)
    exchange, leg = open_call(play)
    play.leave(exchange)
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id, {"run": 2}))

    back = play.get(exchange.last_id)

    assert back.answer["result"]["run"] == 2
    assert play.runs == 2


def test_a_call_that_is_cancelled_while_the_tools_are_asked_for_is_not_run_again() -> None:
    """The loss of an old generation joins the heal that was; whether it may, hangs on the tools."""
    play = opened(tools=[], reissue_when_away=True)
    first, one = open_call(play, id=1)
    _, two = open_call(play, id=2)
    play.cut(two)
    play.heal()
    play.cut(one)
    assert play.has_leg("tools/list")
    play.post(cancel(1))
    play.advance(1)
    assert not first.is_open

    listing = play.leg("tools/list")
    play.answer(listing, result(listing.id, {"tools": [{"name": "work"}]}))

    assert [leg.session_id for leg in play.sent("tools/call")] == [b"up-1", b"up-1"]


def test_the_errors_of_a_json_batch_stand_in_the_array_with_the_answer_of_the_rest() -> None:
    """No answer was begun that could carry them before it."""
    play = opened(safe_tools=frozenset({"safe"}))
    learn_tools(play, {"name": "work", "annotations": {"destructiveHint": True}}, {"name": "safe"})
    exchange = play.post([request("tools/call", {"name": name}, id=name) for name in ("work", "safe")])
    play.cut(play.leg("batch"))
    play.heal()
    again = play.leg("batch")
    (left,) = again.json

    play.answer(again, [result(left["id"])])

    assert [(one["id"], "error" in one) for one in exchange.json] == [("work", True), ("safe", False)]


def test_a_client_that_read_the_notice_is_not_told_again_of_a_run_that_never_began() -> None:
    """There is nothing new to tell."""
    play = opened(has_logging=True)
    exchange, leg = open_call(play)
    play.cut(leg)
    play.heal()
    quiet(play)
    play.refuse(play.leg("tools/call"), 404)
    play.heal(b"up-3")
    again = play.leg("tools/call")
    play.open(again)
    play.send(again, event(progress(again.token, 2)), event(result(again.id)))

    methods = [one.get("method") for one in exchange.messages]
    assert methods == ["notifications/progress", "notifications/message", "notifications/progress", None]


def test_the_old_server_session_is_ended_behind_the_cancel_of_what_ran_in_it() -> None:
    """A DELETE that overtook it might be answered first."""
    play = opened()
    _, leg = open_call(play)
    play.cut(leg)
    play.heal()
    assert not play.sent("DELETE")

    play.accept(play.leg("notifications/cancelled"))

    assert play.leg("DELETE").session_id == b"up-1"


def test_one_that_is_given_up_while_the_tools_are_asked_for_is_not_run_again() -> None:
    """Its client did not come back in time, though it would have been run for one that is away."""
    play = opened(tools=[], reissue_when_away=True, hold_s=5.0, ping_s=60.0)
    first, one = open_call(play, id=1)
    _, two = open_call(play, id=2)
    play.cut(two)
    play.heal()
    play.leave(first)
    play.cut(one)
    listing = play.leg("tools/list")
    play.advance(5.1)

    play.answer(listing, result(listing.id, {"tools": [{"name": "work"}]}))

    assert [leg.session_id for leg in play.sent("tools/call")] == [b"up-1", b"up-1"]
    assert play.get(first.last_id).answer["error"]["data"]["reason"] == "expired"
