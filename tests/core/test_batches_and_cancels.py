"""Cancels, and batches of requests (R29, R41)."""

from __future__ import annotations

from epochgate.core.commands import Persist
from epochgate.core.records import CancelRecord
from tests.core.messages import ask, cancel, error, event, request, result
from tests.core.playbook import opened
from tests.core.scenes import open_call


def test_a_cancel_is_mapped_to_the_stamp_and_durable_before_its_202() -> None:
    """A crash must not lose it (R29, R16)."""
    play = opened()
    _, leg = open_call(play)
    play.is_persisting = False
    exchange = play.post(cancel(5))
    assert exchange.status is None
    (waiting,) = play.persists
    assert isinstance(waiting, Persist)
    assert isinstance(waiting.record, CancelRecord)
    play.persist()

    up = play.leg("notifications/cancelled")
    assert (up.session_id, up.json["params"]["requestId"]) == (b"up-1", leg.id)
    play.accept(up)
    assert exchange.status == 202


def test_after_a_cancel_the_stream_ends_within_five_seconds() -> None:
    """Servers that never end it would leave it open for ever (R29)."""
    play = opened()
    exchange, leg = open_call(play)
    play.post(cancel(5))
    play.accept(play.leg("notifications/cancelled"))
    play.advance(4.9)
    assert exchange.is_open
    play.advance(0.2)

    assert not exchange.is_open
    assert exchange.answers == []
    assert not leg.is_open


def test_an_answer_that_comes_all_the_same_is_relayed() -> None:
    """G3: after a cancel at most one."""
    play = opened()
    exchange, leg = open_call(play)
    play.post(cancel(5))
    play.send(leg, event(result(leg.id)))

    assert exchange.answer == result(5)
    play.advance(10)


def test_a_cancelled_call_whose_leg_breaks_is_not_run_again() -> None:
    """A cancel is state of the request (R29)."""
    play = opened()
    exchange, leg = open_call(play)
    play.post(cancel(5))
    play.cut(leg)
    play.advance(6)

    assert not exchange.is_open
    assert not play.has_leg("initialize")
    assert play.runs == 1


def test_a_cancel_after_the_second_run_began_goes_to_the_newest_stamp() -> None:
    """Mapped to the newest stamp in flight (R29)."""
    play = opened()
    _, leg = open_call(play)
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    play.post(cancel(5))

    up = play.sent("notifications/cancelled")[-1]
    assert (up.session_id, up.json["params"]["requestId"]) == (b"up-2", again.id)


def test_a_cancel_of_an_id_in_flight_twice_goes_to_the_newest() -> None:
    """Which of the two is meant cannot be told (R33)."""
    play = opened()
    play.call("a", id=1)
    play.call("b", id=1)
    play.post(cancel(1))

    assert play.leg("notifications/cancelled").json["params"]["requestId"] == play.sent("tools/call")[1].id


def test_a_cancel_keeps_the_type_of_the_id() -> None:
    """Ids compare with their type (R33)."""
    play = opened()
    play.call("a", id=1)
    play.call("b", id="1")
    play.post(cancel(1))

    assert play.leg("notifications/cancelled").json["params"]["requestId"] == play.sent("tools/call")[0].id


def test_a_batch_goes_up_as_one_under_stamps_and_comes_back_whole() -> None:
    """As the server wrote it, less the stamps (R41)."""
    play = opened()
    exchange = play.post([request("tools/list", id=1), request("ping", id="2")])
    leg = play.leg("batch")
    one, two = leg.json
    assert (type(one["id"]), type(two["id"])) == (int, str)
    assert (one["id"], two["id"]) != (1, "2")

    play.answer(leg, [result(two["id"], {"of": 2}), result(one["id"], {"of": 1})])

    assert exchange.json == [result("2", {"of": 2}), result(1, {"of": 1})]


def test_only_the_unanswered_members_of_a_batch_are_run_again() -> None:
    """As one batch of their own (R41)."""
    play = opened()
    exchange = play.post([request("tools/list", id=1), request("ping", id=2), request("prompts/list", id=3)])
    leg = play.leg("batch")
    play.open(leg)
    play.send(leg, event(result(leg.json[1]["id"])))
    play.cut(leg)
    play.heal()

    again = play.leg("batch")
    assert [one["method"] for one in again.json] == ["tools/list", "prompts/list"]
    play.open(again)
    play.send(again, event(result(again.json[0]["id"])), event(error(again.json[1]["id"])))

    assert sorted(one["id"] for one in exchange.answers) == [1, 2, 3]
    assert not exchange.is_open


def test_withheld_members_of_a_batch_get_their_error_and_the_rest_runs_again() -> None:
    """Each member under the policy (R41)."""
    play = opened(never_reissue=frozenset({"pay"}))
    exchange = play.post(
        [request("tools/call", {"name": "pay"}, id=1), request("tools/list", id=2)],
    )
    leg = play.leg("batch")
    play.open(leg)
    play.send(leg, event(request("ping", id="s")))
    play.cut(leg)
    play.heal()

    again = play.leg("batch")
    assert [one["method"] for one in again.json] == ["tools/list"]
    play.answer(again, [result(again.json[0]["id"])])

    answers = {one["id"]: one for one in exchange.answers}
    assert answers[1]["error"]["code"] == -32050
    assert "result" in answers[2]


def test_withheld_members_of_a_json_batch_get_their_error_too() -> None:
    """Every request gets exactly one response (R41); G3."""
    play = opened(never_reissue=frozenset({"pay"}))
    exchange = play.post(
        [request("tools/call", {"name": "pay"}, id=1), request("tools/list", id=2)],
    )
    play.cut(play.leg("batch"))
    play.heal()
    again = play.leg("batch")
    play.answer(again, [result(again.json[0]["id"])])

    assert sorted(one["id"] for one in exchange.answers) == [1, 2]


def test_a_member_that_was_answered_already_is_late() -> None:
    """G3."""
    play = opened()
    exchange = play.post([request("tools/list", id=1), request("ping", id=2)])
    leg = play.leg("batch")
    one, two = (member["id"] for member in leg.json)
    play.open(leg)

    play.send(leg, event(result(one, {"of": "run"})), event(result(one, {"of": "another"})))
    play.send(leg, event(result(two)))

    assert [answer["id"] for answer in exchange.answers] == [1, 2]
    assert exchange.answers[0]["result"] == {"of": "run"}
    assert play.dropped == ["late"]


def test_answers_in_one_array_are_acknowledged_when_each_was() -> None:
    play = opened()
    _, leg = open_call(play)
    play.send(leg, event(ask(0)), event(ask(1)))
    reply = play.post([result(0, {"action": "accept"}), result(1, {"action": "accept"})])

    first, second = play.sent("answer")
    play.accept(first)
    assert reply.status is None
    play.accept(second)

    assert reply.status == 202
