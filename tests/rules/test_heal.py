"""The traces of R18 to R23: what a heal touches, when there is one, and what is waited for instead."""

from __future__ import annotations

import pytest

from epochgate.core.events import LegEnd
from epochgate.core.policy import SessionLoss
from epochgate.core.states import SessionState
from tests.core.messages import Json, ask, cancel, event, progress, result
from tests.core.playbook import MARK, Play, opened, quiet
from tests.core.scenes import broken, learn_tools, open_call, rerun, resume
from tests.core.sides import Exchange, Upstream

DESTRUCTIVE = {"destructiveHint": True}


def asking(play: Play, *, of: Json = 5, method: str = "elicitation/create") -> tuple[Exchange, Upstream]:
    """A call whose run waits for the client."""
    exchange, leg = open_call(play, id=of)
    play.send(leg, event(ask(0, method)))
    return exchange, leg


# --- R18: a heal touches only what has to be restarted ----------------------------------------------


def test_a_cancel_of_a_call_that_never_broke_goes_to_its_own_session() -> None:
    """After the heal of another call, under the stamp that stands for it there (R18)."""
    play = opened()
    _, one = open_call(play, id=1)
    _, two = open_call(play, id=2)
    play.cut(two)
    play.heal()
    while play.has_leg("notifications/cancelled"):
        play.accept(play.leg("notifications/cancelled"))

    play.post(cancel(1))

    carried = play.leg("notifications/cancelled")
    assert carried.session_id == b"up-1"
    assert carried.json["params"]["requestId"] == one.id


def test_the_answer_to_a_question_whose_call_has_ended_goes_no_further() -> None:
    """Void: nobody waits for it (R18)."""
    play = opened()
    exchange, leg = asking(play)
    play.send(leg, event(result(leg.id)))
    assert exchange.answer["id"] == 5

    reply = play.post(result(0, {"action": "accept"}))

    assert reply.status == 202
    assert not play.sent("answer")
    assert play.dropped == ["stale_answer"]


def test_a_call_that_asked_goes_on_beside_the_second_run_of_another() -> None:
    """The trace: the leg of another call is reset while this one waits for the user (R18)."""
    play = opened()
    waiting, one = asking(play, of=1)
    broken_one, two = open_call(play, id=2)
    play.cut(two)
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))

    play.post(result(0, {"action": "accept"}))
    carried = play.leg("answer")
    assert (carried.session_id, carried.id) == (b"up-1", 0)
    play.accept(carried)
    play.send(one, event(result(one.id, {"confirmed": True})))

    assert waiting.answer["result"] == {"confirmed": True}
    assert broken_one.answer["id"] == 2
    assert play.runs == 3


# --- R19: ids of the server's requests --------------------------------------------------------------


def test_ids_asked_twice_on_one_call_prove_another_session_too() -> None:
    """The session was made anew under the one connection that there is (R19)."""
    play = opened()
    exchange, leg = asking(play)

    play.send(leg, event(ask(0)))

    assert play.reasons == ["request_id_reset"]
    assert [one.get("method") for one in exchange.messages].count("elicitation/create") == 1
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    assert exchange.answer["id"] == 5


# --- R20: what is known of the tools ----------------------------------------------------------------


def test_a_heal_for_one_call_does_not_forget_that_another_is_destructive() -> None:
    """The trace: `order` is listed and called in the first session; the second has seen no list (R20)."""
    play = opened(tools=[])
    learn_tools(play, {"name": "order", "annotations": DESTRUCTIVE}, {"name": "count", "annotations": {}})
    order = play.call("order", id=1, token=1)
    first = play.leg("tools/call")
    play.open(first)
    play.send(first, event(progress(first.token, 1)))
    count = play.call("count", id=2, token=2)
    second = play.leg("tools/call")
    play.open(second)
    quiet(play)
    other = play.call("count", id=3)
    lost = play.leg("tools/call")
    play.refuse(lost, 404)
    play.refuse(play.leg("ping"), 404)
    play.heal()
    play.cut(first)

    assert order.answer["error"]["code"] == -32050
    assert [leg.json["params"]["name"] for leg in play.sent("tools/call")].count("order") == 1
    assert (count.is_open, other.is_open) == (True, True)


# --- R21: verdicts have a scope ---------------------------------------------------------------------


@pytest.mark.parametrize("setting", list(SessionLoss))
def test_a_404_on_a_resume_is_healed_whatever_is_done_with_one_on_a_call(setting: SessionLoss) -> None:
    """`session_loss` governs a POST alone: this client has an answer begun (R21)."""
    play, exchange = broken(session_loss=setting)
    play.refuse(play.leg("GET"), 404)

    rerun(play)

    assert exchange.answer["result"]["run"] == 2
    assert exchange.answer["result"]["_meta"][MARK]["reason"] == "session_gone"


