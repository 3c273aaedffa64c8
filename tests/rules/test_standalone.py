"""The traces of R12 around a heal: a GET that it overtook, and one that it sends itself."""

from __future__ import annotations

from tests.core.messages import initialize_answer, request, result
from tests.core.playbook import JSON, Play, opened, quiet
from tests.core.scenes import UP_2, listening, say, texts
from tests.core.sides import Exchange


def told(play: Play, exchange: Exchange) -> list[str]:
    """What the new session says reaches the client, on the one GET that went up in it."""
    (leg,) = [one for one in play.sent("GET") if one.session_id == b"up-2"]
    play.open(leg)
    say(play, leg, "a")
    return [word for word in texts(exchange) if len(word) == 1]


def test_a_get_whose_session_cannot_be_had_again_ends() -> None:
    """With the final chunk, as a standalone stream does (R12, R27)."""
    play = opened()
    quiet(play)
    exchange = play.get()
    play.refuse(play.leg("GET"), 404)
    leg = play.leg("initialize")

    play.answer(leg, initialize_answer(leg.id, protocolVersion="2025-03-26"), headers=(*JSON, UP_2))

    assert (exchange.status, exchange.is_open, exchange.is_aborted) == (200, False, False)
    assert play.get().status == 404


def test_a_stream_that_is_answered_before_the_commit_is_that_of_the_new_session() -> None:
    """It is reopened before level and subscriptions are restored (R12, R24)."""
    play, exchange, old = listening(has_logging=True)
    play.post(request("logging/setLevel", {"level": "info"}, id=1))
    play.answer(play.leg("logging/setLevel"), result(play.leg("logging/setLevel").id, {}))
    quiet(play)
    play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.refuse(play.leg("ping"), 404)
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id, has_logging=True), headers=(*JSON, UP_2))
    play.accept(play.leg("notifications/initialized"))

    assert told(play, exchange) == ["a"]
    for rpc, answer in (("logging/setLevel", {}), ("tools/list", {"tools": [{"name": "work"}]})):
        play.answer(play.leg(rpc), result(play.leg(rpc).id, answer))
    assert play.heals == [("session_gone", "healed")]
    say(play, play.leg("GET"), "b")

    assert [word for word in texts(exchange) if len(word) == 1] == ["a", "b"]
    assert not old.is_open
