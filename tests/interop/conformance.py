"""Runs the official conformance suite and makes what it recorded comparable."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from tests.peers.install import TREE, Peers

RUN_S = 120.0  # the longest selection takes 7 s on an idle machine
SHOWN_CHARS = 100
TIME_IN_NAME = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")
THROUGH = "tests.interop.through"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding of a scenario, as the suite wrote it, without the time."""

    id: str
    name: str
    status: str
    description: str
    error: str | None
    details: Any
    references: Any
    source: Any

    def lines(self) -> Iterator[str]:
        """All of it as text: a line that says which check this is, then one for each value."""
        yield f"{self.status} {self.id}"
        yield from _lines("name", self.name)
        yield from _lines("description", self.description)
        yield from _lines("error", self.error)
        yield from _lines("details", self.details)
        yield from _lines("references", self.references)
        yield from _lines("source", self.source)


Record = dict[str, list[Check]]
"""The checks of each scenario, in the order in which the suite made them."""


def statuses(record: Record) -> dict[str, int]:
    """How many checks ended how."""
    return dict(Counter(check.status for checks in record.values() for check in checks))


def differences(direct: Record, through: Record) -> dict[str, list[str]]:
    """What is not the same, by scenario: lines of `direct` after `-`, lines of `through` after `+`."""
    assert direct.keys() == through.keys()
    found = {name: list(_changes(direct[name], through[name])) for name in direct}
    return {name: lines for name, lines in found.items() if lines}


def _changes(direct: list[Check], through: list[Check]) -> Iterator[str]:
    before, after = ([line for check in checks for line in check.lines()] for checks in (direct, through))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        if kind != "equal":
            removed, added = before[start:end], after[other_start:other_end]
            yield from (f"- {_shown(line, added)}" for line in removed)
            yield from (f"+ {_shown(line, removed)}" for line in added)


def _shown(line: str, others: list[str]) -> str:
    """The line; of a long one only where it parts from the other that has the same path, if that is short."""
    if len(line) <= SHOWN_CHARS:
        return line
    path, equals, _ = line.partition(" = ")
    other = next((other for other in others if other.startswith(path + equals)), "")
    start = _shared_start(line, other)
    end = _shared_start(line[:start:-1], other[:start:-1])
    part = line[start : len(line) - end]
    return f"{path} = …{part}…" if len(part) <= SHOWN_CHARS else f"{path} = …"


def _shared_start(line: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(line, other, strict=False)))