@pytest.mark.parametrize(
    ("settings", "is_shown"),
    [({}, True), ({"replay_tools": ("login",)}, False), ({"stateless_tools": frozenset({"login"})}, False)],
)
def test_a_tool_that_leaves_nothing_behind_is_no_reason_to_show_a_404(
    settings: dict[str, Json], is_shown: bool
) -> None:
    """State is what a call left that is neither replayed nor said to leave none (R21)."""
    play = opened(**settings)
    learn_tools(play, {"name": "login"}, {"name": "look", "annotations": {"readOnlyHint": True}})
    play.call("login", id=1)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    quiet(play)

    exchange = play.call("look", id=2)
    play.refuse(play.leg("tools/call"), 404)

    assert exchange.status == (404 if is_shown else None)
    assert play.has_leg("initialize") is not is_shown


def test_a_server_that_annotates_nothing_is_healed() -> None:
    """Clients that never begin anew are the first complaint in the field (R21)."""
    play = opened()
    learn_tools(play, {"name": "login"}, {"name": "work"})
    play.call("login", id=1)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    quiet(play)

    play.call("work", id=2)
    play.refuse(play.leg("tools/call"), 404)

    assert play.has_leg("initialize")


def test_a_reset_of_a_call_that_is_not_sent_again_costs_no_session() -> None:
    """The second trace: login and working directory live on in the old one (R21)."""
    play = opened()
    learn_tools(play, {"name": "work", "annotations": DESTRUCTIVE})
    exchange, leg = open_call(play)

    play.cut(leg)

    assert exchange.answer["error"]["code"] == -32050
    assert not play.has_leg("initialize")
    assert play.session.state is SessionState.LIVE
    play.call("look", id=6)
    assert play.leg("tools/call").session_id == b"up-1"


# --- R22: silence -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "runs"), [("elicitation/create", 1), ("roots/list", 2)])
def test_an_answer_that_a_re_created_session_swallowed_is_no_silence_for_ever(method: str, runs: int) -> None:
    """The trace: a question, an eviction; the answer is taken with 202 by the new session (R22)."""
    play = opened(epoch=7)
    exchange = play.call()
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(ask(0, method, epoch=7)))
    play.post(result(0))
    play.accept(play.leg("answer"))
    play.advance(60.5)
    ping = play.leg("ping")
    play.answer(ping, result(ping.id, {}, 8))

    assert play.reasons == ["epoch_mismatch"]
    if runs == 2:
        play.heal(epoch=8)
        again = play.leg("tools/call")
        play.answer(again, result(again.id, epoch=8))
    assert ("result" in exchange.answer) is (runs == 2)
    assert play.runs == runs


def test_without_epochs_a_silent_server_is_asked_each_minute_and_given_up_at_the_limit() -> None:
    """The trace, where nothing shows that the session is another: an error, in the end (R22)."""
    play = opened(max_silence_s=3_600.0)
    exchange, leg = asking(play)
    play.post(result(0))
    play.accept(play.leg("answer"))
    began = play.now
    while leg.is_open:
        play.advance(30)
        if play.has_leg("ping"):
            play.answer(play.leg("ping"), result(play.leg("ping").id, {}))

    assert 3_600 <= play.now - began <= 3_720
    assert 50 <= len(play.sent("ping")) <= 60
    assert exchange.answer["error"]["data"]["reason"] == "upstream_silent"
    assert play.runs == 1


# --- R23: refusals that pass, and resumes that bring nothing ----------------------------------------


def test_only_resumes_in_a_row_without_a_message_are_counted() -> None:
    """One that brought a message is not the first of three (R23)."""
    play, exchange = broken()
    post = play.sent("tools/call")[0]
    first = resume(play, (progress(post.token, 4, 7), 5))
    play.cut(first)
    for _ in range(2):
        empty = play.leg("GET")
        play.open(empty)
        play.end(empty, LegEnd.CLEAN)
        play.advance(1)
    assert not play.reasons

    resume(play, (result(post.id, epoch=7), 6))

    assert exchange.answer["id"] == 5
    assert play.runs == 1


def test_a_server_that_is_restarted_in_the_meantime_is_waited_for() -> None:
    """The trace: refused, 503, 409, and then it goes on where it was (R23)."""
    play, exchange = broken()
    post = play.sent("tools/call")[0]
    play.unreachable(play.leg("GET"))
    play.advance(1)
    for status in (503, 409, 429, 502, 504):
        play.refuse(play.leg("GET"), status)
        play.advance(1)

    resume(play, (result(post.id, epoch=7), 5))

    assert exchange.answer["id"] == 5
    assert play.runs == 1
    assert not play.reasons
