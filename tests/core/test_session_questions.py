"""Questions across a loss: what is void, who is restarted, and what is never run again (R18, R19, R28)."""

from __future__ import annotations

import pytest

from epochgate.core.events import LegEnd
from epochgate.core.policy import Reissue
from tests.core.messages import event, result
from tests.core.playbook import opened
from tests.core.scenes import asked, asking, give_answer


def test_a_call_that_waits_for_its_answer_survives_the_heal_of_another() -> None:
    """The trace: a heal takes the whole old generation for dead, and its question is cancelled (R18)."""
    play = opened()
    first, leg = asking(play, 0, of=1)
    _, other = asking(play, 1, of=2)
    play.cut(other)
    play.heal()

    reply, carried = give_answer(play, 0)
    assert carried is not None
    assert carried.session_id == b"up-1"
    play.accept(carried)
    play.send(leg, event(result(leg.id)))

    assert reply.status == 202
    assert first.answer["id"] == 1
    assert "result" in first.answer


def test_an_answer_that_meets_404_restarts_the_run_that_asked() -> None:
    """The waiting call can never end (R18)."""
    play = opened()
    exchange, _ = asking(play, 0, method="roots/list")
    reply, carried = give_answer(play, 0)
    assert carried is not None
    play.refuse(carried, 404)

    assert reply.status == 202
    assert play.reasons == ["question_void"]
    play.heal()
    again = play.leg("tools/call")
    play.answer(again, result(again.id))
    assert exchange.answer["id"] == 5
    assert play.heals == [("question_void", "healed")]


@pytest.mark.parametrize(
    ("method", "is_sent_again"),
    [("elicitation/create", False), ("sampling/createMessage", False), ("roots/list", True)],
)
def test_a_call_of_which_a_question_was_answered_is_never_run_again(method: str, is_sent_again: bool) -> None:
    """The payment was confirmed once (R28)."""
    play = opened(reissue=Reissue.ALWAYS)
    exchange, leg = asking(play, 0, method=method)
    _, carried = give_answer(play, 0)
    assert carried is not None
    play.accept(carried)
    play.cut(leg)

    if is_sent_again:
        play.heal()
    assert play.runs == (2 if is_sent_again else 1)
    if not is_sent_again:
        assert exchange.answer["error"]["code"] == -32050


def test_one_server_id_asked_twice_while_open_proves_another_session() -> None:
    """The trace: both questions are void, both streams restart (R19)."""
    play = opened()
    first, _ = asking(play, 0, of=1)
    second, _ = asking(play, 0, of=2)

    assert asked(first) == [0]
    assert asked(second) == []
    assert play.reasons == ["request_id_reset", "request_id_reset"]
    play.heal()
    for leg in play.sent("tools/call")[2:]:
        play.answer(leg, result(leg.id))
    assert (first.answer["id"], second.answer["id"]) == (1, 2)
    assert play.heals == [("id_reset", "healed")]
    reply, carried = give_answer(play, 0)
    assert (reply.status, carried) == (202, None)


@pytest.mark.parametrize("how", [LegEnd.NOT_SENT, LegEnd.BROKEN, LegEnd.SILENT])
def test_an_answer_whose_fate_is_unknown_makes_its_stream_suspect(how: LegEnd) -> None:
    """202, and the leg is probed (R37)."""
    play = opened()
    exchange, _ = asking(play, 0)
    reply, carried = give_answer(play, 0)
    assert carried is not None
    play.end(carried, how)

    assert reply.status == 202
    ping = play.leg("ping")
    assert ping.session_id == b"up-1"
    play.end(ping, LegEnd.NOT_SENT)
    assert play.reasons == ["no_epoch_captured"]
    assert exchange.answer["error"]["code"] == -32050  # it was answered: never again


def test_a_stream_whose_question_was_answered_is_not_restarted_with_the_others() -> None:
    """Only what is open is void (R19)."""
    play = opened()
    done, leg = asking(play, 0, of=1)
    _, carried = give_answer(play, 0)
    assert carried is not None
    play.accept(carried)
    asking(play, 0, of=2)
    asking(play, 0, of=3)

    assert play.reasons == ["request_id_reset", "request_id_reset"]
    play.send(leg, event(result(leg.id)))
    assert done.answer["id"] == 1
