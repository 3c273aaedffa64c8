"""Every limit and deadline: its default, why it is that, and what happens when it is reached.

Numbers that the core obeys have their default in `core.policy.Policy` and nowhere else.
`docs/limits.md` is generated from this model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field, JsonValue, model_validator
from pydantic_settings import BaseSettings

from epochgate.core.policy import KIB, MIB, Policy
from epochgate.units import read_duration, read_size, write_duration, write_size

_DEFAULT = Policy()
Seconds = Annotated[float, BeforeValidator(read_duration)]
Size = Annotated[int, BeforeValidator(read_size)]


def _limit(unit: str, default: float, what: str, why: str, at_limit: str, least: float = 0) -> Any:
    """A field that limits `what`: `why` is the reason of the default, `least` the smallest value allowed."""
    extra: dict[str, JsonValue] = {"unit": unit, "why": why, "at_limit": at_limit}
    return Field(default=default, ge=least, description=what, json_schema_extra=extra)


_time = partial(_limit, "seconds")
_size = partial(_limit, "bytes")
_count = partial(_limit, "count")


class Limits(BaseSettings):
    """The part of the settings that bounds time, memory and numbers (G8)."""

    # fmt: off
    # time
    connect: Seconds = _time(
        3, "the time for connecting to the server",
        "a server beside the proxy connects in milliseconds",
        "the request counts as not run", least=0.001)
    resolve: Seconds = _time(
        5, "the time between two look-ups of a name in upstream",
        "the least that cluster DNS lets answers live",
        "servers that came or left are noticed", least=0.1)
    hold: Seconds = _time(
        _DEFAULT.hold_s, "the time for which a client may be away while its events are kept",
        "covers a client's reconnects and a laptop's short sleep",
        "the stream ends with error -32050 and leaves a tombstone")
    retain: Seconds = _time(
        _DEFAULT.retain_s, "the time for which an answer is kept after it was written to its client",
        "an answer may be lost on the way and asked for once more",
        "the answer is dropped from the journal")
    resume_deadline: Seconds = _time(
        _DEFAULT.resume_deadline_s, "the time for resuming a broken stream of the server",
        "a server that is alive has noticed the break by then",
        "the request is restarted: not_resumable or upstream_lost")
    resume_headers: Seconds = _time(
        _DEFAULT.resume_headers_s, "the time for the head of the answer to one resume",
        "lets a resume be tried twice before its deadline",
        "this attempt counts as unreachable")
    heal_deadline: Seconds = _time(
        _DEFAULT.heal_deadline_s, "the time for re-establishing a session",
        "a pod restarts in less; most clients wait 60 s",
        "owed requests get error -32051, the session is parked")
    silence: Seconds = _time(
        _DEFAULT.silence_s, "the time for which the server may be silent while it owes an answer",
        "longer than the pauses of ordinary tools",
        "the server's session is pinged")
    ping: Seconds = _time(
        _DEFAULT.ping_s, "the time for the answer to a ping of ours",
        "a ping needs no work",
        "the leg counts as broken")
    max_silence: Seconds = _time(
        _DEFAULT.max_silence_s, "the time for which the server may be silent if it answers pings",
        "an hour of silence is no longer work",
        "error -32050, upstream_silent")
    keepalive: Seconds = _time(
        _DEFAULT.keepalive_s, "the time without a byte in an event stream to a client",
        "idle timeouts of balancers begin at 30 s",
        "a comment is written to an idle event stream")
    poll_grace: Seconds = _time(
        _DEFAULT.poll_grace_s, "the time for the return to a stream whose close the server announced",
        "a server that announces a poll says when; twice its retry if longer",
        "the request is restarted")
    cancel_grace: Seconds = _time(
        _DEFAULT.cancel_grace_s, "the time for the answer to a request that was cancelled",
        "an answer may be on its way",
        "the cancelled request's stream is ended")
    takeover_interval: Seconds = _time(
        _DEFAULT.takeover_interval_s, "the time before a standalone stream may replace another",
        "two clients of one session must not take turns",
        "409 with Retry-After")
    session_idle: Seconds = _time(
        _DEFAULT.session_idle_s, "the time for which a session may be unused",
        "a person comes back after lunch",
        "the session ends, on the server too")
    drain: Seconds = _time(
        25, "the time for going away, drain_delay included",
        "orchestrators kill after 30 s",
        "owed requests get an error and the process exits")
    drain_delay: Seconds = _time(
        5, "the time at the beginning of a drain, while connections are still taken",
        "balancers need a few probes to look away",
        "the traffic listener is closed")
    body_timeout: Seconds = _time(
        30, "the time for which a request's body may stop coming",
        "a body that stops coming holds a connection",
        "408", least=0.001)
    connection_idle: Seconds = _time(
        75, "the time for which a connection to any listener may be idle, or the head of a request under way",
        "longer than clients keep an idle connection, so that they close first",
        "the client's connection is closed", least=0.001)
    ready_grace: Seconds = _time(
        60, "the time for which the server may be out of reach",
        "a server's restart must not take the proxy out too",
        "readiness is false until the server is reachable", least=1)

    # size
    max_body: Size = _size(
        16 * MIB, "the bytes of a request's body",
        "a request with a large file in it",
        "413", least=1)
    max_header: Size = _size(
        64 * KIB, "the bytes of a line in the head of a request or an answer",
        "tokens and challenges of several KiB",
        "431; from the server: a failed request", least=1024)
    write_buffer: Size = _size(
        256 * KIB, "the bytes that wait for a client that reads slowly",
        "what may wait for one client that reads slowly",
        "the server's answer is not read on, events go to the journal", least=1024)
    max_event_bytes: Size = _size(
        _DEFAULT.max_event_bytes, "the bytes of one event",
        "a screenshot in base64",
        "passed on as it comes and not kept; after a break a divergence, event_too_large", least=1024)
    max_json_buffer: Size = _size(
        _DEFAULT.max_json_buffer_bytes, "the bytes of a JSON answer that is read before it is sent",
        "what may be sent after its last byte came",
        "passed on as it comes; if it breaks the connection is aborted")
    max_reissue_bytes: Size = _size(
        _DEFAULT.max_reissue_bytes, "the bytes of a request that is kept to be sent again",
        "a call's arguments, kept while it is owed",
        "the request is never sent again")
    journal_stream: Size = _size(
        _DEFAULT.journal_stream_bytes, "the bytes of events kept for one stream",
        "minutes of a chatty tool",
        "the server is not read until the client returns", least=1024)
    journal_session: Size = _size(
        _DEFAULT.journal_session_bytes, "the bytes of events kept for one session",
        "four full streams",
        "as for journal_stream; delivered events go first", least=1024)
    journal_total: Size = _size(
        256 * MIB, "the bytes of events kept for all sessions",
        "fits a small sidecar",
        "as for journal_stream; delivered events go first", least=1024)

    # count
    max_headers: int = _count(
        256, "the lines in the head of a request or an answer",
        "twice what large clients send",
        "431; from the server: a failed request", least=16)
    max_sessions: int = _count(
        10_000, "the sessions at a time",
        "as many as the Python SDK's server keeps",
        "the one unused for longest is ended; if all are in use: 503 with Retry-After, "
        "to an `initialize` within a session a JSON-RPC error", least=1)
    max_streams: int = _count(
        _DEFAULT.max_streams, "the streams of one session at a time",
        "calls one client has open at a time",
        "a further request gets a JSON-RPC error", least=1)
    max_tombstones: int = _count(
        _DEFAULT.max_tombstones, "the ended streams that a session remembers",
        "64 bytes each",
        "the oldest is forgotten; its cursor gets 400")
    max_reissues: int = _count(
        _DEFAULT.max_reissues, "the times that a request of unknown outcome is sent again",
        "one second run at most where the first may have happened",
        "error -32050, exhausted")
    max_not_run_reissues: int = _count(
        _DEFAULT.max_not_run_reissues, "the times that a request is sent again that provably did not run",
        "the first run did not happen",
        "error -32050, exhausted")
    max_resumes_without_message: int = _count(
        _DEFAULT.max_resumes_without_message, "the resumes in a row that bring no message",
        "a working resume brings something",
        "the request is restarted: not_resumable or empty_resume", least=1)
    max_heals_per_minute: int = _count(
        _DEFAULT.max_heals_per_minute, "the times in a minute that one session is re-established",
        "replicas behind one address would heal for ever",
        "the session is lost: 404", least=1)
    # fmt: on

    @model_validator(mode="after")
    def _agree(self) -> Limits:
        """Refuse limits that contradict each other."""
        for small, large in ORDERED:
            if getattr(self, small) > getattr(self, large):
                most = written(large, getattr(self, large))
                raise ValueError(f"{small}: larger than {large}; give at most {most}")
        return self


# Pairs of which the first may not be larger than the second.
ORDERED = (
    ("resume_headers", "resume_deadline"),
    ("drain_delay", "drain"),
    ("heal_deadline", "ready_grace"),  # or readiness takes away what a heal is about to mend
    ("silence", "max_silence"),
    ("max_event_bytes", "journal_stream"),
    ("journal_stream", "journal_session"),
    ("journal_session", "journal_total"),
)


@dataclass(frozen=True, slots=True)
class Limit:
    """One row of the table of limits; `default` as people write it."""

    name: str
    unit: str
    default: str
    what: str
    why: str
    at_limit: str


def table() -> list[Limit]:
    """Every limit in the order of the model."""
    return [
        Limit(
            name,
            _extra(name)["unit"],
            written(name, field.default),
            str(field.description),
            _extra(name)["why"],
            _extra(name)["at_limit"],
        )
        for name, field in Limits.model_fields.items()
    ]


def least(name: str) -> float:
    """The smallest value that the limit `name` may have, in its unit."""
    return float(next(mark.ge for mark in Limits.model_fields[name].metadata if hasattr(mark, "ge")))


def written(name: str, value: float) -> str:
    """The value of the limit `name` as people write it: `5 min`, `16 MiB`, `3`."""
    match _extra(name)["unit"]:
        case "seconds":
            return write_duration(value)
        case "bytes":
            return write_size(int(value))
        case _:
            return str(value)


def _extra(name: str) -> dict[str, str]:
    return cast("dict[str, str]", Limits.model_fields[name].json_schema_extra)
