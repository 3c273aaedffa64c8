"""On a resumed leg each message must prove itself (R6, R7, R8, R30)."""

from __future__ import annotations

from epochgate.core.events import LegEnd
from tests.core.messages import ask, event, log, progress, result, retry
from tests.core.playbook import MARK, Play, opened
from tests.core.scenes import call, lost, steps
from tests.core.sides import Exchange, Upstream


def answer_own_requests(play: Play) -> None:
    for rpc in ("notifications/cancelled", "DELETE"):
        while play.has_leg(rpc):
            play.accept(play.leg(rpc))


def resumed(play: Play, *, header: bytes | None = None) -> tuple[Exchange, Upstream, Upstream]:
    """A call whose leg was cut after one event and resumed; nothing came on the new leg yet."""
    exchange, post = call(play)
    play.send(post, event(progress(post.token, 1, 1), 1))
    play.cut(post)
    leg = play.leg("GET")
    play.open(leg, () if header is None else ((b"Mcp-Session-Epoch", header),))
    return exchange, post, leg


def test_a_log_of_another_call_on_a_resumed_leg_is_dropped() -> None:
    """The trace: a server that replays all streams; nothing shows whose it is (R6)."""
    play = opened(epoch=1)
    exchange, post, leg = resumed(play)
    before = len(exchange.messages)

    play.send(leg, event(log("of another call"), 2), event(progress(post.token, 2, 1), 3))

    assert [one["params"].get("progress") for one in exchange.messages[before:]] == [2]
    assert play.dropped == ["unproven"]


def test_a_log_that_states_the_epoch_itself_is_relayed_after_a_resume() -> None:
    """It is attributed to the session (R6)."""
    play = opened(epoch=1)
    exchange, _, leg = resumed(play)

    play.send(leg, event(log("of this session", 1), 2))

    assert exchange.messages[-1]["params"]["data"] == "of this session"


def test_a_question_on_a_resumed_leg_must_state_the_epoch() -> None:
    """Each question itself (R6)."""
    play = opened(epoch=1)
    exchange, _, leg = resumed(play)
    play.send(leg, event(ask(0, epoch=1), 2))
    assert exchange.messages[-1]["method"] == "elicitation/create"

    play.send(leg, event(ask(1), 3))

    assert play.reasons == ["unproven_request"]
    assert sum("id" in one for one in exchange.messages) == 1


def test_the_headers_epoch_proves_one_moment_and_nothing_unstamped() -> None:
    """The leg stays a resumed one (R6, R7)."""
    play = opened(epoch_header=b"e")
    exchange, post, leg = resumed(play, header=b"e")

    play.send(leg, event(progress(post.token, 2), 2), event(log("whose?"), 3))

    assert exchange.messages[-1]["params"]["progress"] == 2
    assert play.dropped == ["unproven"]


def test_a_header_does_not_stand_for_the_epoch_that_messages_state() -> None:
    """A stamped message without the captured carrier (R8)."""
    play = opened(epoch=1, epoch_header=b"e")
    _, post, leg = resumed(play, header=b"e")

    play.send(leg, event(progress(post.token, 2), 2))

    assert play.reasons == ["no_epoch_on_event"]


def test_a_message_without_a_stamp_of_this_stream_on_a_resumed_leg_is_a_restart() -> None:
    """Even one of another call of the same generation (R30); G2."""
    play = opened(epoch=1)
    _, other = call(play, id=9, token="o")
    exchange, _, leg = resumed(play)
    before = exchange.body

    play.send(leg, event(progress(other.token, 1, 1), 2))

    assert exchange.body == before
    assert play.reasons == ["foreign_message"]


def test_upstream_epochs_pass_in_generation_one_and_are_taken_out_after_a_heal() -> None:
    """A client that checks would abort a stream that was healed for it (R39)."""
    play = opened(epoch=1, epoch_header=b"e1", has_logging=True)
    exchange, post = call(play)
    play.send(post, event(log("x", 1), 1))
    assert exchange.messages[0]["params"]["_meta"] == {"session_epoch": 1}
    play.cut(post)
    play.refuse(play.leg("GET"), 404)
    play.heal(epoch=2)
    again = play.leg("tools/call")
    play.open(again, ((b"Mcp-Session-Epoch", b"e2"),))
    play.send(again, event(log("y", 2)), event(log("z", 2)))
    assert [one["params"]["data"] for one in exchange.messages[-2:]] == ["y", "z"]
    assert exchange.body.count(b"session_epoch") == 1  # that of generation 1
    play.send(again, event(result(again.id, epoch=2)))

    assert list(exchange.answer["result"]["_meta"]) == [MARK]
    answer_own_requests(play)
    plain = play.call(id=6)
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id, epoch=2), headers=((b"Mcp-Session-Epoch", b"e2"),))
    assert b"session_epoch" not in plain.body
    assert plain.headers == ()


def test_upstream_epochs_of_a_fresh_call_after_a_heal_are_taken_out_too() -> None:
    """On a leg that never broke, many events in one read (R39)."""
    play, _ = lost(epoch=1)
    play.heal(epoch=2)
    leg = play.leg("tools/call")
    play.answer(leg, result(leg.id, epoch=2))
    exchange, post = call(play, id=6)

    play.send(post, *[event(log(word, 2)) for word in "abc"])
    play.send(post, event(result(post.id, epoch=2)))

    assert [one["params"]["data"] for one in exchange.messages[:-1]] == ["a", "b", "c"]
    assert b"session_epoch" not in exchange.body


def test_a_replayed_event_is_known_again_however_often_others_are_replayed_beside_it() -> None:
    """Same id, same bytes: dropped (R31), by a server that replays its whole session at every poll."""
    play = opened()
    exchange, post = call(play)
    own, beside = event(progress(post.token, 1), "own"), event(log("x" * 50_000), "beside")
    play.send(post, own, retry(100))
    play.end(post, LegEnd.CLEAN)

    for _ in range(10):
        play.advance(1)
        leg = play.leg("GET")
        play.open(leg)
        play.send(leg, own, beside, retry(100))
        play.end(leg, LegEnd.CLEAN)

    assert steps(exchange) == [1]
    assert play.dropped == ["duplicate", "unproven"] * 10
