"""DELETE wins over everything; what has no id is acknowledged and never sent again (R25, R37)."""

from __future__ import annotations

import pytest

from epochgate.core.commands import UpstreamFailed
from epochgate.core.events import LegEnd
from tests.core.messages import ask, event, notification, result
from tests.core.playbook import Play, opened, quiet
from tests.core.scenes import ROOTS, answer_initialize, open_call
from tests.core.sides import Upstream

# --- R25 --------------------------------------------------------------------------------------------


def test_a_delete_pauses_the_calls_that_a_heal_puts_back() -> None:
    """A prelude is made of tool calls: none runs for a client that has gone (R25)."""
    play = opened(replay_tools=("login",))
    play.call("login", id=1)
    play.answer(play.leg("tools/call"), result(play.leg("tools/call").id))
    quiet(play)
    play.call("work", id=2)
    play.refuse(play.leg("tools/call"), 404)
    play.delete()
    answer_initialize(play)
    if play.has_leg("notifications/initialized"):
        play.accept(play.leg("notifications/initialized"))
    assert play.runs == 2

    play.refuse(next(leg for leg in play.sent("DELETE") if leg.session_id == b"up-1"), 200)

    assert play.runs == 2
    assert b"up-2" in [leg.session_id for leg in play.sent("DELETE")]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b""),
        (400, b'{"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}'),
    ],
)
def test_a_delete_that_finds_the_session_gone_is_a_success(status: int, body: bytes) -> None:
    """The widely copied TypeScript sample says 400 for it (R25, W5)."""
    play = opened()
    running, _ = open_call(play)
    exchange = play.delete()
    play.answer(play.leg("DELETE"), body, status=status)

    assert exchange.status == 200
    assert running.answer["error"]["code"] == -32051
    assert play.call(id=6).status == 404


# --- R37 --------------------------------------------------------------------------------------------


def failing(play: Play, leg: Upstream, how: LegEnd | int) -> None:
    if isinstance(how, int):
        play.refuse(leg, how)
    else:
        play.end(leg, how)


@pytest.mark.parametrize("how", [LegEnd.BROKEN, LegEnd.NOT_SENT, LegEnd.SILENT])
@pytest.mark.parametrize("method", [ROOTS, "notifications/progress"])
def test_a_notification_that_fails_upstream_is_202_and_counted(method: str, how: LegEnd) -> None:
    """And never sent again (R37)."""
    play = opened()
    exchange = play.post(notification(method, {"progressToken": "x", "progress": 1}))
    failing(play, play.leg(method), how)
    play.advance(120)

    assert exchange.status == 202
    assert len(play.facts(UpstreamFailed)) == 1
    assert len(play.sent(method)) == 1


@pytest.mark.parametrize("how", [500, 502, 503])
def test_an_answer_that_the_server_fails_to_take_is_202(how: int) -> None:
    """A 5xx would end Python 1.30's session (R37)."""
    play = opened()
    exchange, leg = open_call(play)
    play.send(leg, event(ask(0)))
    reply = play.post(result(0, {"action": "accept"}))
    failing(play, play.leg("answer"), how)

    assert reply.status == 202
    assert exchange.is_open
