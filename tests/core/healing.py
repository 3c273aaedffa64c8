"""How scripts about heals begin."""

from __future__ import annotations

from tests.core.messages import Json, event, progress, request, result
from tests.core.playbook import Play, opened, quiet
from tests.core.sides import Exchange, Upstream

UP_2 = (b"Mcp-Session-Id", b"up-2")


def lost(**settings: Json) -> tuple[Play, Exchange]:
    """A call that met 404 in a session that showed no life of late."""
    play = opened(**settings)
    quiet(play)
    exchange = play.call()
    play.refuse(play.leg("tools/call"), 404)
    return play, exchange


def learn_tools(play: Play, *tools: Json) -> None:
    play.post(request("tools/list", id="list"))
    leg = play.leg("tools/list")
    play.answer(leg, result(leg.id, {"tools": list(tools)}))


def open_call(play: Play, *, id: Json = 5) -> tuple[Exchange, Upstream]:
    exchange = play.call(id=id, token=id)
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(progress(leg.token, 1)))
    return exchange, leg
