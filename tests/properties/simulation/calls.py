"""What a simulated client knows of its calls, and the messages as it saw them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.properties.simulation.payload import Json, Origin, find_origin

if TYPE_CHECKING:
    from tests.properties.simulation.client import ClientLeg


@dataclass
class Seen:
    """A message as the client saw it."""

    message: Json
    cursor: bytes | None
    at: float
    leg: int

    @property
    def origin(self) -> Origin | None:
        return find_origin(self.message)

    @property
    def is_response(self) -> bool:
        return "id" in self.message and "method" not in self.message

    @property
    def is_question(self) -> bool:
        return "id" in self.message and "method" in self.message

    @property
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
    def is_unproven(self) -> bool:
        return "dev.epochgate/unproven" in (self.message.get("result", {}).get("_meta") or {})


@dataclass
class Call:
    """One tools/call and everything the client knows about it."""

    key: str
    rid: Any
    tool: str
    token: Any
    sent_at: float
    seen: list[Seen] = field(default_factory=list)
    cursor: bytes | None = None
    retry_s: float | None = None
    leg: ClientLeg | None = None
    resumes: int = 0
    cancelled_at: float | None = None
    lost: str | None = None  # why no answer can reach the client, through no fault of the proxy
    refused: list[int] = field(default_factory=list)  # statuses that ended its attempts
    away_s: float | None = None
    flaps: int = 0  # how many of its next legs break soon after they begin

    @property
    def answers(self) -> list[Seen]:
        return [seen for seen in self.seen if seen.is_response]

    @property
    def is_settled(self) -> bool:
        return bool(self.answers or self.lost or self.refused)
