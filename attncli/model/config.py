"""Typed reading of config.json: each key is read with its type, and none that matters is missed.

A key that could change the arithmetic and that no family reads is an error: a model computed
without it would be silently wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attncli.errors import ModelProblem, listing

NEUTRAL = frozenset(
    [
        "_name_or_path",
        "architectures",
        "auto_map",
        "chunk_size_feed_forward",
        "classifier_dropout",
        "dtype",
        "finetuning_task",
        "gradient_checkpointing",
        "id2label",
        "initializer_factor",
        "initializer_range",
        "label2id",
        "language",
        "max_length",
        "model_type",
        "name",
        "num_labels",
        "output_attentions",
        "output_hidden_states",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
        "problem_type",
        "return_dict",
        "sentence_transformers",
        "task_specific_params",
        "tie_word_embeddings",
        "tokenizer_class",
        "torch_dtype",
        "torchscript",
        "transformers_version",
        "use_cache",
    ]
)
"""Keys that do not change attention weights or the residual stream of one text."""

_NEUTRAL_PATTERN = re.compile(r".*(dropout|token_id)(_prob|_rate)?$|^_attn_.*")
MAX_COUNT = 10_000_000
"""Largest width, count or vocabulary believed of a config."""
MAX_LAYERS = 10_000


class ConfigReader:
    """The keys of one configuration; remembers which were read."""

    def __init__(self, values: dict[str, Any], path: Path | str) -> None:
        """Take the parsed config and the path that messages name."""
        self._values = values
        self.path = path
        self._read: set[str] = set()

    @classmethod
    def from_file(cls, path: Path) -> ConfigReader:
        """Read config.json.

        Raises:
            ModelProblem: the file is missing, not JSON, or not an object.
        """
        try:
            values = json.loads(path.read_bytes())
        except OSError as problem:
            raise ModelProblem(f"{path}: cannot be read ({problem.strerror}).") from None
        except (ValueError, RecursionError):
            raise ModelProblem(f"{path}: not valid JSON.") from None
        if not isinstance(values, dict):
            raise ModelProblem(f"{path}: found {type(values).__name__}, expected a JSON object.")
        return cls(values, path)

    def has(self, key: str) -> bool:
        """Tell whether the key is there with a value other than null."""
        return self._values.get(key) is not None

    def count(
        self, key: str, default: int | None = None, *, least: int = 1, most: int = MAX_COUNT
    ) -> int:
        """Return a whole number from `least` to `most`."""
        value = self._get(key, default)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(key, value, f"a whole number from {least:,} to {most:,}")
        return value

    def number(self, key: str, default: float | None = None, *, least: float = -1e30) -> float:
        """Return a finite number that is `least` or more."""
        value = self._get(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value < 1e30:
            expected = "a number" if least <= -1e30 else f"a number from {least:g}"
            raise self._wrong(key, value, expected)
        return float(value)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return true or false."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def choice(self, key: str, allowed: Iterable[str], default: str | None = None) -> str:
        """Return one of the allowed strings."""
        value = self._get(key, default)
        if not isinstance(value, str) or value not in allowed:
            raise self._wrong(key, value, "one of " + listing(allowed, 20))
        return value

    def text(self, key: str) -> str:
        """Return a string."""
        value = self._get(key, None)
        if not isinstance(value, str):
            raise self._wrong(key, value, "a string")
        return value

    def mapping(self, key: str) -> dict[str, Any] | None:
        """Return a map, or None when the key is absent or null."""
        self._read.add(key)
        value = self._values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(key, value, "a map")
        return value

    def texts(self, key: str) -> list[str] | None:
        """Return a list of strings, or None when the key is absent or null."""
        self._read.add(key)
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(key, value, "a list of strings")
        return value

    def divides(self, whole: str, part: str) -> None:
        """Refuse a width that does not split evenly, such as d_model over heads."""
        if self.count(whole) % self.count(part):
            sizes = f"{whole} {self.count(whole)} does not divide by {part} {self.count(part)}"
            raise ModelProblem(f"{self.path}: {sizes}.")

    def expect(self, key: str, *expected: Any) -> None:
        """Read a key that is only supported with these values, or absent."""
        self._read.add(key)
        value = self._values.get(key)
        if value is not None and value not in expected:
            values = " or ".join(json.dumps(e) for e in expected)
            raise ModelProblem(
                f"{self.path}: {key} {_short(value)} is not supported (expected {values}); "
                "results would be wrong, so attn stops here."
            )

    def finish(self) -> None:
        """Refuse keys that nobody read and that are not known to leave the numbers alone.

        Raises:
            ModelProblem: lists the keys.
        """
        unread = {
            key
            for key, value in self._values.items()
            if key not in self._read
            and value is not None
            and key not in NEUTRAL
            and not _NEUTRAL_PATTERN.fullmatch(key)
        }
        if unread:
            raise ModelProblem(
                f"{self.path}: attn does not know what these keys change: {listing(unread)}. "
                "Results could be wrong, so attn stops here; remove a key if it does not matter."
            )

    def _get(self, key: str, default: Any) -> Any:
        self._read.add(key)
        value = self._values.get(key)
        if value is None:
            value = default
        if value is None:
            raise ModelProblem(f"{self.path}: the key {key} is missing.")
        return value

    def _wrong(self, key: str, value: Any, expected: str) -> ModelProblem:
        return ModelProblem(f"{self.path}: {key} is {_short(value)}, expected {expected}.")


def _short(value: Any) -> str:
    return json.dumps(value)[:60]
