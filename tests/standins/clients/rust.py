"""Stand-in for clients on the Rust SDK (rust-sdk 4a738b9 = rmcp 3.1.4); the SDK itself was not run.

Recorded of it: a 404 to a call has it negotiate a new session and send the same message again, which fails
its other calls. A resume is tried without end, 1, 2, 4 s apart, whatever it brings. The content type is
compared as it is written, lower case.
"""

from __future__ import annotations

from tests.standins.clients.base import StandInClient
from tests.standins.clients.outcomes import CallFailed, Died
from tests.support.client import Answer


class RustClient(StandInClient):
    user_agent = "rmcp"

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.sent_again = 0

    async def refused(self, answer: Answer) -> None:
        if answer.status != 404:
            raise CallFailed(None, f"status {answer.status}")
        await self.open()
        self.sent_again += 1

    async def resumed(self, answer: Answer) -> Answer:
        if answer.status != 200:
            raise Died(f"a resume was answered {answer.status}: it is repeated for ever")
        self.check_type(answer)
        return answer

    async def broke(self, leg: Answer, ids_before: str, last_id: str) -> Answer:
        if ids_before and not last_id and leg not in self.broken:
            raise Died("a resume brought nothing: it is repeated for ever")
        return await super().broke(leg, ids_before, last_id)

    async def _follow(self, answer: Answer, number: object) -> str:
        self.check_type(answer)
        return await super()._follow(answer, number)

    def check_type(self, answer: Answer) -> None:
        stated = answer.header("content-type") or ""
        if not stated.startswith(("text/event-stream", "application/json")):
            raise Died(f"unexpected content type {stated!r}")
