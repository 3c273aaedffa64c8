"""A client session: events in, commands out.

`Session.handle` is the one entrance. It names what the event is about and leaves the work to the
modules that own it: `opening` (the client's `initialize`), `intake` and `forwarding` (its POSTs),
`resuming` and `standalone` (its GETs), `ending` (its DELETE), `clientleg` and `delivery` (what it is
written), `sending`, `answers` and `breaks` (upstream legs), `relaying` (messages), `restarting`,
`reissuing`, `healing`, `restoring` (what follows), `legs` and `firing` (whose leg or timer it is). They
share the state that stands here and add steps by `Session.do`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import assert_never

from epochgate.core import clientleg, ending, firing, intake, legs, opening
from epochgate.core.commands import Forget, Persist, Step
from epochgate.core.cursor import Blocks
from epochgate.core.epoch import Epoch
from epochgate.core.events import (
    Adopted,
    ClientDrained,
    ClientLeft,
    ClientStalled,
    DeadlineReached,
    DeleteArrived,
    DrainBegun,
    Event,
    Evicted,
    Fenced,
    GetArrived,
    LegAnswered,
    LegCompleted,
    LegEnded,
    LegRead,
    Persisted,
    PostArrived,
    RequestHead,
)
from epochgate.core.generation import Generation, Question
from epochgate.core.heal import Heal, InitializeResult, read_initialize_result
from epochgate.core.inquiry import Inquiry
from epochgate.core.journal import Budget
from epochgate.core.jsonrpc import Message
from epochgate.core.policy import Policy
from epochgate.core.records import Record, SessionRecord
from epochgate.core.reissue import Tools
from epochgate.core.states import SESSION, SessionInput, SessionState, UpInput, look_up
from epochgate.core.stream import Kind, Restart, Stream, Tombstone
from epochgate.core.timers import Timer, Timers

Entropy = Callable[[int], int]
"""Given a number of bits, a random integer of so many bits."""


class Session:
    """One client session. `entropy` must be unpredictable: stamps and blocks come from it (R15, R36)."""

    __slots__ = (
        "_durable",
        "accepted",
        "asking",
        "block_owners",
        "blocks",
        "budget",
        "client_version",
        "current",
        "deferred",
        "drain_until",
        "entropy",
        "exchanges",
        "finished",
        "generations",
        "has_changed_roots",
        "has_initialized",
        "heal",
        "heals_at",
        "initialize",
        "initialize_result_raw",
        "is_heal_refused",
        "is_taken",
        "is_volatile",
        "last_head",
        "left",
        "legs",
        "log_level",
        "now",
        "number",
        "open_deletes",
        "opened",
        "opening",
        "pending_mark",
        "policy",
        "prelude",
        "question_tokens",
        "questions",
        "reopenings",
        "running",
        "standalone",
        "state",
        "steps",
        "streams",
        "subscriptions",
        "target",
        "timers",
        "tombstones",
        "tools",
        "touched_at",
        "visible_id",
    )

    def __init__(
        self,
        policy: Policy,
        entropy: Entropy,
        budget: Budget,
        is_taken: Callable[[bytes], bool] | None = None,
        *,
        is_volatile: bool = False,
    ) -> None:
        self.policy = policy
        self.entropy = entropy
        self.budget = budget
        self.is_volatile = is_volatile  # the store keeps nothing: a record is as durable as it will be
        self.is_taken = is_taken  # whether another session is known by this id; asked at the opening
        self.now = 0.0
        self.state = SessionState.OPENING

        # the client
        self.visible_id = b""
        self.initialize: Message | None = None
        self.initialize_result_raw = b""
        self.client_version = ""  # the revision that the client asked for
        self.has_initialized = False
        self.has_changed_roots = False  # told while no server session was there to hear it (R37)
        self.target = b""
        self.accepted: dict[bytes, RequestHead] = {}  # fingerprint -> last accepted head (R32)
        self.last_head: RequestHead | None = None
        self.log_level: str | None = None
        self.subscriptions: dict[str, None] = {}
        self.prelude: dict[str, Message] = {}
        self.tools = Tools()

        # the server
        self.generations: list[Generation] = []
        self.current: Generation
        self.questions: dict[bytes, Question] = {}
        self.question_tokens: dict[bytes, Question] = {}
        self.heal: Heal | None = None
        self.heals_at: list[float] = []
        self.is_heal_refused = False  # the last one met 401 or 403
        self.pending_mark: Restart | None = None
        self.reopenings: list[opening.Opening] = []  # for the end of a heal

        # streams
        self.streams: dict[int, Stream] = {}
        self.standalone: Stream | None = None
        self.running = 0  # request streams that are not over
        self.finished: list[Stream] = []  # to be forgotten when the event is dealt with
        self.left: list[Generation] = []  # old ones a stream of which ended with the event
        self.tombstones: dict[int, Tombstone] = {}
        self.block_owners: dict[int, Stream] = {}
        self.blocks = Blocks(entropy(32))

        # wiring
        self.exchanges: dict[int, Stream] = {}
        self.asking: dict[int, GetArrived] = {}  # GETs whose caller the upstream is asked about (R32)
        self.opened: dict[int, None] = {}  # of these, exchanges whose answer is begun
        self.opening: opening.Opening | None = None
        self.legs: dict[int, Stream | Inquiry | opening.Opening] = {}
        self.timers = Timers()
        self.touched_at = 0.0
        self.drain_until: float | None = None
        self.open_deletes = 0
        self.deferred: list[Callable[[], None]] = []  # until a DELETE is refused (R25)
        self.steps: list[Step] = []
        self._durable: dict[int, Callable[[], None]] = {}
        self.number = itertools.count(2).__next__  # of legs, streams and records

    def __repr__(self) -> str:
        number = self.generations[-1].number if self.generations else 0
        return f"<Session {self.state.value} g{number}, {len(self.streams)} streams>"

    # --- the entrance ---------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Step]:
        """Take one event at `now` (seconds, any monotonic clock); the steps to perform, in order."""
        self.now = now
        match event:
            case LegRead(leg, data):
                return self.read(leg, data, now)
            case LegCompleted():
                legs.completed(self, event)
            case LegAnswered():
                legs.answered(self, event)
            case LegEnded():
                legs.ended(self, event)
            case PostArrived():
                intake.post_arrived(self, event)
            case GetArrived():
                intake.get_arrived(self, event)
            case DeleteArrived():
                ending.delete_arrived(self, event)
            case ClientLeft(exchange):
                clientleg.left(self, exchange)
            case ClientStalled(exchange):
                clientleg.stalled(self, exchange)
            case ClientDrained(exchange):
                clientleg.drained(self, exchange)
            case Persisted(token):
                self._durable.pop(token, _nothing)()
            case Fenced():
                self._durable.clear()  # nothing comes of what is durable still
                ending.lose_ownership(self)
            case DeadlineReached():
                firing.fire_due(self)
            case Evicted():
                ending.evict(self)
            case DrainBegun():
                clientleg.begin_drain(self, event)
            case Adopted():
                pass  # what is to be done was found out before it had a driver
            case _:
                assert_never(event)
        return self._take_steps()

    def read(self, leg: int, data: bytes, now: float) -> list[Step]:
        """`handle` for the event that comes most: one read of a leg."""
        self.now = now
        legs.read(self, leg, data)
        if self.finished or self.left:
            return self._take_steps()
        steps, self.steps = self.steps, []
        return steps

    def _take_steps(self) -> list[Step]:
        while self.left:
            ending.end_if_over(self, self.left.pop())
        while self.finished:
            clientleg.forget(self, self.finished.pop())
        steps, self.steps = self.steps, []
        return steps

    @property
    def has_new_deadline(self) -> bool:
        """Whether one is due before what `next_deadline` said last."""
        return self.timers.has_new

    def next_deadline(self) -> float | None:
        """When `DeadlineReached` is wanted next, on the clock of `now`; None: not at all."""
        return self.timers.next_deadline()

    # --- what the modules build on --------------------------------------------------------------

    @property
    def initialize_result(self) -> InitializeResult:
        """What the server said at `initialize`, read anew: it is asked for at a heal only."""
        return read_initialize_result(self.initialize_result_raw) or InitializeResult()

    def do(self, step: Step) -> None:
        self.steps.append(step)

    def move(self, event: SessionInput) -> None:
        """The one place where the session's state changes."""
        self.state = look_up(SESSION, self.state, event)

    def move_stream(self, stream: Stream, event: UpInput) -> None:
        """Move a stream's upstream half, and keep count."""
        was_over = stream.is_over
        stream.move(event)
        if was_over or not stream.is_over:
            return
        if stream.is_request:
            self.running -= 1
        if stream.generation is not self.current:
            self.left.append(stream.generation)

    def forget(self) -> None:
        """Nothing of the session is left."""
        self.timers.clear_all()
        self.do(Forget())

    def touch(self) -> None:
        """The client was here: its idle limit begins anew, when its timer next looks."""
        self.touched_at = self.now
        if not self.timers.is_set(Timer.IDLE, 0):
            self.set_timer(Timer.IDLE, 0, self.policy.session_idle_s)

    def set_timer(self, timer: Timer, of: int, after: float) -> None:
        self.timers.set(timer, of, self.now + after)

    def clear_timer(self, timer: Timer, of: int) -> None:
        self.timers.clear(timer, of)

    def persist(self, record: Record, then: Callable[[], None]) -> None:
        """Do `then` once the record is durable (R16). `then` must look again at what it acts on."""
        if self.is_volatile:
            then()
            return
        token = self.number()
        self._durable[token] = then
        self.do(Persist(token, record))

    def persist_session(self, then: Callable[[], None]) -> None:
        assert self.initialize is not None
        record = SessionRecord(
            self.visible_id,
            self.initialize.raw,
            self.initialize_result_raw,
            self.current.number,
            self.current.upstream_id,
            self.current.epoch.meta,
            self.current.epoch.header,
        )
        self.persist(record, then)

    def new_stream(self, kind: Kind, head: RequestHead) -> Stream:
        stream = Stream(self.number(), kind, self.current, head, self.budget)
        self.streams[stream.handle] = stream
        self.running += stream.is_request
        return stream

    def add_generation(self, upstream_id: bytes, epoch: Epoch) -> Generation:
        number = self.generations[-1].number + 1 if self.generations else 1
        generation = Generation(number, upstream_id, epoch, last_sign_of_life=self.now)
        self.take_generation(generation)
        return generation

    def take_generation(self, generation: Generation) -> None:
        """What is sent from now on is sent in this generation. Old ones that nothing is left of go."""
        in_use = {id(stream.generation) for stream in self.streams.values()}
        kept = [one for one in self.generations if id(one) in in_use or one.is_wanted]
        self.generations = [*kept, generation]
        self.current = generation

    def own_id(self) -> bytes:
        """A JSON-RPC id for a request of the proxy's own, as hard to guess as a stamp."""
        return b"%d" % (10**13 + self.entropy(64) % (9 * 10**13))

    def head_for(self, stream: Stream) -> RequestHead:
        """The newest accepted head of the caller that owns this stream (R32)."""
        return self.accepted.get(stream.caller.fingerprint, stream.caller)


def _nothing() -> None:
    """What a record was waited for is given up."""
