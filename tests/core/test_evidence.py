"""What a message claims to be, and what it and its event say.

Longer than most: its module is to be proven by this file alone.
"""

from __future__ import annotations

import pytest

from epochgate.core.policy import Stamps
from tests.core.messages import Json, ask, error, event, initialize_answer, log, progress, request, result
from tests.core.playbook import JSON, Play, opened, quiet
from tests.core.scenes import (
    EPOCH,
    broken,
    call,
    learn_tools,
    listening,
    open_call,
    resume,
    say,
    texts,
)

DESTRUCTIVE = {"name": "work", "annotations": {"destructiveHint": True}}


def listed(play: Play, *tools: Json) -> None:
    """The client reads the list of tools."""
    learn_tools(play, *tools)


def test_a_question_that_was_asked_before_the_break_is_not_asked_again() -> None:
    """Known by its server id (R6)."""
    play = opened(epoch=1)
    exchange, post = call(play)
    play.send(post, event(ask(0, epoch=1), 1))
    play.cut(post)
    leg = play.leg("GET")
    play.open(leg)

    play.send(leg, event(ask(0, epoch=1), 2), event(progress(post.token, 1, 1), 3))

    assert sum(one.get("method") == "elicitation/create" for one in exchange.messages) == 1
    assert play.dropped == ["duplicate"]
    assert not play.reasons


def other(id: Json, epoch: Json) -> Json:
    return request("elicitation/create", {"message": "another?", "_meta": {"session_epoch": epoch}}, id=id)


def test_another_question_under_the_id_of_an_open_one_is_no_replay() -> None:
    """The server counts anew: the answer to one would be given to the other (R19)."""
    play = opened(epoch=1)
    _, post = call(play)
    play.send(post, event(ask(0, epoch=1), 1))
    play.cut(post)
    leg = play.leg("GET")
    play.open(leg)

    play.send(leg, event(other(0, 1), 2))

    assert play.reasons == ["request_id_reset"]
    assert play.post(result(0, {"action": "accept"})).status == 202
    assert not play.has_leg("answer")


def test_another_question_under_the_id_of_an_answered_one_is_asked() -> None:
    play = opened(epoch=1)
    exchange, post = call(play)
    play.send(post, event(ask(0, epoch=1), 1))
    play.post(result(0, {"action": "accept"}))
    play.accept(play.leg("answer"))
    play.cut(post)
    leg = play.leg("GET")
    play.open(leg)

    play.send(leg, event(ask(0, epoch=1), 1), event(other(0, 1), 2))

    assert [one["params"]["message"] for one in exchange.messages if "method" in one] == ["sure?", "another?"]
    assert play.dropped == ["duplicate"]


def test_a_call_of_the_undo_tool_takes_its_tool_out_of_the_prelude() -> None:
    """What was closed again is not opened anew (R40)."""
    play = opened(replay_tools=("login", "open"), undo_tools=(("close", "open"),))
    for tool in ("login", "open", "close"):
        play.call(tool)
        play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))

    assert list(play.session.prelude) == ["login"]


def test_a_call_that_failed_is_not_part_of_the_prelude() -> None:
    """It left nothing to rebuild, and would make every heal fail (R40)."""
    play = opened(replay_tools=("login",))
    play.call("login")
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id, {"isError": True}))

    assert list(play.session.prelude) == []


def test_one_stray_response_on_a_healthy_leg_costs_a_destructive_call_nothing() -> None:
    """It is dropped, and nothing is restarted (R30)."""
    play = opened()
    listed(play, DESTRUCTIVE)
    exchange, leg = open_call(play)
    play.send(leg, event(result(4711)), event(progress("nobody", 1)))
    play.send(leg, event(result(leg.id, {"done": True})))

    assert exchange.answer["result"] == {"done": True}
    assert play.dropped == ["foreign", "foreign"]
    assert not play.reasons


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


@pytest.mark.parametrize(("epoch", "is_over"), [(1, True), (2, False)])
def test_a_large_answer_is_weighed_when_all_of_it_was_seen(epoch: int, is_over: bool) -> None:
    """Its end is held back until then: of another epoch it must not look whole."""
    play = opened(epoch=1, max_event_bytes=1_000)
    exchange, leg = call(play)
    play.send(leg, event(progress(leg.token, 1, 1)))
    answer = {"jsonrpc": "2.0", "id": leg.id, "result": {"text": "x" * 5_000, **stated(epoch)}}
    raw = event(answer)
    for at in range(0, len(raw), 700):
        if leg.is_open:
            play.send(leg, raw[at : at + 700])

    assert (exchange.answers != []) is is_over
    assert play.reasons == ([] if is_over else ["epoch_mismatch"])


def stated(epoch: int) -> Json:
    return {"_meta": {"session_epoch": epoch}}


@pytest.mark.parametrize("claims", ["id", "token"])
def test_a_large_event_under_a_stamp_that_is_not_ours_is_broken_off(claims: str) -> None:
    play = opened(max_event_bytes=1_000)
    exchange, leg = call(play)
    large = result(12345, {"text": "x" * 5_000}) if claims == "id" else progress(12345, 1)
    if claims == "token":
        large["params"]["message"] = "x" * 5_000
    raw = event(large)
    for at in range(0, len(raw), 700):
        play.send(leg, raw[at : at + 700])

    assert exchange.is_aborted
    assert exchange.answers == []
    assert play.dropped == ["foreign"]


