from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ringleader.cluster.messages import Event, PlanWish, RequestArrived, RequestCancelled, RequestEnded
from ringleader.cluster.plan import Plan, Stage
from ringleader.errors import BadRequest, Busy, ContextTooLong, NodeUnreachable, OurFault, RingleaderError, RingLost
from ringleader.net.ring import Tokens
from ringleader.node.answer import REQUEST_DEADLINE_S, Desk
from ringleader.node.reading import SoFar
from ringleader.node.shelf import Entry
from ringleader.values import (
    Answer,
    ArgumentsDelta,
    CallStarted,
    ChatRequest,
    Delta,
    Fault,
    Finish,
    Finished,
    LayerRange,
    Message,
    ModelId,
    NodeId,
    RequestId,
    Sampling,
    SlotSpec,
    TextDelta,
    Tool,
)
from tests.unit.node.alone import answer_once

WISH = PlanWish(context_tokens=300)
WEATHER = Tool("get_weather", "", {"type": "object", "properties": {"city": {"enum": ["Oslo"]}}, "required": ["city"]})


def asked(**fields: Any) -> ChatRequest:
    plain = ChatRequest(ModelId("tiny"), (Message("user", "Hello there"),), Sampling(seed=1))
    return replace(plain, **fields)


@dataclass
class OneModel:
    """A shelf with one entry."""

    only: Entry

    async def entry(self, model: ModelId) -> Entry:
        return self.only

    def known(self, model: ModelId) -> Entry:
        return self.only


@dataclass
class Ring:
    """Takes requests as a ring's client does; `lost` refuses them."""

    lost: bool = False
    submitted: list[tuple[RequestId, tuple[int, ...], SlotSpec]] = field(default_factory=list)
    priorities: list[int] = field(default_factory=list)
    whole: Plan | None = None

    def submit(self, request: RequestId, prompt: tuple[int, ...], spec: SlotSpec, priority: int = 0) -> None:
        if self.lost:
            raise RingLost("the ring is closed")
        self.priorities.append(priority)
        self.submitted.append((request, prompt, spec))


class Scene:
    """A desk, what it told the cluster, and a ring; the test plays the cluster and the head."""

    def __init__(self, entry: Entry) -> None:
        self.told: list[Event] = []
        self.arrived = asyncio.Event()
        self.missing = 0
        self.entry = entry
        self.ring = Ring()
        self.desk: Any = Desk(OneModel(entry), self.tell, WISH, lambda: self.missing)  # type: ignore[arg-type]  # fake

    def tell(self, event: Event) -> None:
        self.told.append(event)
        if isinstance(event, RequestArrived):
            self.arrived.set()

    async def accepted(self, request: ChatRequest) -> RequestId:
        """Let the desk take `request` in, in a task of its own; returns when the cluster has heard of it."""
        self.answering = asyncio.create_task(answer_once(self.desk, request))
        arrived = asyncio.create_task(self.arrived.wait())
        await asyncio.wait({self.answering, arrived}, timeout=5, return_when=asyncio.FIRST_COMPLETED)
        arrived.cancel()
        if self.answering.done():
            await self.answering  # it was refused: the test sees why
        self.arrived.clear()
        return [event.request for event in self.told if isinstance(event, RequestArrived)][-1]

    async def running(self, request: ChatRequest) -> tuple[RequestId, Answer]:
        name = await self.accepted(request)
        self.desk.dispatch(name, self.ring)
        return name, await self.answering

    def say(self, request: RequestId, text: str, finish: Finish = "", error: str = "", passes: int = 1) -> None:
        ids = self.entry.voice.tokenizer.encode(text) if text else ()
        self.desk.tokens(request, Tokens(tuple(ids), (), finish, error, passes, 0, 0))


@pytest.fixture
def scene(entry: Entry) -> Scene:
    return Scene(entry)


async def read(deltas: AsyncIterator[Delta], into: list[Delta]) -> None:
    async for delta in deltas:
        into.append(delta)


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


# ---------------------------------------------------------------- before a shard hears of it


@pytest.mark.parametrize(
    ("fields", "error", "param"),
    [
        ({"tool_choice": "required"}, BadRequest, "tool_choice"),
        ({"messages": (Message("user", "word " * 1500),)}, ContextTooLong, "messages"),
        ({"sampling": Sampling(seed=1, logit_bias=((5, 1.0), (100_000, 1.0)))}, BadRequest, "logit_bias"),
    ],
)
async def test_a_bad_request_is_refused_before_the_cluster_hears_of_it(
    scene: Scene, fields: dict[str, Any], error: type[BadRequest], param: str
) -> None:
    with pytest.raises(error) as caught:
        await answer_once(scene.desk, asked(**fields))
    assert caught.value.param == param
    assert scene.told == []


