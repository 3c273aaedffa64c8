"""The trace of R9: an event above `max_event_bytes` is passed on before all of it was seen."""

from __future__ import annotations

from tests.core.messages import event, log
from tests.core.scenes import TEXT, id_last, pour, streaming


def test_a_large_answer_passes_as_it_comes_and_has_the_clients_id() -> None:
    """A scanner that knows the top level finds the stamp, wherever it stands (R9)."""
    play, exchange, leg = streaming()
    raw = id_last(leg)
    pour(play, leg, raw[:4_000])
    assert exchange.body.count(b"x") > 2_000

    pour(play, leg, raw[4_000:])

    assert exchange.answer == {"result": {"text": TEXT}, "jsonrpc": "2.0", "id": 5}
    assert not exchange.is_open
    assert not play.reasons


def test_nothing_of_a_large_event_is_passed_on_after_a_break() -> None:
    """Its proof comes last: what was not proven is not shown (R9)."""
    play, exchange, leg = streaming(epoch=7)
    play.cut(leg)
    resumed = play.leg("GET")
    play.open(resumed)
    before = exchange.body

    pour(play, resumed, event(log(TEXT, 7), 8))

    assert exchange.body == before
    assert play.reasons == ["event_too_large"]