def test_a_large_answer_to_a_request_that_calls_no_tool_leaves_no_state() -> None:
    """So that a later 404 is healed: nothing was lost with the session."""
    play = opened(max_event_bytes=1_000)
    learn_tools(play, {"name": "look", "annotations": {"readOnlyHint": True}})
    exchange = play.post(request("resources/read", {"uri": "file:///a"}, id=5))
    leg = play.leg("resources/read")
    play.open(leg)
    raw = event(result(leg.id, {"text": "x" * 5_000}))
    for at in range(0, len(raw), 700):
        play.send(leg, raw[at : at + 700])
    assert exchange.answer["id"] == 5
    quiet(play)

    play.call(id=6)
    play.refuse(play.leg("tools/call"), 404)

    assert play.has_leg("initialize")


@pytest.mark.parametrize("with_message", [True, False])
def test_an_empty_event_id_takes_the_cursor_back(with_message: bool) -> None:
    """Then there is nothing to resume behind, as for any reader of event streams."""
    play = opened(epoch=1)
    _, leg = call(play)
    play.send(leg, event(progress(leg.token, 1, 1), 1))
    play.send(leg, event(progress(leg.token, 2, 1), "") if with_message else b"id:\ndata: \n\n")

    play.cut(leg)

    assert play.reasons == ["no_upstream_id"]


def test_priming_of_a_resumed_leg_that_does_not_follow_moves_no_cursor() -> None:
    """The next resume begins where the last proven event was."""
    play, _ = broken(epoch=1)
    leg = play.leg("GET")
    play.open(leg)
    play.send(leg, b"id: 9\ndata: \n\n")
    play.cut(leg)
    play.advance(1)

    assert play.leg("GET").last_event_id == b"4"


def test_what_carries_no_stamp_moves_the_cursor_of_a_resumed_leg_if_it_follows() -> None:
    """The id is the stream's own next one (R6, R31)."""
    play, _ = broken(epoch=1)
    leg = resume(play, (log("of this session", 1), 5))

    play.cut(leg)
    play.advance(1)

    assert play.leg("GET").last_event_id == b"5"


def test_what_carries_no_stamp_and_no_id_moves_no_cursor_on_a_resumed_leg() -> None:
    """It is relayed all the same: it states the epoch."""
    play, exchange = broken(epoch=1)
    leg = resume(play, (log("of this session", 1), None))
    assert exchange.messages[-1]["params"]["data"] == "of this session"

    play.cut(leg)

    assert play.leg("GET").last_event_id == b"4"


@pytest.mark.parametrize("answer", ["error", "result"])
def test_an_error_teaches_nothing_of_the_tools(answer: str) -> None:
    play = opened(tools=[])
    exchange = play.post(request("tools/list", id=1))
    leg = play.leg("tools/list")
    tools = {"tools": [{"name": "work", "annotations": {"readOnlyHint": True}}]}

    play.answer(leg, error(leg.id) if answer == "error" else result(leg.id, tools))

    assert exchange.json["id"] == 1
    assert ("work" in play.session.tools.hints) is (answer == "result")


def test_what_is_no_json_rpc_passes_on_a_leg_that_never_broke_and_no_other() -> None:
    play = opened(epoch=1)
    exchange, leg = call(play)
    play.send(leg, event(progress(leg.token, 1, 1), 1), b"id: 2\ndata: no JSON\n\n")
    assert b"data: no JSON\n" in exchange.body
    play.cut(leg)
    before = exchange.body

    resume(play, (b"nor this", 3))

    assert exchange.body == before
    assert play.dropped == ["unproven"]


def test_an_error_without_an_id_answers_nothing() -> None:
    play = opened()
    exchange, leg = call(play)
    lonely = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "parse error"}}

    play.send(leg, event(lonely), event(result(leg.id)))

    assert exchange.messages == [lonely, result(5)]


def test_the_answer_of_a_call_on_the_stream_of_another_is_dropped() -> None:
    """Its own stream is owed it."""
    play = opened()
    first, one = call(play, id=1, token="a")
    second, two = call(play, id=2, token="b")

    play.send(two, event(result(one.id)))
    play.send(one, event(result(one.id)))

    assert play.dropped == ["foreign"]
    assert second.answers == []
    assert first.answer == result(1)


def test_of_a_member_that_was_answered_nothing_more_is_taken() -> None:
    """Neither another answer nor progress, while the rest of its batch is open."""
    play = opened()
    calls = [request("tools/call", {"name": "work", "_meta": {"progressToken": id}}, id=id) for id in (1, 2)]
    exchange = play.post(calls)
    leg = play.leg("batch")
    play.open(leg)
    one = leg.json[0]
    token = one["params"]["_meta"]["progressToken"]

    play.send(leg, event(result(one["id"])), event(result(one["id"])), event(progress(token, 1)))

    assert exchange.messages == [result(1)]
    assert play.dropped == ["late", "late"]


