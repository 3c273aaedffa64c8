"""The clients and servers of the matrix, and the releases that are pinned."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from tests.interop.matrix.work import Counting, LongOperation, Work

PEERS = Path(__file__).parents[2] / "peers"


@dataclass(frozen=True, slots=True)
class Client:
    """A client as people run it; `kind` is the stage's name for it."""

    name: str
    kind: str
    timeout_s: float | None  # after which it gives up a request by default


@dataclass(frozen=True, slots=True)
class Server:
    """A server as people run it; `flags` are those of the steered one."""

    name: str
    kind: str
    work: Work
    flags: tuple[str, ...] = ()


CLIENTS = (
    Client("Python SDK 1", "python-1.30", None),
    Client("Python SDK 2", "python-2.3", None),
    Client("FastMCP", "fastmcp", None),
    Client("TypeScript SDK 1", "typescript", 60),
    Client("TypeScript SDK 2", "typescript-2", 60),
    Client("mcp-remote", "mcp-remote", None),
)

SERVERS = (
    Server("Python SDK 1", "python-1.30", Counting(), ("--asking",)),
    Server("Python SDK 1 with events", "python-1.30", Counting(), ("--asking", "--events")),
    Server("Python SDK 2", "python-2.3", Counting(), ("--asking",)),
    Server("Python SDK 2 with events", "python-2.3", Counting(), ("--asking", "--events")),
    Server("FastMCP", "fastmcp", Counting(), ("--asking",)),
    Server("FastMCP with events", "fastmcp", Counting(), ("--asking", "--events")),
    Server("TypeScript SDK 1", "typescript-sdk", Counting()),
    Server("TypeScript SDK 2", "typescript-2", Counting()),
    Server("server-everything", "typescript", LongOperation()),
)

# What the names stand for: the package, and where its release is pinned.
_PYTHON_PINS = {
    "Python SDK 1": ("mcp", "mcp-1.txt"),
    "Python SDK 2": ("mcp", "mcp-2.txt"),
    "FastMCP": ("fastmcp", "fastmcp.txt"),
}
_NODE_PINS = {
    "TypeScript SDK 1": ("@modelcontextprotocol/sdk", "ts"),
    "TypeScript SDK 2, client": ("@modelcontextprotocol/client", "ts-2"),
    "TypeScript SDK 2, server": ("@modelcontextprotocol/server", "ts-2"),
    "mcp-remote": ("mcp-remote", "ts-2"),
    "server-everything": ("@modelcontextprotocol/server-everything", "ts"),
}


def releases() -> dict[str, str]:
    """The package and the pinned release of each peer, by its name."""
    return {
        **{name: _python_release(*pin) for name, pin in _PYTHON_PINS.items()},
        **{name: _node_release(*pin) for name, pin in _NODE_PINS.items()},
    }


def _python_release(package: str, pins: str) -> str:
    text = (PEERS / "python" / pins).read_text()
    found = re.search(rf"(?m)^{package}==(\S+)", text)
    assert found is not None, f"{pins} pins no {package}"
    return f"{package} {found[1]}"


def _node_release(package: str, folder: str) -> str:
    lock = json.loads((PEERS / folder / "package-lock.json").read_text())
    return f"{package} {lock['packages'][f'node_modules/{package}']['version']}"
