"""The tokenizer inside a GGUF file's metadata, as a `tokenizers` object.

`tokenizer.ggml.model` names the kind: gpt2 (byte-level merges), llama (SentencePiece merges),
bert (WordPiece), t5 (SentencePiece unigram). Source: llama-vocab.cpp of llama.cpp for defaults;
transformers/integrations/gguf (5.24) for the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attncli.checkpoints.gguf_header import Value
from attncli.errors import ModelProblem, listing
from attncli.model.gguf.merges import merges_of
from attncli.model.gguf.splitting import GPT2, RULES, Rule
from attncli.model.gguf.vocabulary import CONTROL, UNKNOWN, USER_DEFINED, Vocabulary
from attncli.tokenize import TextTokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Array = np.ndarray

SPACE = "\u2581"
_BY_POSITION = ("gemma", "gemma2", "gemma3")
"""Architectures whose scores do not say the order of merges, but the order of the file does."""


def build_tokenizer(path: Path, metadata: Mapping[str, Value]) -> TextTokenizer:
    """Build the tokenizer of a GGUF file.

    Raises:
        ModelProblem: none is there, it is of a kind attn does not know, or it is not sound.
    """
    kind = metadata.get("tokenizer.ggml.model")
    if kind not in _KINDS:
        raise ModelProblem(
            f"{path}: the tokenizer kind (tokenizer.ggml.model) is {kind!r:.60}, expected one of "
            f"{listing(_KINDS)}."
        )
    vocabulary = Vocabulary(path, metadata)
    try:
        tokenizer, notes = _KINDS[kind](vocabulary)
        _add_whole_tokens(tokenizer, vocabulary)
    except (ModelProblem, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # the library raises plain Exception, or panics
        raise vocabulary.problem(" ".join(str(problem).split())[:160]) from None
    return TextTokenizer(tokenizer, notes)


def _byte_level(vocabulary: Vocabulary) -> tuple[Tokenizer, tuple[str, ...]]:
    from tokenizers import Tokenizer, decoders
    from tokenizers.models import BPE

    rule, notes = _rule(vocabulary.get("pre"))
    merges = vocabulary.merges()
    ids = {token: i for i, token in enumerate(vocabulary.tokens)}
    tokenizer = Tokenizer(BPE(ids, merges, ignore_merges=rule.whole_first))
    tokenizer.decoder = decoders.ByteLevel()
    _split(tokenizer, rule)
    # llama.cpp gives these a first token when the file does not say
    bos = vocabulary.get("pre") in ("llama3", "llama-v3", "llama-bpe", "tekken")
    _surround(tokenizer, vocabulary, bos=bos)
    return tokenizer, notes


def _rule(name: Any) -> tuple[Rule, tuple[str, ...]]:
    """Return the rule, and a note when it is not the file's own."""
    if name in RULES:
        return RULES[name], ()
    what = (
        "names no rule for splitting a text (tokenizer.ggml.pre)"
        if name is None
        else f"splits a text by a rule attn does not know (tokenizer.ggml.pre {name!r:.40})"
    )
    return GPT2, (
        f"the GGUF file {what}: the rule gpt-2 is used instead, and tokens may differ from those "
        "the model was trained on",
    )


def _split(tokenizer: Tokenizer, rule: Rule) -> None:
    from tokenizers import Regex
    from tokenizers.normalizers import NFC
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Punctuation, Sequence, Split

    if rule.composed:
        tokenizer.normalizer = NFC()
    steps: list[Any] = []
    if rule.punctuation:
        steps.append(Punctuation("contiguous"))
    if rule.digits:
        steps.append(Digits(individual_digits=True))
    splits = [Split(Regex(pattern), "isolated") for pattern in rule.patterns]
    if rule.gpt2:
        steps.append(ByteLevel(add_prefix_space=False, use_regex=True))
        if rule.digit_runs:
            steps.append(Digits(individual_digits=False))
        # what follows works on the bytes' spelling, which leaves ASCII digits alone
        steps += splits
    else:
        steps += [*splits, ByteLevel(add_prefix_space=False, use_regex=False)]
    tokenizer.pre_tokenizer = Sequence(steps)


def _sentencepiece(vocabulary: Vocabulary) -> tuple[Tokenizer, tuple[str, ...]]:
    from tokenizers import Tokenizer, normalizers
    from tokenizers.models import BPE

    tokens = vocabulary.tokens
    if vocabulary.architecture in _BY_POSITION:
        # runs of spaces are stored as such, and looked up in the spelling of all others
        tokens = [SPACE * len(t) if t and not t.strip(" ") else t for t in tokens]
        scores = -np.arange(len(tokens), dtype=np.float32)
    else:
        scores = vocabulary.scores()
    if vocabulary.get("merges") is None:
        merges = merges_of(vocabulary.path, tokens, scores)
    else:
        merges = vocabulary.merges()
    ids = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(
        BPE(ids, merges, unk_token=vocabulary.unknown(), fuse_unk=True, byte_fallback=True)
    )
    steps: list[Any] = [normalizers.Replace(" ", SPACE)]
    if vocabulary.flag("add_space_prefix", True):
        steps.insert(0, normalizers.Prepend(SPACE))
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.decoder = _space_decoder()
    _surround(tokenizer, vocabulary, bos=True)
    return tokenizer, ()


