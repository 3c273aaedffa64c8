"""What happened, as the core is told: one frozen class for each kind, named in the past participle.

Headers are end-to-end headers: the shell has removed hop-by-hop and framing headers, and on the
way up `Host`, and has applied the `X-Forwarded-*` policy. Names keep the case they came in.
"""

from __future__ import annotations

from epochgate.core.enums import Enum
from epochgate.core.http import Headers
from epochgate.core.jsonrpc import Body
from epochgate.core.values import Value


class RequestHead(Value, frozen=True):
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
    NOT_SENT: it failed and no byte of the request was accepted. GONE: the same, and the server has left the
    place where the session was begun, so that no later try can find it. SILENT: the time for its headers
    passed.
    """

    CLEAN = "clean"
    CLOSED = "closed"
    BROKEN = "broken"
    NOT_SENT = "not_sent"
    GONE = "gone"
    SILENT = "silent"


class PostArrived(Value, frozen=True):
    """A POST of the client. `body` is None when it is no JSON-RPC that can be read."""

    exchange: int
    head: RequestHead
    raw: bytes
    body: Body | None


class GetArrived(Value, frozen=True):
    """A GET of the client; `cursor` is its `Last-Event-ID` (None when absent or empty)."""

    exchange: int
    head: RequestHead
    cursor: bytes | None


class DeleteArrived(Value, frozen=True):
    exchange: int
    head: RequestHead


class ClientLeft(Value, frozen=True):
    """The client's connection is gone before its answer ended."""

    exchange: int


class ClientStalled(Value, frozen=True):
    """More than the write limit of this exchange waits in our buffers."""

    exchange: int


class ClientDrained(Value, frozen=True):
    exchange: int


class LegAnswered(Value, frozen=True):
    """The upstream's status and headers arrived."""

    leg: int
    status: int
    headers: Headers
    reason: bytes | None = None


class LegRead(Value, frozen=True):
    """Body bytes of an upstream answer, one read."""

    leg: int
    data: bytes


class LegCompleted(Value, frozen=True):
    """An answer that came whole in one read: its head, its body, and a clean end."""

    leg: int
    status: int
    headers: Headers
    body: bytes
    reason: bytes | None = None


class LegEnded(Value, frozen=True):
    """The last event of a leg; nothing follows it, nor comes after `CloseLeg`."""

    leg: int
    end: LegEnd


class Persisted(Value, frozen=True):
    """The record of the `Persist` with this token is durable."""

    token: int


class Fenced(Value, frozen=True):
    """The store refused the record: another replica owns the session now."""

    token: int


class Adopted(Value, frozen=True):
    """A session that `Adopt` named has its driver, and the exchange that opened it."""


class DeadlineReached(Value, frozen=True):
    """The time that `next_deadline` named has come."""


class Evicted(Value, frozen=True):
    """The session is unused, and room is wanted: it is nobody's any more."""


class DrainBegun(Value, frozen=True):
    """The process is going away: begin no heal, owe answers until `until` (seconds, same clock).

    Told once more when nothing listens any longer and no client could come back to an idle stream.
    """

    until: float
    is_listening: bool = False


Event = (
    PostArrived
    | GetArrived
    | DeleteArrived
    | ClientLeft
    | ClientStalled
    | ClientDrained
    | LegAnswered
    | LegRead
    | LegCompleted
    | LegEnded
    | Persisted
    | Fenced
    | Adopted
    | DeadlineReached
    | Evicted
    | DrainBegun
)
