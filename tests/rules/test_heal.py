"""The traces of R18 to R21: what a heal touches, and when there is one."""

from __future__ import annotations

import pytest

from epochgate.core.events import LegEnd
from epochgate.core.policy import SessionLoss
from epochgate.core.states import SessionState
from tests.core.messages import cancel, event, log, progress, result, retry
from tests.core.playbook import MARK, opened, quiet
from tests.core.scenes import asking, broken, learn_tools, listening, open_call, rerun, say, texts

DESTRUCTIVE = {"destructiveHint": True}


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


@pytest.mark.parametrize("how", [LegEnd.BROKEN, LegEnd.CLEAN])
@pytest.mark.parametrize("header", [None, b"e1"])
def test_a_standalone_stream_of_which_nothing_could_be_proven_is_reopened(
    header: bytes | None, how: LegEnd
) -> None:
    """Resumed, or rejoined after a poll, it would be mute: a message would have to state the epoch
    (R6, R21)."""
    play, exchange, leg = listening(epoch_header=header)
    play.send(leg, event(log("a"), 1), retry(100))
    play.end(leg, how)
    play.advance(2)

    again = play.leg("GET")
    assert again.last_event_id is None
    play.open(again, () if header is None else ((b"Mcp-Session-Epoch", header),))
    say(play, again, "b")

    assert texts(exchange) == ["a", "b"]
    assert play.counted == ["standalone_gaps"]
    assert play.dropped == []


def test_a_gap_of_the_standalone_stream_is_one_however_often_it_was_tried_to_reopen() -> None:
    """It is counted when the stream is there again (R21)."""
    play, _, leg = listening()
    play.cut(leg)
    for _ in range(4):
        play.advance(31)
        leg = play.leg("GET")
        play.unreachable(leg)
    play.advance(31)
    assert play.counted == []

    play.open(play.leg("GET"))

    assert play.counted == ["standalone_gaps"]
    assert not play.has_leg("initialize")
