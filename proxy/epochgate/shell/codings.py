"""Content codings of the server's answers, undone as the bytes come.

Guarded requests ask for none. A server, or something before it, that compresses all the same is understood
where the coding is gzip or deflate; other codings stay as they are (W16).
"""

from __future__ import annotations

import zlib

from epochgate.core.http import Headers, fields

# What one call decodes: 256 KiB of a bomb are 256 MiB.
SLICE_BYTES = 64 * 1024

_CODING = b"content-encoding"
_GZIP = frozenset((b"gzip", b"x-gzip"))
_DEFLATE = b"deflate"
# They tell of the bytes as they were encoded.
_OF_THE_CODING = frozenset((_CODING, b"content-md5", b"digest", b"content-digest", b"repr-digest"))
_GZIP_BITS = 16 + zlib.MAX_WBITS
_ZLIB_METHOD = 8


class Corrupt(Exception):
    """The bytes are not what the coding makes."""


class Decoder:
    """Decodes one body: `feed` what came, `take` it slice by slice."""

    __slots__ = ("_coding", "_input", "_is_begun", "_member", "has_more")

    def __init__(self, coding: bytes) -> None:
        self._coding = coding
        self._input = b""
        self._is_begun = False
        self._member: zlib._Decompress | None = None
        self.has_more = False  # `take` may give something before the next `feed`

    @property
    def is_whole(self) -> bool:
        """Whether the body may end here: behind its last member, or before any byte."""
        return self._member is None and not self._input

    def feed(self, data: bytes) -> None:
        self._input += data
        self.has_more = True

    def take(self) -> bytes:
        """At most `SLICE_BYTES` of the decoded body; b"" when nothing is left. Raises `Corrupt`."""
        while self.has_more:
            member = self._member or self._begin()
            if member is None:
                return b""
            try:
                data = member.decompress(self._input, SLICE_BYTES)
            except zlib.error as error:
                raise Corrupt from error
            if member.eof:
                self._member, self._input = None, member.unused_data
                self.has_more = bool(self._input)
            else:
                self._input = member.unconsumed_tail
                self.has_more = bool(self._input) or len(data) == SLICE_BYTES
            if data:
                return data
        return b""

    def _begin(self) -> zlib._Decompress | None:
        """The next member; None if no byte of it has come."""
        if not self._input:
            self.has_more = False
            return None
        if self._coding != _DEFLATE:
            bits = _GZIP_BITS
        elif self._is_begun:
            raise Corrupt  # deflate has one member
        else:  # some servers leave the envelope out
            bits = zlib.MAX_WBITS if self._input[0] & 15 == _ZLIB_METHOD else -zlib.MAX_WBITS
        self._is_begun = True
        self._member = zlib.decompressobj(bits)
        return self._member


def find_decoder(headers: Headers) -> Decoder | None:
    """What decodes an answer with these headers, if it has to be and can be decoded."""
    if _CODING not in fields(headers):
        return None
    codings = [value.strip().lower() for name, value in headers if name.lower() == _CODING]
    if len(codings) == 1 and (codings[0] in _GZIP or codings[0] == _DEFLATE):
        return Decoder(codings[0])
    return None


def decoded_headers(headers: Headers) -> Headers:
    """The headers of an answer whose body is decoded; what told of the encoded bytes is gone."""
    return tuple(
        (name, _weak(value) if lowered == b"etag" else value)
        for name, value in headers
        if (lowered := name.lower()) not in _OF_THE_CODING
    )


def _weak(tag: bytes) -> bytes:
    """Of other bytes with the same meaning."""
    return tag if tag.startswith(b"W/") else b"W/" + tag
