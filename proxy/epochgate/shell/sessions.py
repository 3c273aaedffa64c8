"""The sessions that the proxy holds, in the order of their use, and who makes room for whom (G8).

There are at most `max_sessions`. One that may be opened by an answer under way counts as if it were there
already, so that it finds a place then; the session unused for longest makes it. One in use never does.
"""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from collections.abc import Iterator

from epochgate.core.events import DrainBegun, Evicted
from epochgate.core.opening import Opening
from epochgate.core.policy import Policy
from epochgate.observe.metrics import Population
from epochgate.shell.driver import Driver

Key = tuple[bytes, bytes]


class Sessions:
    """Those with an id by place and id; those that have none yet; those that are leaving."""

    def __init__(self, max_sessions: int) -> None:
        self._max_sessions = max_sessions
        self._known: OrderedDict[Key, Driver] = OrderedDict()  # used last: last
        self._opening: set[Driver] = set()
        self._reopening: set[Driver] = set()  # sent an `initialize` again, which may open another
        self._leaving: set[Driver] = set()  # evicted, until the server has heard of it
        self._drain: DrainBegun | None = None

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, key: Key) -> bool:
        return key in self._known

    def find(self, key: Key) -> Driver | None:
        return self._known.get(key)

    def use(self, key: Key) -> None:
        """Its client asks something of it."""
        self._known.move_to_end(key)

    def populations(self) -> Population:
        """How many sessions and streams are in which state, as `Metrics.watch_populations` wants it."""
        cores = [driver.core for driver in (*self._known.values(), *self._opening)]
        # By members first, which are hashed by identity: looking up the values of thousands takes long.
        sessions = Counter([core.state for core in cores])
        streams = Counter([(one.kind, one.up) for core in cores for one in core.streams.values()])
        counted: dict[tuple[str, ...], int] = {}
        counted |= {("sessions", state.value): count for state, count in sessions.items()}
        counted |= {("streams", kind.value, up.value): count for (kind, up), count in streams.items()}
        return counted

    def overview(self) -> Iterator[dict[str, object]]:
        """Every session of this moment as `/sessions` shows it, the one used last first; ids are hashed as in
        the logs. Each is looked at when its turn comes."""
        return map(_shown, tuple(reversed(self._known.values())))

    def has_room(self) -> bool:
        """Whether each session that may be opened by what is under way, and one more, will find a place."""
        coming = len(self._opening) + self._count_reopenings() + 1
        wanted = len(self._known) + coming - self._max_sessions
        return wanted <= 0 or sum(1 for _ in itertools.islice(self._unused(), wanted)) == wanted

    def begin(self, driver: Driver) -> None:
        """A request went up that may open this session."""
        self._opening.add(driver)

    def reopens(self, driver: Driver) -> None:
        """The client of this session negotiates anew: the answer may open another one."""
        self._reopening.add(driver)

    def register(self, driver: Driver, visible_id: bytes) -> None:
        """The session has an id: requests that name it are its own from now on."""
        self._opening.discard(driver)
        self._make_room()
        driver.key = (place(driver.host, driver.core.target), visible_id)
        self._known[driver.key] = driver
        if self._drain is not None:
            driver.feed(self._drain)

    def forget(self, driver: Driver) -> None:
        self._opening.discard(driver)
        self._leaving.discard(driver)
        self._reopening.discard(driver)
        if driver.key is not None and self._known.get(driver.key) is driver:
            del self._known[driver.key]

    def begin_drain(self, until: float, *, is_listening: bool) -> None:
        """No heal is begun, owed answers have until `until` (loop time); idle streams end when nothing
        listens any more (W10)."""
        self._drain = DrainBegun(until, is_listening)
        for driver in self._all():
            driver.feed(self._drain)

    def let_go(self) -> None:
        """After a drain: close what is held of the server for clients that cannot come back, since a server
        that waits for its connections could not go away."""
        for driver in self._all():
            if not driver.exchanges:
                driver.close()

    def reconfigure(self, policy: Policy) -> None:
        for driver in self._all():
            driver.core.policy = policy

    def close(self) -> None:
        """Break off what is left."""
        for driver in self._all():
            driver.close()

    def _all(self) -> tuple[Driver, ...]:
        return (*self._known.values(), *self._opening, *self._leaving)

    def _count_reopenings(self) -> int:
        counts = {driver: _reopenings(driver) for driver in self._reopening}
        self._reopening = {driver for driver, count in counts.items() if count}
        return sum(counts.values())

    def _make_room(self) -> None:
        while len(self._known) >= self._max_sessions:
            driver = next(self._unused(), None)
            if driver is None or driver.key is None:
                return  # it was in use again before the new one was there
            del self._known[driver.key]
            self._leaving.add(driver)
            driver.feed(Evicted())

    def _unused(self) -> Iterator[Driver]:
        """Sessions that may make room, the one used longest ago first."""
        return (driver for driver in self._known.values() if driver.is_unused)


def _shown(driver: Driver) -> dict[str, object]:
    core = driver.core
    streams = [
        {"kind": stream.kind.value, "upstream": stream.up.value, "client": stream.client.value}
        for stream in core.streams.values()
    ]
    return {
        "session": driver.label,
        "server": None if driver.pins.home is None else driver.pins.home.name,
        "state": core.state.value,
        "generation": core.current.number,
        "is_epoch_stated": core.current.epoch.is_captured,
        "streams": streams,
        "open_requests": len(driver.exchanges),
        "idle_seconds": round(driver.idle_seconds, 1),
    }


def _reopenings(driver: Driver) -> int:
    sent = sum(isinstance(use, Opening) for use in driver.core.legs.values())
    return sent + len(driver.core.reopenings)


def place(host: bytes | None, target: bytes) -> bytes:
    """Where a session lives: the authority that the server is told, if not its own, and the path (W16)."""
    path = target.partition(b"?")[0]
    return path if host is None else host.lower() + path