async def test_the_last_token_of_the_vocabulary_may_be_biased_and_the_next_may_not(scene: Scene) -> None:
    width = scene.entry.voice.tokenizer.vocab_size
    await scene.accepted(asked(sampling=Sampling(seed=1, logit_bias=((width - 1, 1.0),))))
    scene.answering.cancel()
    with pytest.raises(BadRequest, match=f"0 to {width - 1}"):
        await answer_once(scene.desk, asked(sampling=Sampling(seed=1, logit_bias=((width, 1.0),))))


async def test_while_nodes_are_waited_for_nothing_is_placed_but_mistakes_are_told(scene: Scene) -> None:
    scene.missing = 2
    with pytest.raises(NodeUnreachable, match="waits for 2 more"):
        await answer_once(scene.desk, asked())
    with pytest.raises(BadRequest):
        await answer_once(scene.desk, asked(tool_choice="required"))
    assert scene.told == []


async def test_a_client_that_leaves_before_the_start_takes_its_request_along(scene: Scene) -> None:
    name = await scene.accepted(asked())
    scene.answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await scene.answering
    assert scene.told[-1] == RequestCancelled(name)
    scene.desk.dispatch(name, scene.ring)
    assert scene.ring.submitted == []


async def test_an_error_before_the_start_is_the_answer_and_nothing_is_cancelled(scene: Scene) -> None:
    name = await scene.accepted(asked())
    scene.desk.fail(name, RingLost("no ring"))
    with pytest.raises(RingLost, match="no ring"):
        await scene.answering
    assert RequestCancelled(name) not in scene.told


async def test_a_ring_that_is_gone_at_dispatch_leaves_the_request_to_its_caller(scene: Scene) -> None:
    name = await scene.accepted(asked())
    scene.ring.lost = True
    with pytest.raises(RingLost):
        scene.desk.dispatch(name, scene.ring)
    assert not scene.answering.done()
    scene.desk.fail(name, RingLost("closed"))
    with pytest.raises(RingLost, match="closed"):
        await scene.answering


# ---------------------------------------------------------------- while it runs


async def test_an_answer_goes_from_prompt_to_deltas_and_its_end_is_told(scene: Scene) -> None:
    name, answer = await scene.running(asked(max_tokens=40))
    ((submitted, prompt, spec),) = scene.ring.submitted
    assert (submitted, len(prompt)) == (name, spec.prompt_tokens)
    assert "Hello there" in scene.entry.voice.tokenizer.decode(prompt)
    assert (spec.max_tokens, spec.grammar, spec.opening_tokens) == (40, "", 0)
    scene.say(name, "The weather", passes=1)
    scene.say(name, "", passes=2)  # a prompt chunk's report has no token
    scene.say(name, " is fine", "length", passes=3)
    deltas: list[Delta] = []
    await read(answer.deltas, deltas)
    assert text_of(deltas) == "The weather is fine"
    last = deltas[-1]
    assert isinstance(last, Finished)
    count = len(scene.entry.voice.tokenizer.encode("The weather")) + len(scene.entry.voice.tokenizer.encode(" is fine"))
    assert last.reason == "length"
    assert (last.usage.prompt_tokens, last.usage.completion_tokens, last.usage.passes) == (len(prompt), count, 3)
    assert last.usage.forced_tokens == count - 2, "one of each report was sampled"
    assert scene.told[1:] == [RequestEnded(name)]
    meter = scene.desk.meters[ModelId("tiny")]
    assert (meter.requests, meter.tokens, meter.passes) == (1, count, 3)


async def test_a_forced_call_starts_with_its_opening_and_ends_with_the_grammar(scene: Scene) -> None:
    choice = {"type": "function", "function": {"name": "get_weather"}}
    name, answer = await scene.running(asked(tools=(WEATHER,), tool_choice=choice))
    ((_, prompt, spec),) = scene.ring.submitted
    opening = scene.entry.voice.tokenizer.decode(prompt[-spec.opening_tokens :])
    assert "get_weather" in opening
    assert spec.grammar
    deltas: list[Delta] = []
    async with asyncio.timeout(5):  # no token was sampled yet
        async for delta in answer.deltas:
            deltas.append(delta)
            if isinstance(delta, CallStarted):
                break
    whole = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    assert whole.startswith(opening)
    scene.say(name, whole.removeprefix(opening), "stop")
    await read(answer.deltas, deltas)
    assert "".join(d.text for d in deltas if isinstance(d, ArgumentsDelta)) == '{"city": "Oslo"}'
    assert isinstance(deltas[-1], Finished)
    assert deltas[-1].usage.opening_tokens == spec.opening_tokens


