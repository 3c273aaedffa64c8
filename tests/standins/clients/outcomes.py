"""How calls end at stand-in clients, the first question of some, and what an event stream is cut into."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from tests.support.client import BOTH, JSON, Answer, Client


class Died(AssertionError):
    """Here the SDK's session ends, or a call of it never does."""


class CallFailed(Exception):
    """The call got an error; the session lives. `code` is None where the SDK made the error itself."""

    def __init__(self, code: int | None, text: str) -> None:
        super().__init__(text)
        self.code = code


class SessionEnded(Exception):
    """The SDK was told that its session is gone, and says so to its application."""


@dataclass
class SseEvent:
    id: str = ""
    name: str = ""
    data: bytes | None = None
    retry: int | None = None


STATELESS = "2026-07-28"


async def probe(http: Client) -> int:
    """Ask `server/discover`, as clients of both eras do first; the status of the answer.

    A 4xx says that the server is of the era with sessions; anything else would not.
    """
    asked = {"jsonrpc": "2.0", "id": "discover", "method": "server/discover", "params": {}}
    headers = [("Accept", BOTH), ("Content-Type", JSON), ("MCP-Protocol-Version", STATELESS)]
    http.session = None
    answer = await http.send("POST", "/mcp", headers, json.dumps(asked).encode())
    await answer.read()
    if not 400 <= answer.status < 500 or answer.status in (401, 403):
        raise Died(f"the probe was answered {answer.status}: not taken for a server with sessions")
    return answer.status


async def lines(answer: Answer) -> AsyncIterator[bytes]:
    """Lines less their ends; what is left at a clean end is one too. Raises `Truncated`."""
    left = b""
    while data := await answer.read_some():
        *whole, left = (left + data).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r")
    if left:
        yield left
