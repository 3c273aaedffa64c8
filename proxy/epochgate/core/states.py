"""The state machines as literal tables: session, upstream half of a stream, client half.

A pair that is not listed cannot happen; meeting one is `ImpossibleTransition`. Where the next state
depends on evidence, the evidence is part of the input's name, so every cell has one outcome. The
tables in the docs are generated from these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from epochgate.core.enums import Enum
from epochgate.core.errors import ImpossibleTransition


class SessionState(Enum):
    OPENING = "opening"
    LIVE = "live"
    HEALING = "healing"
    PARKED = "parked"
    LOST = "lost"
    ENDED = "ended"


class SessionInput(Enum):
    OPENED = "initialize answered with an id"
    NOT_OPENED = "initialize answered without an id, or failed"
    HEAL = "loss of the current generation, or a restart that may be re-issued"
    LOSS_UNATTENDED = "loss while nobody waits"
    SURFACED = "loss shown to the client, or no heal left in the budget"
    COMMITTED = "generation committed"
    DRIFTED = "drift"
    INCOMPATIBLE = "heal: incompatible, or its prelude failed"
    UNREACHABLE = "heal: unreachable, refused or out of time"
    REOPENED = "initialize repeated by the client"
    ENDED = "DELETE accepted, idle limit, or evicted"


_S, _I = SessionState, SessionInput
SESSION: Mapping[tuple[SessionState, SessionInput], SessionState] = {
    (_S.OPENING, _I.OPENED): _S.LIVE,
    (_S.OPENING, _I.NOT_OPENED): _S.ENDED,
    (_S.LIVE, _I.HEAL): _S.HEALING,
    (_S.LIVE, _I.LOSS_UNATTENDED): _S.PARKED,
    (_S.LIVE, _I.SURFACED): _S.LOST,
    (_S.LIVE, _I.DRIFTED): _S.LIVE,
    (_S.LIVE, _I.REOPENED): _S.LIVE,
    (_S.LIVE, _I.ENDED): _S.ENDED,
    (_S.HEALING, _I.COMMITTED): _S.LIVE,
    (_S.HEALING, _I.INCOMPATIBLE): _S.LOST,
    (_S.HEALING, _I.UNREACHABLE): _S.PARKED,
    (_S.HEALING, _I.ENDED): _S.ENDED,
    (_S.PARKED, _I.HEAL): _S.HEALING,
    (_S.PARKED, _I.SURFACED): _S.LOST,
    (_S.PARKED, _I.DRIFTED): _S.LIVE,
    (_S.PARKED, _I.REOPENED): _S.LIVE,
    (_S.PARKED, _I.LOSS_UNATTENDED): _S.PARKED,
    (_S.PARKED, _I.ENDED): _S.ENDED,
    (_S.LOST, _I.ENDED): _S.ENDED,  # also when another replica owns the session
}


class Up(Enum):
    """The upstream half of a stream."""

    WAITING = "waiting"  # for a heal's commit before its first byte goes up (R24)
    SENT = "sent"
    OPEN = "open"
    OPAQUE = "opaque"  # an answer that is passed on before it is whole (R9, R34)
    RETRY = "retry"
    PROVING = "proving"
    POLL = "poll"
    VOID = "void"
    ANSWERED = "answered"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    GONE = "gone"


class UpInput(Enum):
    SENT = "POST written"
    STREAM_OPENED = "SSE headers"
    PASSED_ON = "an answer or event above its buffer"
    ANSWERED = "last owed answer"
    BROKE_PROVABLE = "broke, with what a proof needs"
    POLL_ANNOUNCED = "announced clean end"
    POLL_DUE = "poll timer"
    RESTARTED = "verdict restart: broke with no proof, refused, not run, or not believed"
    CANCELLED = "cancel"
    SUPERSEDED = "re-issued"
    FAILED = "error written"
    FORGOTTEN = "retained long enough"


_U, _N = Up, UpInput
_RUNNING = (_U.WAITING, _U.SENT, _U.OPEN, _U.OPAQUE, _U.RETRY, _U.PROVING, _U.POLL, _U.VOID)
_ENDED = (_U.ANSWERED, _U.FAILED, _U.CANCELLED, _U.SUPERSEDED)
UPSTREAM: Mapping[tuple[Up, UpInput], Up] = {
    (_U.WAITING, _N.SENT): _U.SENT,
    (_U.WAITING, _N.RESTARTED): _U.VOID,  # a standalone stream that a heal will open
    (_U.SENT, _N.SENT): _U.SENT,  # retried in its own generation, no byte had been written
    (_U.SENT, _N.STREAM_OPENED): _U.OPEN,
    (_U.SENT, _N.PASSED_ON): _U.OPAQUE,
    (_U.SENT, _N.ANSWERED): _U.ANSWERED,
    (_U.SENT, _N.RESTARTED): _U.VOID,
    (_U.OPEN, _N.ANSWERED): _U.ANSWERED,
    (_U.OPEN, _N.PASSED_ON): _U.OPAQUE,
    (_U.OPEN, _N.RESTARTED): _U.VOID,
    (_U.OPEN, _N.BROKE_PROVABLE): _U.RETRY,
    (_U.OPEN, _N.POLL_ANNOUNCED): _U.POLL,
    (_U.OPAQUE, _N.ANSWERED): _U.ANSWERED,
    (_U.OPAQUE, _N.RESTARTED): _U.VOID,
    (_U.OPAQUE, _N.STREAM_OPENED): _U.OPEN,
    (_U.RETRY, _N.STREAM_OPENED): _U.PROVING,
    (_U.RETRY, _N.BROKE_PROVABLE): _U.RETRY,
    (_U.RETRY, _N.RESTARTED): _U.VOID,
    (_U.PROVING, _N.ANSWERED): _U.ANSWERED,
    (_U.PROVING, _N.RESTARTED): _U.VOID,
    (_U.PROVING, _N.BROKE_PROVABLE): _U.RETRY,
    (_U.PROVING, _N.POLL_ANNOUNCED): _U.POLL,
    (_U.POLL, _N.POLL_DUE): _U.RETRY,
    (_U.POLL, _N.RESTARTED): _U.VOID,
    (_U.VOID, _N.SUPERSEDED): _U.SUPERSEDED,
    (_U.VOID, _N.SENT): _U.SENT,  # a standalone stream is reopened in its own generation
    **{(state, _N.FAILED): _U.FAILED for state in _RUNNING},
    **{(state, _N.CANCELLED): _U.CANCELLED for state in _RUNNING},
    **{(state, _N.FORGOTTEN): _U.GONE for state in _ENDED},
}
TERMINAL = frozenset({*_ENDED, _U.GONE})


class ClientHalf(Enum):
    UNBORN = "unborn"  # no byte of an answer written, no id given
    ATTACHED = "attached"
    AWAY = "away"
    DONE = "done"


class ClientInput(Enum):
    OPENED = "answer begun"
    LEFT = "leg closed"
    LEFT_WITHOUT_ID = "leg closed, no id was given"
    RETURNED = "GET with a cursor, or a take-over"
    FINISHED = "final chunk written"


_C, _K = ClientHalf, ClientInput
CLIENT: Mapping[tuple[ClientHalf, ClientInput], ClientHalf] = {
    (_C.UNBORN, _K.OPENED): _C.ATTACHED,
    (_C.UNBORN, _K.LEFT_WITHOUT_ID): _C.DONE,
    (_C.UNBORN, _K.FINISHED): _C.DONE,
    (_C.ATTACHED, _K.LEFT): _C.AWAY,
    (_C.ATTACHED, _K.LEFT_WITHOUT_ID): _C.DONE,
    (_C.ATTACHED, _K.RETURNED): _C.ATTACHED,
    (_C.ATTACHED, _K.FINISHED): _C.DONE,
    (_C.AWAY, _K.RETURNED): _C.ATTACHED,
    (_C.AWAY, _K.FINISHED): _C.DONE,
    (_C.DONE, _K.RETURNED): _C.ATTACHED,
    (_C.DONE, _K.FINISHED): _C.DONE,
}


class Does(Enum):
    """What a session does with a client's request, by its state."""

    SEND = "send in the current generation"
    WAIT = "wait for the commit, at most the heal deadline"
    HEAL_AND_WAIT = "start a heal with this caller, wait"
    ROUTE = "to the generation of the question or call, at once"
    ACCEPT = "202"
    NOT_FOUND = "404"
    NOT_YET = "400"
    STREAM = "take over or open the standalone stream"
    RESOLVE = "resolve the cursor"
    FORWARD_DELETE = "forward; 2xx and 404 end the session"
    CLOSE = "end the session, 200"
    REOPEN = "pass unstamped; the answer decides"


