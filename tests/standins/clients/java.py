"""Stand-in for clients on the Java SDK (java-sdk 305e4cb = v2.0.1); the SDK itself was not run.

Recorded of it: a `retry:` line is an error of the stream, as is any field but `id`, `event` and `data`. A
blank line behind a comment leaks one of 256 units of demand, after which the stream stalls. Type and id of an
event stick to the events behind it, so that a foreign type hides what follows. An event that a clean end
cut off is dispatched. A stream that broke is never resumed, nor the GET reopened, and a call is given up
after 20 s. A 400 or 404 in a session has it negotiate anew. Its ids are `<8 hex>-<n>`.
"""

from __future__ import annotations

import asyncio

from tests.standins.clients.base import StandInClient
from tests.standins.clients.outcomes import CallFailed, Died, SseEvent
from tests.support.client import Answer

DEMAND = 256
TIMEOUT_S = 20.0


class JavaClient(StandInClient):
    user_agent = "Java-http-client/21.0.8"
    dispatches_partial = True

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.demand = DEMAND

    def next_id(self) -> object:
        return f"1f0c2a9b-{next(self._numbers)}"

    async def refused(self, answer: Answer) -> None:
        if answer.status in (400, 404):
            await self.open()
        raise CallFailed(None, f"status {answer.status}")

    def field(self, event: SseEvent, line: bytes) -> bool:
        if line.partition(b":")[0] not in (b"data", b"id", b"event"):
            raise Died(f"a stream error: {line!r}")
        return super().field(event, line)

    def blank_line(self) -> None:
        self.demand -= 1
        if self.demand == 0:
            raise Died("no demand is left: the stream stalls")

    def next_event(self, before: SseEvent) -> SseEvent:
        return SseEvent(id=before.id, name=before.name)

    async def _call(self, name: str) -> str:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await super()._call(name)
        except TimeoutError:
            raise Died("no answer within 20 s") from None

    async def broke(self, leg: Answer, ids_before: str, last_id: str) -> Answer:
        raise Died("the answer ended without a response: nothing comes before the timeout")

    async def reopened(self, last_id: str) -> Answer:
        raise Died("the standalone stream ended: it is never opened again")
