"""The tokens of a GGUF file and what it says about them, checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from attncli.checkpoints.gguf_header import Texts, Value
from attncli.errors import ModelProblem

Array = np.ndarray

UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4
"""Kinds of tokens in tokenizer.ggml.token_type."""


class Vocabulary:
    """What a file says about its tokens, checked."""

    def __init__(self, path: Path, metadata: Mapping[str, Value]) -> None:
        """Read the tokens and their kinds.

        Raises:
            ModelProblem: no tokens, or lists that do not fit them.
        """
        self.path, self._metadata = path, metadata
        self.architecture = metadata.get("general.architecture")
        self.tokens = self.texts("tokens")
        kinds = self.numbers("token_type")
        self.kinds = np.ones(len(self.tokens), np.int32) if kinds is None else kinds

    def get(self, key: str) -> Any:
        """Return a value below tokenizer.ggml, or None."""
        return self._metadata.get(f"tokenizer.ggml.{key}")

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.problem(f"tokenizer.ggml.{key} is {value!r:.60}, expected true or false")
        return default if value is None else value

    def texts(self, key: str) -> list[str]:
        """Return a list of strings that must be there."""
        value = self.get(key)
        if not isinstance(value, Texts) or not len(value):
            raise self.problem(f"no list tokenizer.ggml.{key}")
        try:
            return [text.decode() for text in value]
        except UnicodeDecodeError:
            raise self.problem(f"tokenizer.ggml.{key} holds strings that are not UTF-8") from None

    def numbers(self, key: str) -> Array | None:
        """Return one number a token, or None."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, np.ndarray) or len(value) != len(self.tokens):
            raise self.problem(f"tokenizer.ggml.{key} is not a list of {len(self.tokens)} numbers")
        return value

    def merges(self) -> list[tuple[str, str]]:
        """Return the merges, first the one that is done first."""
        halves = [merge.partition(" ") for merge in self.texts("merges")]
        return [(left, right) for left, _, right in halves]

    def scores(self) -> Array:
        """Return the score of every token."""
        scores = self.numbers("scores")
        if scores is None or not np.isfinite(scores).all():
            raise self.problem("no list tokenizer.ggml.scores of finite numbers")
        return scores

    def id(self, *keys: str) -> int | None:
        """Return the token id of the first key that is there."""
        for key in keys:
            value = self.get(f"{key}_token_id")
            if value is not None:
                if type(value) is not int or not 0 <= value < len(self.tokens):
                    raise self.problem(
                        f"tokenizer.ggml.{key}_token_id is {value!r:.60}, expected an id below "
                        f"{len(self.tokens)}"
                    )
                return value
        return None

    def unknown(self) -> str | None:
        """Return the token for what cannot be spelled."""
        found = self.id("unknown")
        if found is None:
            marked = np.flatnonzero(self.kinds == UNKNOWN)
            found = int(marked[0]) if len(marked) else None
        return None if found is None else self.tokens[found]

    def problem(self, what: str) -> ModelProblem:
        """Return an error about the tokenizer in the file."""
        return ModelProblem(f"{self.path}: not a usable tokenizer: {what}.")
