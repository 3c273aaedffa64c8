"""How the simulation makes the real thing."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from epochgate.core.journal import Budget
from epochgate.core.policy import Policy
from epochgate.core.session import Session


def make_session(policy: Policy, rng: Random, is_taken: Callable[[bytes], bool]) -> Session:
    return Session(policy, rng.getrandbits, Budget(policy.journal_session_bytes), is_taken)
