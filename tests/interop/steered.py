"""A child process that tells what happens as JSON lines and obeys JSON lines."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

DEADLINE_S = 30.0  # nothing that a test waits for takes longer on a busy machine with two cores

Line = dict[str, Any]


class NotTold(AssertionError):
    """The process did not say in time, or at all, what the test waits for."""


class Steered:
    """The process `name`. What it writes to stdout and stderr is kept, a line at a time, in `lines`.

    A line that is no JSON object is kept as `{"event": "text", "text": …}`.
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.lines: list[Line] = []
        self._times: list[float] = []
        self._process = process
        self._changed = asyncio.Condition()
        assert process.stdout is not None
        assert process.stderr is not None
        pipes = (process.stdout, process.stderr)
        self._open_pipes = len(pipes)
        self._readers = [asyncio.create_task(self._read(pipe)) for pipe in pipes]

    @classmethod
    async def start(cls, name: str, command: Sequence[str], env: Mapping[str, str]) -> Steered:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(env), limit=1 << 24
        )
        return cls(name, process)

    async def order(self, do: str, **what: object) -> None:
        """Raises `NotTold` if the process has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **what}).encode() + b"\n")
        try:
            await self._process.stdin.drain()
        except ConnectionError:
            raise NotTold(f"{self.name} ended before it was ordered to {do}: {self._story()}") from None

    def told(self, event: str, **where: object) -> list[Line]:
        """The lines so far with this `event` and these values."""
        wanted = {"event": event, **where}
        return [line for line in self.lines if wanted.items() <= line.items()]

    def time_of(self, line: Line) -> float:
        """When it told this line, on the monotonic clock."""
        return next(at for at, told in zip(self._times, self.lines, strict=True) if told is line)

    async def wait_told(self, event: str, *, times: int = 1, **where: object) -> Line:
        """The first such line, or the one that makes them so many, said already or yet to come.

        Raises `NotTold`.
        """
        await self._wait(lambda: len(self.told(event, **where)) >= times, f"{event} {where}")
        return self.told(event, **where)[times - 1]

    async def wait_answer(self, call: str, *, within: float = DEADLINE_S) -> Line:
        """The result or the error of a call that a client was ordered to make. Raises `NotTold`."""

        await self._wait(lambda: bool(self._answers(call)), f"the answer of {call}", within)
        return self._answers(call)[0]

    async def wait_result(self, call: str) -> Line:
        """The result of such a call. Raises `NotTold`, at once on an error."""
        answer = await self.wait_answer(call)
        if answer["event"] != "result":
            raise NotTold(f"{self.name} got an error instead of a result: {self._story()}")
        return answer

    async def wait_asked(self, call: str, *, times: int) -> None:
        """Wait until a client was asked so often, or its call was answered without. Raises `NotTold`."""

        def is_so() -> bool:
            return len(self.told("asked")) >= times or bool(self._answers(call))

        await self._wait(is_so, f"a question of {call}")

    def _answers(self, call: str) -> list[Line]:
        return self.told("result", call=call) + self.told("error", call=call)

    async def wait_text(self, fragment: str) -> None:
        """Wait for a line of plain text that holds `fragment`. Raises `NotTold`."""
        await self._wait(
            lambda: any(fragment in line["text"] for line in self.told("text")), f"text {fragment!r}"
        )

    async def kill(self) -> None:
        """End it without giving it time to say goodbye."""
        if self._process.returncode is None:
            self._process.kill()
        await self._finish()

    async def stop(self) -> int:
        """Ask it to end (SIGTERM); its exit code."""
        if self._process.returncode is None:
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), DEADLINE_S)
        except TimeoutError:
            self._process.kill()
            raise NotTold(f"{self.name} did not end when asked to: {self._story()}") from None
        finally:
            await self._finish()
        return await self._process.wait()

    async def _finish(self) -> None:
        await self._process.wait()
        await asyncio.gather(*self._readers)

    @property
    def has_ended(self) -> bool:
        """Whether it can tell nothing more."""
        return self._open_pipes == 0

    async def _wait(self, is_so: Callable[[], bool], what: str, within: float = DEADLINE_S) -> None:
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(lambda: is_so() or self.has_ended), within)
            except TimeoutError:
                raise NotTold(f"{self.name} never told {what}: {self._story()}") from None
        if not is_so():
            raise NotTold(f"{self.name} ended without telling {what}: {self._story()}")

    def _story(self) -> str:
        return "\n  ".join(["", *(json.dumps(line) for line in self.lines[-40:])])

    async def _read(self, pipe: asyncio.StreamReader) -> None:
        while line := await pipe.readline():
            async with self._changed:
                self.lines.append(_parse(line))
                self._times.append(time.monotonic())
                self._changed.notify_all()
        async with self._changed:
            self._open_pipes -= 1
            self._changed.notify_all()


def _parse(line: bytes) -> Line:
    text = line.decode(errors="replace").rstrip("\n")
    try:
        value = json.loads(text)
    except ValueError:
        return {"event": "text", "text": text}
    return value if isinstance(value, dict) else {"event": "text", "text": text}
