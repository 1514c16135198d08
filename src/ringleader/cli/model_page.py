"""What `ringleader models show` prints: how a model speaks, as lines for a person or as one object for a script."""

from __future__ import annotations

import textwrap
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # importing it takes a moment (the grammar engine), which `--help` need not wait for
    from ringleader.language.voice_report import Mark, VoiceReport

COLUMNS = 80
LABEL = 11  # columns of a label and the gap after it
TRAITS = {
    "tools": "tools",
    "calls": "calls",
    "results": "results",
    "many_calls": "several calls at once",
    "system": "system",
    "system_late": "system turns later on",
    "repeats": "turns of one role in a row",
}
READ = {
    True: "a call as the template writes it is read",
    False: "WARNING: a call as the template writes it is NOT read; try another with --dialect",
    None: "the template writes no calls to compare with",
}


def model_page(model: str, path: str, report: VoiceReport) -> str:
    """Lines of at most 80 columns, but for what cannot be broken."""
    how = report.how if not report.overridden else f"set by name; detected: {report.detected}, {report.detected_how}"
    rows = [
        ("model", model),
        ("path", path),
        ("dialect", f"{report.dialect} ({how})"),
        ("check", READ[report.reads_template]),
        *_markers(report.marks),
        ("thinks", f"{'yes' if report.thinks else 'no'} ({report.thinking_how})"),
        ("ends with", ", ".join(f"{text} {id_}" for id_, text in report.ends)),
        ("context", f"{report.context_max} tokens"),
        ("template", _template(report)),
        ("override", f"dialect {report.dialect}" if report.overridden else "none"),
    ]
    return "\n".join(line for label, value in rows for line in _row(label, value))


def model_object(model: str, path: str, report: VoiceReport) -> dict[str, Any]:
    """The same for a script."""
    return {
        "model": model,
        "path": path,
        "dialect": {
            "name": report.dialect,
            "how": report.how,
            "detected": report.detected,
            "detected_how": report.detected_how,
            "overridden": report.overridden,
            "reads_template": report.reads_template,
            "doubt": report.doubt or None,
        },
        "markers": [{"role": mark.role, "text": mark.text, "token": mark.token} for mark in report.marks],
        "thinking": {"expected": report.thinks, "how": report.thinking_how},
        "ends": [{"token": id_, "text": text} for id_, text in report.ends],
        "context": report.context_max,
        "template": {
            "present": report.has_template,
            "ours": report.template_ours,
            **{field.name: getattr(report.traits, field.name) for field in fields(report.traits)},
        },
    }


def _markers(marks: tuple[Mark, ...]) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for mark in marks:
        label = "markers" if not rows else ""
        written = mark.text.replace("\n", "\\n")
        rows.append((label, f"{mark.role}: {written} {'text' if mark.token is None else mark.token}"))
    return rows or [("markers", "none")]


def _template(report: VoiceReport) -> str:
    if not report.has_template and not report.template_ours:
        return "none: ChatML is used"
    shown = [words for name, words in TRAITS.items() if getattr(report.traits, name)]
    lacks = [words for name, words in TRAITS.items() if not getattr(report.traits, name)]
    whose = "none: ours is used, which " if report.template_ours else ""
    return f"{whose}shows {', '.join(shown) or 'nothing'}" + (f"; not {', '.join(lacks)}" if lacks else "")


def _row(label: str, value: str) -> list[str]:
    lines = textwrap.wrap(value, COLUMNS - LABEL, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"{label.ljust(LABEL) if n == 0 else ' ' * LABEL}{line}" for n, line in enumerate(lines)]
