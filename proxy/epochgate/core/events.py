"""What happened, as the core is told: one frozen class for each kind, named in the past participle.

Headers are end-to-end headers: the shell has removed hop-by-hop and framing headers, and on the
way up `Host`, and has applied the `X-Forwarded-*` policy. Names keep the case they came in.
"""

from __future__ import annotations

from dataclasses import dataclass

from epochgate.core.enums import Enum
from epochgate.core.http import Headers
from epochgate.core.jsonrpc import Body


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The head of one client request.

    `fingerprint` stands for the caller's credentials (R32); equal bytes mean the same caller.
    """

    target: bytes
    headers: Headers
    fingerprint: bytes


class LegEnd(Enum):
    """How an upstream exchange ended.

    CLEAN: its framing was completed (final chunk, or `Content-Length` bytes). CLOSED: a body that the
    end of the connection delimits, which cannot tell an end from a cut. BROKEN: reset or cut short.
    NOT_SENT: it failed and no byte of the request was accepted. SILENT: the time for its headers passed.
    """

    CLEAN = "clean"
    CLOSED = "closed"
    BROKEN = "broken"
    NOT_SENT = "not_sent"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class PostArrived:
    """A POST of the client. `body` is None when it is no JSON-RPC that can be read."""

    exchange: int
    head: RequestHead
    raw: bytes
    body: Body | None


@dataclass(frozen=True, slots=True)
class GetArrived:
    """A GET of the client; `cursor` is its `Last-Event-ID` (None when absent or empty)."""

    exchange: int
    head: RequestHead
    cursor: bytes | None


@dataclass(frozen=True, slots=True)
class DeleteArrived:
    exchange: int
    head: RequestHead


@dataclass(frozen=True, slots=True)
class ClientLeft:
    """The client's connection is gone before its answer ended."""

    exchange: int


@dataclass(frozen=True, slots=True)
class ClientStalled:
    """More than the write limit of this exchange waits in our buffers."""

    exchange: int


@dataclass(frozen=True, slots=True)
class ClientDrained:
    exchange: int


@dataclass(frozen=True, slots=True)
class LegAnswered:
    """The upstream's status and headers arrived."""

    leg: int
    status: int
    headers: Headers
    reason: bytes | None = None


@dataclass(frozen=True, slots=True)
class LegRead:
    """Body bytes of an upstream answer, one read."""

    leg: int
    data: bytes


@dataclass(frozen=True, slots=True)
class LegEnded:
    """The last event of a leg; nothing follows it, nor comes after `CloseLeg`."""

    leg: int
    end: LegEnd


@dataclass(frozen=True, slots=True)
class Persisted:
    """The record of the `Persist` with this token is durable."""

    token: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """The store refused the record: another replica owns the session now."""

    token: int


@dataclass(frozen=True, slots=True)
class DeadlineReached:
    """The time that `next_deadline` named has come."""


@dataclass(frozen=True, slots=True)
class DrainBegun:
    """The process is going away: begin no heal, owe answers until `until` (seconds, same clock)."""

    until: float


Event = (
    PostArrived
    | GetArrived
    | DeleteArrived
    | ClientLeft
    | ClientStalled
    | ClientDrained
    | LegAnswered
    | LegRead
    | LegEnded
    | Persisted
    | Fenced
    | DeadlineReached
    | DrainBegun
)
