"""How one model is understood, in facts and in one line, so that a wrong guess of its dialect is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ringleader.language.dialects.default_templates import OURS
from ringleader.language.dialects.detect import UNPROVEN, detect
from ringleader.language.dialects.dialect import Dialect, Marker
from ringleader.language.prompt import Voice
from ringleader.language.read_back import reads_back
from ringleader.language.template import CHATML
from ringleader.language.traits import Traits, probe

Role = Literal["begins calls", "inside calls", "begins reasoning", "ends reasoning", "around text", "frames parts"]
NO_TOOLS = "the template knows no tools"
NOT_READ = "but it does not read calls as the template writes them"


@dataclass(frozen=True, slots=True)
class Mark:
    """A piece of markup. `token` is its id, or None where it is plain text (perhaps with special tokens in it)."""

    role: Role
    text: str
    token: int | None


@dataclass(frozen=True, slots=True)
class VoiceReport:
    """`detected` and `detected_how` are what the evidence says, also where something else was set by name.

    `reads_template`: whether a call is read as the chat template writes it; None where it writes none.
    `template_ours`: it is the one of ours for a family that has none. `doubt` says what makes the dialect doubtful, ""
    for nothing. `ends` are id and text of what ends an answer.
    """

    dialect: str
    detected: str
    detected_how: str
    overridden: bool
    marks: tuple[Mark, ...]
    thinks: bool
    thinking_how: str
    ends: tuple[tuple[int, str], ...]
    context_max: int
    has_template: bool
    template_ours: bool
    traits: Traits
    reads_template: bool | None
    doubt: str

    @property
    def how(self) -> str:
        """Why it is this dialect, in a few words."""
        if self.overridden:
            return "set by name"
        return NO_TOOLS if self.detected_how == UNPROVEN and not self.traits.tools else self.detected_how

    def line(self, model: str) -> str:
        """All of it in one line, for a log."""
        doubt = f", {self.doubt}" if self.doubt else ""
        return f"{model} speaks {self.dialect} ({self.how}){doubt}, thinks: {'yes' if self.thinks else 'no'}"


def voice_report(voice: Voice) -> VoiceReport:
    """What is known of this voice. Renders a few small conversations: milliseconds."""
    tokenizer, dialect = voice.tokenizer, voice.dialect
    found = detect(tokenizer)
    ours = tokenizer.chat_template in OURS
    template = CHATML if tokenizer.chat_template is None else tokenizer.chat_template
    traits = probe(template, tokenizer.bos_token, tokenizer.eos_token)
    read = reads_back(tokenizer, dialect)
    unproven = found.how == UNPROVEN and not voice.overridden and traits.tools and not read
    return VoiceReport(
        dialect=dialect.name,
        detected=found.dialect.name,
        detected_how=voice.dialect_how if ours and not voice.overridden else found.how,
        overridden=voice.overridden,
        marks=_marks(dialect),
        thinks=dialect.frames({}) is not None or (dialect.thinking is not None and dialect.thinking.expected),
        thinking_how=voice.thinking_how,
        ends=tuple((id_, tokenizer.decode([id_])) for id_ in tokenizer.eos_ids),
        context_max=voice.context_max,
        has_template=tokenizer.chat_template is not None and not ours,
        template_ours=ours,
        traits=traits,
        reads_template=read,
        doubt=NOT_READ if read is False else "although the template knows tools" if unproven else "",
    )


def _marks(dialect: Dialect) -> tuple[Mark, ...]:
    frames, thinking = dialect.frames({}), dialect.thinking
    found = [_mark("begins calls", opens.marker) for opens in dialect.opens]
    found += [_mark("inside calls", each) for each in dict.fromkeys(dialect.markers)]
    found += [_mark("around text", each) for each in dialect.around]
    found += [_mark("frames parts", each) for each in (frames.markers if frames is not None else ())]
    if thinking is not None:
        found += [_mark("begins reasoning", thinking.open), _mark("ends reasoning", thinking.close)]
    return tuple(found)


def _mark(role: Role, marker: Marker) -> Mark:
    return Mark(role, marker.text, marker.token)
