"""Clients of the Python world whose needs differ from ours: `python others.py CASE URL MODEL` prints a line of JSON.

Runs in an environment of its own, made by install.sh: they hold older versions of OpenAI's SDK.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import openai
import pydantic

CASE, URL, MODEL = sys.argv[1:]
ran: list[str] = []


class Place(pydantic.BaseModel):
    """A place, and for how many days."""

    city: str = pydantic.Field(max_length=20)
    days: int = pydantic.Field(ge=1, le=9)


def get_weather(city: str) -> str:
    """The weather of a city."""
    ran.append(city)
    return "sunny"


def langchain() -> Any:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=MODEL, base_url=f"{URL}/v1", api_key="any", max_tokens=60, max_retries=0)
    weather = tool(get_weather)
    asked: list[Any] = [HumanMessage("Weather in Oslo?")]
    first = None
    for chunk in model.bind_tools([weather], tool_choice="get_weather").stream(asked):
        first = chunk if first is None else first + chunk
    (call,) = first.tool_calls
    asked += [first, ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])]
    said = model.bind_tools([weather], tool_choice="none").invoke(asked)
    place = model.with_structured_output(Place).invoke("A place.")
    return {
        "ran": ran,
        "said": said.content,
        "place": place.model_dump(),
        "tokens": said.usage_metadata["input_tokens"],
    }


def pydantic_ai() -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=f"{URL}/v1", api_key="any"))
    agent = Agent(model, output_type=Place, model_settings={"max_tokens": 60})  # it demands a call: of its own tool
    result = agent.run_sync("A place.")
    return {"place": result.output.model_dump(), "tokens": result.usage.input_tokens}


def instructor() -> Any:
    import instructor

    client = openai.OpenAI(base_url=f"{URL}/v1", api_key="any", max_retries=0)
    told = {}
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
        place = instructor.from_openai(client, mode=mode).chat.completions.create(
            model=MODEL,
            response_model=Place,
            max_retries=0,
            max_tokens=60,
            messages=[{"role": "user", "content": "A place."}],
        )
        told[mode.name] = place.model_dump()
    return {"place": told["TOOLS"], **told}


print(json.dumps({"langchain": langchain, "pydantic_ai": pydantic_ai, "instructor": instructor}[CASE]()))
