from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ringleader.errors import ModelFault, ModelUnsupported
from ringleader.models.settings import set_dialect
from ringleader.models.store import Store
from ringleader.node.shelf import Shelf
from ringleader.values import ModelId
from tests.unit.language.test_read_back import FOREIGN, template
from tests.unit.language.vocabulary import CHATML, save, tokenizer_with
from tests.unit.models.builders import model_directory

TINY = ModelId("tiny")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    save(tokenizer_with((), CHATML), model_directory(tmp_path / "tiny"))
    return Store(tmp_path)


def shelf(store: Store) -> Shelf:
    return Shelf(store, (), 1000)


async def test_one_line_of_the_log_says_how_an_opened_model_speaks(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ringleader.node")
    opened = shelf(store)
    for _ in range(2):
        await opened.entry(TINY)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["tiny speaks json_tags (the template knows no tools), thinks: no"]


async def test_a_doubtful_dialect_is_logged_as_a_warning(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    (store.root / "tiny" / "chat_template.jinja").write_text(template(FOREIGN))
    await shelf(store).entry(TINY)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "does not read calls as the template writes them" in record.getMessage()


async def test_the_dialect_that_is_set_for_a_model_is_spoken(store: Store) -> None:
    set_dialect(store, "tiny", "mistral")
    assert (await shelf(store).entry(TINY)).voice.dialect.name == "mistral"


async def test_settings_that_cannot_be_followed_refuse_the_model_and_name_the_file(store: Store) -> None:
    file = set_dialect(store, "tiny", "klingon")
    with pytest.raises(ModelUnsupported, match="no dialect is named 'klingon'; there are") as caught:
        await shelf(store).entry(TINY)
    assert str(file) in str(caught.value)
    file.write_text("{")
    with pytest.raises(ModelFault, match="is not JSON"):
        await shelf(store).entry(TINY)


async def test_a_model_that_another_node_wants_can_be_answered_for_where_its_files_are_here_too(tmp_path: Path) -> None:
    directory = tmp_path / "elsewhere" / "tiny"
    save(tokenizer_with((), CHATML), model_directory(directory))
    opened = shelf(Store(tmp_path / "store"))
    opened.hear_of(ModelId("missing"), str(tmp_path / "missing"))
    opened.hear_of(TINY, str(directory))
    assert opened.names() == [TINY], "what is not here would only break the list of models"
    assert (await opened.entry(TINY)).directory == directory
