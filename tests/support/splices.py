"""A call that breaks after some steps, and how a splice is seen: each message tells of its run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.client import Client, Json
from tests.support.proxy import Proxy
from tests.support.server import Leg, Play

STEPS = 6
CUT_AFTER = 4  # steps; the ids have stepped by one three times by then
Break = Callable[[Leg], Awaitable[None]]


def runs_told(messages: list[Json]) -> list[int]:
    """The run that each message tells of, in order; 0 is a notice of the proxy's."""
    found = []
    for message in messages:
        if "result" in message:
            text = message["result"]["content"][0]["text"]
        elif message["method"] == "notifications/progress":
            text = message["params"]["message"]
        else:
            text = message["params"]["data"]
        found.append(0 if isinstance(text, dict) else int(text.split()[1]))
    return found


def answers(messages: list[Json]) -> list[Json]:
    return [message for message in messages if "method" not in message]


def is_spliced(messages: list[Json]) -> bool:
    """Whether messages of two runs stand behind the last notice, or two without one.

    Without a way to give notice a marked answer may stand alone (R5).
    """
    told = runs_told(messages)
    if mark(messages[-1]).get("reissued") and 0 not in told:
        told.pop()
    last = len(told) - told[::-1].index(0) if 0 in told else 0
    return len(set(told[last:])) > 1


def mark(message: Json) -> Json:
    found: Json = message["result"].get("_meta", {}).get("dev.epochgate/restart", {})
    return found


async def cleanly(leg: Leg) -> None:
    """End the stream as if it were over, without having announced a poll."""
    await leg.end()


async def closed(leg: Leg) -> None:
    await leg.cut()


async def reset(leg: Leg) -> None:
    await leg.reset()


async def inside_an_event(leg: Leg) -> None:
    await leg.raw(b'event: message\ndata: {"jsonrpc":"2.0","method":"notifi')
    await leg.cut()


BREAKS = [cleanly, closed, reset, inside_an_event]


def broken_once(how: Break = closed) -> Play:
    """A call whose first run breaks after CUT_AFTER steps; the second goes through."""

    async def play(leg: Leg) -> None:
        await leg.open()
        is_first = leg.run.number == 1
        for step in range(1, (CUT_AFTER if is_first else STEPS) + 1):
            await leg.progress(step)
        if is_first:
            await how(leg)
            return
        await leg.answer()
        await leg.end()

    return play


async def rest_of_run(leg: Leg, **stated: Any) -> None:
    for step in range(CUT_AFTER + 1, STEPS + 1):
        await leg.progress(step, **stated)
    await leg.answer(**stated)
    await leg.end()


async def listen_to_a_call(proxy: Proxy, name: str = "work") -> list[Json]:
    async with Client(proxy.port) as client:
        await client.open()
        answer = await client.call(name=name)
        assert (answer.status, answer.is_stream) == (200, True)
        return await answer.messages()
