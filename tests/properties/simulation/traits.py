"""What kind of server, client and policy a seed stands for."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from epochgate.core.policy import Policy, PollWithoutEpoch, Reissue, SessionLoss, Stamps

Epochs = Literal["none", "produce", "send", "header", "constant", "noise"]
Ids = Literal["none", "int", "prefix", "uuid", "global"]
Resume = Literal["ok", "400", "405", "empty", "last_again", "from_start", "409_first"]
Leaks = Literal["no", "session", "all"]
Reborn = Literal["same", "renamed", "fewer", "older", "stateless"]

STATED = ("produce", "send", "constant", "noise")  # epochs that stand on every message
BATCHING = "2025-03-26"  # the one revision with batches


@dataclass(frozen=True, slots=True)
class ServerTraits:
    """How a simulated server behaves.

    epoch: where the identity of a session object is stated: nowhere, on every message as it was when
    the message was produced or when it is sent, or in the header of an answer only. Two lie: `constant`
    never changes, `noise` changes with every message. `forges`: results hold a false epoch inside.
    is_lazy: an unknown session id makes a new session under that id instead of a 404.
    buffer_survives: events are kept by request and outlive their session.
    leaks: a resume replays other streams too, of the session or of everybody. `strays`: answers and
    progress of other requests appear on live streams.
    reuses_ids: event ids begin anew with each session object; `counts_sessions`: session ids with each
    process. `binds`: of two users with sessions, neither may use the other's. `auth_first`: credentials
    are looked at before the session. `reborn`: what it is after a restart.
    """

    epoch: Epochs
    ids: Ids
    resume: Resume
    is_lazy: bool
    buffer_survives: bool
    polls: bool
    answer: Literal["sse", "json", "mixed"]
    eol: str
    id_first: bool
    primes: bool
    sse_everywhere: bool
    leaks: Leaks
    strays: bool
    forges: bool
    repeats_answer: bool
    annotates: bool
    logs: bool
    sets_session_always: bool
    gone_status: Literal["404", "404_json", "400"]
    cancel_ends_stream: bool
    accepts_delete: bool
    unknown_cursor: Literal["400", "eof"]
    is_slow: bool
    reuses_ids: bool
    counts_sessions: bool
    binds: bool
    auth_first: bool
    denial: Literal[401, 403]
    reborn: Reborn

    @property
    def is_provable(self) -> bool:
        """Whether a broken stream can be resumed with a proof, and the server does nothing odd."""
        is_stated = self.epoch in ("produce", "send") and self.ids != "none" and self.resume == "ok"
        is_odd = self.strays or self.ids == "global"  # whose steps of one may be chance (R30, R31)
        return is_stated and self.leaks == "no" and not (self.polls or self.reuses_ids or is_odd)


@dataclass(frozen=True, slots=True)
class ClientTraits:
    """`calls` are the tools of each POST, in order: more than one tool is a batch."""

    version: str
    has_standalone: bool
    lists_tools: bool
    calls: tuple[tuple[str, ...], ...]
    tokens: Literal["none", "int", "str"]
    ids: Literal["int", "str", "same"]
    reopens: bool  # a 404 makes it begin a new session
    repeats_initialize: bool  # once within its session


TOOLS = ("count", "count", "count", "order", "ask", "ask", "quick", "bare", "task")
STUCK = 0.01  # of the calls never come to an end, which makes a long run


def draw_server(rng: Random) -> ServerTraits:
    ids: Ids = rng.choice(("none", "int", "int", "prefix", "uuid", "global"))
    counts_sessions = rng.random() < 0.2
    epoch: Epochs = rng.choice(("none", "produce", "send", "header") * 4 + ("constant", "noise"))
    leaks: Leaks = rng.choice(("no",) * 8 + ("session", "all"))
    return ServerTraits(
        epoch=epoch,
        ids=ids,
        resume=rng.choice(("ok",) * 6 + ("400", "405", "empty", "last_again", "from_start", "409_first")),
        is_lazy=rng.random() < 0.7,
        buffer_survives=rng.random() < 0.6,
        polls=ids != "none" and rng.random() < 0.3,
        answer=rng.choice(("sse", "sse", "mixed", "json")),
        eol=rng.choice(("\n", "\r\n")),
        id_first=rng.random() < 0.5,
        primes=ids != "none" and rng.random() < 0.4,
        sse_everywhere=rng.random() < 0.3,
        leaks="session" if epoch == "constant" and leaks == "all" else leaks,  # else it vouches for all
        strays=rng.random() < 0.1,
        forges=rng.random() < 0.1,
        repeats_answer=rng.random() < 0.1,
        annotates=rng.random() < 0.5,
        logs=rng.random() < 0.6,
        sets_session_always=rng.random() < 0.5,
        gone_status=rng.choice(("404", "404_json", "400")),
        cancel_ends_stream=rng.random() < 0.5,
        accepts_delete=rng.random() < 0.8,
        unknown_cursor=rng.choice(("400", "eof")),
        is_slow=rng.random() < 0.1,
        reuses_ids=rng.random() < 0.15,
        counts_sessions=counts_sessions,
        binds=counts_sessions or rng.random() < 0.6,
        auth_first=rng.random() < 0.5,
        denial=rng.choice((401, 403)),
        reborn=rng.choice(("same",) * 8 + ("renamed", "fewer", "older", "stateless")),
    )


def draw_client(rng: Random) -> ClientTraits:
    version = rng.choice((BATCHING, "2025-06-18", "2025-11-25", "2025-11-25", "2025-11-25"))
    has_batches = version == BATCHING and rng.random() < 0.7
    return ClientTraits(
        version=version,
        has_standalone=rng.random() < 0.4,
        lists_tools=rng.random() < 0.5,
        calls=tuple(_draw_post(rng, has_batches) for _ in range(rng.randint(1, 4))),
        tokens=rng.choice(("none", "int", "str", "str")),
        ids=rng.choice(("int", "int", "str", "same") if not has_batches else ("int", "str")),
        reopens=rng.random() < 0.4,
        repeats_initialize=rng.random() < 0.1,
    )


def _draw_post(rng: Random, has_batches: bool) -> tuple[str, ...]:
    count = rng.randint(1, 3) if has_batches else 1
    return tuple("stuck" if rng.random() < STUCK else rng.choice(TOOLS) for _ in range(count))


def draw_policy(rng: Random) -> Policy:
    reissue = rng.choice(
        (Reissue.UNLESS_DESTRUCTIVE,) * 6 + (Reissue.ALWAYS, Reissue.HINTED, Reissue.READS, Reissue.NEVER)
    )
    return Policy(
        reissue=reissue,
        session_loss=rng.choice((SessionLoss.AUTO,) * 3 + (SessionLoss.HEAL, SessionLoss.SURFACE)),
        stamp=rng.choice((Stamps.ON,) * 8 + (Stamps.INTS_31, Stamps.OFF)),
        poll_without_epoch=rng.choice(tuple(PollWithoutEpoch)),
        reissue_when_away=rng.random() < 0.1,
        never_reissue=frozenset(("count",)) if rng.random() < 0.05 else frozenset(),
    )
