"""Tokenizers out of GGUF metadata: each kind against a `tokenizers` object made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import BPE, Unigram, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel, Sequence, Split

from attncli.checkpoints.gguf import GgufFile
from attncli.errors import InputProblem, ModelProblem
from attncli.model.gguf.splitting import RULES
from attncli.model.gguf.tokenizer import build_tokenizer
from attncli.tokenize import TextTokenizer
from tests.ggufs import write_gguf
from tests.texts import PAGE

SPACE = "▁"
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

BYTES = sorted(ByteLevel.alphabet())
MERGES = ["i t", "' s", "Ġ t", "h e", "Ġt he", "1 2", "12 3", "4 5", "Ġ 123", "Ġ c", "a t"]
MERGES += ["Ġc at", "Ġ !", "Ġ 12", "Ġ1 2", "Ġ12 3", "Ġ123 45", "3 4", "12 34", "1234 5"]


def build(
    tmp_path: Path, tokens: list[str], kinds: dict[int, int] | None = None, **keys: Any
) -> TextTokenizer:
    """Build the tokenizer of a file with these values below tokenizer.ggml."""
    types = np.ones(len(tokens), np.int32)
    for index, kind in (kinds or {}).items():
        types[index] = kind
    values = {"tokens": tokens, "token_type": types, **keys}
    metadata = {f"tokenizer.ggml.{key}": v for key, v in values.items() if v is not None}
    metadata["general.architecture"] = keys.get("architecture", "llama")
    path = write_gguf(tmp_path / "m.gguf", metadata, {})
    return build_tokenizer(path, GgufFile(path).metadata)


def byte_level(tmp_path: Path, pre: str | None, **keys: Any) -> TextTokenizer:
    whole = [merge.replace(" ", "") for merge in MERGES]
    tokens = list(dict.fromkeys(["<s>", *BYTES, *whole, "<|im_end|>", "   "]))
    kinds = {0: CONTROL, len(tokens) - 2: CONTROL, len(tokens) - 1: USER}
    merges = [merge for merge in MERGES if all(half in tokens for half in merge.split(" "))]
    keys = {"merges": merges, "bos_token_id": 0, "add_bos_token": True, **keys}
    return build(tmp_path, tokens, kinds, model="gpt2", pre=pre, **keys)


def pieces(tokenizer: TextTokenizer, text: str) -> list[str]:
    return [token.token for token in tokenizer.encode(text).tokens]


TEXT = "it's 12345 !!  the cat"


def test_rule_of_gpt2(tmp_path: Path) -> None:
    tokenizer = byte_level(tmp_path, "gpt-2")
    expected = ["<s>", "it", "'s", "Ġ12345", "Ġ!", "!", "Ġ", "Ġthe", "Ġcat"]
    assert pieces(tokenizer, TEXT) == expected
    assert tokenizer.encode(TEXT).notes == ()
    assert pieces(byte_level(tmp_path, "gpt-2", add_bos_token=False), TEXT) == expected[1:]


@pytest.mark.parametrize(("pre", "named"), [(None, "names no rule"), ("my-own", "'my-own'")])
def test_missing_or_unknown_rule_is_said(tmp_path: Path, pre: str | None, named: str) -> None:
    tokenizer = byte_level(tmp_path, pre)
    encoded = tokenizer.encode(TEXT)
    assert encoded.ids == byte_level(tmp_path, "gpt-2").encode(TEXT).ids
    (note,) = encoded.notes
    assert named in note
    assert "tokenizer.ggml.pre" in note
    assert "gpt-2 is used instead" in note


# what each rule does to the same text; one letter of punctuation or digit apart
SPLITS = {
    "gpt-2": ["Don", "'t", "ĠITS", "'", "S", "Ġ1234", "Ġ-->", "ĊĊ", "Ġx"],
    "llama-bpe": ["Don", "'t", "ĠITS", "'S", "Ġ", "123", "4", "Ġ-->ĊĊ", "Ġx"],
    "qwen2": ["Don", "'t", "ĠITS", "'S", "Ġ", "1", "2", "3", "4", "Ġ-->ĊĊ", "Ġx"],
    "smollm": ["Don", "'t", "ĠITS", "'", "S", "Ġ", "1", "2", "3", "4", "Ġ-->", "ĊĊ", "Ġx"],
    "falcon": ["Don", "'", "t", "ĠITS", "'", "S", "Ġ", "123", "4", "Ġ", "-->", "ĊĊ", "Ġx"],
    "tekken": ["Don", "'t", "ĠITS", "'S", "Ġ", "1", "2", "3", "4", "Ġ-->ĊĊ", "Ġx"],
    "gpt-4o": ["Don't", "ĠITS'S", "Ġ", "123", "4", "Ġ-->ĊĊ", "Ġx"],
    "deepseek-v3": ["Don", "'t", "ĠITS", "'S", "Ġ", "123", "4", "Ġ-->ĊĊ", "Ġx"],
    "deepseek-coder": [
        "Don",
        "'",
        "t",
        "ĠITS",
        "'",
        "S",
        "Ġ",
        "1",
        "2",
        "3",
        "4",
        "Ġ--",
        ">",
        "Ċ",
        "Ċ",
        "Ġx",
    ],
    "bloom": ["Don't", "ĠITS'S", "Ġ1234", "Ġ-->", "ĊĊ", "Ġx"],
}


@pytest.mark.parametrize("pre", SPLITS)
def test_rule_cuts_as_the_models_do(tmp_path: Path, pre: str) -> None:
    tokenizer = byte_level(tmp_path, pre)
    cut = tokenizer._tokenizer.pre_tokenizer.pre_tokenize_str("Don't ITS'S 1234 -->\n\n x")
    assert [piece for piece, _ in cut] == SPLITS[pre]


@pytest.mark.parametrize("pre", sorted(RULES))
def test_every_rule_takes_every_text_and_loses_nothing(tmp_path: Path, pre: str) -> None:
    tokenizer = byte_level(tmp_path, pre, add_bos_token=False)
    normalise = tokenizer._tokenizer.normalizer
    for text in PAGE:
        cut = tokenizer._tokenizer.pre_tokenizer.pre_tokenize_str(text)
        spelled = "".join(piece for piece, _ in cut)
        whole = ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)[0][0]
        assert spelled == whole
        composed = text if normalise is None else normalise.normalize_str(text)
        assert (composed != text) <= RULES[pre].composed


def test_whole_tokens_come_before_merges_where_the_rule_says_so(tmp_path: Path) -> None:
    # "cat" has no path of merges, but is a token
    keys = {"merges": ["a t"], "add_bos_token": False, "model": "gpt2"}
    tokens = [*BYTES, "at", "cat"]
    assert pieces(build(tmp_path, tokens, pre="llama-bpe", **keys), "cat") == ["cat"]
    assert pieces(build(tmp_path, tokens, pre="gpt-2", **keys), "cat") == ["c", "at"]


def test_control_tokens_are_special_and_user_defined_ones_are_not(tmp_path: Path) -> None:
    encoded = byte_level(tmp_path, "gpt-2").encode("it<|im_end|>   it")
    shown = [(token.token, token.special) for token in encoded.tokens]
    assert shown[2:4] == [("<|im_end|>", True), ("   ", False)]
    assert encoded.notes[0].startswith("control tokens typed")


SPM = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
SPM_PIECES = [
    f"{SPACE}t",
    "he",
    f"{SPACE}the",
    "in",
    f"{SPACE}a",
    "t",
    "h",
    "e",
    "i",
    "n",
    SPACE,
    "a",
]


def sentencepiece(tmp_path: Path, **keys: Any) -> TextTokenizer:
    tokens = [*SPM, *SPM_PIECES]
    scores = np.array([0.0] * len(SPM) + [-float(i) for i in range(len(SPM_PIECES))], np.float32)
    kinds = {0: UNKNOWN, 1: CONTROL, 2: CONTROL, **dict.fromkeys(range(3, 259), BYTE)}
    keys = {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, "scores": scores, **keys}
    return build(tmp_path, tokens, kinds, model="llama", **keys)


def test_sentencepiece_merges_by_score(tmp_path: Path) -> None:
    tokenizer = sentencepiece(tmp_path)
    assert pieces(tokenizer, "the in") == ["<s>", f"{SPACE}the", SPACE, "in"]
    # one space more in front, as the models were trained; byte for byte what has no piece
    assert pieces(tokenizer, " the") == ["<s>", SPACE, f"{SPACE}the"]
    assert pieces(tokenizer, "é") == ["<s>", SPACE, "<0xC3>", "<0xA9>"]
    plain = sentencepiece(tmp_path, add_space_prefix=False, add_bos_token=False, add_eos_token=True)
    assert pieces(plain, "the in") == ["t", "he", SPACE, "in", "</s>"]


def test_gemma_merges_by_position_and_spells_runs_of_spaces(tmp_path: Path) -> None:
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "  ", "ab", "bc", "a", "b", "c", SPACE]
    kinds = {0: CONTROL, 1: CONTROL, 2: CONTROL, 3: UNKNOWN, 4: USER}
    keys: dict[str, Any] = {
        "model": "llama",
        # they say bc first, the file's order ab
        "scores": np.array([0, 0, 0, 0, -1000, -2, -1, -3, -4, -5, -6], np.float32),
        "bos_token_id": 2,
        "unknown_token_id": 3,
        "add_space_prefix": False,
    }
    gemma = build(tmp_path, tokens, kinds, architecture="gemma3", **keys)
    assert pieces(gemma, "abc  a") == ["<bos>", "ab", "c", SPACE * 2, "a"]
    other = build(tmp_path, tokens, kinds, **keys)
    assert pieces(other, "abc") == ["<bos>", "a", "bc"]


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "##s", "##ing", "sing", "!", "é", "[x"]


@pytest.mark.parametrize("cased", [False, True])
def test_word_piece(tmp_path: Path, cased: bool) -> None:
    words = [*WORDS, "The"] if cased else WORDS
    marked = [
        word
        if word[0] == "[" and word[-1] == "]"
        else word.removeprefix("##")
        if word.startswith("##")
        else SPACE + word
        for word in words
    ]
    kinds = {0: CONTROL, 1: UNKNOWN, 2: CONTROL, 3: CONTROL}
    keys = {"cls_token_id": 2, "seperator_token_id": 3, "unknown_token_id": 1}
    tokenizer = build(tmp_path, marked, kinds, model="bert", **keys)
    theirs = Tokenizer(WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    theirs.normalizer = BertNormalizer(lowercase=not cased)
    theirs.pre_tokenizer = BertPreTokenizer()
    for text in ("The cats singing! é [x", "the cat", "catsing Singing THE"):
        assert pieces(tokenizer, text) == ["[CLS]", *theirs.encode(text).tokens, "[SEP]"]
    assert tokenizer.lowercases is not cased


def test_unigram(tmp_path: Path) -> None:
    tokens = ["<pad>", "</s>", "<unk>", f"{SPACE}the", f"{SPACE}c", "at", "s", SPACE, "t", "h", "e"]
    scores = np.array([0, 0, 0, -1, -2, -2, -3, -5, -6, -6, -6], np.float32)
    kinds = {0: CONTROL, 1: CONTROL, 2: UNKNOWN}
    keys = {"eos_token_id": 1, "unknown_token_id": 2, "scores": scores}
    tokenizer = build(tmp_path, tokens, kinds, model="t5", **keys)
    assert pieces(tokenizer, "the  cats ") == [f"{SPACE}the", f"{SPACE}c", "at", "s", "</s>"]
    theirs = Unigram(list(zip(tokens, scores.tolist(), strict=True)), unk_id=2)
    assert [t.value for t in theirs.tokenize(f"{SPACE}the{SPACE}cats")] == pieces(
        tokenizer, "the cats"
    )[:-1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "rwkv"}, "is 'rwkv', expected one of bert, gpt2, llama, t5"),
        ({"model": None}, "is None, expected one of"),
        ({"tokens": []}, "no list tokenizer.ggml.tokens"),
        ({"merges": None}, "no list tokenizer.ggml.merges"),
        ({"merges": ["a zzz"]}, "not a usable tokenizer"),
        ({"merges": ["nospace"]}, "not a usable tokenizer"),
        ({"token_type": np.ones(3, np.int32)}, "token_type is not a list of"),
        ({"bos_token_id": 10_000}, "bos_token_id is 10000, expected an id below"),
        ({"bos_token_id": None}, "bos_token_id is missing"),
        ({"add_bos_token": 1}, "add_bos_token is 1, expected true or false"),
    ],
)
def test_unusable_tokenizer(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    keys: dict[str, Any] = {
        "model": "gpt2",
        "pre": "gpt-2",
        "merges": ["i t"],
        "bos_token_id": 0,
        "add_bos_token": True,
        **changes,
    }
    tokens = keys.pop("tokens", [*BYTES, "it"])
    with pytest.raises(ModelProblem) as caught:
        build(tmp_path, tokens, **keys)
    assert message in str(caught.value)
    assert "m.gguf" in str(caught.value)


def test_tokens_that_are_no_text(tmp_path: Path) -> None:
    metadata = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": [b"\xff\xfe"]}
    path = write_gguf(tmp_path / "m.gguf", metadata, {})
    with pytest.raises(ModelProblem, match=r"tokenizer\.ggml\.tokens holds strings that are not"):
        build_tokenizer(path, GgufFile(path).metadata)


STRINGS = st.lists(st.text("ab▁ Ġ<", max_size=4), max_size=8)


@settings(max_examples=150)
@given(
    st.sampled_from(["gpt2", "llama", "bert", "t5"]),
    STRINGS,
    st.lists(st.integers(0, 9), max_size=8),
    STRINGS,
    st.dictionaries(
        st.sampled_from(["bos", "eos", "unknown", "cls", "seperator"]), st.integers(0, 9)
    ),
    st.booleans(),
)
def test_only_model_problems_escape(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    tokens: list[str],
    kinds: list[int],
    merges: list[str],
    ids: dict[str, int],
    fits: bool,
) -> None:
    kinds = (kinds + [1] * len(tokens))[: len(tokens)] if fits else kinds
    keys: dict[str, Any] = {f"{role}_token_id": number for role, number in ids.items()}
    keys["token_type"] = np.array(kinds, np.int32)
    keys["scores"] = -np.arange(len(kinds), dtype=np.float32)
    keys["merges"] = merges or None
    try:
        tokenizer = build(tmp_path_factory.mktemp("fuzz"), tokens, model=kind, pre="gpt-2", **keys)
        tokenizer.encode("ab a< b")
    except (ModelProblem, InputProblem):
        pass


def test_pair_is_joined_as_encoders_of_each_kind_read_it(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 1, "add_eos_token": True}
    tokenizer = byte_level(tmp_path, "roberta-bpe", **keys)
    encoded = tokenizer.encode("it", "the")
    end = tokenizer.piece(1)
    assert [t.part for t in encoded.tokens] == [None, 0, None, None, 1, 1, None]
    assert [t.token for t in encoded.tokens if t.part is None] == ["<s>", end, end, end]
    assert not any(encoded.types)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", f"{SPACE}the", f"{SPACE}cat"]
    roles = {"cls_token_id": 2, "seperator_token_id": 3, "unknown_token_id": 1}
    encoded = build(tmp_path, words, model="bert", **roles).encode("the", "cat the")
    assert encoded.ids == [2, 4, 3, 5, 4, 3]
    assert encoded.types == [0, 0, 0, 1, 1, 1]


def test_llama3_rule_equals_a_split_by_its_published_pattern(tmp_path: Path) -> None:
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    theirs = Tokenizer(BPE({piece: i for i, piece in enumerate(BYTES)}, []))
    theirs.add_special_tokens([AddedToken("<s>")])
    theirs.pre_tokenizer = Sequence(
        [Split(Regex(pattern), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    ours = byte_level(tmp_path, "llama-bpe")._tokenizer.pre_tokenizer
    for text in PAGE:
        assert ours.pre_tokenize_str(text) == theirs.pre_tokenizer.pre_tokenize_str(text)