def _lines(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key in sorted(value):
            yield from _lines(f"{path}.{key}", value[key])
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _lines(f"{path}.{index}", inner)
    elif value is not None:
        yield f"  {path} = {json.dumps(value)}"


class Suite:
    """One release of the suite: `conformance` or `conformance-2026`."""

    def __init__(self, peers: Peers, release: str) -> None:
        program = peers.conformance / "node_modules" / release / "dist" / "index.js"
        self._command = [str(peers.node_22), str(program)]
        self._environment = {**os.environ, "PEERS_NODE": str(peers.node)}

    async def ask_server(self, port: int, *selection: str) -> Record:
        """What it finds at the server on this port, by all scenarios of the selection."""
        url = f"http://127.0.0.1:{port}/mcp"
        return await self._record("server", "--url", url, *selection)

    async def ask_client(
        self, command: Sequence[str], scenario: str, *selection: str, is_through: bool = False
    ) -> Record:
        """What it finds at the client that this command starts, if wanted through a proxy of its own."""
        wrapper = [sys.executable, "-m", THROUGH] if is_through else []
        started = shlex.join([*wrapper, *command])
        record = await self._record("client", "--command", started, "--scenario", scenario, *selection)
        # A client has several requests on their way at once, which may arrive in any order.
        return {name: sorted(checks, key=lambda check: [*check.lines()]) for name, checks in record.items()}

    async def _record(self, *arguments: str) -> Record:
        with tempfile.TemporaryDirectory() as folder:
            said = await self._run(*arguments, "-o", folder)
            record = _read(Path(folder))
        assert record, said
        return record

    async def _run(self, *arguments: str) -> str:
        """Run to the end, which says nothing: there is a checks.json for what failed too."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *arguments,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            cwd=TREE,  # where `THROUGH` is found
            start_new_session=True,
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), RUN_S)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return said.decode(errors="replace")


def _read(folder: Path) -> Record:
    """What was written below this folder, in the order of the scenarios' names."""
    return {_scenario(path): _checks(path) for path in sorted(folder.rglob("checks.json"))}


def _scenario(path: Path) -> str:
    return TIME_IN_NAME.sub("", path.parent.name).removeprefix("server-")


def _checks(path: Path) -> list[Check]:
    written = json.loads(path.read_text())
    return [_check(item) for item in _without_chance(written)]


def _check(item: dict[str, Any]) -> Check:
    item.pop("timestamp")
    _forgive_lateness(item)
    _forget_how_far_it_had_read(item)
    check = Check(
        id=item.pop("id"),
        name=item.pop("name"),
        status=item.pop("status"),
        description=item.pop("description"),
        error=item.pop("errorMessage", None),
        details=item.pop("details", None),
        references=item.pop("specReferences", None),
        source=item.pop("source", None),
    )
    assert not item, f"a check has more to it: {item}"
    return check


# What differs between any two runs. A value under one of these names, made up for one run, is replaced by its
# kind and by which one of them it is in its scenario, wherever it stands: two that were the same stay so.
MADE_UP = {
    "session": ("mcp-session-id", "sessionId", "sessionIdSent"),
    # The proxy gives every stream ids of its own, or it could not tell where a client was.
    "event": ("eventId", "lastEventId", "lastEventIdUsed", "last-event-id", "lastEventIds", "event.id"),
    # Sealed by the server with a nonce and the time.
    "state": ("requestState", "requestStateSent", "requestStateReceived"),
    # The suite takes the time for the id of its request.
    "subscription": ("subscriptionId", "io.modelcontextprotocol/subscriptionId"),
}
KINDS = {name: kind for kind, names in MADE_UP.items() for name in names}
STAMP = re.compile(r"\b[1-9]\d{13}\b")  # what the proxy puts in place of the id of a request
DATE = re.compile(r"\b\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\b")
ADDRESS = re.compile(r"\b(?:127\.0\.0\.1|localhost):\d+")  # whoever listens got a free port


def _forgive_lateness(item: dict[str, Any]) -> None:
    """A busy machine is late by more than the suite's 200 ms; twice the time, or too early, still fails."""
    if item["id"] != "client-sse-retry-timing":
        return
    item["details"].pop("actualDelayMs", None)
    if item["status"] == "WARNING":
        item["status"] = "SUCCESS"
        item.pop("errorMessage")
        item["details"] |= {"slightlyLate": False, "withinTolerance": True}


def _forget_how_far_it_had_read(item: dict[str, Any]) -> None:
    """Of an event it also writes whether a `retry:` came so far, which depends on how the bytes were cut."""
    if item["id"] == "incoming-sse-event":
        item["details"].pop("hasRetryField", None)
        item["details"].pop("retryValue", None)


def _without_chance(written: Any) -> Any:
    names: dict[Any, str] = {}
    counts = Counter[str]()
    for kind, value in _made_up(written):
        if value not in names:
            counts[kind] += 1
            names[value] = f"<{kind} {counts[kind]}>"
    longest_first = sorted(names, key=lambda value: len(str(value)), reverse=True)
    return _replaced(written, {value: names[value] for value in longest_first})


def _made_up(value: Any, name: str = "", outer: str = "") -> Iterator[tuple[str, Any]]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from _made_up(inner, key, name)
        case list():
            for inner in value:
                yield from _made_up(inner, name, outer)
        case str() | int() if value:
            kind = KINDS.get(name) or KINDS.get(f"{outer}.{name}") or ("stamp" if _is_stamp(value) else None)
            if kind is not None:
                yield kind, value
        case _:
            pass


def _is_stamp(value: str | int) -> bool:
    return isinstance(value, int) and STAMP.fullmatch(str(value)) is not None


def _replaced(value: Any, names: dict[Any, str]) -> Any:
    match value:
        case dict():
            return {key: _replaced(inner, names) for key, inner in value.items()}
        case list():
            return [_replaced(inner, names) for inner in value]
        case str():
            value = DATE.sub("<date>", ADDRESS.sub("<address>", value))
            for made_up, name in names.items():
                value = value.replace(str(made_up), name)
            return value
        case _:
            return names.get(value, value)
