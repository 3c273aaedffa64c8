"""What a simulated client knows of its calls, and the messages as it saw them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tests.properties.simulation.payload import Json, Origin

if TYPE_CHECKING:
    from tests.properties.simulation.exchange import Exchange
    from tests.properties.simulation.legs import ClientLeg


@dataclass
class Seen:
    """A message as the client saw it, and what the message says of where it came from."""

    message: Json
    cursor: bytes | None
    at: float
    leg: int
    origin: Origin | None
    is_in_array: bool = False

    @property
    def is_response(self) -> bool:
        return "id" in self.message and "method" not in self.message

    @property
    def is_question(self) -> bool:
        return "id" in self.message and "method" in self.message

    @property
    def is_progress(self) -> bool:
        return self.message.get("method") == "notifications/progress"

    @cached_property
    def is_notice(self) -> bool:
        params = self.message.get("params", {})
        return self.message.get("method") == "notifications/message" and params.get("logger") == "epochgate"

    @property
    def mark(self) -> Json | None:
        """The restart mark of an answer, if it carries one."""
        result, error = self.message.get("result", {}), self.message.get("error", {})
        place = result.get("_meta") or error.get("data") or {}
        found = place.get("dev.epochgate/restart") if isinstance(place, dict) else None
        return found if isinstance(found, dict) else None

    @property
    def error_code(self) -> int | None:
        """Of an error that the proxy or the server gave instead of a result."""
        code = self.message.get("error", {}).get("code")
        return code if isinstance(code, int) else None

    @property
    def is_unproven(self) -> bool:
        return "dev.epochgate/unproven" in (self.message.get("result", {}).get("_meta") or {})


@dataclass
class Post:
    """One POST of one call, or of a batch of them, and the stream that answers it."""

    calls: list[Call]
    sent_at: float
    token: str  # the credentials that it was sent with
    session_id: str | None
    seen: list[Seen] = field(default_factory=list)
    cursor: bytes | None = None
    retry_s: float | None = None
    leg: ClientLeg | None = None
    resumes: int = 0
    denials: int = 0
    lost: str | None = None  # why no answer can reach the client, through no fault of the proxy
    refused: list[int] = field(default_factory=list)  # statuses that ended its attempts
    away_s: float | None = None
    flaps: int = 0  # how many of its next legs break soon after they begin
    has_ghost: bool = False  # a second GET with its cursor came from elsewhere
    left_at: float | None = None  # when the client left for good
    first: Exchange | None = None
    last_cursor: bytes | None = None

    @property
    def is_settled(self) -> bool:
        return bool(self.lost or self.refused) or all(call.answers for call in self.calls)

    @property
    def is_cancelled(self) -> bool:
        """Whether nothing but cancelled calls is unanswered."""
        return all(call.answers or call.cancelled_at is not None for call in self.calls)

    def __str__(self) -> str:
        return "+".join(call.key for call in self.calls)


@dataclass
class Call:
    """One tools/call and everything the client knows about it."""

    key: str
    rid: Any
    tool: str
    token: Any
    post: Post = field(repr=False)
    answers: list[Seen] = field(default_factory=list)
    own: list[Seen] = field(default_factory=list)  # what of the stream is about this call
    cancelled_at: float | None = None
    # what the oracle remembers of it
    latest: Seen | None = None
    newest_run: int = 0
    serials: set[int] = field(default_factory=set)
    progress: float = -1.0

    @property
    def is_settled(self) -> bool:
        return bool(self.answers) or self.post.is_settled
