"""From the fuzzer's bytes to what a target takes: small choices first, then a text.

A text is spelled with the words of its grammar, so that a change of one byte changes one word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

_FIRST_WORD = 0x80
T = TypeVar("T")


class Choices:
    """Reads one input from its beginning; behind its end every choice is 0."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._data)

    def number(self, below: int) -> int:
        """One byte as a number below 256 at most."""
        if self.is_over:
            return 0
        self._at += 1
        return self._data[self._at - 1] % below

    def numbers(self, most: int, below: int) -> list[int]:
        return [self.number(below) for _ in range(self.number(most + 1))]

    def one_of(self, options: Sequence[T]) -> T:
        return options[self.number(len(options))]

    def some(self, most: int) -> bytes:
        """A piece of at most so many bytes."""
        size = self.number(most + 1)
        self._at += size
        return self._data[self._at - size : self._at]

    def rest(self) -> bytes:
        at, self._at = self._at, len(self._data)
        return self._data[at:]


def spelled(data: bytes, words: Sequence[bytes]) -> bytes:
    """The text: bytes from 0x80 on stand for the words in order, others (and those left) for themselves."""
    table = dict(enumerate(words, _FIRST_WORD))
    return b"".join([table.get(byte) or bytes((byte,)) for byte in data])


_SPACES = (b"", b"", b"", b"", b" ", b"\r\n\t")
_DEPTH = 5


def json_object(
    choices: Choices, keys: Sequence[bytes], values: Sequence[bytes], depth: int = _DEPTH
) -> bytes:
    """The text of an object made of these keys and values (JSON texts); a key may stand twice."""
    members = []
    for _ in range(choices.number(6)):
        key, space = choices.one_of(keys), choices.one_of(_SPACES)
        members.append(key + space + b":" + space + _json_value(choices, keys, values, depth - 1))
    space = choices.one_of(_SPACES)
    return b"{" + space + (b"," + space).join(members) + space + b"}"


def _json_value(choices: Choices, keys: Sequence[bytes], values: Sequence[bytes], depth: int) -> bytes:
    kind = choices.number(8) if depth else 0
    if kind < 4:
        return choices.one_of(values)
    if kind < 7:
        return json_object(choices, keys, values, depth)
    inner = [_json_value(choices, keys, values, depth - 1) for _ in range(choices.number(4))]
    return b"[" + b",".join(inner) + b"]"


def cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """The data in pieces of these sizes, and the rest."""
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]
