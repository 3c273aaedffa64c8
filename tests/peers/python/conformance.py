"""The server that the official conformance suite talks to, made with the official Python SDK, 1.30 or 2.3.

    python conformance.py

It tells its port as a JSON line, `ready`, and ends when it is killed.
"""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from event_store import IntegerEventStore
from fixtures import MCPServer, add_fixtures
from mcp import types
from server import IS_V2
from steering import WebServer

RETRY_MS = 100


def add_level_and_subscriptions_1(server: MCPServer) -> None:
    async def take(what: object) -> None:
        pass

    low_level = server._mcp_server
    low_level.set_logging_level()(take)
    low_level.subscribe_resource()(take)
    low_level.unsubscribe_resource()(take)


def add_level_and_subscriptions_2(server: MCPServer) -> None:
    async def take(ctx: object, params: object) -> types.EmptyResult:
        return types.EmptyResult()

    low_level = server._lowlevel_server
    low_level.add_request_handler("logging/setLevel", types.SetLevelRequestParams, take)
    low_level.add_request_handler("resources/subscribe", types.SubscribeRequestParams, take)
    low_level.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, take)


def build_1(**resuming: object) -> object:
    server = MCPServer("conformance", **resuming)
    add_fixtures(server)
    add_level_and_subscriptions_1(server)
    return server.streamable_http_app()


def build_2(**resuming: object) -> object:
    from fixtures_2026 import add_fixtures_2026, state_security

    server = MCPServer("conformance", request_state_security=state_security())
    add_fixtures(server)
    add_fixtures_2026(server)
    add_level_and_subscriptions_2(server)
    return server.streamable_http_app(**resuming)


async def main() -> None:
    build = build_2 if IS_V2 else build_1
    app = build(event_store=IntegerEventStore(), retry_interval=RETRY_MS)
    listener = socket.create_server(("127.0.0.1", 0))
    await WebServer(uvicorn.Config(app, log_level="warning", lifespan="on", ws="none")).serve([listener])


if __name__ == "__main__":
    asyncio.run(main())