def _word_piece(vocabulary: Vocabulary) -> tuple[Tokenizer, tuple[str, ...]]:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing

    tokens = [_word_piece_spelling(token) for token in vocabulary.tokens]
    ids = {token: i for i, token in enumerate(tokens)}
    unknown = vocabulary.unknown() or "[UNK]"
    tokenizer = Tokenizer(WordPiece(ids, unk_token=unknown))
    # the file does not say, but a vocabulary with capitals can only be meant for them
    cased = any(token != token.lower() for token in tokens if not _bracketed(token))
    tokenizer.normalizer = BertNormalizer(lowercase=not cased)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    first, last = vocabulary.id("cls", "bos"), vocabulary.id("seperator", "sep", "eos")
    cls = "[CLS]" if first is None else tokens[first]
    sep = "[SEP]" if last is None else tokens[last]
    if cls not in ids or sep not in ids:
        raise vocabulary.problem(f"no tokens {cls} and {sep} in its vocabulary")
    tokenizer.post_processor = TemplateProcessing(
        f"{cls}:0 $A:0 {sep}:0",
        f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        [(cls, ids[cls]), (sep, ids[sep])],
    )
    return tokenizer, ()


def _word_piece_spelling(token: str) -> str:
    """Turn the file's mark at the start of words into the usual mark inside words."""
    if token.startswith(SPACE):
        return token[1:]
    return token if _bracketed(token) else f"##{token}"


def _bracketed(token: str) -> bool:
    return token.startswith("[") and token.endswith("]")


def _unigram(vocabulary: Vocabulary) -> tuple[Tokenizer, tuple[str, ...]]:
    from tokenizers import Regex, Tokenizer, normalizers
    from tokenizers.models import Unigram
    from tokenizers.pre_tokenizers import Metaspace

    unknown = vocabulary.id("unknown")
    marked = np.flatnonzero(vocabulary.kinds == UNKNOWN)
    if unknown is None and len(marked):
        unknown = int(marked[0])
    pieces = list(zip(vocabulary.tokens, vocabulary.scores().tolist(), strict=True))
    tokenizer = Tokenizer(Unigram(pieces, unk_id=unknown, byte_fallback=False))
    steps: list[Any] = []
    charsmap = vocabulary.get("precompiled_charsmap")
    if charsmap is not None:
        steps.append(normalizers.Precompiled(charsmap.tobytes()))
    if vocabulary.flag("remove_extra_whitespaces", True):
        steps.append(normalizers.Strip(left=False, right=True))
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
    tokenizer.normalizer = normalizers.Sequence(steps)
    prefix = vocabulary.flag("add_space_prefix", True)
    tokenizer.pre_tokenizer = Metaspace(prepend_scheme="always" if prefix else "never")
    tokenizer.decoder = _space_decoder()
    _surround(tokenizer, vocabulary, bos=False, eos=True)
    return tokenizer, ()


def _space_decoder() -> Any:
    """Turn pieces back into text: marks to spaces, <0xE2> and the like to bytes."""
    from tokenizers import decoders

    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps)


def _surround(
    tokenizer: Tokenizer, vocabulary: Vocabulary, *, bos: bool, eos: bool = False
) -> None:
    """Add the tokens that stand around every text, as the file says or by these defaults."""
    from tokenizers.processors import TemplateProcessing

    before = [_named(vocabulary, "bos")] if vocabulary.flag("add_bos_token", bos) else []
    after = [_named(vocabulary, "eos")] if vocabulary.flag("add_eos_token", eos) else []
    if not before and not after:
        return
    single = [name for name, _ in before] + ["$A"] + [name for name, _ in after]
    # only encoders read pairs, and those of this kind as RoBERTa does: <s> A </s> </s> B </s>
    pair = [*single, *(name for name, _ in after), "$B:0", *(name for name, _ in after)]
    tokenizer.post_processor = TemplateProcessing(single, pair, [*before, *after])


def _named(vocabulary: Vocabulary, role: str) -> tuple[str, int]:
    found = vocabulary.id(role)
    if found is None:
        raise vocabulary.problem(
            f"it puts a token around every text, but tokenizer.ggml.{role}_token_id is missing"
        )
    return vocabulary.tokens[found], found


def _add_whole_tokens(tokenizer: Tokenizer, vocabulary: Vocabulary) -> None:
    """Control and user-defined tokens are never cut; the former are special."""
    from tokenizers import AddedToken

    def marked(kind: int, *, special: bool) -> list[AddedToken]:
        tokens = [vocabulary.tokens[i] for i in np.flatnonzero(vocabulary.kinds == kind).tolist()]
        return [
            AddedToken(token, normalized=False, special=special)
            for token in tokens
            # others are only reached through their spelling in the vocabulary
            if tokenizer.token_to_id(token) is not None
        ]

    tokenizer.add_special_tokens(marked(CONTROL, special=True))
    tokenizer.add_tokens(marked(USER_DEFINED, special=False))


_KINDS: dict[Any, Callable[[Vocabulary], tuple[Tokenizer, tuple[str, ...]]]] = {
    "gpt2": _byte_level,
    "llama": _sentencepiece,
    "bert": _word_piece,
    "t5": _unigram,
}
"""`tokenizer.ggml.model` to what builds it."""
