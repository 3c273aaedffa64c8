"""A session's timers: what for, for which stream, exchange or leg, and when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from epochgate.core.enums import Enum

_NEVER = float("inf")


class Timer(Enum):
    """What a timer is for. Each is set for a stream's handle, unless said otherwise."""

    ASK = "ask"  # exchange: a client that waits while the upstream is asked about it
    CANCEL = "cancel"
    DRAIN = "drain"  # 0: the session
    HEAL = "heal"  # 0: the session
    HOLD = "hold"
    IDLE = "idle"  # 0: the session
    INQUIRY = "inquiry"  # leg
    KEEPALIVE = "keepalive"  # exchange
    NEGOTIATE = "negotiate"  # exchange: an `initialize` within the session
    REOPEN = "reopen"
    RETAIN = "retain"
    RETRY = "retry"
    SILENCE = "silence"
    WAIT = "wait"


OF_UPSTREAM_HALVES = (Timer.SILENCE, Timer.RETRY, Timer.WAIT, Timer.CANCEL, Timer.REOPEN)
OF_STREAMS = (*OF_UPSTREAM_HALVES, Timer.HOLD, Timer.RETAIN)


class Timers:
    """One time for each (timer, of what), on the clock of the session's events."""

    __slots__ = ("_at", "_told", "has_new")

    def __init__(self) -> None:
        self._at: dict[Timer, dict[int, float]] = {}
        self._told = _NEVER
        self.has_new = False  # one is due before what `next_deadline` said last

    def set(self, timer: Timer, of: int, at: float) -> None:
        self._at.setdefault(timer, {})[of] = at
        if at < self._told:
            self.has_new = True

    def clear(self, timer: Timer, of: int) -> None:
        ats = self._at.get(timer)
        if ats:
            ats.pop(of, None)

    def hand_over(self, timer: Timer, of: int, to: int) -> None:
        """The time that was set for one is set for another."""
        at = self._at.get(timer, {}).pop(of, None)
        if at is not None:
            self.set(timer, to, at)

    def clear_each(self, timers: Iterable[Timer], of: int) -> None:
        for timer in timers:
            ats = self._at.get(timer)
            if ats:
                ats.pop(of, None)

    def clear_all(self) -> None:
        for ats in self._at.values():
            ats.clear()

    def is_set(self, timer: Timer, of: int) -> bool:
        return of in self._at.get(timer, ())

    def next_deadline(self) -> float | None:
        """When the next one is due; None: none is set."""
        self.has_new = False
        self._told = min([min(ats.values()) for ats in self._at.values() if ats], default=_NEVER)
        return None if self._told == _NEVER else self._told

    def take_due(self, now: float) -> Iterator[tuple[Timer, int]]:
        """Take those that are due, in the order of their times. One that an earlier one clears or
        sets anew is left."""
        due = [(at, timer.value, timer, of) for timer, ats in self._at.items() for of, at in ats.items()]
        for at, _, timer, of in sorted(one for one in due if one[0] <= now):
            if self._at[timer].get(of) == at:
                del self._at[timer][of]
                yield timer, of
