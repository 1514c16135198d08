"""Docstrings are read into what a model should know, in Google's and in Sphinx's form."""

from __future__ import annotations

from ringleader.agent.docstrings import read_docstring


def test_google_arguments_are_read_with_the_lines_that_go_on() -> None:
    read = read_docstring(
        """Looks a thing
        up.

        Twice if it must.

        Args:
            name: what it is called,
                in full: with its house
            depth (int): how deep

        Returns:
            thing: not for the model
        """
    )
    assert read.text == "Looks a thing up.\n\nTwice if it must."
    assert read.arguments == {"name": "what it is called, in full: with its house", "depth": "how deep"}


def test_sphinx_arguments_are_read_with_and_without_types() -> None:
    read = read_docstring(
        """Looks up.

        :param name: what it
            is called
        :param dict[str, int] depth: how deep
        :returns: nothing
        """
    )
    assert read.text == "Looks up."
    assert read.arguments == {"name": "what it is called", "depth": "how deep"}


def test_a_docstring_without_sections_is_all_text() -> None:
    assert read_docstring("Says: nothing.").text == "Says: nothing."
    assert read_docstring("").text == ""
