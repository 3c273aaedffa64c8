"""What the core asks for, as imperatives, and what it found out, as facts.

The driver performs every command in order. Facts change nothing: they are what an observer counts
and logs. Exchanges are numbered by the shell, legs by the core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochgate.core.http import Headers
from epochgate.core.records import Record
from epochgate.core.values import Value

if TYPE_CHECKING:
    from epochgate.core.session import Session

# --- commands -----------------------------------------------------------------------------------


class SendUpstream(Value, frozen=True):
    """Open a leg: one HTTP request to the upstream.

    `headers` are end-to-end headers; the shell adds `Host` and framing. `headers_within` limits the
    wait for the answer's headers, in seconds (None: no limit, W6).
    """

    leg: int
    method: bytes
    target: bytes
    headers: Headers
    body: bytes | None
    headers_within: float | None = None


class PauseLeg(Value, frozen=True):
    leg: int


class ResumeLeg(Value, frozen=True):
    leg: int


class CloseLeg(Value, frozen=True):
    """Close the leg now; no event of it follows."""

    leg: int


class DrainLeg(Value, frozen=True):
    """Nobody waits for this leg any more: read it to its end for at most 1 s, then close it (W7).

    No event of it follows.
    """

    leg: int


class Respond(Value, frozen=True):
    """Answer an exchange whole, with `Content-Length` (except 202 and 204: no body, no type)."""

    exchange: int
    status: int
    headers: Headers
    body: bytes
    reason: bytes | None = None


class OpenAnswer(Value, frozen=True):
    """Start an answer of unknown length (chunked; the head goes out with the next write).

    `probe` is a comment that may stand between two writes, to learn whether a client that ended its own
    direction still reads; b"" where none may stand.
    """

    exchange: int
    status: int
    headers: Headers
    reason: bytes | None = None
    probe: bytes = b""


class Probe(Value, frozen=True):
    """From now on `probe` may stand between two writes of an open answer."""

    exchange: int
    probe: bytes


class Write(Value, frozen=True):
    """Write body bytes to an open answer; empty bytes send the head alone."""

    exchange: int
    data: bytes


class EndAnswer(Value, frozen=True):
    """Write the last bytes and the final chunk in one write."""

    exchange: int
    data: bytes = b""


class AbortAnswer(Value, frozen=True):
    """Break the client's connection without a final chunk, so that it cannot look complete."""

    exchange: int


class Persist(Value, frozen=True):
    """Make a record durable, then answer with `Persisted` (or `Fenced`) and the same token."""

    token: int
    record: Record


class Register(Value, frozen=True):
    """The session exists from now on under this id on the client leg."""

    visible_id: bytes


class Adopt(Value, frozen=True):
    """The exchange's request opened another session: it is that one's from now on, and hands out steps
    when it is told `Adopted`."""

    exchange: int
    session: Session


class Forget(Value, frozen=True):
    """The session is over and nothing of it is left: drop it."""


# --- facts --------------------------------------------------------------------------------------


class Judged(Value, frozen=True):
    """A verdict about a resume. All four are label values of `epochgate_resumes_total`."""

    leg: str  # client | upstream
    stream: str  # request | standalone
    verdict: str
    reason: str
    exchange: int | None = None  # of the client that it concerns, for its log line


class Relayed(Value, frozen=True):
    events: int


class Dropped(Value, frozen=True):
    """A message that no client may see: foreign, late, duplicate, unproven, stale_answer."""

    reason: str


class HealBegun(Value, frozen=True):
    trigger: str
    generation: int


class HealEnded(Value, frozen=True):
    """`changes` names what differs in the new `InitializeResult`; `seconds` is the heal's length."""

    trigger: str
    outcome: str
    generation: int
    seconds: float
    changes: tuple[str, ...] = ()


class Reissued(Value, frozen=True):
    """What the policy said of one owed request: sent, withheld or exhausted."""

    method: str
    outcome: str
    reason: str
    exchange: int | None = None


class Discarded(Value, frozen=True):
    """The price of a restart: events the client had seen, seconds since the request was sent."""

    events: int
    seconds: float


class Drifted(Value, frozen=True):
    generation: int


class Counted(Value, frozen=True):
    """One more of a counter without labels; `name` is the metric's name without prefix and suffix.

    affinity_faults, unproven_polls, standalone_gaps, unknown_cursors, journal_evictions,
    session_evictions.
    """

    name: str


class UpstreamFailed(Value, frozen=True):
    """An upstream leg failed: connect, headers_timeout, reset, truncated, protocol."""

    kind: str


Command = (
    SendUpstream
    | PauseLeg
    | ResumeLeg
    | CloseLeg
    | DrainLeg
    | Respond
    | OpenAnswer
    | Probe
    | Write
    | EndAnswer
    | AbortAnswer
    | Persist
    | Register
    | Adopt
    | Forget
)
Fact = (
    Judged
    | Relayed
    | Dropped
    | HealBegun
    | HealEnded
    | Reissued
    | Discarded
    | Drifted
    | Counted
    | UpstreamFailed
)
Step = Command | Fact
