"""The client that the official conformance suite looks at, made with the official Python SDK, 1.30 or 2.3.

    python conformance_client.py URL

The suite says in its environment which scenario it plays, and what it wants called where that is not fixed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from typing import Any

from mcp import types
from pydantic import ValidationError

try:
    from mcp import Client

    IS_V2 = True
except ImportError:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    IS_V2 = False

Call = tuple[str, dict[str, Any]]

SUM: Call = ("add_numbers", {"a": 5, "b": 3})
CALLS: dict[str, list[Call]] = {
    "initialize": [],
    "tools_call": [SUM],
    "sse-retry": [("test_reconnection", {})],
    "elicitation-sep1034-client-defaults": [("test_client_elicitation_defaults", {})],
    "request-metadata": [SUM],
    "http-standard-headers": [SUM],
    "sep-2322-client-request-state": [
        ("test_mrtr_echo_state", {}),
        ("test_mrtr_unrelated", {}),
        ("test_mrtr_no_state", {}),
        ("test_mrtr_no_result_type", {}),
    ],
}


def wanted_calls() -> list[Call]:
    """The tools that this scenario wants called, in order."""
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    if scenario in CALLS:
        return CALLS[scenario]
    given = json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]
    return [(call["name"], call["arguments"]) for call in given]


async def fill_in_defaults(context: object, params: Any) -> types.ElicitResult:
    """Say yes, and give every field its default."""
    form = params.model_dump(by_alias=True)["requestedSchema"]["properties"]
    defaults = {name: field["default"] for name, field in form.items() if "default" in field}
    return types.ElicitResult(action="accept", content=defaults or {"confirmed": True})


async def play(client: Any) -> None:
    await client.list_tools()
    if os.environ["MCP_CONFORMANCE_SCENARIO"] == "http-standard-headers":
        await read_everything(client)
    for tool, arguments in wanted_calls():
        # 2.3 refuses, rightly, a result that does not say its type, which one scenario sends.
        with contextlib.suppress(ValidationError):
            await client.call_tool(tool, arguments)


async def read_everything(client: Any) -> None:
    for resource in (await client.list_resources()).resources:
        await client.read_resource(resource.uri)
    for prompt in (await client.list_prompts()).prompts:
        await client.get_prompt(prompt.name)


async def main_1(url: str) -> None:
    async with (
        streamable_http_client(url) as (read, write, _),
        ClientSession(read, write, elicitation_callback=fill_in_defaults) as session,
    ):
        await session.initialize()
        await play(session)


async def main_2(url: str) -> None:
    async with Client(url, elicitation_callback=fill_in_defaults) as client:
        await play(client)


if __name__ == "__main__":
    asyncio.run((main_2 if IS_V2 else main_1)(sys.argv[1]))
