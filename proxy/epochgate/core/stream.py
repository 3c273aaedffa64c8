"""A stream: one SSE sequence, its two halves, what it owes, and what it gave the client.

The upstream half and the client half live apart (design, sections 5 and 6): a client that leaves
does not end the work, and an upstream that breaks does not end the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epochgate.core import jsonrpc
from epochgate.core.axes import Leg
from epochgate.core.enums import Enum
from epochgate.core.eventids import EventIds
from epochgate.core.events import RequestHead
from epochgate.core.generation import Generation
from epochgate.core.http import Headers
from epochgate.core.journal import Budget, Journal, Numbering
from epochgate.core.jsonrpc import Body, Message, stamp_key
from epochgate.core.scan import TopLevelReplacer
from epochgate.core.sse import Framer
from epochgate.core.states import (
    CLIENT,
    TERMINAL,
    UPSTREAM,
    ClientHalf,
    ClientInput,
    Up,
    UpInput,
    impossible,
)
from epochgate.core.usual import Usual
from epochgate.core.verdict import Ruling

if TYPE_CHECKING:
    from epochgate.core.passing import Passing


class Kind(Enum):
    REQUEST = "request"
    STANDALONE = "standalone"


class OwedState(Enum):
    OPEN = "open"
    CANCELLED = "cancelled"
    ANSWERED = "answered"


@dataclass(slots=True, eq=False)
class Owed:
    """One request that a stream must answer.

    `stamp` and `token_stamp` are the JSON texts that stand upstream for the client's id and progress
    token; they equal the client's where the request cannot be stamped. `key` and `token_key` are those
    of the generation's tables. `progress` is the last value
    the client saw of it and `total` its total; None: none, or not known any more.
    """

    message: Message
    stamp: bytes
    token_stamp: bytes | None
    is_stamped: bool
    state: OwedState = OwedState.OPEN
    has_answered_question: bool = False
    answered_at: int | None = None  # the position of its answer, once the stream has it
    progress: float | None = None
    total: float | None = None
    id: bytes = field(init=False)
    key: bytes = field(init=False)
    token_key: bytes | None = field(init=False)

    def __post_init__(self) -> None:
        assert self.message.id is not None
        self.id = self.message.id
        self.key = stamp_key(self.stamp) if self.is_stamped else self.stamp
        self.token_key = self.token_stamp
        if self.token_stamp is not None and self.is_stamped:
            self.token_key = stamp_key(self.token_stamp)

    @property
    def method(self) -> str:
        return self.message.method or ""


@dataclass(slots=True)
class Restart:
    """What the client is told of a restart: the mark and the notice carry it (design, section 9)."""

    reason: str
    generation: int
    discarded_events: int
    reissued: bool

    def as_data(self) -> dict[str, object]:
        return {
            "reason": self.reason,
            "generation": self.generation,
            "discarded_events": self.discarded_events,
            "reissued": self.reissued,
        }


@dataclass(slots=True)
class Answer:
    """What came on the current leg so far: its head, and the body where that is no SSE."""

    status: int
    headers: Headers
    chunks: list[bytes]
    size: int = 0
    is_sse: bool = False
    reason: bytes | None = None
    replacer: TopLevelReplacer | None = None  # of an answer that is passed on as it comes (R34)

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is left of a stream under one of its blocks, which began at position `first`: what it owed,
    each with the position of its answer if it had one, and its last cursor (R13, R14)."""

    owed: tuple[tuple[bytes, int | None], ...]
    last_cursor: int
    is_standalone: bool
    first: int = 0

    def missing_behind(self, position: int) -> tuple[bytes, ...]:
        """The ids whose answers a client cannot have that read up to `position`."""
        return tuple(id for id, at in self.owed if at is None or at > position)


# What stands in a stream before its first SSE answer: most calls are answered by JSON.
_NO_FRAMER = Framer()
_NO_IDS = EventIds()


