"""The parts of the process as the settings describe them: limits, TLS, tunnels, allow-lists."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from urllib.parse import urlsplit

from epochgate.observe.logs import Logger
from epochgate.observe.observer import Observer
from epochgate.settings import Settings
from epochgate.shell.connection import UpstreamLimits
from epochgate.shell.downstream import ServerLimits
from epochgate.shell.headers import Allowed
from epochgate.shell.origin import Origin
from epochgate.shell.sockets import reason_of
from epochgate.shell.tls import BadTls, Tls, TlsFiles, client_context, server_context
from epochgate.shell.tunnel import Tunnel, tunnel_for
from epochgate.units import Place, written


class CannotStart(Exception):
    """One line: what stands in the way and what would help."""


def cannot_listen(name: str, places: Sequence[Place], error: OSError) -> CannotStart:
    """The listener `name` cannot be where it should."""
    hint = _LISTEN_HINTS.get(error.errno or 0, "give another address")
    return CannotStart(f"--{name} {written(places)}: {reason_of(error)}; {hint}")


_LISTEN_HINTS = {
    errno.EADDRINUSE: "give another address, or stop what uses this one",
    errno.EADDRNOTAVAIL: "give an address of this machine, or 0.0.0.0 for all of them",
    errno.ENOENT: "give a path in a folder that is there",
    errno.EACCES: "give a port from 1024 on, or a path in a folder that may be written",
}


def warn_of_endpoints(settings: Settings, log: Logger) -> None:
    """An upstream that ends in what is usually the endpoint itself, for which clients ask: 404 to all."""
    for url in settings.upstream:
        path = urlsplit(url).path.rstrip("/")
        name = path.rpartition("/")[2]
        if name in ("mcp", "sse"):
            hint = f"what clients ask of /{name} goes to {path}/{name}; leave /{name} out of upstream"
            log.warning("upstream ends in an endpoint", upstream=url, hint=hint)


def upstream_limits(settings: Settings) -> UpstreamLimits:
    return UpstreamLimits(
        connect_s=settings.connect, header_bytes=settings.max_header, max_headers=settings.max_headers
    )


def listener_tls(settings: Settings, observer: Observer) -> Tls | None:
    """Raises `CannotStart`."""
    tell = observer.watch_certificates("client")
    if settings.tls_certificate is None:
        return None
    files = TlsFiles(
        settings.tls_certificate,
        settings.tls_key,
        settings.secret("tls_key_passphrase"),
        settings.tls_client_ca,
        settings.tls_key_passphrase_file,
    )
    try:
        return Tls(server_context, files, observer.log, tell)
    except BadTls as error:
        named = "tls_certificate" if settings.tls_client_ca is None else "tls_certificate or tls_client_ca"
        raise CannotStart(f"{named}: {error}") from None


def upstream_tls(settings: Settings, observer: Observer) -> Tls | None:
    """Raises `CannotStart`."""
    tell = observer.watch_certificates("upstream")
    if not settings.has_https:
        return None
    own = settings.upstream_certificate
    files = TlsFiles(
        own,
        settings.upstream_key,
        settings.secret("upstream_key_passphrase"),
        settings.upstream_ca,
        settings.upstream_key_passphrase_file,
    )
    try:
        return Tls(client_context, files, observer.log, tell)
    except BadTls as error:
        named = "upstream_ca" if own is None else "upstream_certificate or upstream_ca"
        raise CannotStart(f"{named}: {error}") from None


def tunnels(settings: Settings, origins: Sequence[Origin]) -> dict[Origin, Tunnel | None]:
    """The proxy on the way to each. Raises `CannotStart`."""
    try:
        return {origin: tunnel_for(origin, settings.upstream_proxy) for origin in origins}
    except ValueError as error:
        raise CannotStart(f"upstream_proxy: {error}") from None


def server_limits(settings: Settings) -> ServerLimits:
    return ServerLimits(
        header_bytes=settings.max_header,
        max_headers=settings.max_headers,
        body_bytes=settings.max_body,
        body_s=settings.body_timeout,
        keepalive_s=settings.connection_idle,
        write_bytes=settings.write_buffer,
    )


def allowed(settings: Settings, place: Place) -> Allowed:
    """The allow-lists of Host and Origin at a listener; without a setting, those of its address (W12)."""
    default = Allowed.for_listener(place)
    return Allowed(
        _listed(settings.allowed_hosts, default.hosts), _listed(settings.allowed_origins, default.origins)
    )


def _listed(given: tuple[str, ...], default: frozenset[bytes] | None) -> frozenset[bytes] | None:
    if not given:
        return default
    return None if "*" in given else frozenset(word.lower().encode() for word in given)
