"""Frozen values that are made for every event: as frozen dataclasses, but made in C.

A frozen dataclass sets each field through `object.__setattr__`; on the relay path that cost more than
the work between.
"""

from __future__ import annotations

import msgspec


class Value(msgspec.Struct, frozen=True):
    """Base of events, commands, facts and messages: immutable, compared by value."""
