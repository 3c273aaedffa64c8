"""What goes wrong in a run, and when: drawn from the seed before the run begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, TypeVar

from tests.properties.simulation.wire import FOREVER

if TYPE_CHECKING:
    from tests.properties.simulation.calls import Call
    from tests.properties.simulation.client import Client
    from tests.properties.simulation.connection import Connection
    from tests.properties.simulation.host import Exchange
    from tests.properties.simulation.world import World

LAST_FAULT_S = 60.0
NEVER_S = 1e6
Item = TypeVar("Item")

CLIENT = (
    "flap",
    "client_cut",
    "client_cut",
    "client_arm",
    "client_arm",
    "duplicate_return",
    "client_stall",
    "away",
)
UPSTREAM = ("upstream_cut", "upstream_cut", "upstream_arm", "upstream_arm", "clean_end", "upstream_stall")
SESSION = ("evict", "restart", "poke", "recreate", "recreate", "standalone_gap")
USER = ("cancel", "cancel", "cancel", "delete")
# What the profiles mean for the oracle: only in "none" and "client" must everything run exactly once.
PROFILES: dict[str, tuple[str, ...]] = {
    "none": (),
    "client": CLIENT,
    "upstream": UPSTREAM,
    "session": SESSION + UPSTREAM,
    "all": CLIENT + UPSTREAM + SESSION + SESSION + ("cancel",),
    "user": CLIENT + UPSTREAM + SESSION + USER,
}
WEIGHTED = ("none", "client", "client", "upstream", "session", "session", "session", "all", "all", "user")


@dataclass(frozen=True, slots=True)
class Plan:
    profile: str
    faults: tuple[tuple[float, str], ...]


def draw(rng: Random) -> Plan:
    profile = rng.choice(WEIGHTED)
    kinds = PROFILES[profile]
    if not kinds:
        return Plan(profile, ())
    span = rng.choice((3.0, 8.0, 15.0, LAST_FAULT_S - 10.0))
    times = sorted(0.3 + rng.random() * span for _ in range(rng.randint(1, 7)))
    return Plan(profile, tuple((at, rng.choice(kinds)) for at in times))


class Faults:
    """Does what the plan says to a world; the random choices come from a source of its own."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world, self.rng = world, rng
        self.done: list[str] = []

    def schedule(self, plan: Plan) -> None:
        for at, kind in plan.faults:
            self.world.clock.after(at, lambda kind=kind: self.strike(kind))  # type: ignore[misc]  # bound now

    def strike(self, kind: str) -> None:
        """One fault, if there is something that it can hit."""
        act: Callable[[], str | None] = getattr(self, f"_{kind}")
        what = act()
        if what is not None:
            self.done.append(kind)
            self.world.trace.add(self.world.clock.now, "##", f"{kind}: {what}")

    def _pick(self, items: list[Item]) -> Item | None:
        return self.rng.choice(items) if items else None

    def _client(self) -> Client | None:
        return self._pick([client for client in self.world.clients if client.is_ready])

    def _call(self) -> Call | None:
        calls = [call for client in self.world.clients for call in client.calls]
        return self._pick([call for call in calls if not call.is_settled])

    def _connection(self) -> Connection | None:
        """An open upstream leg; mostly one that carries a stream."""
        legs = [c for c in self.world.connections if c.is_open]
        busy = [c for c in legs if c.writer is not None]
        return self._pick(busy if busy and self.rng.random() < 0.8 else legs)

    def _exchange(self) -> Exchange | None:
        """An open client leg; mostly one that a call waits for."""
        legs = [exchange for exchange in self.world.exchanges if exchange.wire.is_open]
        calls = [call for client in self.world.clients for call in client.calls]
        busy = [call.leg.exchange for call in calls if call.leg is not None]
        owed = [exchange for exchange in legs if exchange in busy]
        return self._pick(owed if owed and self.rng.random() < 0.8 else legs)

    # --- client legs ----------------------------------------------------------------------------

    def _client_cut(self) -> str | None:
        exchange = self._exchange()
        if exchange is None:
            return None
        exchange.cut()
        return f"exchange {exchange.number}"

    def _client_arm(self) -> str | None:
        exchange = self._exchange()
        if exchange is None:
            return None
        count = self.rng.randint(0, 700)
        exchange.wire.arm(count)
        return f"exchange {exchange.number} in {count} bytes"

    def _client_stall(self) -> str | None:
        exchange = self._exchange()
        if exchange is None:
            return None
        seconds = self.rng.choice((0.5, 5.0, 90.0))
        exchange.wire.stall(seconds)
        return f"exchange {exchange.number} for {seconds} s"

    def _away(self) -> str | None:
        """The next break of this call keeps the client away for long, perhaps beyond `hold`."""
        call = self._call()
        if call is None or call.leg is None or call.leg.exchange is None:
            return None
        call.away_s = self.rng.choice((20.0, 200.0, 400.0))
        call.leg.exchange.cut()
        return f"{call.key} for {call.away_s} s"

    def _flap(self) -> str | None:
        """The leg breaks, and the next ones do so after a few bytes."""
        call = self._call()
        if call is None or call.leg is None or call.leg.exchange is None:
            return None
        call.flaps = self.rng.randint(1, 3)
        call.leg.exchange.cut()
        return f"{call.key}, {call.flaps} times"

    def _duplicate_return(self) -> str | None:
        call = self._call()
        client = self._pick([c for c in self.world.clients if call in c.calls])
        if call is None or client is None or call.cursor is None:
            return None
        client.resume(call)
        self.world.clock.after(self.rng.choice((0.0, 0.01)), lambda: client.resume(call))
        return f"{call.key} from {call.cursor!r}"

    # --- upstream legs --------------------------------------------------------------------------

    def _upstream_cut(self) -> str | None:
        connection = self._connection()
        if connection is None:
            return None
        connection.wire.cut()
        return repr(connection)

    def _upstream_arm(self) -> str | None:
        connection = self._connection()
        if connection is None:
            return None
        count = self.rng.randint(0, 700)
        connection.wire.arm(count)
        return f"{connection!r} in {count} bytes"

    def _clean_end(self) -> str | None:
        connection = self._pick([c for c in self.world.connections if c.is_open and c.wire.has_answered])
        if connection is None:
            return None
        if connection.writer is not None:
            connection.writer.detach(connection)
        connection.finish()
        return repr(connection)

    def _upstream_stall(self) -> str | None:
        connection = self._connection()
        if connection is None:
            return None
        seconds = self.rng.choice((5.0, 100.0, FOREVER))
        connection.wire.stall(seconds)
        return f"{connection!r} for {seconds} s"

    # --- sessions -------------------------------------------------------------------------------

    def _evict(self) -> str | None:
        session_id = self._pick(list(self.world.server.sessions))
        if session_id is None:
            return None
        self.world.server.evict(session_id)
        return session_id

    def _recreate(self) -> str | None:
        """The whole fault of the field: evicted, made anew by another request, and a leg that breaks."""
        evicted = self._evict()
        self._poke()
        leg = self.rng.choice((self._client_cut, self._upstream_cut, self._client_arm))
        self.world.clock.after(self.rng.choice((0.0, 0.1, 1.0)), lambda: self._break(leg))
        return evicted

    def _standalone_gap(self) -> str | None:
        """The standalone leg breaks; while its client is away, events come and a session is lost."""
        client = self._client()
        leg = None if client is None else client.standalone_leg
        if leg is None or leg.exchange is None:
            return None
        leg.exchange.cut()
        self.world.clock.after(self.rng.choice((1.0, 3.0)), lambda: self._break(self._upstream_cut))
        return f"exchange {leg.exchange.number}"

    def _break(self, cut: Callable[[], str | None]) -> None:
        self.world.trace.add(self.world.clock.now, "##", f"and then: {cut()}")

    def _restart(self) -> str:
        seconds = self.rng.choice((0.0, 0.5, 2.0, 8.0, 20.0, 60.0, NEVER_S))
        self.world.server.restart(seconds)
        return f"down for {seconds} s"

    def _poke(self) -> str | None:
        client = self._client()
        if client is None:
            return None
        client.poke(self.rng.choice(("ping", "tools/list")))
        return client.name

    # --- the user -------------------------------------------------------------------------------

    def _cancel(self) -> str | None:
        call = self._call()
        client = self._pick([c for c in self.world.clients if call in c.calls])
        if call is None or client is None:
            return None
        client.cancel(call)
        return call.key

    def _delete(self) -> str | None:
        client = self._client()
        if client is None or client.is_deleted:
            return None
        client.delete()
        return client.name
