"""The evidence that the judge weighs: its axes, each an enumeration, and its four kinds.

Standard library only, as the judge itself.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from epochgate.core.enums import Enum


class Leg(Enum):
    """How the upstream leg of a message came to be."""

    UNBROKEN = "unbroken"
    RESUMED = "resumed"
    POLLED = "polled"  # rejoined after an announced close (R4)


class Match(Enum):
    """How the epoch stated by a message or a header compares with the one captured (R7, R8)."""

    NOT_CAPTURED = "not_captured"
    EQUAL = "equal"
    HEADER_EQUAL = "header_equal"  # the leg's header only; proves one moment (R7)
    ABSENT = "absent"
    DIFFERENT = "different"


class Size(Enum):
    FITS = "fits"
    TOO_LARGE = "too_large"


class Claim(Enum):
    """What a message claims to be, as its stamp shows (R30, R36)."""

    ANSWER = "answer"
    PROGRESS = "progress"
    ELSEWHERE_ANSWER = "elsewhere_answer"  # the stamp of another request of this generation
    ELSEWHERE_PROGRESS = "elsewhere_progress"
    UNKNOWN_ANSWER = "unknown_answer"  # fits no stamp of this generation
    UNKNOWN_PROGRESS = "unknown_progress"
    LATE = "late"  # its request is answered already
    PLAIN = "plain"  # a notification that carries no stamp
    PING = "ping"
    QUESTION = "question"  # a request of the server
    IDLESS_ERROR = "idless_error"
    UNREADABLE = "unreadable"


class Asked(Enum):
    """A server request's id against those seen in its generation (R6, R19)."""

    NO = "no"  # the message is no server request
    NEW = "new"
    SEEN = "seen"
    OPEN = "open"
    OTHER = "other"  # open, and what stands in the message is another request


class IdStep(Enum):
    """An event id against the last one, where the stream's ids are comparable (R31)."""

    UNJUDGED = "unjudged"
    NEXT = "next"
    SAME = "same"  # seen before with the same bytes
    GAP = "gap"
    RESET = "reset"  # lower, or seen before with other bytes


class Before(Enum):
    """What of the stream was relayed before this message (R2)."""

    NOTHING = "nothing"
    SOMETHING = "something"


class Shape(Enum):
    """What answered a resume or a poll."""

    SSE = "sse"
    GONE = "gone"  # the session classifier says so (W5)
    AUTH = "auth"  # 401, 403
    REFUSED = "refused"  # 400
    NOT_ALLOWED = "not_allowed"  # 405
    BUSY = "busy"  # 409, 429, 502-504
    UNREACHABLE = "unreachable"  # refused, cut or silent before its headers
    UNSUITABLE = "unsuitable"  # anything else


class Named(Enum):
    """The session id on an answer."""

    OURS = "ours"  # or none: its absence proves nothing
    OTHER = "other"


class Time(Enum):
    LEFT = "left"
    UP = "up"


class Owed(Enum):
    ANSWER = "answer"
    NOTHING = "nothing"
    CANCELLED = "cancelled"
    SESSION_ENDED = "session_ended"


class Break(Enum):
    """How an upstream leg broke."""

    ANNOUNCED = "announced"  # a clean end after `retry:` (R4)
    CUT = "cut"  # a reset, a truncation, or a clean end that was not announced
    INSIDE_EVENT = "inside_event"  # within an event that was streamed through (R9)


class Provable(Enum):
    """What a resume could be proven with."""

    EPOCH_AND_ID = "epoch_and_id"
    EPOCH_ONLY = "epoch_only"
    ID_ONLY = "id_only"
    NOTHING = "nothing"


class Strikes(Enum):
    """Resumes in a row that brought no new message (R23)."""

    LEFT = "left"
    SPENT = "spent"
    SPENT_EMPTY = "spent_empty"  # and none carried any event


class Poll(Enum):
    """`poll_without_epoch`; RESTART too when stamps are off (R4, R36)."""

    ACCEPT = "accept"
    RESTART = "restart"


class Names(Enum):
    """What a client's cursor names."""

    NOTHING = "nothing"
    TOMBSTONE = "tombstone"
    REQUEST = "request"
    STANDALONE = "standalone"


class Position(Enum):
    EARLIER = "earlier"
    LAST = "last"
    BEYOND = "beyond"  # past the durable tail of its block (R16)
    EVICTED = "evicted"  # what follows it is no longer kept


class Half(Enum):
    """The named stream itself."""

    RUNNING = "running"
    FINISHED = "finished"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class MessageEvidence:
    """A message that came on an upstream leg."""

    leg: Leg
    size: Size
    claim: Claim
    epoch: Match
    asked: Asked
    step: IdStep
    before: Before


@dataclass(frozen=True, slots=True)
class AnswerEvidence:
    """The answer to a resume or poll; `epoch` compares its header."""

    shape: Shape
    named: Named
    epoch: Match
    time: Time


@dataclass(frozen=True, slots=True)
class BreakEvidence:
    """An upstream leg that ended."""

    owed: Owed
    how: Break
    provable: Provable
    strikes: Strikes
    poll: Poll


@dataclass(frozen=True, slots=True)
class CursorEvidence:
    """A cursor that a client presented."""

    names: Names
    position: Position
    half: Half


Evidence = MessageEvidence | AnswerEvidence | BreakEvidence | CursorEvidence


def axes(evidence_type: type[Any]) -> dict[str, type[Enum]]:
    """The axes of one kind of evidence and their enumerations, for tests and generated tables."""
    kinds = {kind.__name__: kind for kind in Enum.__subclasses__()}
    return {field.name: kinds[str(field.type)] for field in fields(evidence_type)}
