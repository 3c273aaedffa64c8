"""Questions of the server: shown under a free id, answered to who asked (R18, R19, R28, R37)."""

from __future__ import annotations

import pytest

from epochgate.core.commands import Drifted
from tests.core.messages import Json, ask, error, event, notification, progress, request, result
from tests.core.playbook import opened
from tests.core.scenes import asked, asking, give_answer
from tests.core.sides import Exchange


def sampling_tokens(exchange: Exchange) -> list[Json]:
    questions = [one for one in exchange.messages if one.get("method") == "sampling/createMessage"]
    return [one["params"]["_meta"]["progressToken"] for one in questions]


@pytest.mark.parametrize("id", [0, 17, "q", "0"])
def test_a_question_passes_and_its_answer_goes_to_the_session_that_asked(id: Json) -> None:
    play = opened()
    exchange, _ = asking(play, id)
    assert exchange.messages == [ask(id)]

    reply, leg = give_answer(play, id)

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
    _, to_first = give_answer(play, one)
    _, to_second = give_answer(play, two)

    assert to_first is not None
    assert to_second is not None
    assert (to_first.session_id, to_first.id) == (b"up-1", 0)
    assert (to_second.session_id, to_second.id) == (b"up-2", 0)


def test_an_answer_during_a_heal_never_waits() -> None:
    """It would wait for a heal that waits for it (R24)."""
    play = opened()
    asking(play, 0, of=1)
    _, other = asking(play, 1, of=2)
    play.cut(other)
    assert play.has_leg("initialize")

    _, carried = give_answer(play, 0)

    assert carried is not None
    assert carried.session_id == b"up-1"


def test_an_answer_given_twice_goes_up_once() -> None:
    play = opened()
    asking(play, 0)
    give_answer(play, 0)

    reply, carried = give_answer(play, 0)

    assert carried is None
    assert reply.status == 202


def test_an_answer_that_is_an_error_is_an_answer_too() -> None:
    play = opened()
    asking(play, 3)

    play.post(error(3, -1, "declined"))

    assert play.leg("answer").json == error(3, -1, "declined")


def test_an_id_is_asked_again_after_it_was_answered() -> None:
    """That proves nothing (R19)."""
    play = opened()
    exchange, leg = asking(play, 0)
    _, carried = give_answer(play, 0)
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
    _, carried = give_answer(play, 0)
    assert carried is not None
    play.send(leg, event(ask(0)))
    visible = asked(exchange)[1]

    play.send(leg, event(notification("notifications/cancelled", {"requestId": 0})))

    assert exchange.messages[-1]["params"]["requestId"] == visible
    assert give_answer(play, visible)[1] is None


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


def test_a_question_of_which_nothing_is_known_is_given_up_as_it_stands() -> None:
    play = opened()
    exchange, leg = asking(play, 0)

    play.send(leg, event(notification("notifications/cancelled", {"requestId": 9})))

    assert exchange.messages == [
        ask(0),
        notification("notifications/cancelled", {"requestId": 9}),
    ]
    assert give_answer(play, 0)[1] is not None


def test_a_question_is_given_up_in_the_session_that_asked_it_and_in_no_other() -> None:
    """Both count from 0 (R19)."""
    play = opened()
    first, leg = asking(play, 0, of=1)
    other = play.call(id=2, token=2)
    broken = play.leg("tools/call")
    play.cut(broken)
    play.heal()
    again = play.leg("tools/call")
    play.open(again)
    play.send(again, event(ask(0)))
    (visible,) = asked(other)

    play.send(leg, event(notification("notifications/cancelled", {"requestId": 0})))

    assert first.messages[-1]["params"]["requestId"] == 0
    assert give_answer(play, 0)[1] is None
    _, carried = give_answer(play, visible)
    assert carried is not None
    assert (carried.session_id, carried.id) == (b"up-2", 0)


def test_an_id_that_was_drawn_for_another_question_is_drawn_again() -> None:
    play = opened()
    exchange, leg = asking(play, 0)
    drawn = iter([1, 1, 2])
    play.session.entropy = lambda _bits: next(drawn)
    for _ in range(2):
        _, carried = give_answer(play, asked(exchange)[-1])
        assert carried is not None
        play.accept(carried)
        play.send(leg, event(ask(0)))

    assert asked(exchange) == [0, 2**46 + 1, 2**46 + 2]


def test_a_text_stands_for_a_text() -> None:
    play = opened()
    exchange, leg = asking(play, "q")
    _, carried = give_answer(play, "q")
    assert carried is not None
    play.accept(carried)

    play.send(leg, event(ask("q")))

    assert asked(exchange)[1].startswith("eg-")


def test_an_error_without_an_id_answers_no_question_and_passes() -> None:
    play = opened()
    exchange, _ = asking(play, 0)

    reply = play.post({"jsonrpc": "2.0", "error": {"code": -32700, "message": "parse error"}})

    leg = play.leg("answer")
    assert leg.json == {"jsonrpc": "2.0", "error": {"code": -32700, "message": "parse error"}}
    play.accept(leg)
    assert reply.status == 202
    assert exchange.is_open
    assert give_answer(play, 0)[1] is not None


def test_an_answer_to_what_this_session_never_asked_goes_no_further() -> None:
    """Its client has another session, where that id stands for something else (R19)."""
    play = opened()

    reply, leg = give_answer(play, 0)

    assert (reply.status, leg) == (202, None)
    assert play.dropped == ["stale_answer"]


def test_of_very_many_questions_the_oldest_are_forgotten() -> None:
    """What is kept of a session is bounded (G8); an answer to one of them passes as it stands."""
    play = opened()
    exchange, leg = asking(play, 0)

    play.send(
        leg,
        *[
            event(request("sampling/createMessage", {"_meta": {"progressToken": id}}, id=id))
            for id in range(1, 10_002)
        ],
    )

    assert len(play.session.questions) == len(play.session.question_tokens) == 10_000
    assert len(asked(exchange)) == 10_002
    _, oldest = give_answer(play, 0)
    assert oldest is not None
    assert oldest.json == result(0, {"action": "accept"})
    _, newest = give_answer(play, 10_001)
    assert newest is not None


def test_the_answer_to_a_question_of_a_dead_run_goes_no_further() -> None:
    """Void: 202 and dropped (R18); G2."""
    play = opened()
    exchange, leg = asking(play, 0)
    play.cut(leg)
    play.heal()

    reply, carried = give_answer(play, 0)

    assert carried is None
    assert reply.status == 202
    assert play.dropped == ["stale_answer"]
    assert exchange.is_open


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

    reply, carried = give_answer(play, 0)

    assert (reply.status, carried) == (202, None)
    assert play.dropped == ["stale_answer"]
    assert play.reasons == ["question_void"]
    assert exchange.is_open


@pytest.mark.parametrize("status", [401, 403])
def test_a_question_whose_answer_was_refused_waits_for_one_who_may_answer(status: int) -> None:
    play = opened()
    asking(play, 0)
    reply, refused = give_answer(play, 0)
    assert refused is not None
    play.refuse(refused, status, b"no")
    assert (reply.status, reply.body) == (status, b"no")

    second, carried = give_answer(play, 0)

    assert carried is not None
    play.accept(carried)
    assert second.status == 202
    assert play.runs == 1
