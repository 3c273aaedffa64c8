"""The judge of a run that is over. What is wrong with a single step was noted when it was made:
`arrivals` for what clients see, `trespass` and `durability` for what the proxy does, `invariants` for
its state. Here it is asked what is missing, what ran, and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.properties.simulation import answers, leftovers, runs, standalone
from tests.properties.simulation.payload import find_origin
from tests.properties.simulation.splices import SPLICE, Violation
from tests.properties.simulation.tools import Misgiven
from tests.properties.simulation.wire import FOREVER

if TYPE_CHECKING:
    from tests.properties.simulation.world import World


def examine(world: World) -> list[Violation]:
    """Every violation of a finished run: those of its steps first, in order."""
    noted = [Violation(*wrong.split(": ", 1)) for wrong in world.trace.wrongs]
    return [*noted, *(_examine(world) if world.mode == "core" else ())]


def _examine(world: World) -> Iterator[Violation]:
    for client in world.clients:
        for call in client.calls:
            yield from answers.examine(world, client, call)
            yield from runs.examine(world, call)
        yield from standalone.examine(world, client)
        yield from runs.after_delete(world, client)
    yield from leftovers.examine(world)
    yield from (
        Violation("G2 upstream", one.what) for one in world.server.tools.misgiven if _could_tell(world, one)
    )
    for leg in world.stranger.legs:
        if leg.kind == "borrow" and find_origin(leg.body.decode()) is not None:
            yield Violation("R15", f"a foreign cursor was served: {leg.body[:200]!r}")


def _could_tell(world: World, given: Misgiven) -> bool:
    """Whether the proxy knew when it sent the answer that the session had been made anew. One that states
    no epoch, or always the same, cannot be told from the one before."""
    told = world.log.told.get(given.session.owner, FOREVER)
    return not given.session.is_recreated or told < given.sent_at


def is_spliced(violations: list[Violation]) -> bool:
    return any(violation.rule == SPLICE for violation in violations)
