"""What lacks of the extra is told with the command that installs it."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from ringleader.agent.extra import extra
from ringleader.errors import ExtraMissing


def test_a_missing_package_is_told_with_its_command() -> None:
    with pytest.raises(ExtraMissing, match=r"pip install 'ringleader\[agent\]'"), extra("no_such_package_here"):
        importlib.import_module("no_such_package_here.inner")


def test_a_package_that_lacks_a_package_of_its_own_is_told_as_it_is() -> None:
    with pytest.raises(ModuleNotFoundError) as told, extra("mcp"):
        importlib.import_module("no_such_package_here")
    assert not isinstance(told.value, ExtraMissing)


def test_the_room_is_imported_without_any_package_of_the_extra() -> None:
    program = (
        "import pkgutil, importlib, sys, ringleader.agent as room\n"
        "for name in ('openai', 'anthropic', 'mcp'): sys.modules[name] = None\n"
        "for each in pkgutil.walk_packages(room.__path__, 'ringleader.agent.'): importlib.import_module(each.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