async def test_what_is_demanded_is_steered_to_its_end_and_what_is_not_is_left_alone(scene: Scene) -> None:
    await scene.running(asked(tools=(WEATHER,), tool_choice="required", max_tokens=40))
    await scene.running(asked(tools=(WEATHER,), max_tokens=40))
    forced, free = (spec for _, _, spec in scene.ring.submitted)
    assert (forced.demanded, forced.think_reserve) == (True, 20)
    assert not free.demanded


async def test_an_answer_may_not_outgrow_the_context(scene: Scene) -> None:
    await scene.running(asked(max_tokens=10_000))
    ((_, prompt, spec),) = scene.ring.submitted
    assert len(prompt) + spec.max_tokens == scene.entry.voice.context_max


def planned(context_tokens: int) -> Plan:
    """A plan with memory for so many tokens."""
    stage = Stage(NodeId("a"), LayerRange(0, 1), 1, 1)
    return Plan(ModelId("tiny"), "digest", 1, context_tokens, (stage,), "as the test wants it")


async def test_a_request_goes_to_the_ring_with_its_priority(scene: Scene) -> None:
    await scene.running(asked(priority=-3))
    assert scene.ring.priorities == [-3]


async def test_an_answer_without_a_limit_is_cut_to_the_memory_of_the_ring(scene: Scene) -> None:
    scene.ring.whole = planned(200)
    await scene.running(asked())
    ((_, prompt, spec),) = scene.ring.submitted
    assert len(prompt) + spec.max_tokens == 200


@pytest.mark.parametrize(("room", "max_tokens", "param"), [(200, 190, "max_tokens"), (10, None, "messages")])
async def test_what_the_ring_has_no_memory_for_is_refused_with_the_numbers(
    scene: Scene, room: int, max_tokens: int | None, param: str
) -> None:
    scene.ring.whole = planned(room)
    name = await scene.accepted(asked(max_tokens=max_tokens))
    scene.desk.dispatch(name, scene.ring)
    with pytest.raises(ContextTooLong, match=f"memory for {room} tokens.*--context") as caught:
        await scene.answering
    assert (caught.value.param, caught.value.code) == (param, "context_length_exceeded")
    assert scene.told[-1] == RequestCancelled(name)
    assert scene.ring.submitted == []


async def test_a_new_request_waits_a_while_for_its_model_and_one_that_was_lost_however_long(scene: Scene) -> None:
    scene.desk = Desk(OneModel(scene.entry), scene.tell, WISH, loading_wait_s=2.0)  # type: ignore[arg-type]  # fake
    await scene.accepted(asked())
    scene.answering.cancel()
    lost = asyncio.create_task(scene.desk.open(asked(), SoFar(datetime.date.today(), patient=True)))
    await asyncio.wait_for(scene.arrived.wait(), 5)
    lost.cancel()
    first, second = [event for event in scene.told if isinstance(event, RequestArrived)]
    assert first.wait_until is not None and 0 < first.deadline - first.wait_until < REQUEST_DEADLINE_S
    assert second.wait_until is None


@pytest.mark.parametrize(("fault", "error"), [("busy", Busy), ("too_long", ContextTooLong)])
async def test_what_the_head_refuses_is_not_told_as_a_fault_of_ours(
    scene: Scene, fault: Fault, error: type[RingleaderError]
) -> None:
    name, answer = await scene.running(asked())
    scene.desk.tokens(name, Tokens((), (), "error", "256 requests wait", 0, 0, 0, fault))
    with pytest.raises(error, match="256 requests wait"):
        await read(answer.deltas, [])
    assert RequestEnded(name) in scene.told


async def test_a_ring_lost_in_the_middle_ends_the_answer_after_what_was_said(scene: Scene) -> None:
    name, answer = await scene.running(asked())
    scene.say(name, "The weather")
    scene.desk.fail(name, RingLost("a shard died"))
    deltas: list[Delta] = []
    with pytest.raises(RingLost, match="a shard died"):
        await read(answer.deltas, deltas)
    assert text_of(deltas).startswith("The")
    await answer.deltas.aclose()  # type: ignore[attr-defined]  # Deltas has it
    assert RequestCancelled(name) not in scene.told, "the cluster ended it"


