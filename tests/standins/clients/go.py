"""Stand-in for clients on the Go SDK (go-sdk 3d6450f, main of August 2026); the SDK itself was not run.

Recorded of it: it asks `server/discover` first and falls back to `initialize` on a 4xx. Any answer to a
resume that is not 2xx ends the session, as do five resumes in a row without a new event id; a leg without
any id fails its call. A line without a colon is fatal, an event that a clean end cut off is dispatched, and
no message is fatal. Another session id in a later answer is fatal. A POST answered 429, 500, 502, 503 or
504, or with a JSON-RPC error as its body, fails the call only, so that a 404 with such a body leaves it with
a dead session; any other status ends the session. It waits 1 s and more, with jitter, before a resume.
"""

from __future__ import annotations

import json

from tests.standins.clients.base import StandInClient
from tests.standins.clients.outcomes import CallFailed, Died, SessionEnded, probe
from tests.support.client import Answer

TRANSIENT = (429, 500, 502, 503, 504)
RESUMES_WITHOUT_PROGRESS = 5


class GoClient(StandInClient):
    user_agent = "Go-http-client/1.1"
    dispatches_partial = True

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._stuck = 0

    async def open(self) -> None:
        self.probed = await probe(self.http)
        await super().open()

    def check_acknowledged(self, status: int) -> None:
        if not 200 <= status < 300 and status not in TRANSIENT:
            raise Died(f"a notification was answered {status}")

    async def refused(self, answer: Answer) -> None:
        body = await answer.read()
        if answer.status in TRANSIENT:
            raise CallFailed(None, f"status {answer.status}")
        is_error = b'"error"' in body and b'"jsonrpc"' in body
        if answer.status == 404 and not is_error:
            raise SessionEnded("session missing")
        if answer.status == 404:
            raise Died("a 404 with a JSON-RPC error: the dead session is kept")
        if is_error:
            raise CallFailed(json.loads(body)["error"]["code"], "refused")
        raise Died(f"a call was answered {answer.status}")

    def session_named(self, name: str | None) -> None:
        if name is not None and name != self.http.session:
            raise Died("another session id")

    def odd_line(self, line: bytes) -> None:
        if b":" not in line:
            raise Died(f"a line without a colon: {line!r}")

    async def broke(self, leg: Answer, ids_before: str, last_id: str) -> Answer:
        if not last_id:
            raise CallFailed(None, "request terminated without response")
        self._stuck = self._stuck + 1 if last_id == ids_before else 0
        if self._stuck > RESUMES_WITHOUT_PROGRESS:
            raise Died("resumes without progress")
        return await self.resume(last_id)
