"""An answer on its way through a decoder: slice by slice, and no further than its owner reads.

While slices wait, the socket is not read, so that a bomb fills nothing; after some of them others have a
turn. The end of the body is told behind the last slice, and one inside the coding is a break.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from epochgate.core.events import LegEnd
from epochgate.shell.codings import Corrupt, Decoder

if TYPE_CHECKING:
    from epochgate.shell.leg import Leg

_SLICES_AT_ONCE = 16  # then others have a turn


class Decoding:
    """What is decoded of one leg's answer. The leg that is over or drained has let go of it."""

    __slots__ = ("_decoder", "_end", "_leg", "_loop", "_next")

    def __init__(self, leg: Leg, decoder: Decoder, loop: asyncio.AbstractEventLoop) -> None:
        self._leg = leg
        self._decoder = decoder
        self._loop = loop
        self._next: asyncio.Handle | None = None  # decoding goes on
        self._end: tuple[LegEnd, str] | None = None  # told when all is decoded

    @property
    def is_due(self) -> bool:
        """Whether there is something to tell without another read: bytes, or the end."""
        return self._decoder.has_more or self.has_ended

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes to be decoded."""
        return self._end is not None

    def read(self, data: bytes) -> None:
        self._decoder.feed(data)
        if self._next is None:
            self._decode()

    def go_on(self) -> None:
        if self._next is None:
            self._next = self._loop.call_soon(self._decode)

    def ended(self, end: LegEnd, error: str) -> None:
        """The body ended so: tell it, now or when all is decoded."""
        if self._decoder.has_more:
            self._end = (end, error)
            self._leg.part()
        elif error or self._decoder.is_whole:
            self._leg.finish(end, error)
        else:
            self._leg.finish(LegEnd.BROKEN, "truncated")

    def _decode(self) -> None:
        """Tell what can be decoded, while the owner reads."""
        self._next = None
        try:
            for _ in range(_SLICES_AT_ONCE):
                if not self._may_tell() or not self._decoder.has_more:
                    break
                data = self._decoder.take()
                if data:
                    self._leg.tell(data)
        except Corrupt:
            self._leg.abandon()
            self._leg.finish(LegEnd.BROKEN, "protocol")
            return
        if not self._may_tell():
            return
        if self._decoder.has_more:
            self._leg.hold_socket(is_held=True)
            self.go_on()
        elif self._end is not None:
            self.ended(*self._end)
        else:
            self._leg.hold_socket(is_held=False)

    def _may_tell(self) -> bool:
        return self._leg.decoding is self and not self._leg.is_paused
