"""attn heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from attncli.commands import options
from attncli.commands.writing import writes

if TYPE_CHECKING:
    from attncli.commands.batch import Session

MEASURES = (
    "entropy, effective_keys, relative_entropy, distance, absolute_distance, previous, next, self, "
    "first, special, punctuation, sink, confidence, duplicate, induction, probe_previous, "
    "probe_duplicate, probe_induction"
)
"""As analyses/head_measures.py has them, which would load numpy."""
ROLES = "induction, duplicate, broad, previous, next, self, sink, special, punctuation, mixed"


@writes("heads")
def heads(
    session: Session,
    texts: options.Texts = None,
    model: options.ModelName = None,
    pair: options.Pair = None,
    target: options.Target = None,
    attention: options.Attention = None,
    layer: options.Layer = None,
    head: options.Head = None,
    sort: Annotated[
        str | None,
        typer.Option(
            "--sort",
            metavar="MEASURE",
            help=f"Largest first, by one of: {MEASURES}.",
            show_default="by layer and head",
        ),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            "--role",
            metavar="ROLE",
            help=f"List only heads of this role: {ROLES}. Repeatable.",
            show_default=False,
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=1, help="List so many heads.", show_default="all"),
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            "--grid",
            metavar="MEASURE",
            help="Measure of the grid of layers and heads; one that is a fraction.",
            show_default="special, or first without special tokens",
        ),
    ] = None,
    shade: options.Shade = "linear",
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            help="Also measure induction, duplicate and previous on random tokens that repeat.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the tokens of --probe.")] = 0,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="WORD",
            help="Rank heads by what this word (or token index, or word#2) reads from --to.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="WORD", help="The word that is read.", show_default=False),
    ] = None,
    by: Annotated[
        Literal["weight", "contribution", "excess"] | None,
        typer.Option("--by", help="What --from and --to rank heads by.", show_default="weight"),
    ] = None,
    contrast: Annotated[
        str | None,
        typer.Option(
            "--contrast",
            metavar="TEXT2",
            help="Rank heads by what differs between TEXT and TEXT2; with --from and --to by the "
            "change of that weight.",
            show_default=False,
        ),
    ] = None,
    swap: Annotated[
        str | None,
        typer.Option(
            "--swap",
            metavar="A,B",
            help="Compare TEXT with its copy in which two words are exchanged, such as he,she.",
            show_default=False,
        ),
    ] = None,
    literal_specials: options.LiteralSpecials = False,
    engine: options.Engine = "numpy",
    device: options.Device = None,
    dtype: options.Dtype = None,
    file: options.File = None,
) -> None:
    """Say what each head does: role, entropy, distance, sinks; or which heads link two words.

    Without --from, --contrast and --swap every head is characterised by means over the queries of
    TEXT, heads that read alike are grouped, and the first rule that a head meets gives its role.
    """
    from attncli import api

    loaded = session.load(model, engine=engine, device=device, dtype=dtype)
    session.each(
        loaded,
        texts,
        file,
        lambda text: api.heads(
            text.text,
            loaded,
            pair=pair,
            target=target,
            attention=attention,
            layer=layer,
            head=head,
            sort=sort,
            role=role or (),
            top=top,
            grid=grid,
            shade=shade,
            probe=probe,
            seed=seed,
            from_=from_,
            to=to,
            by=by,
            contrast=contrast,
            swap=swap,
            literal_specials=literal_specials,
            line=text.line,
        ),
    )
