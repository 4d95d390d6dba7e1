"""The command line: commands, exit codes, and every problem as one line."""

from __future__ import annotations

import os
import sys
from traceback import print_exc
from typing import Annotated

import typer

from attncli import __version__
from attncli.commands import models
from attncli.commands.compare import compare
from attncli.commands.explain import explain
from attncli.commands.heads import heads
from attncli.commands.inspect import inspect
from attncli.commands.predict import predict
from attncli.commands.schema import schema
from attncli.commands.tokens import tokens
from attncli.errors import AttnError

INTERRUPTED = 130
CLOSED_PIPE = 141

app = typer.Typer(
    name="attn",
    rich_markup_mode=None,
    add_completion=False,
    epilog='\b\nExample:\n  attn inspect "We were stuck in a traffic jam for hours"',
)

TERMS = """\b
Terms:
  score         scaled q·k, before the softmax
  weight        softmax of the scores: where a head looks, a fraction
  contribution  what a key carries to the query: length of weight · value, a share
  sinks         weight on special tokens such as [CLS], where heads rest
  telling head  the head whose weight most exceeds what it gives by position alone
  shift         cosine of a token to its own embedding, layer by layer

"""

HEAD_TERMS = """\b
Columns (means over the queries of the text; weights are fractions):
  entropy, keys  of a row, in nats; e^entropy, the keys it is as broad as
  broad          relative_entropy: 1 where every key seen gets the same
  dist, |dist|   tokens from query to key, by weight; negative looks back
  prev .. first  weight on the token before, behind, itself, the first one
  special, punct weight on special tokens; on those without letter or digit
  sink           weight on the first token; a sink head gives it more than .3
  conf           largest weight of a row on a token that is not special
  dup, ind       weight on earlier places of the same token; right after them

"""

app.command(
    "inspect",
    epilog=TERMS + '\b\nExample:\n  attn inspect "We were stuck in a traffic jam for hours"'
    '\n  attn inspect "The dog ate because it was hungry" -H 3.1 --query it'
    "\n  cat lines.txt | attn inspect --json | jq -c .top",
)(inspect)
app.command(
    "compare",
    epilog='\b\nExample:\n  attn compare "Stuck in a traffic jam" "Toast with strawberry jam" \\\n'
    "      --word jam --to traffic --to food"
    "\n  attn compare --file lines.txt --word jam --state L3"
    '\n  attn compare "a traffic jam" "toast with jam" -w jam --neighbours 5',
)(compare)
app.command(
    "explain",
    epilog='\b\nExample:\n  attn explain "The dog ate because it was hungry" --query it'
    '\n  attn explain "The dog ate because it was hungry" -q it -k dog -H 3.1 --brief',
)(explain)
app.command(
    "heads",
    epilog=HEAD_TERMS + '\b\nExample:\n  attn heads "We were stuck in a traffic jam for hours"'
    '\n  attn heads "The dog ate because it was hungry" --from it --to dog'
    '\n  attn heads "The doctor said he was late" --swap he,she',
)(heads)
app.command(
    "predict",
    epilog='\b\nExample:\n  attn predict -m HuggingFaceTB/SmolLM2-135M "The student did not"'
    '\n  attn predict -m google-bert/bert-base-uncased "The [MASK] sat." --lens',
)(predict)
app.command("tokens", epilog='\b\nExample:\n  attn tokens "The unbelievable café"')(tokens)
app.command("schema", epilog="\b\nExample:\n  attn schema inspect > inspect.schema.json")(schema)
app.add_typer(models.app, name="models", epilog="\b\nExample:\n  attn models info minilm")


def _print_version(wanted: bool) -> bool:
    if wanted:
        sys.stdout.write(f"attn {__version__}\n")
        raise typer.Exit
    return wanted


@app.callback()
def attn(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """See how a transformer reads a sentence: tokens, scores, attention weights, what they do.

    Works on the bundled model (all-MiniLM-L6-v2) or any model given with --model. Rows are queries,
    columns are keys; layers, heads and tokens count from 0. Data goes to standard output, all else
    to standard error.
    """


def main() -> None:
    """Run the command line and leave with the right exit code."""
    # Rows of a text go through a layer together: for one sentence a second thread costs more than
    # it brings. Must be set before numpy is loaded; a value set by the user stays.
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; problems are one line on standard error."""
    from attncli.outputs.sink import drop_buffered, print_problem

    debug = "--debug" in arguments
    try:
        code = app(arguments or ["--help"], prog_name="attn", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # typer turns a closed pipe into SystemExit
        drop_buffered()
        return CLOSED_PIPE
    except (KeyboardInterrupt, typer.Abort):
        print_problem("interrupted.")
        return INTERRUPTED
    except typer.Exit as leaving:
        return leaving.exit_code
    except AttnError as problem:
        if debug:
            print_exc()
        else:
            print_problem(str(problem))
        return problem.exit_code
    except Exception as problem:
        # typer's own usage errors; their class is not part of its interface
        if hasattr(problem, "format_message") and hasattr(problem, "exit_code"):
            message = " ".join(problem.format_message().split())
            if "No such option" in message:
                message += " (a TEXT that begins with - goes after --)"
            stop = "" if message.endswith((".", "?")) else "."
            print_problem(f"{message}{stop} See attn{_command(arguments)} --help.")
            return int(problem.exit_code)
        if debug:
            print_exc()
        else:
            print_problem(
                f"internal error: {type(problem).__name__}: {problem}. Please report it; "
                "--debug shows where it happened."
            )
        return 1
    return code if isinstance(code, int) else 0


def _command(arguments: list[str]) -> str:
    known = {command.name for command in app.registered_commands}
    known |= {group.name for group in app.registered_groups}
    return f" {arguments[0]}" if arguments and arguments[0] in known else ""
