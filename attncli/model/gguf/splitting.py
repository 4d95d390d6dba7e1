"""How byte-level vocabularies cut a text before they merge: `tokenizer.ggml.pre` to its rule.

Each rule is what the tokenizer.json of the models that go by the name holds. Source: the names
in llama-vocab.cpp and convert_hf_to_gguf_update.py of llama.cpp; the patterns of GPT-2
(Radford et al. 2019), cl100k, o200k and the models' own tokenizers.
"""

from __future__ import annotations

from dataclasses import dataclass

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_EDGE = r"[^\r\n\p{L}\p{N}]?"
_O200K_REST = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"

_CL100K = rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}{{1,3}}|{_REST}"
_ONE_DIGIT = rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}|{_REST}"
_TEKKEN = rf"{_EDGE}{_UPPER}*{_LOWER}+|{_EDGE}{_UPPER}+{_LOWER}*|\p{{N}}|{_O200K_REST}"
_O200K = (
    rf"{_EDGE}{_UPPER}*{_LOWER}+{_CONTRACTIONS}?|{_EDGE}{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
    rf"|\p{{N}}{{1,3}}|{_O200K_REST}"
)
_DEEPSEEK_WORDS = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"


@dataclass(frozen=True, slots=True)
class Rule:
    """How a text is cut."""

    patterns: tuple[str, ...] = ()
    """Every match becomes a piece of its own; one pattern after another."""
    gpt2: bool = False
    """The pattern of GPT-2 comes last."""
    digits: bool = False
    """Every digit is a piece of its own, before all patterns."""
    punctuation: bool = False
    """Runs of punctuation are pieces of their own, before all patterns."""
    digit_runs: bool = False
    """After the pattern of GPT-2, runs of digits are pieces of their own."""
    whole_first: bool = False
    """A piece that is a token as it stands is not merged from its parts."""
    composed: bool = False
    """Accents are composed first (Unicode NFC)."""


GPT2 = Rule(gpt2=True)
_LLAMA3 = Rule((_CL100K,), whole_first=True)
_DIGITS = Rule(gpt2=True, digits=True)

RULES = {
    "gpt-2": GPT2,
    "phi-2": GPT2,
    "roberta-bpe": GPT2,
    "jina-es": GPT2,
    "jina-de": GPT2,
    "jina-v2-es": GPT2,
    "jina-v2-de": GPT2,
    "mpt": Rule(gpt2=True, composed=True),
    "olmo": Rule(gpt2=True, composed=True),
    "smollm": _DIGITS,
    "starcoder": _DIGITS,
    "refact": _DIGITS,
    "command-r": Rule(gpt2=True, digits=True, composed=True),
    "codeshell": _DIGITS,
    "falcon": Rule(("[0-9][0-9][0-9]",), gpt2=True, punctuation=True, digit_runs=True),
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama-bpe": _LLAMA3,
    "dbrx": Rule((_CL100K,)),
    "glm4": Rule((_CL100K,)),
    "chatglm-bpe": Rule((_CL100K,)),
    "qwen2": Rule((_ONE_DIGIT,), composed=True),
    "deepseek-r1-qwen": Rule((_ONE_DIGIT,)),
    "stablelm2": Rule((_ONE_DIGIT,)),
    "tekken": Rule((_TEKKEN,), whole_first=True),
    "gpt-4o": Rule((_O200K,)),
    "llama4": Rule((_O200K,)),
    "deepseek-coder": Rule((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}")),
    "deepseek-v3": Rule((r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", _DEEPSEEK_WORDS)),
    "bloom": Rule((_BLOOM,)),
}
"""Name to rule."""
