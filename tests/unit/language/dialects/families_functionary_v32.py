"""Functionary 3.2 under the suite: a prompt that ends in its sign, as its template has it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.language.dialects.family import Call, Family, written
from tests.unit.language.vocabulary import CHATML

SHOWN = CHATML.replace("assistant\\n' }}{% endif %}", "assistant\\n>>>' }}{% endif %}") + "{# >>>${recipient} #}"


def parts(calls: Sequence[Call]) -> str:
    return ">>>".join(f"{name}\n{written(values)}" for name, values in calls)


FAMILIES = [
    Family(
        "functionary v3.2",
        "functionary_v32",
        parts,
        (),
        SHOWN,
        said=lambda text: f"all\n{text}",
        joined=lambda text, calls: f"all\n{text}>>>{calls}",
        markup=(">>>", ">>>all\n", "}>>>now\n{}"),
        endings=('"}', ">>>"),
    )
]
