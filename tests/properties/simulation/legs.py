"""The client's side of one HTTP answer: what is read of it, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from tests.properties.simulation.events import EventReader
from tests.properties.simulation.wire import Pairs

if TYPE_CHECKING:
    from tests.properties.simulation.calls import Post
    from tests.properties.simulation.client import Client
    from tests.properties.simulation.exchange import Exchange

LegKind = Literal[
    "initialize", "again", "call", "resume", "standalone", "request", "notification", "answer", "delete"
]


class ClientLeg:
    """One HTTP answer being read. `post` is None for the standalone stream and short requests."""

    def __init__(self, client: Client, post: Post | None, kind: LegKind) -> None:
        self.client, self.post, self.kind = client, post, kind
        self.token = client.token
        self.number = client.next_leg()
        self.exchange: Exchange | None = None
        self.status = 0
        self.is_sse = False
        self.is_current = True
        self.session_id: str | None = None
        self.events = 0
        self.again: Callable[[], None] | None = None  # what to do when the server refuses the credentials
        self._reader = EventReader()
        self._body = b""

    def head(self, status: int, headers: Pairs) -> None:
        self.status = status
        for name, value in headers:
            lower = name.lower()
            if lower == b"content-type":
                self.is_sse = value.startswith(b"text/event-stream")
            elif lower == b"mcp-session-id":
                self.session_id = value.decode()

    def data(self, data: bytes) -> None:
        if not self.is_current:
            return
        if not self.is_sse:
            self._body += data
            return
        for event in self._reader.feed(data):
            self.events += 1
            if self.is_current:
                self.client.take_event(self, event.id, event.data, event.retry)

    def whole(self, status: int, headers: Pairs, data: bytes) -> None:
        self.head(status, headers)
        self.data(data)
        self.ended(True)

    def ended(self, is_clean: bool) -> None:
        if not self.is_current:
            return
        self.is_current = False
        if (
            is_clean
            and 200 <= self.status < 300
            and not self.is_sse
            and self._body.lstrip()[:1] in (b"{", b"[")
        ):
            self.client.take_event(self, None, self._body, None)
        self.client.take_end(self, is_clean)

    def drop(self) -> None:
        """The client stops reading this answer and hangs up."""
        self.is_current = False
        if self.exchange is not None and self.exchange.wire.is_open:
            self.exchange.leave()
