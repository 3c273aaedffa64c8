"""Which traffic is guarded (design, section 4): one table over what a request shows (W14, R45).

Decided for each request: one endpoint may serve sessions and the stateless revisions side by side.
"""

from __future__ import annotations

from functools import cache
from typing import assert_never

from epochgate.core import http
from epochgate.core.enums import Enum
from epochgate.core.http import Headers
from epochgate.core.jsonrpc import Body, Kind

STATELESS_REVISIONS = frozenset({b"2026-07-28"})

# What clients send, in all revisions up to 2026-07-28: the values of the label `method`.
KNOWN_METHODS = frozenset(
    {
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "notifications/cancelled",
        "notifications/initialized",
        "notifications/progress",
        "notifications/roots/list_changed",
        "notifications/tasks/status",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "subscriptions/listen",
        "tasks/cancel",
        "tasks/get",
        "tasks/list",
        "tasks/result",
        "tasks/update",
        "tools/call",
        "tools/list",
    }
)


class TrafficClass(Enum):
    """The values of the label `class`."""

    MODERN = "modern"
    SESSION = "session"
    PLAIN = "plain"
    UNKNOWN = "unknown"


class Intake(Enum):
    """What the shell does with a request.

    MODERN and PLAIN pass untouched. OPENING is an `initialize` whose answer may open a session.
    UNKNOWN_SESSION is what `unknown_sessions` is about; UNKNOWN_RESUME is refused with 404.
    """

    MODERN = "modern"
    OPENING = "opening"
    IN_SESSION = "in_session"
    UNKNOWN_SESSION = "unknown_session"
    UNKNOWN_RESUME = "unknown_resume"
    PLAIN = "plain"

    @property
    def traffic_class(self) -> TrafficClass:
        match self:
            case Intake.MODERN:
                return TrafficClass.MODERN
            case Intake.OPENING | Intake.IN_SESSION:
                return TrafficClass.SESSION
            case Intake.UNKNOWN_SESSION | Intake.UNKNOWN_RESUME:
                return TrafficClass.UNKNOWN
            case Intake.PLAIN:
                return TrafficClass.PLAIN
            case _:
                assert_never(self)


class Verb(Enum):
    POST = b"POST"
    GET = b"GET"
    DELETE = b"DELETE"
    OTHER = b""


class Content(Enum):
    """LEGACY: `notifications/initialized`, an array, a response (never modern, W14). CALL: any other
    message. NONE: no body, or nothing that can be read."""

    INITIALIZE = "initialize"
    LEGACY = "legacy"
    CALL = "call"
    NONE = "none"


class Revision(Enum):
    STATELESS = "stateless"
    OTHER = "other"


class SessionId(Enum):
    """The session that a request names."""

    NO_SESSION = "no_session"
    KNOWN = "known"
    UNKNOWN = "unknown"


class Start(Enum):
    """Whether a stream is resumed: a `Last-Event-ID` that is not empty."""

    RESUME = "resume"
    FRESH = "fresh"


Shape = tuple[Verb, Content, Revision, SessionId, Start]
Pattern = Enum | tuple[Enum, ...] | None
Row = tuple[Pattern, Pattern, Pattern, Pattern, Pattern, Intake]

_VERBS = {verb.value: verb for verb in (Verb.POST, Verb.GET, Verb.DELETE)}
_ANY = None
_GUARDED = (Verb.POST, Verb.GET, Verb.DELETE)

# Tried in order; a pattern is one value, several, or any.
_ROWS: tuple[Row, ...] = (
    # verb, content, revision, session id, start, intake
    (Verb.POST, Content.INITIALIZE, _ANY, SessionId.KNOWN, _ANY, Intake.IN_SESSION),
    (Verb.POST, Content.INITIALIZE, _ANY, _ANY, _ANY, Intake.OPENING),
    (Verb.POST, (Content.CALL, Content.NONE), Revision.STATELESS, _ANY, _ANY, Intake.MODERN),
    (_GUARDED, _ANY, _ANY, SessionId.KNOWN, _ANY, Intake.IN_SESSION),
    (Verb.GET, _ANY, _ANY, SessionId.UNKNOWN, Start.RESUME, Intake.UNKNOWN_RESUME),
    (_GUARDED, _ANY, _ANY, SessionId.UNKNOWN, _ANY, Intake.UNKNOWN_SESSION),
    (_ANY, _ANY, _ANY, _ANY, _ANY, Intake.PLAIN),
)


def classify(
    method: bytes,
    headers: Headers,
    body: Body | None,
    is_known_session: bool,
    stateless_revisions: frozenset[bytes] = STATELESS_REVISIONS,
) -> Intake:
    """What to do with a request; `method` is the HTTP method in upper case."""
    return decide(shape(method, headers, body, is_known_session, stateless_revisions))


def shape(
    method: bytes,
    headers: Headers,
    body: Body | None,
    is_known_session: bool,
    stateless_revisions: frozenset[bytes],
) -> Shape:
    """What `decide` looks at."""
    revision = http.find(headers, http.PROTOCOL_VERSION)
    return (
        _VERBS.get(method, Verb.OTHER),
        _content(body),
        Revision.STATELESS if revision in stateless_revisions else Revision.OTHER,
        _session_id(headers, is_known_session),
        Start.RESUME if http.find(headers, http.LAST_EVENT_ID) else Start.FRESH,
    )


@cache
def decide(shape: Shape) -> Intake:
    """The intake of the first row that fits."""
    for row in _ROWS:
        if all(_fits(pattern, value) for pattern, value in zip(row[:-1], shape, strict=True)):
            return row[-1]
    raise AssertionError(f"no row for {shape}")


def _fits(pattern: Pattern, value: Enum) -> bool:
    if isinstance(pattern, tuple):
        return value in pattern
    return pattern is None or value is pattern


def _content(body: Body | None) -> Content:
    if body is None:
        return Content.NONE
    first = body.messages[0]
    if body.is_batch or first.method is None or first.method == "notifications/initialized":
        return Content.LEGACY
    is_initialize = first.method == "initialize" and first.kind is Kind.REQUEST
    return Content.INITIALIZE if is_initialize else Content.CALL


def _session_id(headers: Headers, is_known_session: bool) -> SessionId:
    if is_known_session:
        return SessionId.KNOWN
    return SessionId.UNKNOWN if http.find(headers, http.SESSION_ID) else SessionId.NO_SESSION


def method_label(http_method: str, body: Body | None) -> str:
    """The value of the label `method`: a known JSON-RPC method, or one of a few words."""
    if http_method in ("GET", "DELETE"):
        return http_method
    if http_method != "POST" or body is None:
        return "other"
    if body.is_batch:
        return "batch"
    method = body.messages[0].method
    if method is None:
        return "response"
    return method if method in KNOWN_METHODS else "other"
