from __future__ import annotations

from ringleader.bench.forced_call import QUESTION, WEATHER, demo_request
from ringleader.cli import demo
from ringleader.values import ModelId


def test_the_call_that_is_measured_is_the_call_of_the_demo() -> None:
    request = demo_request(ModelId("some-model"))
    measured = {"name": WEATHER.name, "description": WEATHER.description, "parameters": WEATHER.parameters}
    assert (measured, QUESTION) == (demo.TOOL, demo.QUESTION)
    assert request.tool_choice == demo.REQUEST["tool_choice"]
    assert request.sampling.temperature == demo.REQUEST["temperature"]
