"""A deterministic simulation of the whole core at byte level, on a virtual clock.

Simulated servers and clients, byte wires that cut anywhere, and the core's `Session` between them.
One integer decides everything: `play(seed)` gives the same run every time.
"""

from __future__ import annotations

from tests.properties.simulation.oracle import is_spliced
from tests.properties.simulation.world import Mode, Outcome, World

__all__ = ["Outcome", "is_spliced", "play", "story"]


def play(seed: int, mode: Mode = "core") -> Outcome:
    """Play one seed through the core, or through the naive relay."""
    return World(seed, mode).run()


def story(outcome: Outcome) -> str:
    """The run for a reader: what kind of world it was, what passed, what was broken."""
    broken = "\n".join(f"  {violation}" for violation in outcome.violations) or "  nothing"
    return f"seed {outcome.seed}\n{outcome.summary}\n{outcome.trace}\nbroken:\n{broken}"
