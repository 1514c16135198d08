"""A draft model is found, weighed and compared with what it is to draft for."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from ringleader.cluster.messages import PlanWish
from ringleader.errors import BadRequest, UnknownModel
from ringleader.models.headers import read_costs
from ringleader.models.store import Store
from ringleader.node.draft_model import DraftModel, find_draft_model
from ringleader.node.shelf import Entry
from ringleader.tokenizer import Tokenizer, load_tokenizer
from ringleader.values import Draft, ModelId
from tests.ring.tiny_models import make_tiny_model

WISH = PlanWish(1000)
DRAFT = Draft("small", 1000, 10)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model("llama", tmp_path_factory.mktemp("draft") / "small", tokenizer=True)


def test_it_is_found_by_its_path_and_weighed_whole(small: Path, tmp_path: Path) -> None:
    found = find_draft_model(Store(tmp_path), str(small), (str(small),))
    assert found is not None
    costs = read_costs(small, ModelId("small"))
    assert found.draft == Draft(str(small), costs.weight_bytes, sum(costs.kv_bytes_per_token))


def test_without_a_name_there_is_none(tmp_path: Path) -> None:
    assert find_draft_model(Store(tmp_path), "", ()) is None


def test_one_that_is_not_here_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match="nowhere"):
        find_draft_model(Store(tmp_path), "nowhere", ())


def test_another_tokenizer_than_that_of_a_model_named_at_the_start_is_refused_with_what_differs(
    small: Path, tmp_path: Path
) -> None:
    foreign = _renamed(small, tmp_path / "foreign")
    with pytest.raises(
        BadRequest, match=r"--draft-model .*foreign cannot draft for .*small: .* id \d+ is '<\|im_end\|>'"
    ):
        find_draft_model(Store(tmp_path), str(foreign), (str(small),))


def test_the_wish_for_a_model_with_the_same_tokenizer_has_the_draft(entry: Entry) -> None:
    assert DraftModel(DRAFT, entry.voice.tokenizer).wish(WISH, entry) == replace(WISH, draft=DRAFT)


def test_any_other_model_is_served_without_drafts_which_is_said_once(
    entry: Entry, small: Path, caplog: pytest.LogCaptureFixture
) -> None:
    drafts = DraftModel(DRAFT, load_tokenizer(small))
    with caplog.at_level(logging.WARNING):
        assert drafts.wish(WISH, entry) == WISH
        assert drafts.wish(WISH, entry) == WISH
    assert caplog.text.count("tiny is served without drafts of small, whose tokenizer is another one: id ") == 1


def test_padded_vocabularies_may_differ_in_width(entry: Entry) -> None:
    own = entry.voice.tokenizer
    wider = Tokenizer(own._fast, vocab_size=own.vocab_size + 64, eos_ids=own.eos_ids, chat_template=None)
    assert DraftModel(DRAFT, wider).wish(WISH, entry).draft == DRAFT


def _renamed(directory: Path, to: Path) -> Path:
    """The same model with another name of one token."""
    to.mkdir()
    for file in directory.iterdir():
        data = file.read_bytes()
        (to / file.name).write_bytes(
            data.replace(b"<|im_end|>", b"<|im_stop|>") if file.name.startswith("tokenizer") else data
        )
    return to
