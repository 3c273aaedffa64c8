"""What a scripted server does, as a list of steps.

`stream(progress(1), cut)` answers with an event stream, writes one event, and breaks the connection.
Where nothing else is said, events state the session's epoch and their ids go on by one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from tests.support.client import Json
from tests.support.legs import Own
from tests.support.server import Leg, McpServer, Play, until, whole

Step = Callable[[Leg], Awaitable[None]]

NOBODYS = 10_000_000_000_001  # an integer as stamps are, that was never given out
OTHER_EPOCH = 99
TEXT = [("content-type", "text/plain")]
JSON = [("content-type", "application/json")]

# --- scripts ----------------------------------------------------------------------------------------


def stream(*steps: Step, **headers: str) -> Play:
    """An event stream; `headers` are written with `_` for `-`."""

    async def play(leg: Leg) -> None:
        await leg.open(*((name.replace("_", "-"), value) for name, value in headers.items()))
        for step in steps:
            await step(leg)

    return play


def in_turn(*plays: Play) -> Play:
    """The first time the first, then the next; the last from then on."""
    left = list(plays)

    async def play(leg: Leg) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(leg)

    return play


def refusing(status: int, body: bytes = b"", *headers: tuple[str, str]) -> Play:
    """Any whole answer that is no stream."""

    async def play(leg: Leg) -> None:
        await leg.peer.send(whole(status, headers or TEXT, body))

    return play


def answering_json(**stated: object) -> Play:
    """The result, as JSON."""

    async def play(leg: Leg) -> None:
        message = {"jsonrpc": "2.0", "id": leg.run.id, "result": leg.result(**stated)}
        await leg.peer.send(whole(200, JSON, json.dumps(message).encode()))

    return play


async def hanging(leg: Leg) -> None:
    """No answer, until the other side gives up."""
    await leg.peer.wait_gone()


# --- events -----------------------------------------------------------------------------------------


def progress(step: int, **stated: object) -> Step:
    return lambda leg: leg.progress(step, **stated)


def log(text: str, **stated: object) -> Step:
    return lambda leg: leg.log(text, **stated)


def answer(**stated: object) -> Step:
    return lambda leg: leg.answer(**stated)


async def answer_behind_a_log(leg: Leg) -> None:
    """As one event: a batch."""
    params = leg.tagged({"level": "info", "data": leg.text("whose?")})
    said: Json = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
    await leg.write([said, {"jsonrpc": "2.0", "id": leg.run.id, "result": leg.result()}])


def progress_of(run: int | None) -> Step:
    """Progress under the token of another run, or under one that nobody has."""

    async def step(leg: Leg) -> None:
        token = NOBODYS if run is None else leg.server.runs[run - 1].token
        params = leg.tagged({"progressToken": token, "progress": 1, "message": leg.text("elsewhere")})
        await leg.write({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    return step


def answer_to(run: int | None) -> Step:
    """A response to another run's request, or to one that nobody made."""

    async def step(leg: Leg) -> None:
        await leg.answer(request_id=NOBODYS if run is None else leg.server.runs[run - 1].id)

    return step


def asks(number: int, method: str = "roots/list", *, epoch: object = Own.EPOCH) -> Step:
    """A request of the server's own."""

    async def step(leg: Leg) -> None:
        await leg.write({"jsonrpc": "2.0", "id": number, "method": method, "params": leg.tagged({}, epoch)})

    return step


async def error_without_id(leg: Leg) -> None:
    error: Json = {"code": -32700, "message": "what?", "data": leg.tagged({})}
    await leg.write({"jsonrpc": "2.0", "id": None, "error": error})


async def no_message(leg: Leg) -> None:
    """An event whose data is no JSON-RPC."""
    await leg.raw(b"event: message\ndata: 17\n\n")


async def begins_a_large_event(leg: Leg) -> None:
    """4 KiB of one event, without its end."""
    await leg.raw(b"event: message\ndata: " + b"x" * 4096)


LARGE = "x" * 2**20  # more than comes in one read


async def large_answer(leg: Leg) -> None:
    text = json.dumps({"jsonrpc": "2.0", "id": leg.run.id, "result": leg.result()})
    filled = text.replace('"content"', f'"fill":"{LARGE}","content"', 1)
    await leg.raw(b"event: message\ndata: %b\n\n" % filled.encode())


async def begins_a_large_answer(leg: Leg) -> None:
    """Of an answer all but its end."""
    text = json.dumps({"jsonrpc": "2.0", "id": leg.run.id, "result": {"fill": LARGE}})
    await leg.raw(b"event: message\ndata: %b" % text[:-8].encode())


async def begins_a_large_question(leg: Leg) -> None:
    text = json.dumps({"jsonrpc": "2.0", "method": "sampling/createMessage", "params": {"fill": LARGE}})
    await leg.raw(b"event: message\ndata: %b" % text[:-8].encode())


async def last_event_again(leg: Leg) -> None:
    await leg.raw(leg.run.events[-1][1])


def announces_poll(after_ms: int = 20) -> Step:
    """`retry:` on the last block of a stream announces that its end is a poll."""
    return lambda leg: leg.raw(b"retry: %d\n\n" % after_ms)


# --- ends, and what is waited for -------------------------------------------------------------------


async def end(leg: Leg) -> None:
    await leg.end()


async def cut(leg: Leg) -> None:
    await leg.cut()


async def reset(leg: Leg) -> None:
    await leg.reset()


async def evict(leg: Leg) -> None:
    """Forget every session; this connection goes on."""
    leg.server.evict()


def wait_for(event: asyncio.Event) -> Step:
    async def step(leg: Leg) -> None:
        await event.wait()

    return step


def wait_until(is_true: Callable[[McpServer], bool]) -> Step:
    return lambda leg: until(lambda: is_true(leg.server))


# --- scripts that many tests share ------------------------------------------------------------------

STEPS = 4  # by then ids have stepped by one three times, and count as comparable
BROKEN = stream(*(progress(step) for step in range(1, STEPS + 1)), cut)
TOLD = [f"run 1 step {step}" for step in range(1, STEPS + 1)]  # what a client has of it
WHOLE = stream(answer(), end)
