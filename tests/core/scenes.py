"""How scripts begin: calls under way, broken, lost, taken over; and how they are seen through."""

from __future__ import annotations

import json

from epochgate.core import ending
from epochgate.core.events import Evicted, Fenced
from tests.core.messages import (
    Json,
    ask,
    event,
    initialize_answer,
    log,
    progress,
    request,
    result,
)
from tests.core.playbook import JSON, MARK, Play, opened, quiet
from tests.core.sides import Exchange, Upstream

UP_2 = (b"Mcp-Session-Id", b"up-2")
BR = (b"Content-Encoding", b"br")
BOB = b"bob"
TEXT = "x" * 8_000
ROOTS = "notifications/roots/list_changed"


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


EVENTS = 6  # progress events of a run; the answer follows them


def running(count: int = 0, **settings: Json) -> tuple[Play, Exchange, Upstream]:
    """A call whose SSE answer gave `count` progress events so far; the server emits no ids."""
    play = opened(**settings)
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)
    give(play, leg, 0, count)
    return play, exchange, leg


def give(play: Play, leg: Upstream, first: int, last: int) -> None:
    for step in range(first, last):
        play.send(leg, event(progress(leg.token, step)))


def steps(*exchanges: Exchange) -> list[int]:
    """The progress that a client saw on these exchanges, in order."""
    seen = [one for exchange in exchanges for one in exchange.messages if "method" in one]
    return [one["params"]["progress"] for one in seen]


def cursor(exchange: Exchange, seen: int) -> bytes:
    """The cursor of a client that read the priming event and `seen` events of this exchange."""
    return [one.id for one in exchange.events if one.id is not None][seen]


def call(play: Play, *, id: Json = 5, token: Json = 1) -> tuple[Exchange, Upstream]:
    exchange = play.call(id=id, token=token)
    leg = play.leg("tools/call")
    play.open(leg)
    return exchange, leg


def drift(play: Play, epoch: Json) -> None:
    """Another call is answered by a session that was re-created in the meantime."""
    play.post(request("ping", id="p"))
    leg = play.leg("ping")
    play.answer(leg, result(leg.id, {}, epoch))


EPOCH = 7


def broken(
    *, epoch: Json = EPOCH, ids: tuple[Json, ...] = (1, 2, 3, 4), **settings: Json
) -> tuple[Play, Exchange]:
    """A call that gave four events under these ids, and whose leg was then cut."""
    play = opened(epoch=epoch, **settings)
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)
    for step, id in enumerate(ids):
        play.send(leg, event(progress(leg.token, step, epoch), id))
    play.cut(leg)
    return play, exchange


def resume(play: Play, *events: tuple[Json, Json], headers: tuple[tuple[bytes, bytes], ...] = ()) -> Upstream:
    """Answer the resume with events (message, id)."""
    leg = play.leg("GET")
    play.open(leg, headers)
    for message, id in events:
        if leg.is_open:
            play.send(leg, event(message, id))
    return leg


def rerun(play: Play, epoch: Json = EPOCH + 1) -> None:
    """Let the heal and the second run succeed."""
    play.heal(epoch=epoch)
    leg = play.sent("tools/call")[-1]
    assert leg.session_id == b"up-2"
    play.answer(leg, result(leg.id, {"run": 2}, epoch))


def check_rerun(play: Play, exchange: Exchange, reason: str) -> None:
    """One answer, of the second run alone, marked and counted; initialize = initialized = runs = 2."""
    assert exchange.answer["id"] == 5
    assert exchange.answer["result"]["run"] == 2
    mark = exchange.answer["result"]["_meta"][MARK]
    assert (mark["reason"], mark["generation"], mark["reissued"]) == (reason, 2, True)
    assert not exchange.is_open
    assert play.reasons == [reason]
    assert len(play.sent("initialize")) == 2
    assert len(play.sent("notifications/initialized")) == 2
    assert play.runs == 2


def listening(**settings: Json) -> tuple[Play, Exchange, Upstream]:
    play = opened(**settings)
    exchange = play.get()
    leg = play.leg("GET")
    play.open(leg)
    return play, exchange, leg


def texts(*exchanges: Exchange) -> list[str]:
    found = [one for exchange in exchanges for one in exchange.messages]
    return [one["params"]["data"] if "data" in one.get("params", {}) else one["method"] for one in found]


def say(play: Play, leg: Upstream, *words: str) -> None:
    play.send(leg, *[event(log(word)) for word in words])


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
    """The ids under which the server's questions came to the client."""
    return [one["id"] for one in exchange.messages if "method" in one and "id" in one]


