"""Small encoder-decoders with parameters of the parity cases and a tokenizer of plain words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from attncli.model.load import Model, load
from tests.parity.comparison import read_golden
from tests.toys import write_folder

WORDS = [
    *("<pad>", "</s>", "<unk>", "the", "dog", "sees", "a", "cat", "and", "runs"),
    *("hund", "der", "sieht", "eine", "katze", "##s", "en_XX"),
]
SOURCE = "the dog sees a cat"
TARGET = "der hund sieht eine"


def tokenizer(template: str = "$A </s>") -> Tokenizer:
    """One token a word, with the special tokens that a family puts around a text."""
    words = [*WORDS, *(f"w{i}" for i in range(len(WORDS), 40))]
    ids = {word: i for i, word in enumerate(words)}
    made = Tokenizer(WordLevel(ids, unk_token="<unk>"))
    made.pre_tokenizer = Whitespace()
    specials = ["<pad>", "</s>", "<unk>", "en_XX"]
    made.add_special_tokens(specials)
    made.post_processor = TemplateProcessing(template, None, [(s, ids[s]) for s in specials])
    return made


def seq2seq(folder: Path, case: str = "t5", template: str = "$A </s>", **changes: Any) -> Model:
    """Load the model of a parity case from a folder, with this tokenizer."""
    golden = read_golden(case)
    config = {**golden.config, "decoder_start_token_id": 0, **changes}
    return load(str(write_folder(folder, config, golden.tensors, tokenizer(template))))
