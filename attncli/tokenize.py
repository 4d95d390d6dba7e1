"""Text to tokens: a `tokenizers` object, with spans, surface text, specials and words set right.

A pair of texts becomes one sequence, joined as the tokenizer joins them. Spans of tokens and words
then count in their own text, and words are numbered through both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli.errors import InputProblem, ModelProblem
from attncli.words import Word, split_words

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPACE_MARKS = "\u0120\u2581\u010a"
"""How vocabularies spell a leading space (byte-level, SentencePiece) and a line break."""
SECOND_TEXT = "\u00b2"
"""What tables put after tokens and words of the second text of a pair."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token of an encoded text."""

    index: int
    """Position in the sequence, zero-based."""
    id: int
    """Row of the embedding table."""
    token: str
    """The piece as the vocabulary spells it, such as "##ing" or a byte-level form."""
    text: str
    """What the user typed there; empty for a token that stands for no character."""
    start: int
    """First code point in its own text (0 for an added special, as the library reports)."""
    end: int
    """One past the last code point."""
    special: bool
    """True for [CLS], <s> and the like, whether added or typed by the user."""
    word: int | None
    """Index of the word it belongs to; None for specials and lone space marks."""
    part: int | None = 0
    """Text it stands in: 0, or 1 for the second of a pair; None for a special token that the
    tokenizer put in, which stands in neither."""
    type: int = 0
    """Row of the table of token types that it reads (0, mostly 1 for the second text of a pair)."""

    @property
    def added(self) -> bool:
        """True when the tokenizer put it in: it stands for nothing in the text."""
        return self.special and self.start == self.end


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text, or a pair of texts, as the model will read it."""

    text: str
    tokens: tuple[Token, ...]
    words: tuple[Word, ...]
    """Words that have at least one token; of a pair, those of both texts in order."""
    notes: tuple[str, ...] = ()
    """What a reader should know, such as control tokens typed as plain text."""
    lowercased: bool = False
    """True when the tokenizer makes no difference between "Jam" and "jam"."""
    pair: str | None = None
    """Second text of a pair."""

    @property
    def ids(self) -> list[int]:
        """Token ids in order."""
        return [token.id for token in self.tokens]

    @property
    def types(self) -> list[int]:
        """Token types in order, as `Job.types` takes them."""
        return [token.type for token in self.tokens]

    def text_of(self, part: int | None) -> str:
        """Return the text that spans with this `part` count in."""
        return self.pair if part == 1 and self.pair is not None else self.text

    def tokens_by_word(self) -> list[tuple[int, ...]]:
        """Return the token indexes of every word."""
        found: list[list[int]] = [[] for _ in self.words]
        for token in self.tokens:
            if token.word is not None:
                found[token.word].append(token.index)
        return [tuple(indexes) for indexes in found]


class TextTokenizer:
    """Encodes one text or pair at a time, without padding and without cutting."""

    def __init__(self, tokenizer: Tokenizer, notes: Sequence[str] = ()) -> None:
        """Take a `tokenizers` object; its padding and truncation are switched off.

        Args:
            tokenizer: the object.
            notes: what a reader of any text's tokens should know.
        """
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer, self.notes = tokenizer, tuple(notes)
        added = tokenizer.get_added_tokens_decoder()
        self._special_ids = {i for i, token in added.items() if token.special}
        self._unknown_id = _unknown_id(tokenizer)
        masks = {token.content for token in added.values() if token.special and _is_mask(token)}
        self.mask: str | None = min(masks) if len(masks) == 1 else None
        """The token that a model with a head for it fills; None: there is none."""
        normalizer = tokenizer.normalizer
        self.lowercases = normalizer is not None and normalizer.normalize_str("A") == "a"

    @classmethod
    def from_file(cls, path: Path) -> TextTokenizer:
        """Read a tokenizer.json.

        Raises:
            ModelProblem: the file is missing or is no tokenizer.
        """
        from tokenizers import Tokenizer

        try:
            content = path.read_bytes()
        except OSError as problem:
            raise ModelProblem(f"{path}: cannot be read ({problem.strerror}).") from None
        try:
            return cls(Tokenizer.from_buffer(content))
        except Exception as problem:  # the library raises plain Exception for anything wrong
            raise ModelProblem(f"{path}: not a usable tokenizer ({_one_line(problem)}).") from None

    @property
    def vocab_size(self) -> int:
        """Number of ids, added tokens included."""
        return int(self._tokenizer.get_vocab_size())

    def piece(self, id_: int) -> str | None:
        """Return a token as the vocabulary spells it, or None for an unknown id."""
        found: str | None = self._tokenizer.id_to_token(id_)
        return found

    @property
    def joins_pairs(self) -> bool:
        """False when tokens are put around a text, but nothing says how two texts are joined."""
        around = self._tokenizer.num_special_tokens_to_add
        return around(False) == 0 or around(True) > 0

    def is_ordinary(self, id_: int) -> bool:
        """Tell whether an id is a piece of text: neither special nor the unknown token."""
        return (
            id_ not in self._special_ids and id_ != self._unknown_id and self.piece(id_) is not None
        )

    def is_special(self, id_: int) -> bool:
        """Tell whether a token is a control token such as [CLS]."""
        return id_ in self._special_ids

    def surface(self, id_: int) -> str | None:
        """Return what a token adds to a text before it, a leading space included.

        None for an id without a token, and for one that is a part of a character.
        """
        if self.piece(id_) is None:
            return None
        # decoders drop the space before the first token, so that it is found before a second one
        once, twice = (self._tokenizer.decode([id_] * n, skip_special_tokens=False) for n in (1, 2))
        added = twice[len(once) :] if twice.startswith(once) else once
        return None if "\ufffd" in added else added

    def encode(
        self, text: str, pair: str | None = None, *, literal_specials: bool = False
    ) -> Encoded:
        """Encode a text, or a pair, with the special tokens that the model expects around it.

        Args:
            text: what the user typed.
            pair: the second text of a pair, if there is one.
            literal_specials: read control strings such as "[SEP]" in the text as plain characters.

        Raises:
            InputProblem: a text is empty, only white space, or not valid Unicode.
        """
        _refuse_blank(text, "text", 'give a sentence, such as attn inspect "I like jam"')
        if pair is not None:
            _refuse_blank(pair, "second text (--pair)", "give one, or leave it out")
        texts = (text,) if pair is None else (text, pair)
        self._tokenizer.encode_special_tokens = literal_specials
        try:
            encoding = self._tokenizer.encode(text, pair)
        except (UnicodeEncodeError, TypeError):
            raise InputProblem(
                "The text is not valid Unicode (it holds a lone surrogate)."
            ) from None
        except Exception:  # what the library raises where a vocabulary has no unknown token
            encoding = None
        words = [split_words(text) for text in texts]
        if encoding is None or not encoding.ids:
            raise InputProblem(self._unspeakable([word for part in words for word in part]))
        tokens = self._tokens(texts, words, encoding)
        numbered = [replace(w, part=part) for part, own in enumerate(words) for w in own]
        kept = sorted({token.word for token in tokens if token.word is not None})
        renumbered = {old: new for new, old in enumerate(kept)}
        return Encoded(
            text,
            tuple(_with_word(token, renumbered) for token in tokens),
            tuple(numbered[old] for old in kept),
            (*self._notes(tokens), *([] if pair is None else _pair_notes(tokens))),
            self.lowercases,
            pair,
        )

    def _unspeakable(self, words: Sequence[Word]) -> str:
        """Name the words that the vocabulary cannot spell."""
        missing = []
        for word in dict.fromkeys(word.text for word in words):
            try:
                if not self._tokenizer.encode(word, add_special_tokens=False).ids:
                    missing.append(word)
            except Exception:  # as above
                missing.append(word)
        named = f": {' '.join(missing[:5])}" if missing else ""
        return (
            f"The text has words that this model's vocabulary cannot spell{named}. Use other "
            "words, or give the vocabulary an entry [UNK] for unknown ones."
        )

    def _tokens(
        self, texts: Sequence[str], words: Sequence[Sequence[Word]], encoding: Any
    ) -> list[Token]:
        starts = [[word.start for word in own] for own in words]
        tokens = []
        for index, (piece, id_, (start, end), mask, sequence, type_) in enumerate(
            zip(
                encoding.tokens,
                encoding.ids,
                encoding.offsets,
                encoding.special_tokens_mask,
                encoding.sequence_ids,
                encoding.type_ids,
                strict=True,
            )
        ):
            special = bool(mask) or (id_ in self._special_ids and id_ != self._unknown_id)
            part = sequence or 0
            if mask:
                start = end = 0
            surface = texts[part][start:end]
            # a lone space mark shares the span of the word behind it: it stands for no character
            if piece and not piece.strip(SPACE_MARKS) and not surface.isspace():
                surface = ""
            core = start + len(surface) - len(surface.lstrip())
            at = (
                None
                if special or core >= start + len(surface)
                else _word_at(words[part], starts[part], core, end)
            )
            # words are counted through both texts
            at = at if at is None or part == 0 else at + len(words[0])
            own = None if mask else part
            tokens.append(Token(index, id_, piece, surface, start, end, special, at, own, type_))
        return tokens

    def _notes(self, tokens: Sequence[Token]) -> tuple[str, ...]:
        typed = [token.token for token in tokens if token.special and not token.added]
        unknown = [
            token.text for token in tokens if token.id == self._unknown_id and not token.added
        ]
        notes = [*self.notes]
        if typed:
            notes.append(
                f"control tokens typed in the text: {', '.join(dict.fromkeys(typed))} "
                "(--literal-specials reads them as plain characters)"
            )
        if unknown:
            notes.append(f"not in the vocabulary: {', '.join(dict.fromkeys(unknown))}")
        return tuple(notes)


def _is_mask(token: Any) -> bool:
    """Tell [MASK] and <mask>, as all vocabularies spell it, from other control tokens."""
    return str(token.content).strip("[<|>]").lower() == "mask"


def _word_at(words: Sequence[Word], starts: Sequence[int], core: int, end: int) -> int | None:
    """Return the first word that overlaps [core, end)."""
    at = bisect_right(starts, core) - 1
    if at >= 0 and words[at].end > core:
        return at
    following = at + 1
    return following if following < len(words) and words[following].start < end else None


def _with_word(token: Token, renumbered: dict[int, int]) -> Token:
    word = None if token.word is None else renumbered[token.word]
    return token if word == token.word else replace(token, word=word)


def _refuse_blank(text: str, what: str, advice: str) -> None:
    if not text.strip():
        raise InputProblem(f"The {what} is {'only white space' if text else 'empty'}; {advice}.")


def _pair_notes(tokens: Sequence[Token]) -> list[str]:
    """Say how tables tell the texts of a pair apart, and what is odd about how they are joined."""
    parts = [token.part for token in tokens]
    if not {0, 1} <= {*parts}:
        which = "first" if 0 not in parts else "second"
        return [f"the {which} text has no token: the tokenizer drops all of it"]
    notes = [f"{SECOND_TEXT} marks tokens of the second text"]
    if parts.index(1) and parts[parts.index(1) - 1] == 0:
        notes.append(
            "the tokenizer puts nothing between the two texts: the model reads them as one"
        )
    return notes


def _unknown_id(tokenizer: Tokenizer) -> int | None:
    name = getattr(tokenizer.model, "unk_token", None)
    found: int | None = tokenizer.token_to_id(name) if isinstance(name, str) else None
    return found


def _one_line(problem: Exception) -> str:
    return " ".join(str(problem).split())[:160]
