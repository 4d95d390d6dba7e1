"""Which question about heads a set of choices asks, and whether they go together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from attncli.analyses.head_changes import HeadChanges
from attncli.analyses.head_contrast import contrast_heads
from attncli.analyses.head_link import link_heads
from attncli.analyses.head_links import MEASURES, HeadLinks
from attncli.analyses.head_survey import HeadSurvey
from attncli.analyses.head_swap import swap_heads
from attncli.analyses.heads import survey_heads
from attncli.analyses.sides import choose_attention, stack_of
from attncli.errors import UsageProblem
from attncli.model.load import Model
from attncli.selection import Attention, Shade, choose_heads, one_of


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRequest:
    """The choices of `attn heads`, as given; see api.heads for each."""

    pair: str | None
    target: str | None
    attention: Attention | None
    layer: str | None
    head: str | None
    sort: str | None
    roles: tuple[str, ...]
    top: int | None
    grid: str | None
    shade: Shade
    probe: bool
    seed: int
    from_: str | None
    to: str | None
    by: str | None
    contrast: str | None
    swap: str | None
    literal_specials: bool

    def check(self) -> None:
        """Refuse choices that do not go together.

        Raises:
            UsageProblem: names them.
        """
        if (self.from_ is None) != (self.to is None):
            given, other = ("--from", "--to") if self.to is None else ("--to", "--from")
            raise UsageProblem(f"{given} needs {other}: the word that reads, and the one it reads.")
        if self.top is not None and self.top < 1:
            raise UsageProblem(f"--top {self.top}: expected 1 or more.")
        if self.by is not None:
            one_of("by", self.by, MEASURES)
        one_of("shade", self.shade, get_args(Shade))
        two_texts = "--contrast" if self.contrast is not None else "--swap"
        if self.contrast is not None and self.swap is not None:
            raise UsageProblem("--contrast and --swap both make a second text; give one of them.")
        if self.swap is not None and self.from_ is not None:
            raise UsageProblem(
                "--swap compares all words; for one pair of words give --contrast the other text."
            )
        compares = self.contrast is not None or self.swap is not None
        if compares and (self.target is not None or self.attention not in (None, "encoder")):
            raise UsageProblem(f"{two_texts} compares what is read without a target; leave it out.")
        if compares and self.pair is not None:
            raise UsageProblem(f"{two_texts} compares single texts; leave --pair out.")
        if self.by is not None and (self.from_ is None or compares):
            reason = "heads are ranked by the change" if compares else "give --from and --to too"
            raise UsageProblem(f"--by {self.by}: {reason}.")
        if compares or self.from_ is not None:
            asked = two_texts if compares else "--from"
            chosen = {
                "--sort": self.sort,
                "--role": self.roles,
                "--grid": self.grid,
                "--probe": self.probe,
            }
            for option, value in chosen.items():
                if value:
                    raise UsageProblem(f"{option} and {asked} ask different questions; give one.")


def answer(
    model: Model, text: str, request: HeadRequest, line: int | None = None
) -> HeadSurvey | HeadLinks | HeadChanges:
    """Answer the question about one text.

    Args:
        model: what to run.
        text: as typed.
        request: the choices.
        line: line of a batch the text came from.

    Raises:
        AttnError: choices that do not fit each other, the text or the model.
    """
    request.check()
    literal = request.literal_specials
    if request.contrast is not None or request.swap is not None:
        # of an encoder-decoder this is what its encoder reads
        stack = model.spec.reader
        heads = choose_heads(request.layer, request.head, stack.n_layers, stack.n_heads)
        encoded = model.encode(text, literal_specials=literal)
        if request.swap is not None:
            return swap_heads(
                model,
                encoded,
                heads,
                request.swap,
                literal_specials=literal,
                top=request.top,
                line=line,
            )
        other = model.encode(request.contrast or "", literal_specials=literal)
        return contrast_heads(
            model,
            (encoded, other),
            heads,
            from_=request.from_,
            to=request.to,
            top=request.top,
            line=line,
        )
    has_target = request.target is not None
    attention = choose_attention(model, request.attention, has_target=has_target)
    stack = stack_of(model.spec, attention)
    heads = choose_heads(request.layer, request.head, stack.n_layers, stack.n_heads)
    encoded = model.encode(text, request.pair, literal_specials=literal)
    target = (
        None
        if request.target is None
        else model.encode_target(request.target, literal_specials=literal)
    )
    if request.from_ is not None and request.to is not None:
        return link_heads(
            model,
            encoded,
            heads,
            request.from_,
            request.to,
            target=target,
            attention=attention,
            by=request.by or "weight",
            top=request.top,
            line=line,
        )
    return survey_heads(
        model,
        encoded,
        heads,
        target=target,
        attention=attention,
        sort=request.sort,
        roles=request.roles,
        top=request.top,
        grid=request.grid,
        shade=request.shade,
        probe=request.probe,
        seed=request.seed,
        line=line,
    )
