"""The client's own reading of SSE, written apart from the proxy's so that both cannot be wrong alike."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientEvent:
    id: bytes | None
    data: bytes
    retry: int | None


class EventReader:
    """Feed bytes, get whole events; LF and CRLF."""

    def __init__(self) -> None:
        self._line = b""
        self._id: bytes | None = None
        self._data: list[bytes] = []
        self._retry: int | None = None

    def feed(self, data: bytes) -> list[ClientEvent]:
        out: list[ClientEvent] = []
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            event = self._take(line.removesuffix(b"\r"))
            if event is not None:
                out.append(event)
        return out

    def _take(self, line: bytes) -> ClientEvent | None:
        if line:
            self._field(line)
            return None
        event = ClientEvent(self._id, b"\n".join(self._data), self._retry)
        has_data = bool(self._data)
        self._id, self._data, self._retry = None, [], None
        return event if has_data else None  # an event without a data line is dropped with its id

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"id":
                self._id = value
            case b"data":
                self._data.append(value)
            case b"retry":
                self._retry = int(value)
            case _:
                pass
