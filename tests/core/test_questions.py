"""Questions of the server: shown under a free id, answered to who asked (R18, R19, R28, R37)."""

from __future__ import annotations

import pytest

from epochgate.core.commands import Drifted
from epochgate.core.events import LegEnd
from epochgate.core.policy import Reissue
from tests.core.messages import Json, ask, error, event, notification, progress, request, result
from tests.core.playbook import Play, opened
from tests.core.sides import Exchange, Upstream


def asking(
    play: Play, id: Json = 0, *, of: Json = 5, method: str = "elicitation/create"
) -> tuple[Exchange, Upstream]:
    """A call whose run asks the client something."""
    exchange = play.call(id=of, token=of)
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(ask(id, method)))
    return exchange, leg


def asked(exchange: Exchange) -> list[Json]:
    return [one["id"] for one in exchange.messages if "method" in one and "id" in one]


def sampling_tokens(exchange: Exchange) -> list[Json]:
    questions = [one for one in exchange.messages if one.get("method") == "sampling/createMessage"]
    return [one["params"]["_meta"]["progressToken"] for one in questions]


def answer(play: Play, id: Json) -> tuple[Exchange, Upstream | None]:
    """The client answers; the leg that carried it, if any."""
    before = len(play.sent("answer"))
    exchange = play.post(result(id, {"action": "accept"}))
    carried = play.sent("answer")[before:]
    return exchange, carried[0] if carried else None


@pytest.mark.parametrize("id", [0, 17, "q", "0"])
def test_a_question_passes_and_its_answer_goes_to_the_session_that_asked(id: Json) -> None:
    play = opened()
    exchange, _ = asking(play, id)
    assert exchange.messages == [ask(id)]

    reply, leg = answer(play, id)

    assert leg is not None
    assert (leg.session_id, leg.json) == (b"up-1", result(id, {"action": "accept"}))
    play.accept(leg)
    assert reply.status == 202


def test_two_sessions_that_ask_the_same_id_get_each_its_own_answer() -> None:
    """Servers count from 0 in each session (R19)."""
    play = opened()
    first, _ = asking(play, 0, of=1)
    broken = play.call(id=2, token=2)
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(progress(leg.token, 1)))
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    play.open(again)
    play.send(again, event(ask(0)))

    (one,), (two,) = asked(first), asked(broken)
    assert one != two
    assert type(two) is int
    _, to_first = answer(play, one)
    _, to_second = answer(play, two)

    assert to_first is not None
    assert to_second is not None
    assert (to_first.session_id, to_first.id) == (b"up-1", 0)
    assert (to_second.session_id, to_second.id) == (b"up-2", 0)


def test_a_call_that_waits_for_its_answer_survives_the_heal_of_another() -> None:
    """The trace: a heal takes the whole old generation for dead, and its question is cancelled (R18)."""
    play = opened()
    first, leg = asking(play, 0, of=1)
    _, other = asking(play, 1, of=2)
    play.cut(other)
    play.heal()

    reply, carried = answer(play, 0)
    assert carried is not None
    assert carried.session_id == b"up-1"
    play.accept(carried)
    play.send(leg, event(result(leg.id)))

    assert reply.status == 202
    assert first.answer["id"] == 1
    assert "result" in first.answer


def test_an_answer_during_a_heal_never_waits() -> None:
    """It would wait for a heal that waits for it (R24)."""
    play = opened()
    asking(play, 0, of=1)
    _, other = asking(play, 1, of=2)
    play.cut(other)
    assert play.has_leg("initialize")

    _, carried = answer(play, 0)

    assert carried is not None
    assert carried.session_id == b"up-1"


def test_the_answer_to_a_question_of_a_dead_run_goes_no_further() -> None:
    """Void: 202 and dropped (R18); G2."""
    play = opened()
    exchange, leg = asking(play, 0)
    play.cut(leg)
    play.heal()

    reply, carried = answer(play, 0)

    assert carried is None
    assert reply.status == 202
    assert play.dropped == ["stale_answer"]
    assert exchange.is_open


def test_an_answer_given_twice_goes_up_once() -> None:
    play = opened()
    asking(play, 0)
    answer(play, 0)

    reply, carried = answer(play, 0)

    assert carried is None
    assert reply.status == 202