def give_answer(play: Play, id: Json) -> tuple[Exchange, Upstream | None]:
    """The client answers; the leg that carried it, if any."""
    before = len(play.sent("answer"))
    exchange = play.post(result(id, {"action": "accept"}))
    carried = play.sent("answer")[before:]
    return exchange, carried[0] if carried else None


def refused_while_away(status: int = 401) -> tuple[Play, Exchange]:
    """A call whose client left, whose leg broke, and whose resume was refused."""
    play = opened(epoch=7)
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)
    play.send(leg, event(progress(leg.token, 1, 7), 1))
    play.leave(exchange)
    play.cut(leg)
    play.refuse(play.leg("GET"), status)
    return play, exchange


def expired(**settings: Json) -> tuple[Play, Exchange, Upstream]:
    """A call whose client stayed away longer than it is held."""
    play, exchange, leg = running(2, hold_s=30.0, **settings)
    play.leave(exchange)
    play.advance(31)
    return play, exchange, leg


def begun_for_bob(play: Play) -> Exchange:
    """Bob's GET: the server says nothing about him, so that his stream was begun after 1.5 s (R32)."""
    exchange = play.get(who=BOB)
    play.advance(1.6)
    assert exchange.status == 200
    assert exchange.is_open
    return exchange


def accept_bob(play: Play) -> None:
    ping = play.leg("ping")
    play.answer(ping, result(ping.id, {}))


def id_last(leg: Upstream) -> bytes:
    """Stamp and epoch come last, as the TypeScript SDK writes them."""
    return event(json.dumps({"result": {"text": TEXT}, "jsonrpc": "2.0", "id": leg.id}).encode(), 8)


def streaming(*, epoch: Json = None) -> tuple[Play, Exchange, Upstream]:
    """A call on a leg that never broke, with one event relayed."""
    play = opened(epoch=epoch, max_event_bytes=1_000)
    exchange, leg = call(play)
    play.send(leg, event(progress(leg.token, 1, epoch), 7))
    return play, exchange, leg


def pour(play: Play, leg: Upstream, data: bytes) -> None:
    for at in range(0, len(data), 700):
        if leg.is_open:
            play.send(leg, data[at : at + 700])


def evicted(play: Play) -> None:
    assert ending.is_unused(play.session)
    play.feed(Evicted())


def answer_initialize(play: Play) -> None:
    leg = play.leg("initialize")
    play.answer(leg, initialize_answer(leg.id), headers=(*JSON, UP_2))


def parked(status: int = 401) -> Play:
    play, exchange = lost()
    play.leave(exchange)
    play.refuse(play.leg("initialize"), status)
    return play


def fenced() -> tuple[Play, Exchange, Upstream]:
    """A session with a call under way that another process took over; noticed at the next record."""
    play = opened()
    exchange, leg = open_call(play)
    play.send(leg, event(ask(0)))
    play.is_persisting = False
    play.call("other", id=6)
    play.steps.clear()
    play.feed(Fenced(play.persists.pop().token))
    return play, exchange, leg


def restarted(
    *, seen: tuple[Json, ...] = (1,), total: float | None = None, **settings: Json
) -> tuple[Play, Exchange, Upstream, int]:
    """A call that gave these progress values, broke, and runs again as SSE; with the messages so far."""
    play = opened(**settings)
    exchange = play.call(token=1)
    leg = play.leg("tools/call")
    play.open(leg)
    for done in seen:
        play.send(leg, event(progress(leg.token, done, total=total)))
    play.cut(leg)
    play.heal()
    again = play.leg("tools/call")
    play.open(again)
    return play, exchange, again, len(seen)


def after(exchange: Exchange, seen: int) -> list[Json]:
    return exchange.messages[seen:]


def subscribed(play: Play) -> None:
    play.post(request("resources/subscribe", {"uri": "file:///a"}, id=1))
    play.answer(play.leg("resources/subscribe"), result(play.leg("resources/subscribe").id, {}))


def restoring() -> tuple[Play, Exchange, Upstream]:
    """A heal that is about to subscribe again."""
    play = opened()
    subscribed(play)
    quiet(play)
    exchange = play.call()
    play.refuse(play.leg("tools/call"), 404)
    play.heal()
    return play, exchange, play.leg("resources/subscribe")


def away(play: Play) -> tuple[Exchange, Upstream]:
    """Alice's call runs on while she is away; one event of it waits for her."""
    exchange, leg = open_call(play)
    play.leave(exchange)
    play.send(leg, event(progress(leg.token, 2)))
    return exchange, leg
