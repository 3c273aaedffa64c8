"""What goes wrong in a run, and when: drawn from the seed before the run begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from tests.properties.simulation import client_faults, server_faults
from tests.properties.simulation.targets import Targets

if TYPE_CHECKING:
    from tests.properties.simulation.world import World

LAST_FAULT_S = 60.0
Fault = Callable[[Targets], str | None]

_C, _S = client_faults, server_faults
CLIENT: tuple[Fault, ...] = (
    *(_C.client_cut, _C.client_cut, _C.client_arm, _C.client_arm, _C.client_stall),
    *(_C.flap, _C.duplicate_return, _C.late_return, _C.away, _C.vanish),
)
UPSTREAM: tuple[Fault, ...] = (
    *(_S.upstream_cut, _S.upstream_cut, _S.upstream_arm, _S.upstream_arm),
    *(_S.clean_end, _S.upstream_stall),
)
SESSION: tuple[Fault, ...] = (
    *(_S.evict, _S.restart, _S.recreate, _S.recreate, _S.standalone_gap, _S.mute, _S.move_away),
    _C.poke,
)
USER: tuple[Fault, ...] = (_C.cancel, _C.cancel, _C.cancel, _C.delete, _C.delete_in_heal)
CALLERS: tuple[Fault, ...] = (_C.refresh, _C.expire, _C.trespass, _C.trespass, _C.trespass, _C.borrow)
# What the profiles mean for the oracle: only in "none" and "client" must everything run exactly once.
PROFILES: dict[str, tuple[Fault, ...]] = {
    "none": (),
    "client": CLIENT,
    "upstream": UPSTREAM,
    "session": SESSION + UPSTREAM,
    "all": CLIENT + UPSTREAM + SESSION + SESSION + (_C.cancel,),
    "user": CLIENT + UPSTREAM + SESSION + USER,
    "callers": CLIENT + UPSTREAM + SESSION + CALLERS * 3,
}
WEIGHTED = (
    *("none", "client", "client", "upstream", "session", "session", "session"),
    *("all", "all", "user", "callers", "callers"),
)


@dataclass(frozen=True, slots=True)
class Plan:
    profile: str
    faults: tuple[tuple[float, Fault], ...]

    def __str__(self) -> str:
        return f"{self.profile}: " + ", ".join(f"{fault.__name__} at {at:.3f}" for at, fault in self.faults)


def draw(rng: Random) -> Plan:
    profile = rng.choice(WEIGHTED)
    kinds = PROFILES[profile]
    if not kinds:
        return Plan(profile, ())
    span = rng.choice((3.0, 8.0, 15.0, LAST_FAULT_S - 10.0))
    times = sorted(0.3 + rng.random() * span for _ in range(rng.randint(1, 7)))
    return Plan(profile, tuple((at, rng.choice(kinds)) for at in times))


class Faults:
    """Does what the plan says to a world."""

    def __init__(self, world: World, rng: Random) -> None:
        self.done: list[str] = []
        self._world, self._targets = world, Targets(world, rng)

    def schedule(self, plan: Plan) -> None:
        for at, fault in plan.faults:
            self._world.clock.after(at, lambda fault=fault: self._strike(fault))  # type: ignore[misc]  # bound now

    def follow(self, fault: Fault) -> None:
        """A fault that is part of another."""
        self._world.trace.add(self._world.clock.now, "##", f"and then: {fault(self._targets)}")

    def _strike(self, fault: Fault) -> None:
        """One fault, if there is something that it can hit."""
        what = fault(self._targets)
        if what is not None:
            self.done.append(fault.__name__)
            self._world.trace.add(self._world.clock.now, "##", f"{fault.__name__}: {what}")
