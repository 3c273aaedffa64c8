"""What a simulated server remembers: streams of events, session objects, runs of tools."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.properties.simulation.connection import Connection
from tests.properties.simulation.payload import Json


@dataclass
class Entry:
    """One event of a stream, with one message or a batch; none in a priming event."""

    event_id: str | None
    owner: int
    serials: tuple[int, ...]
    message: Json | list[Json] | None
    execution: int = 0  # whose message it is; 0 if nobody's


@dataclass
class Stream:
    """An SSE sequence: events are kept, and written to the connection while one is attached."""

    session_id: str
    number: int
    entries: list[Entry] = field(default_factory=list)
    connection: Connection | None = None
    is_done: bool = False
    executions: list[Execution] = field(default_factory=list)
    is_batch: bool = False
    refusals: int = 2

    def detach(self, connection: Connection) -> None:
        if self.connection is connection:
            self.connection = None


@dataclass
class SessionObject:
    """The memory of a session. A re-created one has the same id and remembers nothing."""

    session_id: str
    owner: int
    is_recreated: bool = False
    next_question: int = 0
    next_stream: int = 0
    questions: dict[int, Execution] = field(default_factory=dict)
    standalone: Stream | None = None


@dataclass
class Execution:
    """One run of a tool. `owner` changes when the handler is joined to a re-created session."""

    number: int
    key: str
    tool: str
    rid: Any
    token: Any
    owner: int
    birth_owner: int
    stream: Stream
    first: Connection
    plan: list[str]
    began_at: float
    is_json: bool
    step: int = 0
    is_dead: bool = False
    answered_at: float | None = None  # its question was answered
    asked: int | None = None  # serial of the question that is waited for
    result: Json | None = None
    result_serial: int = 0
