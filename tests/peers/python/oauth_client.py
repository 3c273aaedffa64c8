"""A client of the Python SDK 1.30 that finds its own way to a token: python oauth_client.py URL

It makes one session and one call. Told on stdout: `ready`, `authorizing` (with the address that a person
would be sent to), `result`, `error`.
"""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import parse_qs, urlsplit

import httpx
from client import tell
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

BACK = "http://127.0.0.1:1/back"  # nobody is there: the answer of the login is read, not followed


class Storage:
    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Person:
    """Logs in where it is sent, and is sent back."""

    def __init__(self) -> None:
        self._location = ""

    async def go(self, url: str) -> None:
        tell("authorizing", url=url.partition("?")[0])
        async with httpx.AsyncClient() as browser:
            self._location = (await browser.get(url)).headers["location"]

    async def come_back(self) -> tuple[str, str | None]:
        query = parse_qs(urlsplit(self._location).query)
        return query["code"][0], query["state"][0]


async def main(url: str) -> None:
    person = Person()
    metadata = OAuthClientMetadata(client_name="peer", redirect_uris=[BACK])
    auth = OAuthClientProvider(url, metadata, Storage(), person.go, person.come_back)
    async with (
        httpx.AsyncClient(auth=auth, timeout=30) as http,
        streamable_http_client(url, http_client=http) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        result = await session.call_tool("echo", {"text": "let in"})
        tell("result", text=result.content[0].text)


if __name__ == "__main__":
    tell("ready")
    try:
        asyncio.run(main(sys.argv[1]))
    except* OAuthFlowError as group:
        failure = group
        while isinstance(failure, ExceptionGroup):
            failure = failure.exceptions[0]
        tell("error", message=str(failure))
