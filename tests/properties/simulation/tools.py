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


@dataclass(frozen=True, slots=True)
class Misgiven:
    """A session object was given the answer to a question that it had not asked."""

    session: SessionObject
    sent_at: float
    what: str


@dataclass
class Tools:
    """Runs of tools, stepping on the virtual clock."""

    streams: Streams
    clock: Clock
    rng: Random
    executions: list[Execution] = field(default_factory=list)
    runs: dict[str, list[Execution]] = field(default_factory=dict)  # by the key of the call
    misgiven: list[Misgiven] = field(default_factory=list)
    _serial: int = 0

    def origin(self, key: str, execution: int, owner: int, step: int) -> Origin:
        """Where the next message comes from, with a serial number of its own."""
        self._serial += 1
        return Origin(key, execution, owner, step, self._serial)

    def call(self, session: SessionObject, body: Json | list[Json], connection: Connection) -> None:
        """Begin the run of one call, or those of a batch; one stream answers them all."""
        traits = self.streams.traits
        messages = body if isinstance(body, list) else [body]
        stream = self.streams.new(session)
        stream.is_batch = isinstance(body, list)
        is_json = traits.answer == "json" or (traits.answer == "mixed" and self.rng.random() < 0.5)
        is_json = is_json and all(message["params"]["name"] != "ask" for message in messages)
        for message in messages:
            stream.executions.append(self._execution(session, message, stream, connection, is_json))
        stream.connection, connection.writer = connection, stream
        if not is_json:
            self.streams.open_sse(session, connection)
            if traits.primes:
                self.streams.append(stream, session.owner, (), None)
        for execution in stream.executions:
            self._schedule(execution)

    def _execution(
        self, session: SessionObject, message: Json, stream: Stream, connection: Connection, is_json: bool
    ) -> Execution:
        params = message["params"]
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
            began_at=self.clock.now,
            is_json=is_json,
        )
        self.executions.append(execution)
        self.runs.setdefault(execution.key, []).append(execution)
        return execution

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
        is_unheard = kind in ("progress", "late_progress") and execution.token is None
        if is_unheard or (execution.is_json and kind != "result"):
            return
        origin = self.origin(execution.key, execution.number, execution.owner, execution.step)
        message = self._message(execution, session, kind, origin)
        match kind:
            case "result":
                self._finish(execution, origin, message)
            case "late_progress":
                if session is not None and session.standalone is not None:
                    self.streams.append(session.standalone, execution.owner, (origin.serial,), message)
            case _:
                self._say(execution, origin, message)

    def _say(self, execution: Execution, origin: Origin, message: Json) -> None:
        streams, stream = self.streams, execution.stream
        if streams.traits.strays and self.rng.random() < 0.3:
            self._stray(execution)
        streams.append(stream, execution.owner, (origin.serial,), message, execution.number)
        if streams.traits.polls and self.rng.random() < 0.3:
            streams.announce_poll(stream)

    def _stray(self, execution: Execution) -> None:
        """A message of another request, or of nobody's, on this stream."""
        other = self.rng.choice(self.executions)
        if other is execution or other.token is None or other.stream is execution.stream:
            return
        origin = self.origin(other.key, other.number, other.owner, other.step)
        rid = self.rng.choice((other.rid, self.rng.getrandbits(40), f"r{self.rng.getrandbits(4)}"))
        message = payload.tool_result(rid, origin)
        self.streams.append(execution.stream, other.owner, (origin.serial,), message, other.number)

    def _message(
        self, execution: Execution, session: SessionObject | None, kind: str, origin: Origin
    ) -> Json:
        match kind:
            case "progress" | "late_progress":
                return payload.progress(execution.token, origin, len(execution.plan))
            case "log":
                return payload.log(origin)
            case "question":
                assert session is not None
                number, session.next_question = session.next_question, session.next_question + 1
                session.questions[number] = execution
                execution.asked = origin.serial
                return payload.question(number, origin)
            case _ if execution.tool == "task":
                return payload.task_result(execution.rid, origin)
            case _:
                forged = self.rng.getrandbits(16) if self.streams.traits.forges else None
                return payload.tool_result(execution.rid, origin, forged)

    # --- answers --------------------------------------------------------------------------------

    def _finish(self, execution: Execution, origin: Origin, message: Json) -> None:
        execution.result, execution.result_serial = message, origin.serial
        streams, stream = self.streams, execution.stream
        if execution.is_json:
            if self._is_answered(stream):
                self._finish_json(stream)
            return
        self._say_result(execution, origin, message)
        if streams.traits.repeats_answer:
            streams.append(stream, execution.owner, (origin.serial,), message, execution.number)
        if self._is_answered(stream):
            stream.is_done = True
            streams.end(stream, is_clean=True)

    def _is_answered(self, stream: Stream) -> bool:
        """Some servers wait for the result of a member that was cancelled, for ever."""
        is_ended_by_cancel = self.streams.traits.cancel_ends_stream
        return all(
            run.result is not None or (run.is_dead and is_ended_by_cancel) for run in stream.executions
        )

    def _say_result(self, execution: Execution, origin: Origin, message: Json) -> None:
        """By itself, or as one event with a log before it: revisions with batches allow arrays."""
        streams, stream = self.streams, execution.stream
        if len(stream.executions) == 1 or self.rng.random() < 0.5:
            streams.append(stream, execution.owner, (origin.serial,), message, execution.number)
            return
        first = self.origin(execution.key, execution.number, execution.owner, execution.step)
        serials = (first.serial, origin.serial)
        messages = [payload.log(first), message]
        streams.append(stream, execution.owner, serials, messages, execution.number)

    def _finish_json(self, stream: Stream) -> None:
        stream.is_done = True
        connection, streams = stream.connection, self.streams
        if connection is None:
            return
        runs = stream.executions
        session = streams.sessions.get(stream.session_id)
        session = session or SessionObject(stream.session_id, runs[-1].owner)
        connection.head_epoch = session.owner
        connection.open(200, streams.headers(session, "application/json"))
        answers = [streams.tagged(run.result, run.owner) for run in runs if run.result is not None]
        text = payload.encode(answers if stream.is_batch else answers[0], streams.traits)
        serials = tuple(run.result_serial for run in runs)
        connection.write(text.encode(), serials, streams.tag(runs[-1].owner))
        streams.end(stream, is_clean=True)

    # --- what reaches a run ---------------------------------------------------------------------

    def revive(self, session: SessionObject, stream: Stream) -> None:
        """After a restart a surviving buffer is joined to a handler made anew with default state."""
        if not self.streams.traits.is_lazy:
            return
        for execution in stream.executions:
            if execution.is_dead and execution.owner != session.owner and execution.result is None:
                execution.is_dead, execution.asked = False, None
                self._schedule(execution)

    def cancel(self, session: SessionObject, rid: Any) -> None:
        for execution in self.executions:
            if execution.rid == rid and execution.stream.session_id == session.session_id:
                execution.is_dead = True
                if self.streams.traits.cancel_ends_stream and len(execution.stream.executions) == 1:
                    self.streams.end(execution.stream, is_clean=True)

    def take_answer(self, session: SessionObject, message: Json, connection: Connection) -> None:
        """The client's answer to a question; it must be the answer to the question that waits."""
        execution = session.questions.pop(message.get("id", -1), None)
        if execution is None:
            return
        told = message.get("result", {}).get("content", {}).get("n")
        if told != execution.asked:
            what = f"the answer to question n={told} was given to n={execution.asked}"
            self.misgiven.append(Misgiven(session, connection.sent_at, what))
        else:
            execution.answered_at = self.clock.now
        execution.asked = None
        self._schedule(execution)


def _plan(tool: str, key: str) -> list[str]:
    """The steps of a call: the same in every run of it, so that progress can be compared (R38)."""
    if tool == "quick":
        return ["result"]
    rng = Random(key)
    steps = rng.randint(2, 12)
    plan = [rng.choice(("progress", "progress", "progress", "log")) for _ in range(steps)]
    match tool:
        case "ask":
            plan.insert(rng.randint(0, len(plan)), "question")
        case "task":
            return [*plan[:2], "result", "late_progress", "late_progress"]
        case "stuck":
            return plan[:2]
        case _:
            pass
    return [*plan, "result"]
