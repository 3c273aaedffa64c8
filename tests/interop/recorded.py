"""What went over recorded connections, read as HTTP/1.1, less what each leg makes for itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.interop.cutter import Cutter
from tests.support.comparing import ADDED_UPWARDS, FRAMING, end_to_end

BODILESS = (b" 204 ", b" 304 ", b" 1")


@dataclass(frozen=True)
class Message:
    """A request or an answer: its first line, its end-to-end headers as they were written, its body."""

    start: bytes
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    def without(self, *names: str) -> Message:
        """The same less these headers (lower case)."""
        return Message(self.start, end_to_end(list(self.headers), set(names)), self.body)


@dataclass(frozen=True)
class Exchange:
    """A request and its answer; no answer if none came."""

    request: Message
    answer: Message | None

    @property
    def status(self) -> int:
        assert self.answer is not None
        return int(self.answer.start.split()[1])

    @property
    def body_of_answer(self) -> bytes:
        return b"" if self.answer is None else self.answer.body


def exchanges(cutter: Cutter) -> list[Exchange]:
    """All that went over a cutter, ordered by request, since clients choose their connections freely."""
    found = []
    for up, down in cutter.conversations():
        answers = list(_messages(down, is_answer=True))
        for at, request in enumerate(_messages(up, is_answer=False)):
            found.append(Exchange(request, answers[at] if at < len(answers) else None))
    return sorted(found, key=lambda exchange: (exchange.request.body, exchange.request.start))


def _messages(data: bytes, *, is_answer: bool) -> Iterable[Message]:
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        start, *lines = head.split(b"\r\n")
        headers = [_split(line) for line in lines]
        body, data = _body(start, {name.lower(): value for name, value in headers}, data, is_answer)
        dropped = FRAMING if is_answer else FRAMING | ADDED_UPWARDS
        yield Message(start, end_to_end(headers, dropped), body)


def _split(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode("latin-1").partition(":")
    return name, value.strip()


def _body(start: bytes, headers: dict[str, str], data: bytes, is_answer: bool) -> tuple[bytes, bytes]:
    """The body, or what there is of one that was cut, and what follows it."""
    if headers.get("transfer-encoding") == "chunked":
        return _dechunked(data)
    if "content-length" in headers:
        length = int(headers["content-length"])
        return data[:length], data[length:]
    if not is_answer or any(status in start[: len(b"HTTP/1.1 200 ")] for status in BODILESS):
        return b"", data
    return data, b""


def _dechunked(data: bytes) -> tuple[bytes, bytes]:
    body = bytearray()
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        body += data[:length]
        data = data[length + 2 :]
        if length == 0:
            break
    return bytes(body), data
