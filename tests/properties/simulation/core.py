"""How the simulation makes the real thing."""

from __future__ import annotations

from random import Random

from epochgate.core.policy import Policy
from tests.properties.simulation.host import Middle


def make_session(policy: Policy, rng: Random) -> Middle:
    from epochgate.core.journal import Budget
    from epochgate.core.session import Session

    return Session(policy, rng.getrandbits, Budget(policy.journal_session_bytes))