def test_without_stamps_an_answer_is_known_by_the_clients_own_id() -> None:
    play = opened(stamp=Stamps.OFF)
    exchange, leg = call(play)
    assert leg.id == 5

    play.send(leg, event(result(5)))

    assert exchange.answer == result(5)


def test_what_a_server_refused_is_not_put_back_by_a_heal() -> None:
    """Asked for is not agreed to: repeating it would fail the heal, for good."""
    play = opened(has_logging=True)
    for method, params in (
        ("logging/setLevel", {"level": "loud"}),
        ("resources/subscribe", {"uri": "file:///none"}),
    ):
        play.post(request(method, params, id=1))
        leg = play.leg(method)
        play.answer(leg, error(leg.id, -32602))
    quiet(play)
    exchange = play.call()
    play.refuse(play.leg("tools/call"), 404)

    play.heal()

    assert len(play.sent("logging/setLevel")) == len(play.sent("resources/subscribe")) == 1
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id, {"run": 2}))
    assert exchange.answer["result"]["run"] == 2


def test_a_stranger_sets_nothing_in_a_session() -> None:
    """Its level would silence the notices of those whom the server knows (G9)."""
    play = opened(has_logging=True)

    play.post(request("logging/setLevel", {"level": "emergency"}, id=1), who=b"mallory")
    play.refuse(play.leg("logging/setLevel"), 401)

    assert play.session.log_level is None


def test_a_batch_in_one_event_that_states_two_epochs_is_a_splice() -> None:
    """Its members came from two sessions (R2, R8)."""
    play = opened(epoch=7)
    exchange = play.post([request("ping", id=1), request("ping", id=2)])
    leg = play.leg("batch")
    stamps = [one["id"] for one in leg.json]
    play.open(leg)
    play.send(leg, event([result(stamps[0], {}, 7), result(stamps[1], {}, 99)]))

    assert exchange.answers == []
    assert play.reasons == ["epoch_mismatch"]


def restored(play: Play) -> list[tuple[str, Json]]:
    """What a heal puts back."""
    quiet(play)
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id), headers=(*JSON, (b"Mcp-Session-Id", b"up-2")))
    play.accept(play.leg("notifications/initialized"))
    found = []
    while (leg := play.leg()).rpc not in ("tools/list", "tools/call"):
        found.append((leg.rpc, leg.json["params"]))
        play.answer(leg, result(leg.id, {}))
    return found


def test_level_and_subscriptions_are_put_back_by_a_heal() -> None:
    """The last level, and what was not unsubscribed; what names nothing is the server's to refuse."""
    play = opened()
    asked: list[tuple[str, Json]] = [
        ("logging/setLevel", {"level": "info"}),
        ("logging/setLevel", {"level": 3}),
        ("resources/subscribe", {"uri": "file:///a"}),
        ("resources/subscribe", {"uri": "file:///b"}),
        ("resources/subscribe", {"uri": 1}),
        ("resources/unsubscribe", {"uri": "file:///a"}),
        ("resources/unsubscribe", {}),
    ]
    for number, (method, params) in enumerate(asked):
        play.post(request(method, params, id=number))
        play.answer(play.leg(method), result(play.leg(method).id, {}))

    assert restored(play) == [
        ("logging/setLevel", {"level": "info"}),
        ("resources/subscribe", {"uri": "file:///b"}),
    ]


def test_the_last_event_again_is_dropped() -> None:
    """Rmcp re-sends it (R31)."""
    play, exchange = broken()
    post = play.sent("tools/call")[0]

    resume(play, (progress(post.token, 3, EPOCH), 4), (result(post.id, epoch=EPOCH), 5))

    assert play.dropped == ["duplicate"]
    assert exchange.answer["id"] == 5
    assert play.runs == 1


PRIMING_0 = b"id: 0\ndata:\n\n"  # rmcp begins each GET with it, and counts its messages from 0 as well


def test_the_first_message_of_a_get_is_known_again_under_the_id_of_its_priming() -> None:
    """History that a reopened stream gives again is told apart from it (W16)."""
    play, exchange, leg = listening()
    play.send(leg, PRIMING_0, event(log("a"), 0), event(log("b"), 1))
    play.cut(leg)
    play.advance(1)
    again = play.leg("GET")
    play.open(again)

    play.send(again, PRIMING_0, event(log("a"), 0), event(log("b"), 1))
    say(play, again, "c")

    assert texts(exchange) == ["a", "b", "c"]
    assert play.dropped == ["duplicate", "duplicate"]


def test_a_first_message_under_the_id_of_its_priming_is_no_reset() -> None:
    """The GET broke before there was a message; it is resumed at its priming, and the session is alive."""
    play, exchange, leg = listening(epoch=7)
    play.send(leg, PRIMING_0)
    play.cut(leg)
    resumed = play.leg("GET")
    assert resumed.last_event_id == b"0"
    play.open(resumed)

    play.send(resumed, event(log("a", 7), 0), event(log("b", 7), 1))

    assert texts(exchange) == ["a", "b"]
    assert play.judged == [("upstream", "resume", "epoch_match")]
