"""Compressed answers: decoded as they stream, within bounds, and never mistaken for whole."""

from __future__ import annotations

import gzip
import zlib

import pytest

from epochgate.core.http import Headers
from epochgate.shell.codings import SLICE_BYTES, Corrupt, Decoder, decoded_headers, find_decoder

RAW_DEFLATE = zlib.compress(b"hello", wbits=-15)
BODIES = {
    "gzip": (b"gzip", gzip.compress(b"hello"), b"hello"),
    "gzip of two members": (b"x-gzip", gzip.compress(b"hel") + gzip.compress(b"lo"), b"hello"),
    "gzip of nothing": (b"gzip", gzip.compress(b""), b""),
    "no byte": (b"gzip", b"", b""),
    "deflate": (b"deflate", zlib.compress(b"hello"), b"hello"),
    "deflate without its envelope": (b"deflate", RAW_DEFLATE, b"hello"),
}
CORRUPT = {
    "no gzip": (b"gzip", b"hello"),
    "a wrong sum": (b"gzip", gzip.compress(b"hello")[:-8] + b"\0" * 8),
    "a rest that is no gzip": (b"gzip", gzip.compress(b"hello") + b"rest"),
    "a second deflate": (b"deflate", zlib.compress(b"hello") * 2),
    "no deflate": (b"deflate", b"\xff\xff\xff"),
}


def taken(decoder: Decoder, data: bytes) -> bytes:
    """All that comes of `data`."""
    decoder.feed(data)
    parts = []
    while decoder.has_more:
        parts.append(decoder.take())
    return b"".join(parts)


@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_decoded_at_any_cut(name: str) -> None:
    coding, body, text = BODIES[name]
    for cut in range(len(body) + 1):
        decoder = Decoder(coding)
        assert taken(decoder, body[:cut]) + taken(decoder, body[cut:]) == text
        assert decoder.is_whole


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_ends_inside_its_coding_is_not_whole(name: str) -> None:
    coding, body, _ = BODIES[name]
    ends = {len(gzip.compress(b"hel"))} if name == "gzip of two members" else set()
    for cut in range(1, len(body)):
        decoder = Decoder(coding)
        taken(decoder, body[:cut])
        assert decoder.is_whole == (cut in ends)


@pytest.mark.parametrize("name", CORRUPT)
def test_bytes_that_the_coding_does_not_make_are_corrupt(name: str) -> None:
    coding, body = CORRUPT[name]
    with pytest.raises(Corrupt):
        taken(Decoder(coding), body)


def test_what_was_flushed_is_decoded_at_once() -> None:
    packer, decoder = zlib.compressobj(wbits=31), Decoder(b"gzip")
    for word in (b"one", b"two"):
        assert taken(decoder, packer.compress(word) + packer.flush(zlib.Z_SYNC_FLUSH)) == word


def test_a_bomb_is_decoded_in_slices() -> None:
    decoder = Decoder(b"gzip")
    decoder.feed(gzip.compress(bytes(SLICE_BYTES * 5 + 1)))
    sizes = []
    while decoder.has_more:
        sizes.append(len(decoder.take()))
    assert max(sizes) == SLICE_BYTES
    assert sum(sizes) == SLICE_BYTES * 5 + 1
    assert decoder.is_whole


@pytest.mark.parametrize(
    ("codings", "is_decoded"),
    [
        ([b"gzip"], True),
        ([b" X-GZip "], True),
        ([b"deflate"], True),
        ([b"br"], False),
        ([b"zstd"], False),
        ([b"identity"], False),
        ([b"gzip, br"], False),
        ([b"gzip", b"gzip"], False),
        ([], False),
    ],
)
def test_codings_that_are_decoded(codings: list[bytes], is_decoded: bool) -> None:
    headers = tuple((b"Content-ENCODING", coding) for coding in codings)
    assert (find_decoder(headers) is not None) == is_decoded


def test_headers_of_a_decoded_answer_tell_nothing_of_the_encoded_one() -> None:
    headers: Headers = (
        (b"Content-Type", b"application/json"),
        (b"content-encoding", b"gzip"),
        (b"Content-MD5", b"a"),
        (b"Digest", b"a"),
        (b"Content-Digest", b"a"),
        (b"Repr-Digest", b"a"),
        (b"ETag", b'"a"'),
        (b"etag", b'W/"b"'),
        (b"Vary", b"Accept-Encoding"),
    )
    assert decoded_headers(headers) == (
        (b"Content-Type", b"application/json"),
        (b"ETag", b'W/"a"'),
        (b"etag", b'W/"b"'),
        (b"Vary", b"Accept-Encoding"),
    )
