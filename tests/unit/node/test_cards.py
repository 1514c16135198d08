from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ringleader.cluster.plan import Plan, Stage
from ringleader.cluster.words import Assignment, PlanWish, ShardReport, Term
from ringleader.errors import ModelFault, UnknownModel
from ringleader.models.headers import read_costs
from ringleader.models.store import Store
from ringleader.node import cards
from ringleader.node.cards import CARD_BYTES_MAX, FILE_BYTES_MAX, FILES_MAX, LISTING, CardDesk, Cards
from ringleader.node.shelf import Shelf
from ringleader.values import LayerRange, ModelId, NodeId
from tests.unit.language.vocabulary import CHATML, save, tokenizer_with
from tests.unit.models.builders import model_directory

A, B, C = NodeId("a-id"), NodeId("b-id"), NodeId("c-id")
TINY = ModelId("tiny")
Forge = Callable[[dict[str, Any], bytes | None], bytes | None]


@dataclass
class Network:
    """Asks the desks of other nodes. `forge` may put another answer in the place of theirs."""

    desks: dict[NodeId, CardDesk]
    forge: Forge = lambda question, answer: answer
    asked: list[tuple[NodeId, dict[str, Any]]] = field(default_factory=list)

    async def ask(self, node: NodeId, question: bytes) -> bytes | None:
        said = json.loads(question)
        self.asked.append((node, said))
        desk = self.desks.get(node)
        return self.forge(said, None if desk is None else await desk.answer(said))


@pytest.fixture
def there(tmp_path: Path) -> Shelf:
    """Node b's, which has the model."""
    directory = model_directory(tmp_path / "b" / "models" / "tiny")
    save(tokenizer_with((), CHATML), directory)
    (directory / "modeling.py").write_text("raise SystemExit")
    return Shelf(Store(tmp_path / "b" / "models"), (), 1000)


@pytest.fixture
def network(there: Shelf) -> Network:
    return Network({B: CardDesk(there.find)})


@dataclass
class Here:
    """Node a's, which has nothing."""

    root: Path
    network: Network
    reports: list[tuple[NodeId, ShardReport]] = field(default_factory=list)
    names: dict[NodeId, str] = field(default_factory=lambda: {A: "a", B: "b", C: "c"})

    def shelf(self) -> Shelf:
        """Of a process that has just started."""
        shelf = Shelf(Store(self.root / "models"), (), 1000)
        shelf.elsewhere = Cards(A, self.root / "cards", self.network, lambda: self.reports, lambda: self.names)
        return shelf

    def files(self) -> set[str]:
        return {str(file.relative_to(self.root / "cards")) for file in (self.root / "cards").rglob("*")}


@pytest.fixture
def here(tmp_path: Path, network: Network) -> Here:
    return Here(tmp_path / "a", network)


def report(there: Shelf, reference: str = "tiny") -> ShardReport:
    """Node b runs the model in one shard. Its master told more context than the files do, which only it knows."""
    costs = replace(read_costs(there.store.resolve("tiny"), TINY), context_max=77)
    plan = Plan(TINY, costs.digest, 2, 64, (Stage(B, LayerRange(0, 2), 1, 1),), "")
    assignment = Assignment(plan, costs, PlanWish(64), False, reference, Term(1, B))
    return ShardReport(assignment, 0, 1, "ready")


async def test_a_node_without_the_model_can_speak_for_it_and_copies_no_weights(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "CHUNK_BYTES", 1000)
    shelf = here.shelf()
    entry = await shelf.entry(TINY)
    assert entry.borrowed
    assert entry.voice.tokenizer.encode("Hello")
    assert entry.directory == here.root / "cards" / entry.costs.digest
    copied = {file.name for file in entry.directory.iterdir()}
    assert {"config.json", "tokenizer.json"} <= copied
    assert not [name for name in copied if name.endswith((".safetensors", ".py"))]
    assert [(card.id, card.loaded) for card in await shelf.cards()] == [(TINY, False)]


async def test_of_a_ring_that_runs_the_costs_are_those_that_its_master_told(here: Here, there: Shelf) -> None:
    here.reports = [(B, report(there, "org/tiny"))]
    entry = await here.shelf().entry(TINY)
    assert (entry.costs.context_max, entry.reference) == (77, "org/tiny")
    assert {node for node, _ in here.network.asked} == {B}


async def test_a_card_that_was_copied_before_serves_when_nobody_answers_and_is_not_copied_again(
    here: Here, there: Shelf
) -> None:
    here.reports = [(B, report(there))]
    await here.shelf().entry(TINY)
    here.network.asked.clear()
    await here.shelf().entry(TINY)
    assert not [said for _, said in here.network.asked if "file" in said]
    here.network.desks.clear()
    assert (await here.shelf().entry(TINY)).borrowed


async def test_a_card_that_changed_is_copied_anew(here: Here, there: Shelf) -> None:
    await here.shelf().entry(TINY)
    (there.store.resolve("tiny") / "ringleader.json").write_text('{"dialect": "mistral"}')
    assert (await here.shelf().entry(TINY)).voice.dialect.name == "mistral"
    assert not [name for name in here.files() if name.startswith(cards.PARTIAL)]


