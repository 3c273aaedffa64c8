"""The running proxy between a raw client, its session open, and a scripted server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.client import DEADLINE_S, Answer, Client, Json
from tests.support.proxy import Proxy, guarding
from tests.support.server import McpServer, Play, rejoin, serving
from tests.verdicts.steps import WHOLE

ONCE = {"initialize": 1, "initialized": 1, "executions": 1}
AGAIN = {"initialize": 2, "initialized": 2, "executions": 2}
"""Healed, and the call sent again."""

_LABEL = re.compile(r'(\w+)="(\w+)"')
_DIVERGENCES = (
    "epoch_drift",
    "affinity_faults",
    "unproven_polls",
    "standalone_gaps",
    "unknown_cursors",
    "journal_evictions",
)


def scripted(call: Play = WHOLE, resume: Play = rejoin, **options: Any) -> McpServer:
    """A server: what its tool does, and what it does for a GET with an event id."""
    return McpServer(call, resume, **options)


@dataclass
class Stage:
    server: McpServer
    proxy: Proxy
    client: Client

    async def call(self, number: object = 7) -> list[str]:
        """Call the tool; what the client is told, to the end of the answer."""
        return await listen(await self.client.call(number), number)

    async def begin(self, told: int, number: object = 7) -> tuple[Answer, str]:
        """Call the tool and read so many events; the answer, and the cursor of the last."""
        answer = await self.client.call(number)
        cursor = ""
        for _ in range(told):
            event = await answer.next_event()
            assert event is not None
            assert event.id is not None
            cursor = event.id
        return answer, cursor

    async def reply(self, question: object) -> int:
        """Answer a question of the server; the status."""
        answer = await self.client.post({"jsonrpc": "2.0", "id": question, "result": {"roots": []}})
        return answer.status

    async def counted(self) -> dict[str, int]:
        """Every divergence that the metrics tell of: resumes as `leg stream verdict reason`."""
        page = await self.proxy.page()
        found = {}
        for name, value in page.items():
            family, _, labels = name.partition("{")
            by_name = dict(_LABEL.findall(labels))
            if family == "resumes_total":
                found["{leg} {stream} {verdict} {reason}".format_map(by_name)] = int(value)
            elif family == "dropped_messages_total":
                found["dropped {reason}".format_map(by_name)] = int(value)
            elif family.removesuffix("_total") in _DIVERGENCES:
                found[family.removesuffix("_total")] = int(value)
        return {name: count for name, count in found.items() if count}

    async def until_counted(self, name: str) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while name not in await self.counted():
                pass

    async def until_forgotten(self) -> None:
        """Return when the proxy keeps no stream any more."""
        async with asyncio.timeout(DEADLINE_S):
            while await self.proxy.moved("streams"):
                pass


async def listen(answer: Answer, number: object = 7) -> list[str]:
    """What an answer tells, to its end; it holds one response at most, and that to this request."""
    messages = await answer.messages()
    assert [one["id"] for one in messages if "method" not in one] in ([], [number])
    return told(messages)


def told(messages: Iterable[Json]) -> list[str]:
    """Each message in a few words."""
    return [_in_words(message) for message in messages]


def _in_words(message: Json) -> str:
    if "error" in message:
        error = message["error"]
        data = error.get("data", {})
        return f"error {error['code']} {data.get('reason', data.get('status', error['message']))}"
    if "result" in message:
        result = message["result"]
        meta = result.get("_meta", {})
        words = str(result["content"][0]["text"])
        if "dev.epochgate/restart" in meta:
            words += f" ({meta['dev.epochgate/restart']['reason']})"
        return f"{words} (unproven)" if "dev.epochgate/unproven" in meta else words
    params = message["params"]
    match message["method"]:
        case "notifications/progress":
            return str(params["message"])
        case "notifications/message" if isinstance(params["data"], dict):
            return f"notice {params['data']['reason']}"
        case "notifications/message":
            return str(params["data"])
        case method:
            return f"{method} {message['id']}" if "id" in message else str(method)


@asynccontextmanager
async def staged(server: McpServer, **settings: str) -> AsyncIterator[Stage]:
    async with serving(server), guarding(server.port, **settings) as proxy, Client(proxy.port) as client:
        await client.open({"roots": {}})
        yield Stage(server, proxy, client)