class Stream:
    """One stream, from the POST or GET that began it until it is forgotten."""

    __slots__ = (
        "announced_retry_ms",
        "answer",
        "attempts",
        "body",
        "caller",
        "client",
        "client_head",
        "exchange",
        "failing_since",
        "framer",
        "generation",
        "handle",
        "has_leg_event",
        "has_unproven_poll",
        "head",
        "header_epoch",
        "held_until",
        "ids",
        "is_durable",
        "is_leg_paused",
        "is_mute",
        "is_not_run",
        "is_over",
        "is_reopened",
        "is_request",
        "is_resume_counted",
        "is_stalled",
        "is_usual_sought",
        "journal",
        "kind",
        "last_attached_at",
        "last_byte_at",
        "last_read_at",
        "last_write_at",
        "leg",
        "leg_kind",
        "leg_retry_ms",
        "not_run_reissues",
        "numbering",
        "owed",
        "passing",
        "poll_retry_ms",
        "polled_since",
        "predecessor",
        "reissues",
        "relayed",
        "restart",
        "sent_at",
        "strikes",
        "successor",
        "token_back",
        "up",
        "usual",
        "void_reason",
        "withheld",
    )

    def __init__(
        self, handle: int, kind: Kind, generation: Generation, head: RequestHead, budget: Budget
    ) -> None:
        self.handle = handle
        self.kind = kind
        self.is_request = kind is Kind.REQUEST
        self.generation = generation
        self.head = head  # of the POST or GET that began it
        self.caller = head  # the last accepted request for it: its credentials count (R32)
        self.body: Body | None = None
        self.owed: list[Owed] = []

        self.up = Up.WAITING
        self.is_durable = False  # what it owes is recorded: it may be sent (R16)
        self.is_over = False  # its state is a terminal one
        self.leg: int | None = None
        self.leg_kind = Leg.UNBROKEN
        self.answer: Answer | None = None
        self.is_reopened = False  # in its generation, or for a cursor: history may come again (W16)
        self.is_resume_counted = False  # the resume of this leg was counted, at its first relay
        self.is_leg_paused = False
        self.header_epoch: bytes | None = None
        self.framer = _NO_FRAMER
        self.ids = _NO_IDS
        self.passing: Passing | None = None  # an event that is given to the client as it comes (R9)
        self.announced_retry_ms: int | None = None  # `retry:` on the last block of this leg
        self.leg_retry_ms: int | None = None  # the last one on this leg, wherever it stood
        self.poll_retry_ms: int | None = None
        self.polled_since = 0.0  # when polls last brought a message, or began
        self.has_unproven_poll = False
        self.strikes = 0
        self.has_leg_event = False  # since the stream broke first, some leg carried an event
        self.attempts = 0
        self.failing_since: float | None = None
        self.sent_at = 0.0
        self.last_read_at = 0.0  # when anything but a comment came
        self.last_byte_at = 0.0
        self.last_attached_at = float("-inf")  # when a GET took the standalone stream over (R35)

        self.client = ClientHalf.UNBORN
        self.exchange: int | None = None
        self.client_head: Headers = ()  # of the SSE answer, for redelivery
        self.is_stalled = False
        self.last_write_at = 0.0
        self.held_until: float | None = None
        self.journal = Journal(budget)
        self.numbering = Numbering()
        self.relayed = 0
        # The anchored progress token as it comes and as it goes on, of a stream with one request.
        self.token_back: tuple[bytes, bytes] | None = None
        self.usual: Usual | None = None  # how the server writes its progress
        self.is_usual_sought = False

        self.void_reason: Ruling | None = None
        self.is_not_run = False
        self.predecessor: Stream | None = None
        self.successor: Stream | None = None
        self.reissues = 0
        self.not_run_reissues = 0
        self.restart: Restart | None = None
        # Errors of batch members that were not sent again, for an answer that is not begun (R41).
        self.withheld: list[bytes] = []
        self.is_mute = False  # no notice could be given: questions and the answer only (R5)

    def __repr__(self) -> str:
        owed = sum(one.state is OwedState.OPEN for one in self.owed)
        return (
            f"<Stream {self.handle} {self.kind.value} {self.up.value} {self.client.value} "
            f"g{self.generation.number} owes {owed}, relayed {self.relayed}>"
        )

    @property
    def is_body_passed_on(self) -> bool:
        """Whether the answer is a body, not a stream of events, that the client gets as it comes (R34)."""
        return self.up is Up.OPAQUE and self.answer is not None and not self.answer.is_sse

    @property
    def has_id(self) -> bool:
        """Whether the client was given an event id, so that it can come back (G5)."""
        if self.numbering.blocks:
            return True
        return self.predecessor is not None and self.predecessor.has_id

    @property
    def open_owed(self) -> list[Owed]:
        return [owed for owed in self.owed if owed.state is OwedState.OPEN]

    @property
    def answers(self) -> tuple[tuple[bytes, int | None], ...]:
        """The ids that it owed, each with the position of its answer."""
        return tuple((owed.id, owed.answered_at) for owed in self.owed)

    @property
    def unanswered(self) -> list[Owed]:
        return [owed for owed in self.owed if owed.state is not OwedState.ANSWERED]

    @property
    def can_be_resumed_safely(self) -> bool:
        """Whether what comes back can be told apart: every request carries a stamp (R36)."""
        return all(owed.is_stamped for owed in self.owed)

    def newest(self) -> Stream:
        """The last stream of the chain that took this one's place (R11)."""
        stream = self
        while stream.successor is not None:
            stream = stream.successor
        return stream

    def begin_sse(self) -> None:
        """An SSE answer begins on a fresh leg of this stream; ids seen before stay known."""
        self.framer = Framer()
        self.leg_retry_ms = None
        if self.ids is _NO_IDS:
            self.ids = EventIds()
        only = self.owed[0] if len(self.owed) == 1 else None
        if only is not None and only.token_stamp is not None and only.message.token is not None:
            key = b'"progressToken":'
            self.token_back = (key + only.token_stamp, key + only.message.token)

    def let_go(self) -> None:
        """It is forgotten: questions, task tokens and the log may name it still, and need no bytes of it."""
        self.body = self.answer = self.usual = None
        if self.ids is not _NO_IDS:
            self.framer, self.ids = Framer(), EventIds()
        for owed in self.owed:
            owed.message = jsonrpc.without_text(owed.message)

    def move(self, event: UpInput) -> None:
        """The one place where the upstream half changes."""
        up = UPSTREAM.get((self.up, event))
        if up is None:
            raise impossible(self.up, event)
        self.up = up
        self.is_over = self.up in TERMINAL

    def move_client(self, event: ClientInput) -> None:
        """The one place where the client half changes."""
        client = CLIENT.get((self.client, event))
        if client is None:
            raise impossible(self.client, event)
        self.client = client