async def test_when_the_node_stops_every_answer_ends_with_an_error(scene: Scene) -> None:
    name, answer = await scene.running(asked())
    scene.say(name, "The weather")
    scene.desk.close()
    with pytest.raises(RingLost, match="told to stop"):
        await read(answer.deltas, [])


async def test_an_error_of_the_tail_is_ours_and_ends_the_request(scene: Scene) -> None:
    name, answer = await scene.running(asked())
    scene.say(name, "", "error", "the grammar allows no way on")
    with pytest.raises(OurFault, match="the grammar allows no way on"):
        await read(answer.deltas, [])
    assert RequestEnded(name) in scene.told


async def test_a_grammar_that_outgrows_the_engine_is_the_clients_to_mend(scene: Scene) -> None:
    name, answer = await scene.running(asked())
    scene.say(name, "", "error", "the grammar allows no way on: lexer error\nStop: LexerTooComplex\n")
    with pytest.raises(BadRequest, match="Make it simpler") as caught:
        await read(answer.deltas, [])
    assert caught.value.code == "grammar_too_complex"
    assert RequestEnded(name) in scene.told


async def test_a_stop_string_ends_the_answer_and_cancels_at_the_head(scene: Scene) -> None:
    name, answer = await scene.running(asked(stop=("cities",)))
    scene.say(name, "Paris and Rome are ci")
    scene.say(name, "ties; text")
    deltas: list[Delta] = []
    await read(answer.deltas, deltas)
    assert text_of(deltas) == "Paris and Rome are "
    assert isinstance(deltas[-1], Finished)
    assert deltas[-1].reason == "stop"
    await answer.deltas.aclose()  # type: ignore[attr-defined]  # Deltas has it
    assert scene.told[-1] == RequestCancelled(name)


async def test_closing_an_answer_that_nobody_read_cancels_it(scene: Scene) -> None:
    name, answer = await scene.running(asked())
    await answer.deltas.aclose()  # type: ignore[attr-defined]  # Deltas has it
    assert scene.told[-1] == RequestCancelled(name)
    scene.say(name, "late words", "stop")
    assert RequestEnded(name) not in scene.told


async def test_closing_an_answer_that_ended_or_was_closed_tells_nothing_more(scene: Scene) -> None:
    name, answer = await scene.running(asked())
    scene.say(name, "yes", "stop")
    await read(answer.deltas, [])
    before = list(scene.told)
    await answer.deltas.aclose()  # type: ignore[attr-defined]  # Deltas has it
    await answer.deltas.aclose()  # type: ignore[attr-defined]  # Deltas has it
    assert scene.told == before


async def test_news_and_errors_of_unknown_requests_change_nothing(scene: Scene) -> None:
    scene.say(RequestId("unknown"), "hello", "stop")
    scene.desk.fail(RequestId("unknown"), RingleaderError("x"))
    scene.desk.dispatch(RequestId("unknown"), scene.ring)
    assert (scene.told, scene.ring.submitted) == ([], [])


async def test_two_requests_are_told_apart(scene: Scene) -> None:
    first, one = await scene.running(asked())
    second, two = await scene.running(asked())
    assert first != second
    scene.say(second, "Rome", "stop")
    scene.say(first, "Lima", "stop")
    texts: list[list[Delta]] = [[], []]
    await asyncio.gather(read(one.deltas, texts[0]), read(two.deltas, texts[1]))
    assert [text_of(deltas) for deltas in texts] == ["Lima", "Rome"]


async def test_guesses_are_counted_apart_and_what_they_brought_behind_a_stop_string_is_no_part_of_the_answer(
    scene: Scene,
) -> None:
    name, answer = await scene.running(asked(stop=("STOP",), prediction="The weather"))
    ((_, _, spec),) = scene.ring.submitted
    encode = scene.entry.voice.tokenizer.encode
    assert spec.prediction == tuple(encode("The weather"))
    before, behind = encode("The weather STOP"), encode(" and so on")
    scene.desk.tokens(
        name, Tokens((*before, *behind), (), "", "", 1, 0, 0, drawn=len(before) + 1, drafted=9, accepted=len(before))
    )
    deltas: list[Delta] = []
    await read(answer.deltas, deltas)
    last = deltas[-1]
    assert isinstance(last, Finished)
    assert text_of(deltas) == "The weather "
    assert (last.usage.drafted_tokens, last.usage.accepted_tokens) == (9, len(before))
    assert last.usage.completion_tokens == len(before)
