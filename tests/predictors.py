"""Small models with an output head, parameters of the golden heads, and tokenizers of words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from attncli.model.load import Model, load
from tests.parity.heads import read_golden_head
from tests.seq2seq import tokenizer as target_tokenizer
from tests.toys import write_folder

SPECIALS = ("[CLS]", "[SEP]", "[MASK]")
WORDS = [
    *SPECIALS,
    *("[UNK]", "the", "dog", "sees", "a", "cat", "and", "runs", ".", "##s"),
]
MASKED = "the dog [MASK] a [MASK]"
CONTINUED = "the dog sees"


def tokenizer(template: str = "$A", words: int = 40) -> Tokenizer:
    """One token a word; `template` says what stands around a text."""
    vocabulary = [*WORDS, *(f"w{i}" for i in range(len(WORDS), 40))][:words]
    ids = {word: i for i, word in enumerate(vocabulary)}
    made = Tokenizer(WordLevel(ids, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    made.add_special_tokens(list(SPECIALS))
    specials = [(name, ids[name]) for name in SPECIALS]
    made.post_processor = TemplateProcessing(template, None, specials)
    return made


def predictor(folder: Path, case: str, made: Tokenizer, **changes: Any) -> Model:
    """Load the model of a head case with a tokenizer."""
    golden = read_golden_head(case)
    config = {**golden.config, **changes}
    return load(str(write_folder(folder, config, golden.tensors, made)))


def filler(folder: Path, case: str = "bert") -> Model:
    """An encoder that fills masks."""
    return predictor(folder, case, tokenizer("[CLS] $A [SEP]"))


def pair_filler(folder: Path) -> Model:
    """An encoder that fills masks in two texts, the second with types of its own."""
    made = tokenizer()
    made.post_processor = TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 0), ("[SEP]", 1)]
    )
    return predictor(folder, "bert", made)


def continuer(folder: Path, case: str = "gpt2", template: str = "$A", words: int = 40) -> Model:
    """A decoder; with fewer words than 40 the last rows of its table are padding."""
    return predictor(folder, case, tokenizer(template, words))


def translator(folder: Path, case: str = "t5", template: str = "$A </s>", **changes: Any) -> Model:
    """An encoder-decoder."""
    start = {"decoder_start_token_id": 0, **changes}
    return predictor(folder, case, target_tokenizer(template), **start)
