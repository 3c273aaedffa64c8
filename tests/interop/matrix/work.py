"""What the servers' tools are called, when their work is under way, and when an answer of theirs is right."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import urllib.error
import urllib.request
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from tests.interop.steered import Line, Steered

Servers = Sequence[Steered]  # the processes that a server was, the last is the running one


class Work(Protocol):
    """One way to do each thing that a scenario needs. Judges say what is wrong, or nothing."""

    tool: str

    async def begin(self, client: Steered, call: str) -> None:
        """Have the client make the long call, and wait until it has seen half of it."""

    async def let_end(self, server: Steered, call: str) -> None:
        """Let the long call end, also one that begins later."""

    def judge(self, client: Steered, servers: Servers, call: str, answer: Line, max_runs: int) -> str:
        """What is wrong with the answer of the long call, and with the progress before it."""

    def all_progress(self, client: Steered, call: str) -> bool:
        """Whether every step of the long call was told."""

    async def echo(self, client: Steered, call: str) -> None: ...

    def judge_echo(self, call: str, answer: Line) -> str: ...

    async def ask(self, client: Steered, call: str, kind: str) -> None:
        """Have the client make the call in which it is asked a question of this kind."""

    def judge_asked(self, answer: Line, said: str) -> str: ...

    async def evict(self, server: Steered, port: int) -> None:
        """End every session, as one that was idle for too long ends."""

    def deletes(self, servers: Servers) -> int:
        """How many DELETE came."""


class Counting:
    """The steered servers. Each step of progress and the answer name the run they are of."""

    tool = "count"
    steps, held_at = 8, 4

    async def begin(self, client: Steered, call: str) -> None:
        arguments = {"steps": self.steps, "hold_at": self.held_at, "label": call}
        await client.order("call", call=call, tool=self.tool, arguments=arguments)
        await client.wait_told("progress", call=call, progress=self.held_at)

    async def let_end(self, server: Steered, call: str) -> None:
        await server.order("release", label=call)

    def judge(self, client: Steered, servers: Servers, call: str, answer: Line, max_runs: int) -> str:
        runs = [line["run"] for server in servers for line in server.told("execution", label=call)]
        seen = [(line["message"], line["progress"]) for line in client.told("progress", call=call)]
        told = _parsed(answer)
        order = [runs.index(run) if run in runs else -1 for run, _ in seen]
        if told.get("sum") != self.steps * (self.steps + 1) // 2:
            return "a wrong sum"
        if told.get("run") not in runs or -1 in order:
            return "of a run that was not made for this call"
        if len(runs) > max_runs:
            return f"ran {len(runs)} times"
        if order != sorted(order) or any(a >= b for a, b in pairwise(seen) if a[0] == b[0]):
            return "progress out of order"
        if seen and runs.index(told["run"]) < order[-1]:
            return "of an older run than progress"
        return ""

    def all_progress(self, client: Steered, call: str) -> bool:
        seen = [line["progress"] for line in client.told("progress", call=call)]
        return seen == list(range(1, self.steps + 1))

    async def echo(self, client: Steered, call: str) -> None:
        await client.order("call", call=call, tool="echo", arguments={"text": call})

    def judge_echo(self, call: str, answer: Line) -> str:
        return "" if answer["text"] == call else "another echo"

    async def ask(self, client: Steered, call: str, kind: str) -> None:
        arguments = {"kind": kind, "label": call, "waits": "no"}
        await client.order("call", call=call, tool="ask", arguments=arguments)

    def judge_asked(self, answer: Line, said: str) -> str:
        return "" if _parsed(answer).get("answer") == said else "another answer"

    async def evict(self, server: Steered, port: int) -> None:
        times = len(server.told("evicted")) + 1
        await server.order("evict")
        await server.wait_told("evicted", times=times)

    def deletes(self, servers: Servers) -> int:
        return sum(len(server.told("received", method="DELETE")) for server in servers)


class LongOperation:
    """`server-everything`, by its own tools. Progress names no run; each call has a duration of its own."""

    tool = "trigger-long-running-operation"
    steps = 5

    async def begin(self, client: Steered, call: str) -> None:
        arguments = {"duration": self._seconds(call), "steps": self.steps}
        await client.order("call", call=call, tool=self.tool, arguments=arguments)
        await client.wait_told("progress", call=call, progress=1)

    async def let_end(self, server: Steered, call: str) -> None:
        """It ends by itself."""

    def judge(self, client: Steered, servers: Servers, call: str, answer: Line, max_runs: int) -> str:
        done = f"Long running operation completed. Duration: {self._seconds(call)} seconds, Steps: 5."
        seen = [line["progress"] for line in client.told("progress", call=call)]
        if answer["text"] != done:
            return "of another call"
        return "" if seen == sorted(set(seen)) else "progress out of order"

    def all_progress(self, client: Steered, call: str) -> bool:
        return [line["progress"] for line in client.told("progress", call=call)] == [1, 2, 3, 4, 5]

    async def echo(self, client: Steered, call: str) -> None:
        await client.order("call", call=call, tool="echo", arguments={"message": call})

    def judge_echo(self, call: str, answer: Line) -> str:
        return "" if answer["text"] == f"Echo: {call}" else "another echo"

    async def ask(self, client: Steered, call: str, kind: str) -> None:
        arguments = {"prompt": call} if kind == "sampling" else {}
        await client.order("call", call=call, tool=f"trigger-{kind}-request", arguments=arguments)

    def judge_asked(self, answer: Line, said: str) -> str:
        return "" if said in answer["text"] else "another answer"

    async def evict(self, server: Steered, port: int) -> None:
        """DELETE behind the client's back, as a reaper would."""
        texts = "\n".join(line["text"] for line in server.told("text"))
        for session in re.findall(r"Session initialized with ID: (\S+)", texts):
            await asyncio.to_thread(_delete, port, session)

    def deletes(self, servers: Servers) -> int:
        texts = [line["text"] for server in servers for line in server.told("text")]
        return sum("Received session termination request" in text for text in texts)

    def _seconds(self, call: str) -> float:
        """3 s and the call's number in milliseconds."""
        return 3 + int(call.rpartition("-")[2]) / 1000


def _parsed(answer: Line) -> Line:
    """What a steered server answered; nothing if it was not its answer."""
    try:
        told = json.loads(answer["text"])
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _delete(port: int, session: str) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/mcp", method="DELETE", headers={"Mcp-Session-Id": session}
    )
    with contextlib.suppress(urllib.error.HTTPError):  # it had ended before
        urllib.request.urlopen(request, timeout=10).close()
