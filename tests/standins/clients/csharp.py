"""Stand-in for clients on the C# SDK (csharp-sdk 609499b, after v2.2.0); the SDK itself was not run.

Recorded of it: it asks `server/discover` first. A 404 to anything closes the client, on a GET too. A resume
is tried five times, 1 s apart, on network errors and 5xx; another 4xx fails its call, and on the standalone
stream is asked again every second for ever. So is a stream that ends cleanly and brings nothing. Types of
events are not looked at.
"""

from __future__ import annotations

import asyncio

from tests.standins.clients.base import StandInClient
from tests.standins.clients.outcomes import CallFailed, Died, SseEvent, probe
from tests.support.client import Answer

MAX_ATTEMPTS = 5


class CSharpClient(StandInClient):
    user_agent = "csharp"

    async def open(self) -> None:
        self.probed = await probe(self.http)
        await super().open()

    def check_acknowledged(self, status: int) -> None:
        if status == 404:
            raise Died("a 404 closes the client")

    async def refused(self, answer: Answer) -> None:
        if answer.status == 404:
            raise Died("a 404 closes the client")
        raise CallFailed(None, f"status {answer.status}")

    def is_read(self, event: SseEvent) -> bool:
        return bool(event.data)

    async def resume(self, last_id: str) -> Answer:
        for _ in range(MAX_ATTEMPTS):
            self.resumes += 1
            await self.may_resume.wait()
            await asyncio.sleep(self.resume_delay_s)
            answer = await self.http.get(last_id)
            if answer.status < 500:
                break
        else:
            raise CallFailed(None, "no resume")
        if answer.status == 404:
            raise Died("a 404 closes the client")
        if answer.status >= 400:
            raise CallFailed(None, f"a resume was answered {answer.status}")
        return answer

    async def broke(self, leg: Answer, ids_before: str, last_id: str) -> Answer:
        if not last_id and leg not in self.broken:
            raise Died("a resume brought nothing: it is repeated for ever")
        return await super().broke(leg, ids_before, last_id)

    async def reopened(self, last_id: str) -> Answer:
        try:
            return await super().reopened(last_id)
        except CallFailed as error:
            raise Died(f"{error}: asked again every second for ever") from None