def test_an_answer_that_meets_404_restarts_the_run_that_asked() -> None:
    """The waiting call can never end (R18)."""
    play = opened()
    exchange, _ = asking(play, 0, method="roots/list")
    reply, carried = answer(play, 0)
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
    _, carried = answer(play, 0)
    assert carried is not None
    play.accept(carried)
    play.cut(leg)

    if is_sent_again:
        play.heal()
    assert play.runs == (2 if is_sent_again else 1)
    if not is_sent_again:
        assert exchange.answer["error"]["code"] == -32050


def test_an_answer_that_is_an_error_is_an_answer_too() -> None:
    play = opened()
    asking(play, 3)

    play.post(error(3, -1, "declined"))

    assert play.leg("answer").json == error(3, -1, "declined")


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
    reply, carried = answer(play, 0)
    assert (reply.status, carried) == (202, None)


def test_an_id_is_asked_again_after_it_was_answered() -> None:
    """That proves nothing (R19)."""
    play = opened()
    exchange, leg = asking(play, 0)
    _, carried = answer(play, 0)
    assert carried is not None
    play.accept(carried)

    play.send(leg, event(ask(0)))

    one, two = asked(exchange)
    assert one != two
    assert not play.reasons


def test_a_question_that_the_server_gives_up_is_named_as_the_client_knows_it() -> None:
    """Cancelled likewise (R19)."""
    play = opened()
    exchange, leg = asking(play, 0)
    _, carried = answer(play, 0)
    assert carried is not None
    play.send(leg, event(ask(0)))
    visible = asked(exchange)[1]

    play.send(leg, event(notification("notifications/cancelled", {"requestId": 0})))

    assert exchange.messages[-1]["params"]["requestId"] == visible
    assert answer(play, visible)[1] is None


def test_progress_on_a_question_goes_to_the_session_that_asked_under_its_own_token() -> None:
    """Progress tokens of the server's requests are mapped likewise (R19)."""
    play = opened()
    first, _ = asking(play, 0, of=1)
    leg = play.sent("tools/call")[0]
    question = request("sampling/createMessage", {"_meta": {"progressToken": 0}}, id=7)
    play.send(leg, event(question))
    other = play.call(id=2, token=2)
    second = play.leg("tools/call")
    play.open(second)
    play.send(second, event(progress(second.token, 1)))
    play.cut(second)
    play.heal()
    again = play.leg("tools/call")
    play.open(again)
    play.send(again, event(request("sampling/createMessage", {"_meta": {"progressToken": 0}}, id=7)))

    tokens = [sampling_tokens(exchange) for exchange in (first, other)]
    assert tokens[0] != tokens[1]
    for (token,), session_id in zip(tokens, (b"up-1", b"up-2"), strict=True):
        play.post(progress(token, 1))
        carried = play.leg("notifications/progress")
        assert carried.session_id == session_id
        assert carried.json["params"]["progressToken"] == 0


@pytest.mark.parametrize("how", [LegEnd.NOT_SENT, LegEnd.BROKEN, LegEnd.SILENT])
def test_an_answer_whose_fate_is_unknown_makes_its_stream_suspect(how: LegEnd) -> None:
    """202, and the leg is probed (R37)."""
    play = opened()
    exchange, _ = asking(play, 0)
    reply, carried = answer(play, 0)
    assert carried is not None
    play.end(carried, how)

    assert reply.status == 202
    ping = play.leg("ping")
    assert ping.session_id == b"up-1"
    play.end(ping, LegEnd.NOT_SENT)
    assert play.reasons == ["no_epoch_captured"]
    assert exchange.answer["error"]["code"] == -32050  # it was answered: never again


def test_a_question_void_by_drift_is_dropped() -> None:
    """Its generation was replaced under the same upstream id (R18, R19)."""
    play = opened(epoch=1)
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(ask(0, epoch=1)))
    play.post(request("ping", id="p"))
    ping = play.leg("ping")
    play.answer(ping, result(ping.id, {}, 2))
    assert play.facts(Drifted)

    reply, carried = answer(play, 0)

    assert (reply.status, carried) == (202, None)
    assert play.dropped == ["stale_answer"]
    assert play.reasons == ["question_void"]
    assert exchange.is_open


def test_a_stream_whose_question_was_answered_is_not_restarted_with_the_others() -> None:
    """Only what is open is void (R19)."""
    play = opened()
    done, leg = asking(play, 0, of=1)
    _, carried = answer(play, 0)
    assert carried is not None
    play.accept(carried)
    asking(play, 0, of=2)
    asking(play, 0, of=3)

    assert play.reasons == ["request_id_reset", "request_id_reset"]
    play.send(leg, event(result(leg.id)))
    assert done.answer["id"] == 1