async def test_a_model_that_nobody_has_is_unknown_and_is_not_asked_for_again_at_once(here: Here) -> None:
    shelf = here.shelf()
    for _ in range(3):
        with pytest.raises(UnknownModel, match="does not exist here"):
            await shelf.entry(ModelId("nobody-s"))
    assert len(here.network.asked) == 2  # both other nodes, once


@pytest.mark.parametrize(
    "files",
    [
        {"../evil.json": [1, ""]},
        {"/etc/evil.json": [1, ""]},
        {"a/b.json": [1, ""]},
        {".hidden.json": [1, ""]},
        {LISTING: [1, ""]},
        {"model.safetensors": [1, ""]},
        {"evil.py": [1, ""]},
        {"x.json\n": [1, ""]},
        {"big.json": [FILE_BYTES_MAX + 1, ""]},
        {"negative.json": [-1, ""]},
        {f"{number}.json": [CARD_BYTES_MAX // 3, ""] for number in range(4)},
        {f"{number}.json": [1, ""] for number in range(FILES_MAX)},
        {"x.json": "no pair"},
    ],
)
async def test_a_listing_that_breaks_a_bound_is_refused_before_anything_is_written(
    here: Here, files: dict[str, Any]
) -> None:
    def forge(question: dict[str, Any], answer: bytes | None) -> bytes | None:
        if answer is None or "file" in question:
            return answer
        said = json.loads(answer)
        return json.dumps({**said, "files": {**said["files"], **files}}).encode()

    here.network.forge = forge
    with pytest.raises(UnknownModel):
        await here.shelf().entry(TINY)
    assert here.files() == set()


@pytest.mark.parametrize("wrong", [{"digest": "../../x"}, {"model": "another"}, {"layer_bytes": "x"}])
async def test_costs_of_something_else_are_refused(here: Here, wrong: dict[str, Any]) -> None:
    def forge(question: dict[str, Any], answer: bytes | None) -> bytes | None:
        said = json.loads(answer or b"null")
        return answer if said is None else json.dumps({**said, "costs": {**said["costs"], **wrong}}).encode()

    here.network.forge = forge
    with pytest.raises(UnknownModel):
        await here.shelf().entry(TINY)
    assert here.files() == set()


@pytest.mark.parametrize("chunk", [None, b"", b"null"])
async def test_a_copy_that_is_cut_short_leaves_nothing_and_the_error_says_who_has_it_and_what_to_do(
    here: Here, chunk: bytes | None
) -> None:
    here.network.forge = lambda question, answer: chunk if question.get("file") == "tokenizer.json" else answer
    with pytest.raises(ModelFault, match=r"tiny is on b and not here.*ringleader models pull tiny"):
        await here.shelf().entry(TINY)
    assert here.files() == set()


async def test_a_file_that_changed_on_the_way_is_not_believed(here: Here) -> None:
    def forge(question: dict[str, Any], answer: bytes | None) -> bytes | None:
        return answer[:-1] + b"?" if answer is not None and "file" in question else answer

    here.network.forge = forge
    with pytest.raises(ModelFault):
        await here.shelf().entry(TINY)
    assert here.files() == set()


async def test_files_that_come_later_are_used_instead_of_the_card(here: Here) -> None:
    shelf = here.shelf()
    assert (await shelf.entry(TINY)).borrowed
    save(tokenizer_with((), CHATML), model_directory(here.root / "models" / "tiny"))
    assert not (await shelf.entry(TINY)).borrowed


async def test_a_ring_that_was_taken_over_is_among_the_models_before_anybody_asks_for_it(here: Here) -> None:
    shelf = here.shelf()
    shelf.loaded = {TINY}
    assert [(card.id, card.loaded) for card in await shelf.cards()] == [(TINY, True)]


@pytest.mark.parametrize(
    "asked",
    [
        {"card": "nobody-s"},
        {"card": 7},
        {"card": "../tiny"},
        {"card": "0" * 32, "file": "config.json", "offset": 0},
        {"card": "DIGEST", "file": "../tiny/config.json", "offset": 0},
        {"card": "DIGEST", "file": "modeling.py", "offset": 0},
        {"card": "DIGEST", "file": "model.safetensors", "offset": 0},
        {"card": "DIGEST", "file": "config.json", "offset": -1},
        {"card": "DIGEST", "file": "config.json", "offset": "x"},
        {"card": "DIGEST", "file": "missing.json", "offset": 0},
        {"card": "DIGEST", "file": "config.json"},
    ],
)
async def test_a_desk_shows_nothing_but_cards(there: Shelf, asked: dict[str, Any]) -> None:
    desk = CardDesk(there.find)
    listing = json.loads(await desk.answer({"card": "tiny"}) or b"")
    if asked["card"] == "DIGEST":
        asked = {**asked, "card": listing["costs"]["digest"]}
    assert await desk.answer(asked) == b"null"


async def test_questions_of_something_else_are_left_to_others(there: Shelf) -> None:
    assert await CardDesk(there.find).answer("cluster") is None
    assert await CardDesk(there.find).answer({"probe": 1}) is None


async def test_cards_do_not_pile_up(here: Here) -> None:
    root = here.root / "cards"
    for number in range(cards.CARDS_MAX + 3):
        (root / f"{number:032x}").mkdir(parents=True)
    await here.shelf().entry(TINY)
    assert len(list(root.iterdir())) == cards.CARDS_MAX
