"""`epochgate check` on servers that others wrote; what each does is told by their own sources and was run."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from tests.interop.stage import Stage

DEADLINE_S = 90
COUNT = ("count", {"steps": 3, "hold_at": 0})
OPERATION = ("trigger-long-running-operation", {"duration": 2, "steps": 4})
NOTHING_TO_RESUME = ("cannot tell", "cannot tell", "cannot tell", "cannot tell")


@pytest.mark.parametrize(
    ("kind", "flags", "tool", "states", "code"),
    [
        # Without an event store there are no ids, so nothing to resume.
        ("python-1.30", (), COUNT, NOTHING_TO_RESUME, 2),
        ("python-2.3", (), COUNT, NOTHING_TO_RESUME, 2),
        ("typescript-sdk", (), COUNT, NOTHING_TO_RESUME, 2),
        ("fastmcp", (), COUNT, NOTHING_TO_RESUME, 2),
        ("typescript-2", (), COUNT, NOTHING_TO_RESUME, 2),
        # One store for all sessions serves each the events of the others, and no epoch is stated.
        ("python-1.30", ("--events",), COUNT, ("kept", "broken", "cannot tell", "broken"), 1),
        ("python-2.3", ("--events",), COUNT, ("kept", "broken", "cannot tell", "broken"), 1),
        ("python-1.30", ("--events", "--epoch"), COUNT, ("kept", "broken", "kept", "kept"), 1),
        # Its store keeps sessions apart, but a cursor that names nothing is taken with 200 and an end.
        ("fastmcp", ("--events",), COUNT, ("kept", "broken", "cannot tell", "broken"), 1),
        # Takes any cursor with 200 and says nothing; dead sessions get 400 instead of 404.
        ("typescript", (), OPERATION, ("cannot tell", "broken", "cannot tell", "cannot tell"), 1),
    ],
    ids=str.split(
        "python-1 python-2 typescript fastmcp typescript-2 "
        "python-1-store python-2-store python-1-epoch fastmcp-store everything"
    ),
)
async def test_each_server_gets_its_verdict(
    stage: Stage,
    kind: str,
    flags: tuple[str, ...],
    tool: tuple[str, dict[str, int]],
    states: tuple[str, ...],
    code: int,
) -> None:
    _, port = await stage.server(kind, *flags)

    ran = await _check(port, *tool)

    assert ran.returncode == code, ran.stderr
    told = json.loads(ran.stdout)
    assert tuple(condition["state"] for condition in told["conditions"]) == states
    assert told["client"] == "restart"


async def _check(port: int, tool: str, arguments: dict[str, int]) -> subprocess.CompletedProcess[str]:
    url = f"http://127.0.0.1:{port}/mcp"
    called = ["--tool", tool, "--allow-tool", "--arguments", json.dumps(arguments)]
    command = [sys.executable, "-m", "epochgate", "check", url, "--json", *called]
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
