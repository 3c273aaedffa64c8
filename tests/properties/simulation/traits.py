"""What kind of server, client and policy a seed stands for."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

Epochs = Literal["none", "produce", "send", "header"]
Ids = Literal["none", "int", "prefix", "uuid", "global"]
Resume = Literal["ok", "400", "405", "empty", "last_again", "409_first"]


@dataclass(frozen=True, slots=True)
class ServerTraits:
    """How a simulated server behaves.

    epoch: where the identity of a session object is stated: nowhere, on every message as it was when
    the message was produced or when it is sent, or in the header of an answer only.
    is_lazy: an unknown session id makes a new session under that id instead of a 404.
    buffer_survives: events are kept by request and outlive their session.
    """

    epoch: Epochs
    ids: Ids
    resume: Resume
    is_lazy: bool
    buffer_survives: bool
    polls: bool
    answer: Literal["sse", "json", "mixed"]
    eol: str
    id_first: bool
    primes: bool
    sse_everywhere: bool
    leaks: bool
    repeats_answer: bool
    annotates: bool
    logs: bool
    sets_session_always: bool
    gone_status: Literal["404", "404_json", "400"]
    cancel_ends_stream: bool
    accepts_delete: bool
    unknown_cursor: Literal["400", "eof"]
    is_slow: bool


@dataclass(frozen=True, slots=True)
class ClientTraits:
    version: str
    has_standalone: bool
    lists_tools: bool
    calls: tuple[str, ...]
    tokens: Literal["none", "int", "str"]
    string_ids: bool


TOOLS = ("count", "count", "count", "order", "ask", "ask", "quick")


def draw_server(rng: Random) -> ServerTraits:
    ids: Ids = rng.choice(("none", "int", "int", "prefix", "uuid", "global"))
    return ServerTraits(
        epoch=rng.choice(("none", "produce", "send", "header")),
        ids=ids,
        resume=rng.choice(("ok",) * 5 + ("400", "405", "empty", "last_again", "409_first")),
        is_lazy=rng.random() < 0.7,
        buffer_survives=rng.random() < 0.6,
        polls=ids != "none" and rng.random() < 0.3,
        answer=rng.choice(("sse", "sse", "mixed", "json")),
        eol=rng.choice(("\n", "\r\n")),
        id_first=rng.random() < 0.5,
        primes=ids != "none" and rng.random() < 0.4,
        sse_everywhere=rng.random() < 0.3,
        leaks=rng.random() < 0.2,
        repeats_answer=rng.random() < 0.1,
        annotates=rng.random() < 0.5,
        logs=rng.random() < 0.6,
        sets_session_always=rng.random() < 0.5,
        gone_status=rng.choice(("404", "404_json", "400")),
        cancel_ends_stream=rng.random() < 0.5,
        accepts_delete=rng.random() < 0.8,
        unknown_cursor=rng.choice(("400", "eof")),
        is_slow=rng.random() < 0.15,
    )


def draw_client(rng: Random) -> ClientTraits:
    return ClientTraits(
        version=rng.choice(("2025-06-18", "2025-11-25", "2025-11-25")),
        has_standalone=rng.random() < 0.4,
        lists_tools=rng.random() < 0.5,
        calls=tuple(rng.choice(TOOLS) for _ in range(rng.randint(1, 4))),
        tokens=rng.choice(("none", "int", "str", "str")),
        string_ids=rng.random() < 0.3,
    )
