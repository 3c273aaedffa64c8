"""Enumerations whose members are hashed by identity: they stand in the keys of every table."""

from __future__ import annotations

import enum


class Enum(enum.Enum):
    """`enum.Enum` hashes a member by its name, in Python, at each look-up; members are singletons."""

    __hash__ = object.__hash__
