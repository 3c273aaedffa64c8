"""Layers: who may import whom, read from the source; and what the library for clients pulls in."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROXY = Path(__file__).parents[1] / "proxy"
PACKAGE = PROXY / "epochgate"

# What the core may use of the standard library: nothing that reads a clock, a socket, a file or chance.
CORE_MAY_IMPORT = frozenset(
    "__future__ abc bisect collections copy dataclasses enum functools hashlib heapq itertools json math "
    "operator re string struct types typing".split()
)
CORE_MAY_INSTALL = frozenset({"msgspec"})

# Each part of the package with the parts that it may import. What is not named here may import them all.
OUTSIDE_FORM = {"arguments", "forms", "units", "limits", "loading", "settings", "schema"}
MAY_REACH = {
    "core": {"core"},
    **{part: {"core"} | OUTSIDE_FORM for part in OUTSIDE_FORM},
    "state": {"core", "state"} | OUTSIDE_FORM,
    "observe": {"core", "observe"} | OUTSIDE_FORM,
    "check": {"core", "check", "arguments"},
    "inject": {"inject", "__version__"} | OUTSIDE_FORM,
    "shell": {"core", "state", "observe", "shell"} | OUTSIDE_FORM,
}
AT_THE_TOP = {"__init__", "__main__", "cli", "demo", "drain"}


def _imported(source: str, module: str) -> Iterator[str]:
    """The absolute dotted names that `source`, the text of `module`, imports anywhere in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")[: -node.level] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            yield name
            yield from (f"{name}.{alias.name}" for alias in node.names if name == "epochgate")


def _part(dotted: str) -> str | None:
    """`epochgate.core.sse` is of the part `core`; the bare package and other packages are of none."""
    names = dotted.split(".")
    return names[1] if names[0] == "epochgate" and len(names) > 1 else None


def _trespasses(source: str, module: str) -> list[str]:
    layer = _part(module)
    if layer not in MAY_REACH:
        return []
    found = []
    for name in _imported(source, module):
        part = _part(name)
        if part is not None and part not in MAY_REACH[layer]:
            found.append(name)
        if layer == "core" and not name.startswith("epochgate") and not _is_pure(name):
            found.append(name)
    return found


def _is_pure(name: str) -> bool:
    return name.partition(".")[0] in CORE_MAY_IMPORT | CORE_MAY_INSTALL


def _modules() -> list[tuple[str, Path]]:
    return [
        (".".join(path.relative_to(PROXY).with_suffix("").parts), path)
        for path in sorted(PACKAGE.rglob("*.py"))
    ]


@pytest.mark.parametrize(("module", "path"), _modules(), ids=lambda value: str(value).rpartition("/")[2])
def test_no_module_reaches_above_its_layer(module: str, path: Path) -> None:
    assert _trespasses(path.read_text(), module) == []


def test_every_part_of_the_package_has_its_place() -> None:
    assert {_part(module) for module, _ in _modules()} - MAY_REACH.keys() - AT_THE_TOP == set()


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("import asyncio", "epochgate.core.sse"),
        ("import os.path", "epochgate.core.sse"),
        ("def late():\n    from time import monotonic", "epochgate.core.sse"),
        ("from aiohttp import web", "epochgate.core.sse"),
        ("from epochgate.shell import driver", "epochgate.core.sse"),
        ("from epochgate import settings", "epochgate.core.sse"),
        ("from ..observe import metrics", "epochgate.core.sse"),
        ("from epochgate.shell.driver import Gateway", "epochgate.observe.metrics"),
        ("from epochgate.shell.parser import feed", "epochgate.check.wire"),
        ("from epochgate.cli import main", "epochgate.shell.process"),
    ],
)
def test_a_trespass_is_seen(source: str, module: str) -> None:
    assert _trespasses(source, module) != []


def test_the_library_for_clients_needs_nothing_installed_and_no_event_loop() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(PROXY)!r})\n"
        "from epochgate import SessionEpoch, StreamResumeDivergence\n"
        "from epochgate import resume_or_restart, validate_resumed_event\n"
        "print('\\n'.join(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, timeout=30, check=False
    )

    assert ran.stderr == ""
    loaded = {name.partition(".")[0] for name in ran.stdout.split()} - {"__main__", "epochgate"}
    assert loaded - sys.stdlib_module_names == set()
    assert loaded & {"asyncio", "socket", "ssl"} == set()
