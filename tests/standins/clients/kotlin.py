"""Stand-in for clients on the Kotlin SDK (kotlin-sdk a06d699, after 0.14.0); the SDK itself was not run.

Recorded of it: there is one job for GETs, so that a resume ends the standalone stream and any other resume.
A call that was answered by an error is resumed once more, with the last id it saw; 404 and 405 end that.
Between two GETs it waits 1 s. The lines of data of one event are joined without a line end.
"""

from __future__ import annotations

import asyncio

from tests.standins.clients.base import StandInClient
from tests.standins.clients.outcomes import CallFailed
from tests.support.client import Answer


class KotlinClient(StandInClient):
    user_agent = "kotlin"
    joint = b""

    async def resume(self, last_id: str) -> Answer:
        self._end_job()
        return await super().resume(last_id)

    def _end_job(self) -> None:
        """The job for GETs is taken: its stream is closed."""
        if self.listening is not None and self.standing is not None:
            self.listening.cancel()
            self.standing.reset()
            self.listening = self.standing = None

    async def _call(self, name: str) -> str:
        try:
            return await super()._call(name)
        except CallFailed:
            self._end_job()
            await asyncio.sleep(self.resume_delay_s)
            answer = await self.http.get(self.last_id)
            if answer.status not in (404, 405):
                self.standing = answer
                self.listening = self.start(self._read_on(answer))
            raise

    async def _read_on(self, answer: Answer) -> None:
        async for event in self.events(answer):
            if self.is_read(event):
                await self.take(self._decode(event))
