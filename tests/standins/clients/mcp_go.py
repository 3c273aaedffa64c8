"""Stand-in for clients on mcp-go (mcp-go 56af04b = v1.0.0-beta.1); the library itself was not run.

Recorded of it: the first message with an id on the answer to a POST is taken for the response, whatever its
id. Nothing is ever resumed. An event that a clean end cut off is dispatched. A 4xx to `initialize` is the
sign of a server of the oldest transport. A 404 ends the session.
"""

from __future__ import annotations

from tests.standins.clients.base import StandInClient
from tests.standins.clients.outcomes import CallFailed, Died, SessionEnded
from tests.support.client import Answer
from tests.support.legs import Json


class McpGoClient(StandInClient):
    user_agent = "mcp-go"
    dispatches_partial = True

    async def refused(self, answer: Answer) -> None:
        if answer.status == 404:
            raise SessionEnded("session terminated")
        raise CallFailed(None, f"status {answer.status}")

    def is_answer(self, message: Json, number: object) -> bool:
        if "id" in message and message["id"] != number:
            raise Died(f"taken for the response: {message}")
        return "id" in message

    async def broke(self, leg: Answer, ids_before: str, last_id: str) -> Answer:
        raise CallFailed(None, "unexpected nil response")
