"""One client and one server on the stage, with the proxy between them or without, for scenarios in turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tests.interop.cutter import Cutter
from tests.interop.matrix.outcomes import Ending, Outcome
from tests.interop.matrix.peers import Client, Server
from tests.interop.stage import Stage
from tests.interop.steered import Line, NotTold, Steered

# A client that has no timeout of its own is given up after this; the proxy's answer to a restart that takes
# seconds comes long before.
PATIENCE_S = 30.0
PAST_TIMEOUT_S = 10.0  # so long after its own timeout is a client that has one given up
NEXT_CALL_S = 20.0  # what the call after the disturbed one may take
RESUME_S = 4.0  # within this clients resume that do so at all


class StageBroke(RuntimeError):
    """A part of the stage, not the client, did not do what it must; the run tells nothing."""


@asynccontextmanager
async def _surely(what: str) -> AsyncIterator[None]:
    try:
        yield
    except (NotTold, OSError) as error:
        raise StageBroke(f"{what}: {error}") from error


class Play:
    """`client` is the process of the moment; it has a session for each scenario, and ends where one fails."""

    def __init__(self, stage: Stage, client: Client, server: Server, *, is_proxied: bool) -> None:
        self.what = client
        self.server = server
        self.work = server.work
        self.processes: list[Steered] = []
        self._stage = stage
        self._is_proxied = is_proxied
        self._client: Steered | None = None
        self._calls = 0
        self._disturbed_at = 0.0  # or when the call began that nothing disturbed

    async def open(self) -> None:
        async with _surely("set-up"):
            process, self._port = await self._stage.server(self.server.kind, *self.server.flags)
            self.processes.append(process)
            self._entry = self._port
            if self._is_proxied:
                self._entry = (await self._stage.proxy(self._port)).port
            self.cutter: Cutter = await self._stage.cutter(self._entry)

    @property
    def client(self) -> Steered:
        assert self._client is not None
        return self._client

    @property
    def running(self) -> Steered:
        """The server's process."""
        return self.processes[-1]

    @property
    def patience_s(self) -> float:
        return PATIENCE_S if self.what.timeout_s is None else self.what.timeout_s + PAST_TIMEOUT_S

    def call(self) -> str:
        """A name for a call that was never used here."""
        self._calls += 1
        self._disturbed_at = time.monotonic()
        return f"call-{self._calls}"

    async def session(self, *, over_cutter: bool = False) -> None:
        """A session that is initialized. Raises `NotTold`."""
        port = self.cutter.port if over_cutter else self._entry
        if self._client is None:
            async with _surely("client"):
                self._client = await self._stage.client(self.what.kind, port)
        else:
            times = len(self._client.told("ready")) + 1
            await self._client.order("renew", url=f"http://127.0.0.1:{port}/mcp")
            await self._client.wait_told("ready", times=times)
        await self._client.order("answer", kind="roots", text="here")  # some servers ask at once
        times = len(self._client.told("initialized")) + 1
        await self._client.order("initialize")
        await self._client.wait_told("initialized", times=times)

    async def give_up_client(self) -> None:
        """The next session gets a new process."""
        if self._client is not None:
            await self._client.kill()
            self._client = None

    async def restart(self) -> None:
        """Kill the server, without a goodbye, and start it again at the same port."""
        async with _surely("restart"):
            await self.running.kill()
            self._disturbed_at = time.monotonic()
            process, _ = await self._stage.server(self.server.kind, *self.server.flags, port=self._port)
            self.processes.append(process)

    async def evict(self) -> None:
        """End the sessions of the server."""
        async with _surely("eviction"):
            self._disturbed_at = time.monotonic()
            await self.work.evict(self.running, self._port)

    async def cut(self) -> None:
        """Reset the client's connections, and give it the time to resume."""
        resumed = self.cutter.resumed
        self._disturbed_at = time.monotonic()
        self.cutter.cut()
        try:
            async with asyncio.timeout(RESUME_S):
                await self.cutter.wait_resumed(resumed + 1)
        except TimeoutError:
            pass  # it does not

    async def outcome(self, call: str, judge: Callable[[Line], str]) -> Outcome:
        """How this call ends, and whether the next is answered; `judge` says what is wrong with a result."""
        since = self._disturbed_at
        ending, at, detail = await self._ending(call, judge, self.patience_s)
        return Outcome(ending, await self._has_session(), max(at - since, 0), detail)

    async def _ending(
        self, call: str, judge: Callable[[Line], str], within: float
    ) -> tuple[Ending, float, str]:
        """How, when, and what was said or wrong."""
        since = self._disturbed_at
        try:
            answer = await self.client.wait_answer(call, within=within)
        except NotTold:
            ending = Ending.CRASH if self.client.has_ended else Ending.HANG
            return ending, time.monotonic(), ""
        at = self.client.time_of(answer)
        if answer["event"] == "error":
            timeout = self.what.timeout_s
            is_timeout = timeout is not None and at - since > timeout - 5
            return (Ending.TIMEOUT if is_timeout else Ending.ERROR), at, str(answer["message"])
        if answer["failed"]:
            return Ending.ERROR, at, str(answer["text"])
        wrong = judge(answer)
        return (Ending.WRONG if wrong else Ending.RIGHT), at, wrong

    async def _has_session(self) -> bool:
        if self.client.has_ended:
            return False
        call = self.call()
        await self.work.echo(self.client, call)
        ending, *_ = await self._ending(call, lambda answer: self.work.judge_echo(call, answer), NEXT_CALL_S)
        return ending is Ending.RIGHT
