"""How values are written in flags, variables and files: readers, and the types of fields that use them.

Each reader raises ValueError with a text that says what would be right.
"""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, PlainSerializer, SecretStr

from epochgate.units import Place, can_be_host, read_places, written


def _read_words(value: object) -> object:
    """A list from `a, b` or from a YAML list."""
    if isinstance(value, str):
        value = tuple(word.strip() for word in value.split(",") if word.strip())
    if isinstance(value, tuple | list) and any(_SURROGATE.search(str(word)) for word in value):
        raise ValueError("not UTF-8; give words with commas between them")
    return value


def _read_header_names(value: object) -> object:
    words = _read_words(value)
    return tuple(map(_read_header_name, words)) if isinstance(words, tuple | list) else words


def _read_listeners(value: object) -> tuple[Place, ...]:
    # YAML reads a bare `off` as false.
    if value is None or value is False or value in ("off", ()):
        return ()
    return read_places(value)


def _read_upstreams(value: object) -> tuple[str, ...]:
    given = value if isinstance(value, list | tuple) else [one.strip() for one in str(value).split(",")]
    given = [one for one in given if one != ""]
    if not given:
        raise ValueError("no URL; give the server's, for example http://127.0.0.1:8000")
    urls: dict[tuple[object, ...], str] = {}
    for number, one in enumerate(given, start=1):
        try:
            url = _read_upstream(one)
        except ValueError as error:
            raise ValueError(str(error) if len(given) == 1 else f"number {number} is {error}") from None
        if urls.setdefault(_server(url), url) is not url:
            raise ValueError(f"number {number} stands there twice; give each server once")
    return tuple(urls.values())


def _server(url: str) -> tuple[object, ...]:
    """What two URLs of one server have in common."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    return parts.scheme, parts.hostname, port, parts.path.rstrip("/")


def _read_upstream(value: object) -> str:
    wrong = "give the server's URL, for example http://127.0.0.1:8000"
    try:
        url = urlsplit(str(value))
        has_host = can_be_host(url.hostname or "") and url.port != 0
    except ValueError:
        raise ValueError(f"not a URL; {wrong}") from None
    if url.scheme not in ("http", "https") or not has_host or not _PRINTABLE.fullmatch(str(value)):
        raise ValueError(f"not an http or https URL; {wrong}")
    if url.username is not None or url.query or url.fragment:
        raise ValueError(f"a URL with credentials, a query or a fragment; {wrong}")
    return str(value)


def _read_upstream_proxy(value: object) -> str:
    # YAML reads a bare `off` as false.
    if value is False or value in ("off", "environment"):
        return str(value or "off")
    wrong = "give off, environment, or a URL such as http://proxy.example:3128"
    try:
        url = urlsplit(str(value))
        has_host = can_be_host(url.hostname or "") and url.port != 0
    except ValueError:
        raise ValueError(f"not a URL; {wrong}") from None
    if url.username is not None:
        raise ValueError("has credentials; give environment, and the URL in the variable HTTPS_PROXY")
    if url.scheme != "http" or not has_host or url.path.strip("/") or url.query or url.fragment:
        raise ValueError(f"not the URL of a proxy; {wrong}")
    return str(value)


def _read_server_name(value: object) -> str:
    if not isinstance(value, str) or not can_be_host(value):
        raise ValueError("not a name; give for example mcp.example.com")
    return value


def _read_token(value: object) -> str:
    token = value.strip() if isinstance(value, str) else ""
    if not token.isprintable() or " " in token or not token:
        raise ValueError("not a token; give printable characters without blanks between them")
    return token


def _read_state(value: object) -> str:
    if value == "memory":
        return "memory"
    if str(value).startswith(("sqlite:", "redis:", "rediss:")):
        raise ValueError("this store is not available yet; give memory")
    raise ValueError("not a store; give memory")


def _read_networks(value: object) -> object:
    words = _read_words(value)
    if not isinstance(words, tuple | list):
        raise ValueError("not a list; give networks, for example 10.0.0.0/8, ::1")
    try:
        return tuple(word if word == "unix" else str(ip_network(word)) for word in words)
    except ValueError:
        raise ValueError("not a list of networks; give for example 10.0.0.0/8, ::1, unix") from None


def read_switch(value: object) -> object:
    """YAML reads a bare `on` or `off` as a boolean."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _read_host(value: object) -> str:
    if not _HOST.fullmatch(str(value)):
        raise ValueError("not a Host; give upstream, keep, or a name such as mcp.example.com")
    return str(value)


def _read_header_name(value: object) -> str:
    if not _TOKEN.fullmatch(str(value)):
        raise ValueError("not a header name; give for example Mcp-Session-Epoch")
    return str(value)


def _read_pattern(value: object) -> str:
    if _SURROGATE.search(str(value)):
        raise ValueError("not UTF-8; give for example session")
    try:
        return re.compile(str(value)).pattern
    except re.error as error:
        raise ValueError(f"not a regular expression ({error}); give for example session") from None


_SURROGATE = re.compile(r"[\ud800-\udfff]")  # what stands for bytes that are no UTF-8
_PRINTABLE = re.compile(r"[!-~]+", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
Words = Annotated[tuple[str, ...], BeforeValidator(_read_words)]
WordSet = Annotated[
    frozenset[str], BeforeValidator(_read_words), PlainSerializer(sorted, return_type=list[str])
]
Listen = Annotated[tuple[Place, ...], BeforeValidator(read_places), PlainSerializer(written, return_type=str)]
Listener = Annotated[
    tuple[Place, ...], BeforeValidator(_read_listeners), PlainSerializer(written, return_type=str)
]
Networks = Annotated[tuple[str, ...], BeforeValidator(_read_networks)]
Urls = Annotated[
    tuple[str, ...], BeforeValidator(_read_upstreams), PlainSerializer(", ".join, return_type=str)
]
UpstreamProxy = Annotated[str, BeforeValidator(_read_upstream_proxy)]
ServerName = Annotated[str, BeforeValidator(_read_server_name)]
Token = Annotated[SecretStr, BeforeValidator(_read_token)]
Store = Annotated[str, BeforeValidator(_read_state)]
Host = Annotated[str, BeforeValidator(_read_host)]
HeaderName = Annotated[str, BeforeValidator(_read_header_name)]
HeaderNames = Annotated[tuple[str, ...], BeforeValidator(_read_header_names)]
Pattern = Annotated[str, BeforeValidator(_read_pattern)]
