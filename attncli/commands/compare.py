"""attn compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from attncli.commands import options
from attncli.commands.writing import writes

if TYPE_CHECKING:
    from attncli.commands.batch import Session


@writes("compare")
def compare(
    session: Session,
    texts: options.Texts = None,
    word: Annotated[
        str | None,
        typer.Option(
            "-w",
            "--word",
            metavar="WORD",
            help="The word to follow; without it every word that occurs twice.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="ANCHOR",
            help='Compare with a word alone, or with "WORD: a sentence holding it". Repeatable.',
            show_default=False,
        ),
    ] = None,
    model: options.ModelName = None,
    layer: options.Layer = None,
    head: options.Head = None,
    by: options.Measure = "contribution",
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help="State of the matrix of similarities: embedding, L3 (output of layer 3) or a "
            "number, 0 for the embedding.",
            show_default="-1, the last",
        ),
    ] = None,
    neighbours: Annotated[
        int | None,
        typer.Option(
            "--neighbours",
            metavar="N",
            min=1,
            max=1000,
            help="List the N tokens of the vocabulary whose input embeddings are nearest to the "
            "word, at every state.",
            show_default=False,
        ),
    ] = None,
    centred: Annotated[
        bool,
        typer.Option(
            "--centred",
            help="Take cosines after subtracting the mean vector of fixed sample sentences.",
        ),
    ] = False,
    literal_specials: options.LiteralSpecials = False,
    engine: options.Engine = "numpy",
    device: options.Device = None,
    dtype: options.Dtype = None,
    file: options.File = None,
) -> None:
    """Set one word in several contexts side by side: how alike it stays, what it reads in each.

    Cosines come with the mean of random pairs of words at the same layer; those of the last layer
    are taken after the final norm, where the model has one. --layer and --head choose whose
    attention from the word is compared. With three places or more come the self-similarity of the
    word, the mean cosine over all pairs of its places, and a matrix of them at one state.
    """
    from attncli import api
    from attncli.inputs import read_inputs

    loaded = session.load(model, engine=engine, device=device, dtype=dtype)
    inputs = read_inputs(texts or [], file)
    result = api.compare(
        *session.usable(
            inputs, lambda text: loaded.encode(text, literal_specials=literal_specials)
        ),
        model=loaded,
        word=word,
        to=to or (),
        layer=layer,
        head=head,
        by=by,
        state=state,
        neighbours=neighbours,
        centred=centred,
        literal_specials=literal_specials,
    )
    session.deliver([result])
