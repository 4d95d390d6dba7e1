"""attn tokens."""

from __future__ import annotations

from attncli.commands import options


def tokens(
    texts: options.Texts = None,
    model: options.ModelName = None,
    literal_specials: options.LiteralSpecials = False,
    format_: options.OutputFormat = "table",
    json: options.Json = False,
    output: options.Output = None,
    file: options.File = None,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,
) -> None:
    """Show how the model's tokenizer cuts a text: ids, pieces, character spans, words, specials."""
    from attncli import api
    from attncli.commands.batch import Session

    session = Session(
        "tokens", format_=format_, json=json, output=output, no_color=no_color, verbose=verbose
    )
    loaded = session.load(model)
    session.each(
        loaded,
        texts,
        file,
        lambda text: api.tokens(
            text.text, loaded, literal_specials=literal_specials, line=text.line
        ),
    )
