"""Randomness for stamps and blocks, drawn from the system in bulk: a system call each would show."""

from __future__ import annotations

import os

_BULK_BYTES = 4096


class Entropy:
    """`Entropy()(bits)` is a random integer of so many bits, as unpredictable as `secrets`."""

    __slots__ = ("_at", "_bulk")

    def __init__(self) -> None:
        self._bulk = b""
        self._at = 0

    def __call__(self, bits: int) -> int:
        size = (bits + 7) // 8
        if self._at + size > len(self._bulk):
            self._bulk = os.urandom(_BULK_BYTES)
            self._at = 0
        drawn = int.from_bytes(self._bulk[self._at : self._at + size], "big")
        self._at += size
        return drawn >> (size * 8 - bits)
