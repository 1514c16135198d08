"""An answer goes on where a loss cut it: at the same desk, at another master's, and by relay; the client sees one."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from ringleader.errors import BadRequest, MasterMoved, RingleaderError, RingLost
from ringleader.net.ring import Tokens
from ringleader.node.answer import Closable, Opened
from ringleader.node.ingress import LOSSES_MAX, RING_LOST_COUNTS, Ingress, Source
from ringleader.node.reading import Part, SoFar
from ringleader.node.relay import RelayDesk, RelaySource
from ringleader.values import ChatRequest, Delta, Finished, ModelId, NodeId, TextDelta, TokenLogprob, Usage
from tests.unit.language.builders import request

LETTERS = "the whole answer"


def word(at: int) -> Part:
    """Token `at` of the answer: one letter."""
    logprobs = (TokenLogprob(at, -0.5, ((at, -0.5),)),)
    return Part(Tokens((at,), logprobs, "", "", at + 1, 3, 0), (TextDelta(LETTERS[at], (at,), logprobs),))


@dataclass
class CutDesk:
    """Answers LETTERS, a letter a token, and is lost after `cuts` letters, each time it is asked."""

    cuts: list[int]
    error: RingleaderError = field(default_factory=lambda: RingLost("a shard died"))
    asked: list[tuple[int, ...]] = field(default_factory=list)
    closed: int = 0

    async def open(self, request: ChatRequest, so_far: SoFar) -> Opened:
        self.asked.append(so_far.ids())
        return Opened(request.model, Closable(self._parts(so_far, len(so_far.words)), self._close), ("a warning",))

    def _close(self) -> None:
        self.closed += 1

    async def _parts(self, so_far: SoFar, start: int) -> AsyncIterator[Part]:
        if not so_far.opened:
            yield Part(None, (TextDelta("> "),))
        cut = self.cuts.pop(0) if self.cuts else len(LETTERS)
        for at in range(start, len(LETTERS)):
            if at - start >= cut:
                raise self.error
            yield word(at)
        yield Part(None, (Finished("stop", Usage(3, len(LETTERS))),))

    def token_bytes(self, model: ModelId, token: int) -> bytes:
        return LETTERS[token].encode()


@dataclass
class Masters:
    """One master after another: each call gives the next, the last for ever."""

    sources: Sequence[Source]
    calls: int = 0

    async def source(self) -> tuple[NodeId, Source]:
        self.calls += 1
        return NodeId("a"), self.sources[min(self.calls, len(self.sources)) - 1]


async def heard(ingress: Ingress) -> tuple[str, list[Delta]]:
    answer = await ingress.answer(request())
    deltas = [delta async for delta in answer.deltas]
    await answer.deltas.aclose()  # type: ignore[attr-defined]  # ours have it
    return "".join(each.text for each in deltas if isinstance(each, TextDelta)), deltas


def relayed(desk: CutDesk, broken_after: int | None = None) -> RelaySource:
    """`desk` behind both ends of a relay; its stream breaks after so many messages."""
    return RelaySource(lambda asked: Wire(RelayDesk(desk.open, desk.token_bytes).answer(asked), broken_after), {})


class Wire:
    """The messages of one call."""

    def __init__(self, messages: AsyncIterator[bytes], broken_after: int | None) -> None:
        self._messages = messages
        self._left = broken_after

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._left == 0:
            raise MasterMoved("the master is gone")
        self._left = None if self._left is None else self._left - 1
        return await anext(self._messages)

    def cancel(self) -> None:
        self._left = 0


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringleader.node.ingress.PAUSE_FIRST_S", 0.001)


async def test_an_answer_that_loses_its_ring_goes_on_with_nothing_twice_and_nothing_left_out() -> None:
    desk = CutDesk([0, 3, 0, 1])
    text, deltas = await heard(Ingress(Masters([desk])))
    assert text == "> " + LETTERS
    assert isinstance(deltas[-1], Finished)
    assert desk.asked == [(), (), (0, 1, 2), (0, 1, 2), (0, 1, 2, 3)]


@pytest.mark.parametrize(
    ("kind", "tries"), [(RingLost, LOSSES_MAX // RING_LOST_COUNTS + 1), (MasterMoved, LOSSES_MAX + 1)]
)
async def test_what_is_lost_again_and_again_is_told_to_the_client_who_alone_is_asked_to_send_it_again(
    kind: type[RingleaderError], tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    desk = CutDesk([0] * 100, kind("a shard died."))
    with (
        caplog.at_level("INFO", "ringleader.node"),
        pytest.raises(kind, match=r"a shard died\. Send the request again\."),
    ):
        await heard(Ingress(Masters([desk])))
    assert len(desk.asked) == tries
    assert [each.getMessage().split(": goes on")[0] for each in caplog.records] == (tries - 1) * [
        "an answer of m is interrupted (a shard died.)"
    ]


async def test_a_loss_that_no_ring_can_make_good_is_told_at_once() -> None:
    desk = CutDesk([2], RingLost("given up", resumable=False))
    with pytest.raises(RingLost, match="given up"):
        await heard(Ingress(Masters([desk])))
    assert len(desk.asked) == 1


@pytest.mark.parametrize("broken_after", range(1, len(LETTERS) + 3))
async def test_a_master_that_is_lost_at_any_message_leaves_the_rest_to_the_next(broken_after: int) -> None:
    first, second = CutDesk([]), CutDesk([])
    text, _ = await heard(Ingress(Masters([relayed(first, broken_after), second])))
    assert text == "> " + LETTERS
    assert second.asked == [tuple(range(max(0, broken_after - 2)))]


async def test_a_master_that_is_lost_before_it_says_anything_costs_nothing() -> None:
    first, second = CutDesk([]), CutDesk([])
    text, _ = await heard(Ingress(Masters([relayed(first, 0), relayed(second)])))
    assert text == "> " + LETTERS
    assert second.asked == [()]


async def test_an_error_at_the_master_is_the_same_error_here() -> None:
    desk = CutDesk([2], BadRequest("no such colour", param="tools[0]", code="invalid_tool_call"))
    with pytest.raises(BadRequest, match="no such colour") as caught:
        await heard(Ingress(Masters([relayed(desk)])))
    assert (caught.value.param, caught.value.code) == ("tools[0]", "invalid_tool_call")


async def test_logprobs_and_warnings_come_along_with_the_bytes_of_their_tokens() -> None:
    source = relayed(CutDesk([]))
    opened = await source.open(replace(request(), top_logprobs=1), SoFar(datetime.date.today()))
    parts = [part async for part in opened.parts]
    assert opened.warnings == ("a warning",)
    assert parts[1] == word(0)
    assert source.token_bytes(ModelId("m"), 0) == b"t"


async def test_a_client_that_leaves_hangs_up_before_the_first_delta_too() -> None:
    desk = CutDesk([])
    answer = await Ingress(Masters([desk])).answer(request())
    await answer.deltas.aclose()  # type: ignore[attr-defined]  # ours have it
    assert desk.closed == 1
