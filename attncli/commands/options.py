"""Options that several commands share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Texts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TEXT]...",
        help="One or more texts; `-` is all of standard input. "
        "Without TEXT each line piped in is one.",
        show_default=False,
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "-m",
        "--model",
        metavar="MODEL",
        envvar="ATTN_MODEL",
        help="Name that `attn models` lists, folder, .gguf or .npz file, ORG/NAME of the Hugging "
        "Face hub, or random:d_model=64,heads=4,layers=1,seed=0.",
        show_default="minilm",
    ),
]
Engine = Annotated[
    Literal["numpy", "torch"],
    typer.Option(
        "--engine",
        help="What computes: attn itself, or with pip install 'attncli[torch]' transformers, for "
        "any architecture it knows.",
    ),
]
Device = Annotated[
    Literal["cpu", "cuda", "mps", "auto"] | None,
    typer.Option("--device", help="Where --engine torch computes.", show_default="cpu"),
]
Dtype = Annotated[
    Literal["float32", "bfloat16", "float16"] | None,
    typer.Option(
        "--dtype", help="Type of number --engine torch computes in.", show_default="float32"
    ),
]
Pair = Annotated[
    str | None,
    typer.Option(
        "--pair",
        metavar="TEXT",
        help="Second text of a sentence pair, for encoders: read after TEXT (or each line), joined "
        "as the model's tokenizer joins them.",
        show_default=False,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="TEXT",
        help="Text for the decoder of an encoder-decoder; TEXT is its source.",
        show_default=False,
    ),
]
Attention = Annotated[
    Literal["encoder", "self", "cross"] | None,
    typer.Option(
        "--attention",
        help="Of an encoder-decoder: within the encoder, or with --target within the decoder "
        "(self) or from the target to the source (cross).",
        show_default="cross with --target, else encoder",
    ),
]
Layer = Annotated[
    str | None,
    typer.Option(
        "-l", "--layer", metavar="N", help="Layers: 3, -1, 0-2, 0,4 or all.", show_default="all"
    ),
]
Head = Annotated[
    str | None,
    typer.Option(
        "-H",
        "--head",
        metavar="N",
        help="Heads, likewise; 3.1 names layer 3, head 1.",
        show_default="all",
    ),
]
Reduce = Annotated[
    Literal["mean", "max"],
    typer.Option("--reduce", help="How several heads become one matrix of weights."),
]
Query = Annotated[
    list[str] | None,
    typer.Option(
        "-q",
        "--query",
        metavar="WORD",
        help="Show only the rows of this word, token index, or word#2 (its second occurrence). "
        "Repeatable.",
        show_default=False,
    ),
]
Key = Annotated[
    list[str] | None,
    typer.Option(
        "-k",
        "--key",
        metavar="WORD",
        help="Show only the columns of this word, likewise. Repeatable.",
        show_default=False,
    ),
]
Top = Annotated[
    int, typer.Option("--top", metavar="N", min=1, max=1000, help="Keys listed for each query.")
]
Measure = Annotated[
    Literal["contribution", "weight", "rollout", "value-zeroing"],
    typer.Option(
        "--by",
        help="Measure that orders keys. Rollout: share of the input, through all layers below. "
        "Value-zeroing: how far the token's state turns without the key's value.",
    ),
]
Shade = Annotated[
    Literal["linear", "log"],
    typer.Option(
        "--shade", help="How shades of a matrix follow its numbers; log shows small ones."
    ),
]
Words = Annotated[
    bool,
    typer.Option("--words", help="Merge the pieces of a word: sum to it, mean from it."),
]
Specials = Annotated[
    Literal["show", "fold", "hide"],
    typer.Option(
        "--special",
        help="Special tokens: show, fold into one, or hide (rows then scaled to sum to 1 again).",
    ),
]
LiteralSpecials = Annotated[
    bool,
    typer.Option(
        "--literal-specials", help="Read control strings such as [SEP] in TEXT as plain text."
    ),
]
OutputFormat = Annotated[
    Literal["table", "json", "jsonl", "csv", "markdown", "npz"],
    typer.Option("-f", "--format", help="Output format."),
]
Json = Annotated[bool, typer.Option("--json", help="Short for -f json.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Write there instead of standard output.",
        show_default=False,
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--file", metavar="FILE", help="Read one text a line from FILE.", show_default=False
    ),
]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colour, even on a terminal.")]
Verbose = Annotated[
    bool,
    typer.Option(
        "-v", "--verbose", help="Say on standard error what is loaded and how long it took."
    ),
]
Debug = Annotated[
    bool,
    typer.Option("--debug", help="Show the traceback of a problem."),
]
