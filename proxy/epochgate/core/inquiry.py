"""A request of the proxy's own to the server: the steps of a heal, and pings.

It collects the answer, JSON or SSE, until the response to its own id stands whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from epochgate.core import http, jsonrpc, sse
from epochgate.core.events import LegEnd
from epochgate.core.http import Headers
from epochgate.core.values import Value

MAX_ANSWER_BYTES = 4 * 1024 * 1024  # a tools/list of thousands of tools; more is no usable answer


class Outcome(Value, frozen=True):
    """What came of an inquiry.

    `status` is None when no answer's headers came; `message` the response to our id, if there is one;
    `was_asked`: the server asked something of the client before it.
    """

    status: int | None
    headers: Headers
    body: bytes
    message: jsonrpc.Message | None
    end: LegEnd
    reason: bytes | None = None
    was_asked: bool = False

    @property
    def is_accepted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_unauthorized(self) -> bool:
        return self.status in (401, 403)


@dataclass(slots=True)
class Inquiry:
    """One exchange under way. `id` is the JSON text of our request's id, None for a notification."""

    id: bytes | None
    done: Callable[[Outcome], None]
    status: int | None = None
    headers: Headers = ()
    chunks: list[bytes] = field(default_factory=list)
    size: int = 0
    reason: bytes | None = None
    framer: sse.Framer | None = None
    was_asked: bool = False

    def answered(self, status: int, headers: Headers, reason: bytes | None = None) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        if http.media_type(headers) == b"text/event-stream":
            self.framer = sse.Framer()

    def read(self, data: bytes) -> Outcome | None:
        """Take body bytes; the outcome once our response came on an SSE answer, or too much did."""
        self.size += len(data)
        if self.size > MAX_ANSWER_BYTES:
            return self._outcome(None, LegEnd.BROKEN)
        if self.framer is None:
            self.chunks.append(data)
            return None
        for raw in sse.split(self.framer.feed(data)):
            event = sse.parse(raw)
            message = jsonrpc.read_message(event.data) if event.is_message and event.data else None
            if message is not None and self._is_ours(message):
                return self._outcome(message, LegEnd.CLEAN)
            if message is not None and message.kind is jsonrpc.Kind.REQUEST and message.method != "ping":
                self.was_asked = True
        return None

    def ended(self, end: LegEnd) -> Outcome:
        if self.framer is not None or end not in (LegEnd.CLEAN, LegEnd.CLOSED):
            return self._outcome(None, end)
        message = jsonrpc.read_message(b"".join(self.chunks))
        return self._outcome(message if self._is_ours(message) else None, end)

    def _is_ours(self, message: jsonrpc.Message) -> bool:
        return (
            self.id is not None
            and message.id is not None
            and message.is_response
            and jsonrpc.stamp_key(message.id) == jsonrpc.stamp_key(self.id)
        )

    def _outcome(self, message: jsonrpc.Message | None, end: LegEnd) -> Outcome:
        return Outcome(
            self.status, self.headers, b"".join(self.chunks), message, end, self.reason, self.was_asked
        )
