"""The tools of a simulated server: each run counts its steps, and can be joined to a session made anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.properties.simulation import payload
from tests.properties.simulation.clock import Clock
from tests.properties.simulation.connection import Connection
from tests.properties.simulation.payload import Json, Origin
from tests.properties.simulation.records import Execution, SessionObject, Stream
from tests.properties.simulation.streams import Streams


@dataclass
class Tools:
    """Runs of tools, stepping on the virtual clock."""

    streams: Streams
    clock: Clock
    rng: Random
    executions: list[Execution] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    _serial: int = 0

    def origin(self, key: str, execution: int, owner: int, step: int) -> Origin:
        """Where the next message comes from, with a serial number of its own."""
        self._serial += 1
        return Origin(key, execution, owner, step, self._serial)

    def call(self, session: SessionObject, message: Json, connection: Connection) -> None:
        """Begin a run."""
        params, traits = message["params"], self.streams.traits
        stream = Stream(session.session_id, len(self.executions) + 1)
        is_json = traits.answer == "json" or (traits.answer == "mixed" and self.rng.random() < 0.5)
        execution = Execution(
            number=len(self.executions) + 1,
            key=params["arguments"]["key"],
            tool=params["name"],
            rid=message["id"],
            token=params.get("_meta", {}).get("progressToken"),
            owner=session.owner,
            birth_owner=session.owner,
            stream=stream,
            first=connection,
            plan=_plan(params["name"], params["arguments"]["key"]),
            is_json=is_json and params["name"] != "ask",
        )
        stream.execution = execution
        self.executions.append(execution)
        self.streams.kept.append(stream)
        stream.connection, connection.writer = connection, stream
        if not execution.is_json:
            self.streams.open_sse(session, connection)
            if traits.primes:
                self.streams.append(stream, 0, session.owner, None)
        self._schedule(execution)

    def _schedule(self, execution: Execution) -> None:
        delay = self.rng.choice((0.0, 0.01, 0.3, 1.0, 3.0))
        if self.streams.traits.is_slow:
            delay = self.rng.choice((1.0, 30.0, 100.0))
        self.clock.after(delay, lambda: self._step(execution))

    def _step(self, execution: Execution) -> None:
        if execution.is_dead or execution.asked is not None or execution.step >= len(execution.plan):
            return
        kind = execution.plan[execution.step]
        session = self.streams.sessions.get(execution.stream.session_id)
        if session is not None:
            execution.owner = session.owner  # joined to whatever is there now: the fault that is hunted
        elif kind == "question":
            execution.is_dead = True
            return
        execution.step += 1
        self._produce(execution, session, kind)
        if kind != "question":
            self._schedule(execution)

    def _produce(self, execution: Execution, session: SessionObject | None, kind: str) -> None:
        is_unheard = kind == "progress" and execution.token is None
        if is_unheard or (execution.is_json and kind != "result"):
            return
        origin = self.origin(execution.key, execution.number, execution.owner, execution.step)
        message = self._message(execution, session, kind, origin)
        if execution.is_json:
            self._finish_json(execution, origin, message)
            return
        streams, stream = self.streams, execution.stream
        streams.append(stream, origin.serial, execution.owner, message)
        if kind == "result":
            if streams.traits.repeats_answer:
                streams.append(stream, origin.serial, execution.owner, message)
            stream.is_done = True
            streams.end(stream, is_clean=True)
        elif streams.traits.polls and self.rng.random() < 0.3:
            streams.announce_poll(stream)

    def _message(
        self, execution: Execution, session: SessionObject | None, kind: str, origin: Origin
    ) -> Json:
        match kind:
            case "progress":
                return payload.progress(execution.token, origin, len(execution.plan))
            case "log":
                return payload.log(origin)
            case "question":
                assert session is not None
                number, session.next_question = session.next_question, session.next_question + 1
                session.questions[number] = execution
                execution.asked = origin.serial
                return payload.question(number, origin)
            case _:
                return payload.tool_result(execution.rid, origin)

    def _finish_json(self, execution: Execution, origin: Origin, message: Json) -> None:
        stream, streams = execution.stream, self.streams
        stream.is_done = True
        connection = stream.connection
        if connection is None:
            return
        session = streams.sessions.get(stream.session_id)
        session = session or SessionObject(stream.session_id, execution.owner)
        tag = execution.owner if streams.traits.epoch in ("produce", "send") else None
        connection.head_epoch = session.owner
        connection.open(200, streams.headers(session, "application/json"))
        text = payload.encode(streams.tagged(message, execution.owner), streams.traits)
        connection.write(text.encode(), origin.serial, tag)
        streams.end(stream, is_clean=True)

    def revive(self, session: SessionObject, stream: Stream) -> None:
        """After a restart a surviving buffer is joined to a handler made anew with default state."""
        execution = stream.execution
        if execution is None or not execution.is_dead or not self.streams.traits.is_lazy:
            return
        if execution.owner != session.owner:
            execution.is_dead, execution.asked = False, None
            self._schedule(execution)

    def cancel(self, session: SessionObject, rid: Any) -> None:
        for execution in self.executions:
            if execution.rid == rid and execution.stream.session_id == session.session_id:
                execution.is_dead = True
                if self.streams.traits.cancel_ends_stream:
                    self.streams.end(execution.stream, is_clean=True)

    def take_answer(self, session: SessionObject, message: Json) -> None:
        """The client's answer to a question; it must be the answer to the question that waits."""
        execution = session.questions.pop(message.get("id", -1), None)
        if execution is None:
            return
        told = message.get("result", {}).get("content", {}).get("n")
        if told != execution.asked:
            self.strangers.append(f"the answer to question n={told} was given to n={execution.asked}")
        execution.asked, execution.answered_at = None, self.clock.now
        self._schedule(execution)


def _plan(tool: str, key: str) -> list[str]:
    """The steps of a call: the same in every run of it, so that progress can be compared (R38)."""
    if tool == "quick":
        return ["result"]
    rng = Random(key)
    steps = rng.randint(2, 12)
    plan = [rng.choice(("progress", "progress", "progress", "log")) for _ in range(steps)]
    if tool == "ask":
        plan.insert(rng.randint(0, len(plan)), "question")
    return [*plan, "result"]
