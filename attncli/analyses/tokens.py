"""tokens: how the model's tokenizer cuts a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli.display import labels
from attncli.model.load import Model
from attncli.results import (
    RANDOM_NOTE,
    Column,
    Label,
    ModelCard,
    Table,
    count,
    document,
    pair_arrays,
    text_record,
)
from attncli.tokenize import Encoded

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Tokens:
    """The result of `attn tokens` for one text."""

    card: ModelCard
    encoded: Encoded
    line: int | None = None

    @property
    def random(self) -> bool:
        """True when the model's weights mean nothing (its tokens are sound)."""
        return self.card.random

    @property
    def notes(self) -> tuple[str, ...]:
        """Control tokens typed in the text, words outside the vocabulary."""
        return (*([RANDOM_NOTE] if self.card.random else []), *self.encoded.notes)

    def headline(self) -> str:
        """Say how many tokens and words there are."""
        n_tokens = count(len(self.encoded.tokens), "token")
        n_words = count(len(self.encoded.words), "word")
        both = "" if self.encoded.pair is None else " of two texts"
        return f"{self.card.name} · {self.card.family} · {n_tokens}, {n_words}{both}"

    def record(self) -> dict[str, Any]:
        """Return the JSON document (schema attn.tokens)."""
        line = {} if self.line is None else {"line": self.line}
        of_word = self.encoded.tokens_by_word()
        words = [
            {
                "index": index,
                "text": word.text,
                "start": word.start,
                "end": word.end,
                **({} if self.encoded.pair is None else {"part": word.part}),
                "tokens": list(of_word[index]),
            }
            for index, word in enumerate(self.encoded.words)
        ]
        head = document("tokens", self.card)
        return {
            **head,
            **line,
            **text_record(self.encoded),
            "words": words,
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """Return one row a token."""
        shown = labels(self.encoded.tokens)
        columns = [
            Column("index", "int"),
            Column("token", "label"),
            Column("id", "int"),
            Column("piece", "text"),
            Column("characters", "text"),
            Column("word", "text"),
            *([] if self.encoded.pair is None else [Column("type", "int")]),
        ]
        rows = []
        for token in self.encoded.tokens:
            span = "added" if token.added else f"{token.start}–{token.end}"
            word = None if token.word is None else self.encoded.words[token.word].text
            label = Label(shown[token.index], token.special, token.index)
            type_ = () if self.encoded.pair is None else (token.type,)
            rows.append((token.index, label, token.id, token.token, span, word, *type_))
        return [Table("tokens", "", columns, rows, hint="-f csv or --json has all")]

    def tidy(self) -> Table:
        """Return one row a token, with the fields of the JSON."""
        columns = [
            Column("index", "int"),
            Column("id", "int"),
            Column("token"),
            Column("token_text"),
            Column("start", "int"),
            Column("end", "int"),
            Column("special"),
            Column("word", "int"),
        ]
        rows: list[tuple[Any, ...]] = [
            (t.index, t.id, t.token, t.text, t.start, t.end, str(t.special).lower(), t.word)
            for t in self.encoded.tokens
        ]
        if self.encoded.pair is not None:
            columns += [Column("part", "int"), Column("type", "int")]
            rows = [
                (*row, t.part, t.type) for row, t in zip(rows, self.encoded.tokens, strict=True)
            ]
        return Table("tokens", "", columns, rows)

    def arrays(self) -> dict[str, Array]:
        """Return ids, pieces, spans and flags."""
        tokens = self.encoded.tokens
        return {
            "ids": np.array([token.id for token in tokens]),
            "tokens": np.array([token.token for token in tokens]),
            "spans": np.array([(token.start, token.end) for token in tokens]),
            "special": np.array([token.special for token in tokens]),
            "words": np.array([-1 if token.word is None else token.word for token in tokens]),
            **pair_arrays(self.encoded),
            "random": np.array(self.card.random),
        }


def list_tokens(model: Model, encoded: Encoded, *, line: int | None = None) -> Tokens:
    """Gather the tokens of an encoded text."""
    return Tokens(model.card(), encoded, line)
