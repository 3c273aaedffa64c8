"""What the faults of a run allow the oracle to demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.properties.simulation.world import World


def is_calm(world: World) -> bool:
    """Nothing happened to the upstream side, and the server does nothing that needs a restart."""
    traits = world.server.traits
    is_harmless = not traits.polls and traits.epoch != "noise"
    is_harmless = is_harmless and not any(client.traits.repeats_initialize for client in world.clients)
    return world.plan.profile in ("none", "client") and is_harmless


def was_slow(world: World) -> bool:
    """A client came back so late, or read so slowly, that what was kept for it may be gone (R13, R14)."""
    slow = ("away", "late_return", "client_stall", "vanish")
    return any(fault in slow for fault in world.faults.done)
