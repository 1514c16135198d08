"""Models that are only described: what they would weigh, from the numbers of their shape.

For planning a fleet before anything is fetched. Norms, routers' biases and rotary tables are left out: less than
a thousandth. A model that is here, or on a hub, is measured from its files instead.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ringleader.errors import ModelFault
from ringleader.values import Json, ModelCosts, ModelId

FILE = Path(__file__).with_name("described.toml")
CACHE_BYTES = 2  # of one number in the cache
LAYERS_MAX = 10_000

Count = Annotated[int, Field(ge=0, le=2**31)]
Size = Annotated[int, Field(ge=1, le=2**31)]


class Shape(BaseModel):
    """The numbers of a config.json. `kv_rank` > 0 is latent attention (then `kv_heads` does not count); `experts` > 0
    are routed ones, in all layers but the first `dense_layers`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layers: Annotated[int, Field(ge=1, le=LAYERS_MAX)]
    hidden: Size
    vocabulary: Size
    heads: Size
    head_width: Size
    bits_per_weight: Annotated[float, Field(ge=0.5, le=64)]
    context: Size
    kv_heads: Count = 0
    query_rank: Count = 0
    kv_rank: Count = 0
    rotary_width: Count = 0
    feed_forward: Count = 0
    dense_layers: Count = 0
    experts: Count = 0
    experts_per_token: Count = 0
    expert_width: Count = 0
    shared_experts: Count = 0
    expert_bits_per_weight: Annotated[float, Field(ge=0, le=64)] = 0.0  # of routed experts; 0: as all the others
    tied: bool = False
    source: str = Field(default="", alias="from")

    @model_validator(mode="after")
    def _whole(self) -> Shape:
        if not self.kv_heads and not self.kv_rank:
            raise ValueError("set kv_heads, or kv_rank for latent attention")
        if bool(self.experts) != bool(self.experts_per_token and self.expert_width):
            raise ValueError("experts, experts_per_token and expert_width go together")
        if self.experts_per_token > self.experts:
            raise ValueError("experts_per_token is more than experts")
        if not self.feed_forward and (not self.experts or self.dense_layers):
            raise ValueError("feed_forward is missing, though some layers are dense")
        return self

    def costs(self, model: ModelId) -> ModelCosts:
        """What a plan needs to know."""
        held = tuple(self._layer(layer, self.experts) for layer in range(self.layers))
        active = tuple(self._layer(layer, self.experts_per_token) for layer in range(self.layers))
        ends = self._bytes(self.vocabulary * self.hidden)
        return ModelCosts(
            model=model,
            digest=f"described {self.model_dump_json()}",
            family="described",
            layer_bytes=held,
            head_bytes=ends,
            tail_bytes=ends,  # the output head, which is the embedding again where the two are tied
            kv_bytes_per_token=(self._cached() * CACHE_BYTES,) * self.layers,
            hidden_size=self.hidden,
            context_max=self.context,
            active_bytes=active if self.experts else (),
        )

    def _layer(self, layer: int, experts: int) -> int:
        """Bytes of a layer, counting so many of its routed experts."""
        if not self.experts or layer < self.dense_layers:
            return self._bytes(self._attention() + 3 * self.hidden * self.feed_forward)
        expert = 3 * self.hidden * self.expert_width
        always = self._attention() + self.shared_experts * expert + self.hidden * self.experts
        return self._bytes(always) + self._bytes(experts * expert, self.expert_bits_per_weight)

    def _attention(self) -> int:
        queries = self.heads * (self.head_width + self.rotary_width)
        first = self.hidden * self.query_rank + self.query_rank * queries if self.query_rank else self.hidden * queries
        out = self.heads * self.head_width * self.hidden
        if self.kv_rank:
            unpacked = self.kv_rank * self.heads * 2 * self.head_width
            return first + self.hidden * (self.kv_rank + self.rotary_width) + unpacked + out
        return first + 2 * self.hidden * self.kv_heads * self.head_width + out

    def _cached(self) -> int:
        return self.kv_rank + self.rotary_width if self.kv_rank else 2 * self.kv_heads * self.head_width

    def _bytes(self, weights: int, bits: float = 0.0) -> int:
        return round(weights * (bits or self.bits_per_weight) / 8)


def described_names() -> list[str]:
    """The models that are described here."""
    return sorted(_table(FILE))


def described_costs(name: str) -> ModelCosts | None:
    """The costs of a model of described.toml, or None."""
    table = _table(FILE).get(name)
    return None if table is None else _shape(table, f"{FILE.name}: {name}").costs(ModelId(name))


def read_described(file: Path) -> ModelCosts:
    """The costs of the model that a TOML file describes.

    Raises:
        ModelFault: the file is missing or wrong; names the key.
    """
    return _shape(_table(file), str(file)).costs(ModelId(file.stem))


def _table(file: Path) -> Mapping[str, Json]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelFault(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ModelFault(f"{file} is not TOML: {error}") from error


def _shape(table: Json, where: str) -> Shape:
    try:
        return Shape.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise ModelFault(f"{where}: {key}: {first['msg']}") from error
