"""The options that say where and how results are written, given to a command in one line."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

from attncli.commands import options

OPTIONS: dict[str, tuple[Any, Any]] = {
    "format_": (options.OutputFormat, "table"),
    "json": (options.Json, False),
    "output": (options.Output, None),
    "no_color": (options.NoColor, False),
    "verbose": (options.Verbose, False),
    "debug": (options.Debug, False),
}
"""Name to annotation and default; --debug is looked for where problems are caught."""


def writes(command: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of its output; it gets them as a Session, its first argument.

    Args:
        command: name of the command, as in the schema of its JSON.
    """

    def give(function: Callable[..., None]) -> Callable[..., None]:
        def run(*arguments: Any, **values: Any) -> None:
            from attncli.commands.batch import Session

            chosen = {name: values.pop(name, default) for name, (_, default) in OPTIONS.items()}
            del chosen["debug"]
            function(Session(command, **chosen), *arguments, **values)

        # the session's class is known to type checkers only, so that the help starts fast
        hints = get_type_hints(function, localns={"Session": Any}, include_extras=True)
        own = list(signature(function).parameters.values())[1:]
        parameters = [parameter.replace(annotation=hints[parameter.name]) for parameter in own]
        parameters += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in OPTIONS.items()
        ]
        run.__name__, run.__doc__ = function.__name__, function.__doc__
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return give