class ClientAsk(Enum):
    REQUEST = "request POST"
    ANSWER = "answer POST"
    NOTIFICATION = "notification POST"
    INITIALIZE = "initialize POST with this id"
    GET = "GET, no cursor"
    RESUME = "GET, cursor"
    DELETE = "DELETE"


_A, _D = ClientAsk, Does
INTAKE: Mapping[tuple[SessionState, ClientAsk], Does] = {
    (_S.OPENING, _A.REQUEST): _D.NOT_YET,
    (_S.OPENING, _A.INITIALIZE): _D.NOT_YET,
    (_S.LIVE, _A.REQUEST): _D.SEND,
    (_S.LIVE, _A.ANSWER): _D.ROUTE,
    (_S.LIVE, _A.NOTIFICATION): _D.SEND,
    (_S.LIVE, _A.INITIALIZE): _D.REOPEN,
    (_S.LIVE, _A.GET): _D.STREAM,
    (_S.LIVE, _A.RESUME): _D.RESOLVE,
    (_S.LIVE, _A.DELETE): _D.FORWARD_DELETE,
    (_S.HEALING, _A.REQUEST): _D.WAIT,
    (_S.HEALING, _A.ANSWER): _D.ROUTE,
    (_S.HEALING, _A.NOTIFICATION): _D.ACCEPT,
    (_S.HEALING, _A.INITIALIZE): _D.REOPEN,
    (_S.HEALING, _A.GET): _D.STREAM,
    (_S.HEALING, _A.RESUME): _D.RESOLVE,
    (_S.HEALING, _A.DELETE): _D.FORWARD_DELETE,
    (_S.PARKED, _A.REQUEST): _D.HEAL_AND_WAIT,
    (_S.PARKED, _A.ANSWER): _D.ROUTE,
    (_S.PARKED, _A.NOTIFICATION): _D.ACCEPT,
    (_S.PARKED, _A.INITIALIZE): _D.REOPEN,
    (_S.PARKED, _A.GET): _D.STREAM,
    (_S.PARKED, _A.RESUME): _D.RESOLVE,
    (_S.PARKED, _A.DELETE): _D.CLOSE,
    (_S.LOST, _A.REQUEST): _D.NOT_FOUND,
    (_S.LOST, _A.ANSWER): _D.ACCEPT,
    (_S.LOST, _A.NOTIFICATION): _D.ACCEPT,
    (_S.LOST, _A.INITIALIZE): _D.REOPEN,
    (_S.LOST, _A.GET): _D.NOT_FOUND,
    (_S.LOST, _A.RESUME): _D.RESOLVE,
    (_S.LOST, _A.DELETE): _D.CLOSE,
    **{(_S.ENDED, ask): _D.NOT_FOUND for ask in _A},
}

_Key = TypeVar("_Key", bound=Enum)
_Input = TypeVar("_Input", bound=Enum)
_Value = TypeVar("_Value")


def look_up(table: Mapping[tuple[_Key, _Input], _Value], state: _Key, event: _Input) -> _Value:
    """The cell of (state, event). Raises `ImpossibleTransition` where the table has none."""
    try:
        return table[state, event]
    except KeyError:
        raise impossible(state, event) from None


def impossible(state: Enum, event: Enum) -> ImpossibleTransition:
    return ImpossibleTransition(f"{state} has no cell for {event}")
