"""Somebody else who knows a session's id, and perhaps a cursor: what is he given, what can he break?"""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

from tests.properties.simulation.access import STRANGER
from tests.properties.simulation.payload import Json
from tests.properties.simulation.wire import Pairs

if TYPE_CHECKING:
    from tests.properties.simulation.client import Client
    from tests.properties.simulation.exchange import Exchange
    from tests.properties.simulation.world import World


class StrangerLeg:
    """What one request of a stranger brought him. The host judges every byte as it is written (G9)."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.status = 0
        self.body = b""
        self.exchange: Exchange | None = None

    def head(self, status: int, headers: Pairs) -> None:
        self.status = status

    def data(self, data: bytes) -> None:
        self.body += data

    def whole(self, status: int, headers: Pairs, data: bytes) -> None:
        self.status, self.body = status, data

    def ended(self, is_clean: bool) -> None:
        pass


class Stranger:
    """`trespass` makes one request into the session of a client, by that client's ids."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world, self.rng = world, rng
        self.legs: list[StrangerLeg] = []

    @property
    def token(self) -> str:
        return f"{STRANGER}.1"

    def trespass(self, victim: Client) -> str:
        kinds = ("resume", "resume", "listen", "ping", "delete", "cancel", "answer")
        kind = self.rng.choice(kinds)
        match kind:
            case "resume":
                cursors = [post.cursor for post in victim.posts if post.cursor is not None]
                self._send(victim, "GET", kind, cursor=self.rng.choice(cursors or [b"1048577"]))
            case "listen":
                self._send(victim, "GET", kind)
            case "delete":
                self._send(victim, "DELETE", kind)
            case "ping":
                self._send(victim, "POST", kind, {"jsonrpc": "2.0", "id": 1, "method": "ping"})
            case "cancel":
                self._send(victim, "POST", kind, _cancel(self._rid(victim)))
            case _:
                content = {"action": "accept", "content": {"n": -1}}
                answer = {"jsonrpc": "2.0", "id": self.rng.randint(0, 1), "result": content}
                self._send(victim, "POST", kind, answer)
        return f"{kind} into {victim.session_id}"

    def borrow(self, client: Client, cursor: bytes) -> None:
        """A client's own request, with a cursor of another session: nothing may come of it (R15)."""
        self._send(client, "GET", "borrow", cursor=cursor, token=client.token)

    def _rid(self, victim: Client) -> Any:
        open_calls = [call.rid for call in victim.calls if not call.is_settled]
        return self.rng.choice(open_calls or [0])

    def _send(
        self,
        victim: Client,
        method: str,
        kind: str,
        message: Json | None = None,
        cursor: bytes | None = None,
        token: str | None = None,
    ) -> None:
        token = token or self.token
        headers = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {token}"}
        headers["mcp-session-id"] = victim.session_id or ""
        if cursor is not None:
            headers["last-event-id"] = cursor.decode()
        body = b"" if message is None else json.dumps(message).encode()
        leg = StrangerLeg(kind)
        self.legs.append(leg)
        leg.exchange = self.world.request(token, method, headers, body, leg)


def _cancel(rid: Any) -> Json:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": rid}}
