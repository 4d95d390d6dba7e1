"""Typed reading of config.json: each key is read with its type, and none that matters is missed.

A key that could change the arithmetic and that no family reads is an error: a model computed
without it would be silently wrong.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attncli.errors import ModelProblem, listing

NEUTRAL = frozenset(
    [
        "_flash_attn_2_enabled",
        "_name_or_path",
        "_num_labels",
        "architectures",
        "auto_map",
        "cache_implementation",
        "chunk_size_feed_forward",
        "classifier_dropout",
        "decoder_layerdrop",
        "dtype",
        "encoder_layerdrop",
        "finetuning_task",
        "gradient_checkpointing",
        "id2label",
        "initializer_factor",
        "initializer_range",
        "label2id",
        "language",
        "max_length",
        "max_sequence_length",
        "model_type",
        "name",
        "neftune_noise_alpha",
        "num_labels",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
        "pretraining_tp",
        "problem_type",
        "return_dict",
        "router_aux_loss_coef",
        "router_jitter_noise",
        "sentence_transformers",
        "task_specific_params",
        "tie_word_embeddings",
        "tokenizer_class",
        "torch_dtype",
        "torchscript",
        "transformers.js_config",
        "transformers_version",
        "unsloth_fixed",
        "unsloth_version",
        "use_cache",
    ]
)
"""Keys that do not change attention weights or the residual stream of one text."""

GENERATION = frozenset(
    [
        "bad_words_ids",
        "begin_suppress_tokens",
        "diversity_penalty",
        "do_sample",
        "early_stopping",
        "encoder_no_repeat_ngram_size",
        "exponential_decay_length_penalty",
        "force_bos_token_to_be_generated",
        "length_penalty",
        "min_length",
        "no_repeat_ngram_size",
        "num_beam_groups",
        "num_beams",
        "num_return_sequences",
        "output_past",
        "output_scores",
        "prefix",
        "remove_invalid_values",
        "repetition_penalty",
        "return_dict_in_generate",
        "suppress_tokens",
        "temperature",
        "top_k",
        "top_p",
        "typical_p",
    ]
)
"""Keys of text generation, which configurations before 2023 hold too."""

UNUSED: dict[str, Any] = {
    "add_cross_attention": False,
    "cross_attention_hidden_size": None,
    "is_decoder": False,
    "is_encoder_decoder": False,
    "pruned_heads": {},
    "tf_legacy_loss": False,
    "tie_encoder_decoder": False,
    "use_bfloat16": False,
}
"""Keys that change nothing with these values, which many files write out."""

_NEUTRAL_PATTERN = re.compile(
    r".*(dropout|token_id)(_prob|_rate)?$|.*(_pdrop|layerdrop)$|^_attn_.*|^summary_.*"
)
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
        self._defaults: dict[str, Any] = {}
        self._inner: dict[str, ConfigReader] = {}

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

    def assume(self, defaults: Mapping[str, Any]) -> None:
        """Give values of absent keys: those of the reference's configuration class.

        Many published configs leave out what equals a default. A key that is there with null
        stays null: `sliding_window: null` switches a window off that the class has by default.
        """
        self._defaults |= defaults

    def inner(self, key: str) -> ConfigReader:
        """Return the reader of a configuration inside this one; `finish` finishes it too."""
        if key not in self._inner:
            values = self.mapping(key)
            if values is None:
                raise ModelProblem(f"{self.path}: the key {key} is missing.")
            self._inner[key] = ConfigReader(values, f"{self.path}, {key}")
        return self._inner[key]

    def look(self, *path: str) -> Any:
        """Return what stands under a path of keys, or None; no key counts as read."""
        value: Any = self._values
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def mentions(self, key: str) -> bool:
        """Tell whether the key is there, be it with the value null."""
        return key in self._values

    def has(self, key: str) -> bool:
        """Tell whether the key is there with a value other than null."""
        return self._peek(key) is not None

    def count(
        self, key: str, default: int | None = None, *, least: int = 1, most: int = MAX_COUNT
    ) -> int:
        """Return a whole number from `least` to `most`."""
        value = self._get(key, default)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(key, value, f"a whole number from {least:,} to {most:,}")
        return value

    def number(
        self,
        key: str,
        default: float | None = None,
        *,
        least: float = -1e30,
        above: float = -math.inf,
    ) -> float:
        """Return a finite number that is `least` or more, and more than `above`."""
        value = self._get(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value < 1e30 or value <= above:
            expected = "a number" if least <= -1e30 else f"a number from {least:g}"
            expected += f" above {above:g}" if above > -math.inf else ""
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

    def is_text(self, key: str) -> bool:
        """Tell whether the value is a string, for keys that have two spellings."""
        return isinstance(self._values.get(key), str)

    def mapping(self, key: str) -> dict[str, Any] | None:
        """Return a map, or None when the key is absent or null."""
        value = self._value(key)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(key, value, "a map")
        return value

    def texts(self, key: str) -> list[str] | None:
        """Return a list of strings, or None when the key is absent or null."""
        value = self._value(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(key, value, "a list of strings")
        return value

    def counts(self, key: str) -> list[int] | None:
        """Return a list of whole numbers from 0, or None when the key is absent or null."""
        value = self._value(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(i) is int and i >= 0 for i in value):
            raise self._wrong(key, value, "a list of whole numbers from 0")
        return value

    def items(self, key: str) -> list[Any] | None:
        """Return a list of anything, which the caller checks, or None when absent or null."""
        self._read.add(key)
        value = self._values.get(key)
        if value is not None and not isinstance(value, list):
            raise self._wrong(key, value, "a list")
        return value

    def either(self, *keys: str) -> str:
        """Return which of several spellings of one key is there; the first when none is.

        Raises:
            ModelProblem: several are there and do not agree.
        """
        present = [key for key in keys if self._values.get(key) is not None]
        self.pass_over(*keys)
        if any(self._values[key] != self._values[present[0]] for key in present):
            raise ModelProblem(f"{self.path}: {' and '.join(present)} should be equal.")
        return present[0] if present else keys[0]

    def divides(self, whole: str, part: str) -> None:
        """Refuse a width that does not split evenly, such as d_model over heads."""
        if self.count(whole) % self.count(part):
            sizes = f"{whole} {self.count(whole)} does not divide by {part} {self.count(part)}"
            raise ModelProblem(f"{self.path}: {sizes}.")

    def expect(self, key: str, *expected: Any) -> None:
        """Read a key that is only supported with these values, or absent."""
        value = self._value(key)
        if value is not None and value not in expected:
            values = " or ".join(json.dumps(e) for e in expected) or "none"
            raise ModelProblem(
                f"{self.path}: {key} {_short(value)} is not supported (expected {values}); "
                "results would be wrong, so attn stops here."
            )

    def pass_over(self, *keys: str) -> None:
        """Mark keys that the family knows to leave the numbers alone."""
        self._read.update(keys)

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
            and key not in NEUTRAL | GENERATION
            and not (key in UNUSED and value == UNUSED[key])
            and not _NEUTRAL_PATTERN.fullmatch(key)
        }
        for reader in self._inner.values():
            reader.finish()
        if unread:
            raise ModelProblem(
                f"{self.path}: attn does not know what these keys change: {listing(unread)}. "
                "Results could be wrong, so attn stops here; remove a key if it does not matter."
            )

    def _value(self, key: str) -> Any:
        self._read.add(key)
        return self._peek(key)

    def _peek(self, key: str) -> Any:
        return self._values[key] if key in self._values else self._defaults.get(key)

    def _get(self, key: str, default: Any) -> Any:
        value = self._value(key)
        if value is None:
            value = default
        if value is None:
            raise ModelProblem(f"{self.path}: the key {key} is missing.")
        return value

    def _wrong(self, key: str, value: Any, expected: str) -> ModelProblem:
        return ModelProblem(f"{self.path}: {key} is {_short(value)}, expected {expected}.")


def _short(value: Any) -> str:
    return json.dumps(value)[:60]
