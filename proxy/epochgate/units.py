"""Durations, sizes and addresses as people write them.

Every parser takes what a flag, a variable or a YAML file holds and raises ValueError with a text
that says what would be right.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from ipaddress import ip_address

_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)
SECONDS_IN = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
BYTES_IN = {
    "": 1,
    "b": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
}


def read_duration(value: object) -> float:
    """Seconds from `300`, `"300"`, `"500ms"`, `"300s"`, `"5m"`, `"1h"`, `"1d"`."""
    right = "give seconds (300), or 500ms, 300s, 5m, 1h"
    return _quantity(value, SECONDS_IN, f"not a duration; {right}")


def read_size(value: object) -> int:
    """Bytes from `65536`, `"65536"`, `"64KiB"`, `"16MiB"`, `"1GiB"`, `"10MB"`."""
    wrong = "not a size; give bytes (65536), or 64KiB, 16MiB, 1GiB"
    size = _quantity(value, BYTES_IN, wrong)
    if not size.is_integer():
        raise ValueError(wrong)
    return int(size)


def _quantity(value: object, factors: dict[str, float] | dict[str, int], wrong: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(wrong)
    match = _QUANTITY.fullmatch(_written_out(value))
    factor = None if match is None else factors.get(match[2].lower())
    if match is None or factor is None:
        raise ValueError(wrong)
    quantity = float(match[1]) * factor
    if not math.isfinite(quantity):
        raise ValueError(wrong)
    return quantity


def _written_out(value: float | str) -> str:
    """A number with all its digits: Python writes small and large ones with an exponent."""
    is_short = not isinstance(value, float) or not math.isfinite(value) or "e" not in str(value)
    return str(value) if is_short else f"{Decimal(str(value)):f}"


def can_be_host(name: str) -> bool:
    """Whether a resolver and a certificate can be asked for this name: both fail in odd ways on others."""
    try:
        return bool(name.encode("idna")) and name.isprintable()
    except UnicodeError:  # an empty label, or one of more than 63 bytes
        return False


def write_duration(seconds: float) -> str:
    """The shortest of `500 ms`, `45 s`, `5 min`, `1 h` that says it exactly."""
    if seconds < 1 and seconds > 0:
        return f"{seconds * 1000:g} ms"
    for unit, factor in (("h", 3600), ("min", 60)):
        if seconds >= factor and seconds % factor == 0:
            return f"{seconds / factor:g} {unit}"
    return f"{seconds:g} s"


def write_size(size: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener binds. `host` is a name or an IP address without brackets."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixPath:
    """The path of a Unix socket that a listener makes. Only processes of this machine reach it."""

    path: str

    is_loopback = True

    def __str__(self) -> str:
        return f"{UNIX}{self.path}"


Place = Address | UnixPath
UNIX = "unix:"
# `struct sockaddr_un.sun_path` has 108 bytes, the last of them NUL (linux/un.h).
MAX_UNIX_PATH_BYTES = 107


def read_places(value: object) -> tuple[Place, ...]:
    """Where a listener binds: addresses or `unix:/path`, one or more, as a list or with commas."""
    if isinstance(value, Address | UnixPath):
        return (value,)
    entries = list(value) if isinstance(value, list | tuple) else str(value).split(",")
    places = tuple(_read_place(entry) for entry in entries)
    if not places:
        raise ValueError(_NO_ADDRESS)
    if len(set(places)) < len(places):
        raise ValueError("an address stands twice; give each once")
    return places


def written(places: Iterable[Place]) -> str:
    """What `read_places` reads; `off` for none."""
    return ", ".join(map(str, places)) or "off"


def _read_place(value: object) -> Place:
    if isinstance(value, UnixPath):
        return value
    text = str(value).strip()
    if not text.startswith(UNIX):
        return read_address(value)
    path = text.removeprefix(UNIX)
    if not path.startswith("/") or "\0" in path or len(os.fsencode(path)) > MAX_UNIX_PATH_BYTES:
        wrong = f"not a path for a Unix socket (absolute, at most {MAX_UNIX_PATH_BYTES} bytes)"
        raise ValueError(f"{wrong}; give for example unix:/run/epochgate.sock")
    return UnixPath(path)


_NO_ADDRESS = "not HOST:PORT; give for example 127.0.0.1:8808, [::1]:8808, :8808 or unix:/run/epochgate.sock"


def read_address(value: object) -> Address:
    """`127.0.0.1:8808`, `[::1]:8808`, `:8808` (every interface); port 0 lets the kernel choose."""
    if isinstance(value, Address):
        return value
    wrong = _NO_ADDRESS
    host, colon, port = str(value).strip().rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        raise ValueError(wrong)
    if len(port) > 5 or int(port) > 65535:
        raise ValueError(f"port {port[:20]}: there is none above 65535; give for example 127.0.0.1:8808")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if ":" in host and not is_bracketed:
        raise ValueError(wrong)
    bare = host[1:-1] if is_bracketed else host
    if any(character.isspace() or character in "/[]" for character in bare):
        raise ValueError(wrong)
    if bare and not can_be_host(bare):
        raise ValueError(wrong)
    return Address(bare or "0.0.0.0", int(port))
