"""Values that travel arrive as they left."""

from __future__ import annotations

from ringleader.values import Sampling, SlotSpec
from ringleader.wire import spec_from_wire, spec_to_wire


def test_a_slots_spec_travels_whole() -> None:
    sampling = Sampling(seed=7, temperature=0.5, top_p=0.25, top_k=3, logit_bias=((5, -1.5),))
    spec = SlotSpec(
        sampling,
        max_tokens=100,
        prompt_tokens=12,
        opening_tokens=3,
        grammar="start: /x/",
        top_logprobs=0,
        followers=False,
        demanded=True,
        think_close=(7, 300_000),
        think_reserve=50,
    )
    assert spec_from_wire(spec_to_wire(spec)) == spec


def test_what_is_not_said_stays_unsaid() -> None:
    spec = SlotSpec(Sampling(seed=1), max_tokens=1, prompt_tokens=1)
    assert spec_from_wire(spec_to_wire(spec)) == spec
