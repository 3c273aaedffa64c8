"""What the stand-in clients share: a session, calls, a standalone stream, and legs that can be cut.

By itself this client does what the protocol says. A stand-in changes that where its SDK is recorded to do
otherwise, and raises `Died` exactly where the SDK would give its session up, or never end.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Self

from tests.standins.clients.outcomes import CallFailed, Died, SessionEnded, SseEvent, lines
from tests.support.client import PRIMED, Answer, Client, Truncated, call, initialize
from tests.support.legs import Json, until


class StandInClient:
    """A client of the protocol's word."""

    version = PRIMED
    user_agent = "standin"
    joint = b"\n"  # between the lines of data of one event
    dispatches_partial = False  # an event that the stream's end cut off
    resume_delay_s = 0.01  # scaled down; each stand-in says what its SDK waits

    def __init__(self, port: int) -> None:
        self.http = Client(port, version=self.version, headers=[("User-Agent", self.user_agent)])
        self.heard: list[Any] = []  # data of log messages, in order
        self.progress: list[str] = []
        self.questions: list[Json] = []
        self.resumes = 0
        self.sessions = 0  # negotiated
        self.notices = 0  # of the proxy
        self.last_id = ""  # of the call that was followed last
        self.probed: int | None = None  # how `server/discover` was answered
        self.broken: list[Answer] = []  # ended without a last chunk
        self.comments = 0
        self.may_resume = asyncio.Event()  # cleared, the client is away
        self.may_resume.set()
        self.opened = asyncio.Event()  # the standalone stream
        self.standing: Answer | None = None  # what the standalone stream is read from
        self.listening: asyncio.Task[None] | None = None
        self._legs: list[Answer] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._numbers = itertools.count(1)

    # --- what a test does ---------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.http.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Raises `Died` if the client died behind the test's back."""
        for task in self._tasks:
            task.cancel()
        outcomes = await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.http.__aexit__()
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, _EXPECTED):
                raise outcome

    async def open(self) -> None:
        """Negotiate a session."""
        self.http.session = None
        answer = await self.http.post(initialize(self.version))
        if answer.status != 200:
            raise Died(f"initialize was answered {answer.status}")
        (message,) = [one async for one in self._messages_of(answer)]
        if "error" in message:
            raise CallFailed(message["error"]["code"], message["error"]["message"])
        self.http.session = answer.header("mcp-session-id")
        self.sessions += 1
        told = await self.http.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.check_acknowledged(told.status)

    def call(self, name: str = "work") -> asyncio.Task[str]:
        """Call a tool; the text of its result. Raises `CallFailed` and `Died`."""
        return self.start(self._call(name))

    async def listen(self) -> None:
        """Open the standalone stream and keep it; returns once it is open."""
        self.begin_to_listen()
        await until(lambda: self.opened.is_set() or self._fallen() is not None)
        if fallen := self._fallen():
            raise fallen

    def begin_to_listen(self) -> None:
        """Ask for the standalone stream."""
        self.listening = self.start(self._listen())

    def cut(self, *, keeps_standing: bool = False) -> None:
        """Break every connection that a stream of this client is read from, or those of calls alone."""
        for leg in self._legs:
            if leg is not self.standing or not keeps_standing:
                leg.reset()

    async def hears(self, *texts: object) -> None:
        """Return when exactly these log messages came, in this order."""
        await until(lambda: len(self.heard) >= len(texts) or self._fallen() is not None)
        if fallen := self._fallen():
            raise fallen
        assert self.heard == list(texts), self.heard

    async def sees(self, *steps: str) -> None:
        """Return when exactly this progress came, in this order."""
        await until(lambda: len(self.progress) >= len(steps) or self._fallen() is not None)
        if fallen := self._fallen():
            raise fallen
        assert self.progress == list(steps), self.progress

    def _fallen(self) -> BaseException | None:
        """Of what one of the tasks died."""
        ended = [task.exception() for task in self._tasks if task.done() and not task.cancelled()]
        return next((one for one in ended if isinstance(one, Died)), None)

    async def resumed_times(self, count: int) -> None:
        """Return when so many resumes were begun."""
        await until(lambda: self.resumes >= count)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task

    # --- an SDK's habits ----------------------------------------------------------------------------

    def next_id(self) -> object:
        return next(self._numbers)

    def check_acknowledged(self, status: int) -> None:
        """The answer to a notification or an answer."""
        if status != 202:
            raise Died(f"a notification was answered {status}")

    async def refused(self, answer: Answer) -> None:
        """A POST with a call was not answered 2xx. Raises, or returns to have the call sent again."""
        raise CallFailed(None, f"status {answer.status}")

    def session_named(self, name: str | None) -> None:
        """A later answer names a session."""

    def odd_line(self, line: bytes) -> None:
        """A line of an event stream that is no known field."""

    def blank_line(self) -> None:
        """A blank line that ends no event, as behind a comment."""

    def is_read(self, event: SseEvent) -> bool:
        """Whether an event's data are taken for a message."""
        return bool(event.data) and event.name in ("", "message")

    async def resume(self, last_id: str) -> Answer:
        """GET with a cursor, after a break."""
        self.resumes += 1
        await self.may_resume.wait()
        await asyncio.sleep(self.resume_delay_s)
        return await self.resumed(await self.http.get(last_id))

    async def resumed(self, answer: Answer) -> Answer:
        """The answer to a resume. Raises where the SDK gives up."""
        if answer.status != 200:
            raise Died(f"a resume was answered {answer.status}")
        return answer

    async def broke(self, leg: Answer, ids_before: str, last_id: str) -> Answer:
        """The answer to a call ended without the response; the answer to go on with.

        `last_id` is the last event id of this leg, `ids_before` that of the legs before it.
        """
        if not last_id and not ids_before:
            raise Died("the answer ended without a response and without an event id")
        return await self.resume(last_id or ids_before)

    def is_answer(self, message: Json, number: object) -> bool:
        return message.get("id") == number and "method" not in message

    # --- streams ------------------------------------------------------------------------------------

    async def _call(self, name: str) -> str:
        number = self.next_id()
        while True:
            answer = await self.http.post(call(number, name, token=number))
            if answer.status < 300:
                break
            await self.refused(answer)
        self.session_named(answer.header("mcp-session-id"))
        if not answer.is_stream:
            return self._result(await answer.json())
        return await self._follow(answer, number)

    async def _follow(self, answer: Answer, number: object) -> str:
        """Read to the response, then on to the end of the body, as connections are used again."""
        last_id = ""
        response: Json | None = None
        while True:
            ids_before = last_id
            last_id = ""
            async for event in self.events(answer):
                last_id = self.last_id = event.id or last_id
                if not self.is_read(event):
                    continue
                message = self._decode(event)
                if response is not None:
                    raise Died(f"behind the response came {message}")
                if self.is_answer(message, number):
                    response = message
                else:
                    await self.take(message)
            if response is not None:
                return self._result(response)
            answer = await self.broke(answer, ids_before, last_id)
            self.session_named(answer.header("mcp-session-id"))
            last_id = last_id or ids_before

    async def _listen(self) -> None:
        answer = await self.http.get()
        if answer.status != 200:
            raise Died(f"the standalone stream was answered {answer.status}")
        last_id = ""
        while True:
            self.standing = answer
            self.opened.set()
            async for event in self.events(answer):
                last_id = event.id or last_id
                if self.is_read(event):
                    await self.take(self._decode(event))
            answer = await self.reopened(last_id)

    async def reopened(self, last_id: str) -> Answer:
        """The standalone stream ended: the one to go on with."""
        return await self.resume(last_id) if last_id else await self.http.get()

    async def take(self, message: Json) -> None:
        match message.get("method"):
            case "notifications/message":
                data = message["params"]["data"]
                self.notices += isinstance(data, dict)
                self.heard.append(data)
            case "notifications/progress":
                self.progress.append(message["params"]["message"])
            case str() if "id" in message:
                self.questions.append(message)
                told = await self.http.post({"jsonrpc": "2.0", "id": message["id"], "result": {}})
                self.check_acknowledged(told.status)
            case _:
                pass  # a response that is not waited for

    async def events(self, answer: Answer) -> AsyncIterator[SseEvent]:
        """Events as the SDK's parser cuts them, to the end of the answer, however it comes."""
        self._legs.append(answer)
        event, is_begun = SseEvent(), False
        try:
            async for line in lines(answer):
                if line.startswith(b":"):
                    self.comments += 1
                    continue
                if line:
                    is_begun = self.field(event, line) or is_begun
                    continue
                if is_begun:
                    yield event
                else:
                    self.blank_line()
                event, is_begun = self.next_event(event), False
            if is_begun and self.dispatches_partial:
                yield event
        except Truncated:
            self.broken.append(answer)
        finally:
            self._legs.remove(answer)

    def next_event(self, before: SseEvent) -> SseEvent:
        """What an event begins as."""
        return SseEvent()

    def field(self, event: SseEvent, line: bytes) -> bool:
        """Take a field; whether it was one."""
        name, colon, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name if colon else b"":
            case b"data":
                event.data = value if event.data is None else event.data + self.joint + value
            case b"id":
                event.id = value.decode()
            case b"event":
                event.name = value.decode()
            case b"retry":
                event.retry = int(value)
            case _:
                self.odd_line(line)
                return False
        return True

    def _decode(self, event: SseEvent) -> Json:
        try:
            message: Json = json.loads(event.data or b"")
        except ValueError:
            raise Died(f"no message: {event.data!r}") from None
        return message

    async def _messages_of(self, answer: Answer) -> AsyncIterator[Json]:
        if not answer.is_stream:
            yield await answer.json()
            return
        async for event in self.events(answer):
            if self.is_read(event):
                yield self._decode(event)

    def _result(self, message: Json) -> str:
        if "error" in message:
            raise CallFailed(message["error"]["code"], message["error"]["message"])
        return str(message["result"]["content"][0]["text"])


_EXPECTED = (asyncio.CancelledError, CallFailed, SessionEnded)  # what a test looks at itself
