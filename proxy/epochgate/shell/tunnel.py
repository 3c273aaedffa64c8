"""The way to a server through an HTTP proxy, where the settings ask for one.

Always a tunnel (CONNECT, RFC 9110, section 9.3.6), for http as well: what a proxy does not read it can
neither hold back nor change.
"""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from aiohappyeyeballs import start_connection

from epochgate.shell.origin import Origin, literal, look_up

_MAX_HEAD_BYTES = 16_384
_HEAD_END = b"\r\n\r\n"


_NO_URL = "not the URL of an HTTP proxy; give for example http://proxy.example:3128"


class NoTunnel(OSError):
    """The proxy would not connect; the text says what it answered."""


@dataclass(frozen=True, slots=True)
class Tunnel:
    """`proxy` is where it is; `authorization` the value of `Proxy-Authorization`, or empty."""

    proxy: Origin
    authorization: str = ""

    @classmethod
    def from_url(cls, url: str) -> Tunnel:
        """`url` is `http://[user:password@]host[:port]`; anything else raises ValueError saying why.

        What is wrong is said without the URL, in which a password may stand.
        """
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            _ = parts.port
        except ValueError:
            raise ValueError(_NO_URL) from None
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ValueError(_NO_URL)
        authorization = ""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = "Basic " + base64.b64encode(pair.encode()).decode()
        return cls(Origin.from_url(f"http://{parts.netloc.rpartition('@')[2]}"), authorization)

    async def open(self, origin: Origin, loop: asyncio.AbstractEventLoop) -> socket.socket:
        """A socket whose other end is `origin`. Raises OSError."""
        sock = await start_connection(list(await look_up(self.proxy, loop)), loop=loop)
        try:
            await loop.sock_sendall(sock, self._request(origin))
            await self._read_answer(sock, loop)
        except BaseException:
            sock.close()
            raise
        return sock

    def _request(self, origin: Origin) -> bytes:
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        target = f"{host}:{origin.port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if self.authorization:
            lines.append(f"Proxy-Authorization: {self.authorization}")
        return "\r\n".join([*lines, "", ""]).encode()

    async def _read_answer(self, sock: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        """Read the head of the answer; what follows that of a connection that stands is the server's."""
        head, end, rest = b"", b"", b""
        while not end:
            data = await loop.sock_recv(sock, 4096)
            head, end, rest = (head + data).partition(_HEAD_END)
            if not data or len(head) > _MAX_HEAD_BYTES:
                raise NoTunnel(f"the proxy {self._name} gave no answer to CONNECT")
        line = head.partition(b"\r\n")[0].decode("latin-1")
        version, _, status = line.partition(" ")
        if not version.startswith("HTTP/1.") or not status.startswith("2"):
            raise NoTunnel(f"the proxy {self._name} answered CONNECT with {status or line!r}")
        if rest:  # a server that speaks MCP never speaks first
            raise NoTunnel(f"the proxy {self._name} sent more than an answer to CONNECT")

    @property
    def _name(self) -> str:
        return self.proxy.authority.decode()


def tunnel_for(origin: Origin, setting: str) -> Tunnel | None:
    """The way to `origin` by `upstream_proxy`. Raises ValueError for a variable that names no HTTP proxy."""
    if setting == "off":
        return None
    if setting != "environment":
        return Tunnel.from_url(setting)
    proxies = getproxies_environment()
    url = proxies.get(origin.scheme) or proxies.get("all")
    if not url or _is_excepted(origin, proxies):
        return None
    try:
        return Tunnel.from_url(url)
    except ValueError as error:
        raise ValueError(f"{origin.scheme}_proxy of the environment: {error}") from None


def _is_excepted(origin: Origin, proxies: Mapping[str, str]) -> bool:
    """Whether NO_PROXY names the host: by a name, a domain, an address, or a network of addresses."""
    if proxy_bypass(f"{origin.host}:{origin.port}", dict(proxies)):
        return True
    if literal(origin) is None:
        return False
    address = ip_address(origin.host)
    return any(address in network for network in _networks(proxies.get("no", "")))


def _networks(text: str) -> Iterator[IPv4Network | IPv6Network]:
    for word in text.split(","):
        with suppress(ValueError):
            yield ip_network(word.strip(" []"), strict=False)
