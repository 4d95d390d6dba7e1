"""attn models: what models there are, what one is made of, downloading, packing, initialising."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from attncli.commands import options
from attncli.commands.writing import writes

if TYPE_CHECKING:
    from attncli.commands.batch import Session

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
def models(context: typer.Context) -> None:
    """List, describe, download, pack and initialise models."""
    if context.invoked_subcommand is None:
        list_()


@app.command("list", epilog="\b\nExample:\n  attn models list --json")
@writes("models.list")
def list_(
    session: Session,
) -> None:
    """List the models on this machine: family, size, format, and whether attn reads them.

    Looks at the bundled models, the Hugging Face cache, Ollama, LM Studio, llama.cpp and installed
    packages. Only configurations and headers are read.
    """
    from attncli.analyses.model_list import list_models

    session.deliver([list_models()])


@app.command("info", epilog="\b\nExample:\n  attn models info minilm")
@writes("models.info")
def info(
    session: Session,
    name: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="As for --model.", show_default="minilm")
    ] = None,
) -> None:
    """Describe a model: sizes, scale, norms, tensors, memory needed."""
    from attncli.analyses.models import describe_model

    session.deliver([describe_model(session.load(name))])


@app.command("get", epilog="\b\nExample:\n  attn models get sentence-transformers/all-MiniLM-L6-v2")
def get(
    name: Annotated[str, typer.Argument(metavar="ORG/NAME", help="Model of the hub.")],
    debug: options.Debug = False,
) -> None:
    """Download a model from the Hugging Face hub, and say where it is.

    Only configuration, tokenizer and safetensors are fetched, into the cache that all programs
    share; -m ORG/NAME then needs no network. HF_HOME, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE are
    honoured.
    """
    from attncli.model.load import fetch_remote
    from attncli.model.locate import hub_id
    from attncli.outputs.sink import Sink, print_problem

    place = fetch_remote(hub_id(name))
    print_problem(f"{place.name} is there; try attn inspect -m {place.name} TEXT")
    Sink().text(f"{place.path}\n")


@app.command("verify", epilog="\b\nExample:\n  attn models verify minilm")
@writes("models.verify")
def verify(
    session: Session,
    name: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="As for --model.", show_default="minilm")
    ] = None,
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="TEXT", help="Text to run.", show_default="a sentence"),
    ] = None,
) -> None:
    """Check on your own model that every number follows from those before it; exit 1 if not.

    With torch and transformers installed (attncli[torch]) every layer is compared with them too.
    """
    from attncli.analyses.verify import verify_model

    result = verify_model(session.load(name), text)
    session.deliver([result])
    if not result.passed:
        raise typer.Exit(1)


@app.command("pack", epilog="\b\nExample:\n  attn models pack ./all-MiniLM-L6-v2 -o ./minilm-q8")
def pack(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="Folder of the original model.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write.")],
    dtype: Annotated[
        Literal["q8", "f16", "f32"],
        typer.Option("--dtype", help="8-bit groups of 32, float16, or float32."),
    ] = "q8",
    force: Annotated[bool, typer.Option("--force", help="Replace a model in DIR.")] = False,
    debug: options.Debug = False,
) -> None:
    """Write a model again with smaller numbers; the same original gives the same bytes."""
    from attncli.analyses.models import size
    from attncli.model.pack import pack_model
    from attncli.outputs.sink import print_problem

    packed = pack_model(source, output, dtype, overwrite=force)
    print_problem(
        f"{packed.folder}: {packed.n_tensors} tensors as {packed.dtype}, "
        f"{size(packed.bytes_before)} → {size(packed.bytes_after)}, "
        f"largest change of a number {packed.largest_error:.2g}"
    )


@app.command(
    "init",
    epilog="\b\nExample:\n  attn models init ./toy --heads 2 --vocab-from sentences.txt"
    '\n  attn inspect -m ./toy "I like jam"',
)
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write.")],
    d_model: Annotated[int, typer.Option("--d-model", min=1, max=16_384, help="Width.")] = 64,
    heads: Annotated[int, typer.Option("--heads", min=1, max=1_024, help="Heads.")] = 4,
    layers: Annotated[int, typer.Option("--layers", min=1, max=1_000, help="Layers.")] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Same seed, same weights.")] = 0,
    vocab_from: Annotated[
        Path | None,
        typer.Option(
            "--vocab-from",
            metavar="FILE",
            help="Text whose words become the vocabulary.",
            show_default="the bundled model's tokenizer",
        ),
    ] = None,
    causal: Annotated[
        bool, typer.Option("--causal", help="A token sees only what came before.")
    ] = False,
    no_ffn: Annotated[bool, typer.Option("--no-ffn", help="Attention only.")] = False,
    no_output: Annotated[
        bool, typer.Option("--no-output", help="No output projection W_O.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a model in DIR.")] = False,
    debug: options.Debug = False,
) -> None:
    """Write a toy model with random weights: embedding, W_Q, W_K, W_V, W_O, feed-forward."""
    from attncli.model.initialise import Recipe, initialise_folder
    from attncli.outputs.sink import print_problem

    recipe = Recipe(
        d_model=d_model,
        heads=heads,
        layers=layers,
        seed=seed,
        causal=causal,
        ffn=not no_ffn,
        output=not no_output,
    )
    initialise_folder(folder, recipe, vocab_from, overwrite=force)
    print_problem(f"{folder}: random weights of seed {seed}; try attn inspect -m {folder} TEXT")
