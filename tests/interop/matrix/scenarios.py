"""What happens to a session, one function each; they go by turns on one `Play`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from tests.interop.matrix.outcomes import Ending, Outcome
from tests.interop.matrix.play import Play
from tests.interop.steered import NotTold

Scenario = Callable[[Play], Awaitable[Outcome]]


async def lists(play: Play) -> Outcome:
    began = time.monotonic()
    await play.session()
    await play.client.order("list")
    told = await play.client.wait_told("listed")
    ending = Ending.RIGHT if play.work.tool in told["tools"] else Ending.WRONG
    return Outcome(ending, True, time.monotonic() - began)


async def calls(play: Play) -> Outcome:
    await play.session()
    call = play.call()
    await play.work.echo(play.client, call)
    return await play.outcome(call, lambda answer: play.work.judge_echo(call, answer))


async def progress(play: Play) -> Outcome:
    await play.session()
    outcome, call = await _long_call(play)
    if outcome.is_good and not play.work.all_progress(play.client, call):
        return Outcome(Ending.WRONG, True, outcome.seconds, "progress was lost")
    return outcome


async def sampling(play: Play) -> Outcome:
    return await _asked(play, "sampling")


async def elicitation(play: Play) -> Outcome:
    return await _asked(play, "elicitation")


async def cut_mid_call(play: Play) -> Outcome:
    await play.session(over_cutter=True)
    return (await _long_call(play, disturb=play.cut))[0]


async def evicted_mid_call(play: Play) -> Outcome:
    await play.session()
    return (await _long_call(play, disturb=play.evict, max_runs=2))[0]


async def evicted_between_calls(play: Play) -> Outcome:
    await play.session()
    return await _next_call(play, disturb=play.evict)


async def restarted_mid_call(play: Play) -> Outcome:
    await play.session()
    return (await _long_call(play, disturb=play.restart, max_runs=2))[0]


async def restarted_between_calls(play: Play) -> Outcome:
    await play.session()
    return await _next_call(play, disturb=play.restart)


async def deletes(play: Play) -> Outcome:
    """Right if the client ends and the server learns that the session is over."""
    await play.session()
    came, began = play.work.deletes(play.processes), time.monotonic()
    await play.client.order("close")
    try:
        await play.client.wait_told("closed")
    finally:
        await play.give_up_client()
    seconds = time.monotonic() - began
    if play.work.deletes(play.processes) > came:
        return Outcome(Ending.RIGHT, True, seconds)
    return Outcome(Ending.ERROR, True, seconds, "no DELETE came")


SCENARIOS: dict[str, Scenario] = {
    "list": lists,
    "call": calls,
    "progress": progress,
    "sampling": sampling,
    "elicitation": elicitation,
    "client leg cut mid-call": cut_mid_call,
    "session evicted mid-call": evicted_mid_call,
    "session evicted between calls": evicted_between_calls,
    "server restarted mid-call": restarted_mid_call,
    "server restarted between calls": restarted_between_calls,
    "DELETE": deletes,
}


async def play_scenario(play: Play, scenario: Scenario) -> Outcome:
    """Its outcome. A client is used again only if it got an answer and keeps its session."""
    try:
        outcome = await scenario(play)
    except NotTold as error:
        ending = Ending.CRASH if play.client.has_ended else Ending.HANG
        outcome = Outcome(ending, False, 0, str(error).partition("\n")[0])
    if outcome.ending not in (Ending.RIGHT, Ending.ERROR) or not outcome.keeps_session:
        await play.give_up_client()
    return outcome


async def _long_call(
    play: Play, *, disturb: Callable[[], Awaitable[None]] | None = None, max_runs: int = 1
) -> tuple[Outcome, str]:
    """The outcome of a long call that is disturbed half-way, and the call."""
    call = play.call()
    await play.work.begin(play.client, call)
    if disturb is not None:
        await disturb()
    await play.work.let_end(play.running, call)
    outcome = await play.outcome(
        call, lambda answer: play.work.judge(play.client, play.processes, call, answer, max_runs)
    )
    return outcome, call


async def _next_call(play: Play, *, disturb: Callable[[], Awaitable[None]]) -> Outcome:
    """The outcome of the first call after what disturbs the session."""
    first = play.call()
    await play.work.echo(play.client, first)
    await play.client.wait_result(first)
    await disturb()
    call = play.call()
    await play.work.echo(play.client, call)
    return await play.outcome(call, lambda answer: play.work.judge_echo(call, answer))


async def _asked(play: Play, kind: str) -> Outcome:
    await play.session()
    call = play.call()
    said = f"said in {call}"
    number = len(play.client.told("asked")) + 1
    await play.work.ask(play.client, call, kind)
    await play.client.wait_asked(call, times=number)
    for question in play.client.told("asked")[number - 1 :]:
        await play.client.order("answer", number=question["number"], text=said)
    return await play.outcome(call, lambda answer: play.work.judge_asked(answer, said))
