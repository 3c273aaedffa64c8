"""How the head of a request goes into the core: what the server is told, and who the caller is.

A client sends the same head again and again, so the one made of it is found again; and what the heads of
sessions have in common is held once for all.
"""

from __future__ import annotations

from functools import lru_cache

from epochgate.core import http
from epochgate.core.events import RequestHead
from epochgate.core.http import Headers
from epochgate.settings import Settings
from epochgate.shell.exchange import Exchange
from epochgate.shell.headers import Forwarding, fingerprint

_MAX_HEADS = 64  # heads of clients that are at work, to be found again
_MAX_SHARED_PAIRS = 4096  # what clients have in common is far less


class Heads:
    """Makes heads. Everywhere `headers` are the end-to-end headers of the exchange."""

    def __init__(self, settings: Settings) -> None:
        self._host = settings.host
        self._forwarding = Forwarding.from_texts(settings.trusted_proxies)
        self._credentials = settings.policy().credential_headers
        self._pairs: dict[tuple[bytes, bytes], tuple[bytes, bytes]] = {}
        self._found = lru_cache(_MAX_HEADS)(self._make)

    def head(self, exchange: Exchange, headers: Headers, *, is_held: bool) -> RequestHead:
        """What goes into the core.

        `is_held`: for long, so that it is worth the time to hold what it has in common only once.
        """
        return self._found(
            headers, exchange.target, exchange.peer, _said_host(exchange), exchange.scheme, is_held
        )

    def forwarded(self, exchange: Exchange, headers: Headers) -> Headers:
        """The headers that go up, for a request that is not guarded."""
        return self._forwarding.apply(headers, exchange.peer, _said_host(exchange), exchange.scheme)

    def client(self, exchange: Exchange, headers: Headers) -> bytes:
        """The address of whoever asks, behind the proxies that are trusted."""
        return self._forwarding.client(headers, exchange.peer)

    def host(self, exchange: Exchange) -> bytes | None:
        """The `Host` that the server is told; None for its own."""
        match self._host:
            case "upstream":
                return None
            case "keep":
                return http.find(exchange.raw_headers, b"host")
            case name:
                return name.encode()

    def _make(
        self, headers: Headers, target: bytes, peer: str, host: bytes, scheme: bytes, is_held: bool
    ) -> RequestHead:
        forwarded = self._forwarding.apply(headers, peer, host, scheme)
        if is_held:
            forwarded = self._shared(forwarded)
        return RequestHead(target, forwarded, fingerprint(headers, target, self._credentials))

    def _shared(self, headers: Headers) -> Headers:
        if len(self._pairs) > _MAX_SHARED_PAIRS:
            self._pairs.clear()
        return tuple([self._pairs.setdefault(pair, pair) for pair in headers])


def _said_host(exchange: Exchange) -> bytes:
    return http.find(exchange.raw_headers, b"host") or b""
