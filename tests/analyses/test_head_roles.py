"""Heads built by hand get their roles: as matrices, and as weights of a model that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import api
from attncli.analyses.head_roles import MIXED, ROLES, find_role, rules_used
from attncli.analyses.head_survey import HeadSurvey
from attncli.errors import InputProblem, UsageProblem
from attncli.model.load import Model, load
from tests.analyses.test_head_stats import statistics
from tests.toys import word_tokenizer, write_folder

Array = np.ndarray

TWICE = "a b c d e f g h a b c d e f g h"
N = 16


def causal_rows(shares: Array) -> Array:
    """Mask what comes later and scale rows to sum to 1; a row of zeros reads the first token."""
    shares = np.tril(shares)
    shares[shares.sum(axis=1) == 0, 0] = 1
    return shares / shares.sum(axis=1, keepdims=True)


def role_of(matrix: Array, words: str, *, causal: bool = True, special: bool = False) -> str:
    """Return the role of one head."""
    found = statistics(matrix[None, None], words, causal=causal, special=special)
    values = {
        name: None if array is None else float(array[0, 0]) for name, array in found.values.items()
    }
    return find_role(values, n_repeats=found.n_repeats).name


HEADS = {
    "previous": np.eye(N, k=-1),
    "self": np.eye(N),
    "sink": np.eye(1, N).repeat(N, axis=0) + 0.05,
    "broad": np.ones((N, N)),
    # the place after the earlier occurrence; the first half, with none, reads two places back
    "induction": np.eye(N, k=-7) * (np.arange(N) >= 8)[:, None]
    + np.eye(N, k=-2) * (np.arange(N) < 8)[:, None],
    "duplicate": np.eye(N, k=-8) + np.eye(N, k=-2) * (np.arange(N) < 8)[:, None],
    "mixed": np.eye(N, k=-2) + np.eye(N, k=-3),
}


@pytest.mark.parametrize("role", HEADS)
def test_causal_head_built_by_hand_gets_its_role(role: str) -> None:
    assert role_of(causal_rows(HEADS[role]), TWICE) == role


def test_head_that_reads_the_next_token_is_next() -> None:
    matrix = np.eye(5, k=1)
    matrix[4, 0] = 1
    assert role_of(matrix, "a b c d e", causal=False) == "next"


def test_heads_that_read_the_last_special_token_or_full_stops_are_told_apart() -> None:
    on_last = np.zeros((5, 5))
    on_last[:, 4] = 1
    assert role_of(on_last, "a b c", causal=False, special=True) == "special"
    on_stop = np.zeros((5, 5))
    on_stop[:, 2] = 1
    assert role_of(on_stop, "a b . d e", causal=False) == "punctuation"


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_uniform_head_is_broad_however_short_the_text(n: int) -> None:
    words = " ".join("abcdefgh"[:n])
    assert role_of(causal_rows(np.ones((n, n))), words) == "broad"
    assert role_of(np.full((n, n), 1 / n), words, causal=False) == "broad"


def test_role_names_its_rule_with_the_value() -> None:
    role = find_role({"previous": 0.93, "relative_entropy": 0.2}, n_repeats=0)
    assert (role.name, role.rule) == ("previous", "previous .93 ≥ .5")
    assert find_role({"sink": 0.3}, n_repeats=0).name == MIXED
    assert find_role({"sink": 0.3001}, n_repeats=0).rule == "sink .3001 > .3"


def test_few_repeats_say_nothing_about_induction_and_a_probe_stands_for_the_text() -> None:
    assert find_role({"induction": 1.0}, n_repeats=3).name == MIXED
    assert find_role({"induction": 1.0}, n_repeats=4).name == "induction"
    assert find_role({"induction": 1.0, "probe_induction": 0.1}, n_repeats=9).name == MIXED
    probed = find_role({"induction": 0.0, "probe_induction": 0.9}, n_repeats=0)
    assert probed.rule == "probe induction .90 ≥ .4"


@pytest.mark.parametrize("probed", [False, True])
def test_every_rule_in_use_has_its_own_role_and_the_rest_is_mixed(probed: bool) -> None:
    roles = [rule.role for rule in rules_used(probed=probed)]
    assert len(roles) == len(set(roles))
    assert {*roles, MIXED} == set(ROLES)


LETTERS = ["[UNK]", *"abcdefghijk"]
PLACES = 24
SHARP = 40.0


def induction_pair(folder: Path) -> Model:
    """Return two layers of two heads whose weights are set so that they do what they should.

    The residual stream has 12 places for the token, 12 for the token before it, 24 for the
    position. L0 H0 reads the token before and writes it into its places; L0 H1 is uniform; L1 H0
    looks for the own token among the tokens before (induction); L1 H1 looks for its own position.
    """
    n_words = len(LETTERS)
    d_model = 2 * n_words + PLACES
    word, before, place = slice(0, n_words), slice(n_words, 2 * n_words), slice(2 * n_words, None)
    head_dim = d_model // 2
    config: dict[str, Any] = {
        "model_type": "gpt2",
        "vocab_size": n_words,
        "n_embd": d_model,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": PLACES,
        "n_inner": 4,
        "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu",
    }
    tensors: dict[str, Array] = {
        "wte.weight": np.eye(n_words, d_model),
        "wpe.weight": np.eye(PLACES, d_model, k=2 * n_words),
        "ln_f.weight": np.ones(d_model),
        "ln_f.bias": np.zeros(d_model),
    }
    for layer in range(2):
        qkv, out = np.zeros((d_model, 3 * d_model)), np.zeros((d_model, d_model))
        q, k, v = (qkv[:, i * d_model : (i + 1) * d_model] for i in range(3))
        if layer == 0:
            q[place, :PLACES] = SHARP * np.eye(PLACES, k=-1)
            k[place, :PLACES] = np.eye(PLACES)
            v[word, :n_words] = np.eye(n_words)
            out[:n_words, before] = np.eye(n_words)
        else:
            q[word, :n_words] = SHARP * np.eye(n_words)
            k[before, :n_words] = np.eye(n_words)
            q[place, head_dim : head_dim + PLACES] = SHARP * np.eye(PLACES)
            k[place, head_dim : head_dim + PLACES] = np.eye(PLACES)
        prefix = f"h.{layer}"
        tensors |= {
            f"{prefix}.attn.c_attn.weight": qkv,
            f"{prefix}.attn.c_attn.bias": np.zeros(3 * d_model),
            f"{prefix}.attn.c_proj.weight": out,
            f"{prefix}.attn.c_proj.bias": np.zeros(d_model),
            f"{prefix}.mlp.c_fc.weight": np.zeros((d_model, 4)),
            f"{prefix}.mlp.c_fc.bias": np.zeros(4),
            f"{prefix}.mlp.c_proj.weight": np.zeros((4, d_model)),
            f"{prefix}.mlp.c_proj.bias": np.zeros(d_model),
        }
        for norm in ("ln_1", "ln_2"):
            tensors |= {
                f"{prefix}.{norm}.weight": np.ones(d_model),
                f"{prefix}.{norm}.bias": np.zeros(d_model),
            }
    arrays = {name: values.astype(np.float32) for name, values in tensors.items()}
    return load(str(write_folder(folder, config, arrays, word_tokenizer(LETTERS))))


def roles(survey: Any) -> list[str]:
    assert isinstance(survey, HeadSurvey)
    return [row.role.name for row in survey.rows]


def test_heads_of_a_model_with_weights_set_by_hand_get_their_roles(tmp_path: Path) -> None:
    model = induction_pair(tmp_path / "pair")
    expected = ["previous", "broad", "induction", "self"]
    assert roles(api.heads(TWICE, model)) == expected
    # one sentence without repeats needs the probe, as the note says
    once = api.heads("a b c d e f g h", model)
    assert roles(once)[2] != "induction"
    assert any("--probe" in note for note in once.notes)
    probed = api.heads("a b c d e f g h", model, probe=True)
    assert roles(probed) == expected
    assert isinstance(probed, HeadSurvey)
    assert probed.wanted.grid.name == "first"
    values = probed.rows[2].values
    # the first token has none before it and writes itself: half of its repeat's weight is there
    assert values["probe_induction"] == pytest.approx(10.5 / 11, abs=0.001)
    assert values["probe_duplicate"] == pytest.approx(0.5 / 11, abs=0.001)
    assert probed.rows[0].values["probe_previous"] == pytest.approx(1, abs=0.01)


def test_probe_fits_the_vocabulary_and_the_positions_of_the_model(tmp_path: Path) -> None:
    probe = api.heads("a b c", induction_pair(tmp_path / "pair"), probe=True, seed=5).probe
    assert probe is not None
    # eleven letters, of which each sequence has all, twice; [UNK] is none of them
    assert probe.block == 11
    for ids in probe.sequences:
        assert ids[:11] == ids[11:]
        assert sorted(ids[:11]) == list(range(1, 12))
    assert len(set(probe.sequences)) == len(probe.sequences)


def test_probe_stands_within_the_special_tokens_and_repeats_with_its_seed(minilm: Model) -> None:
    first, again, other = (api.heads("hi", minilm, probe=True, seed=s).probe for s in (1, 1, 2))
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.sequences == again.sequences != other.sequences
    cls, *middle, sep = first.sequences[0]
    assert [minilm.tokenizer.piece(i) for i in (cls, sep)] == ["[CLS]", "[SEP]"]
    assert middle[:50] == middle[50:]
    assert all(minilm.tokenizer.is_ordinary(i) for i in middle)


def test_probe_is_refused_where_a_model_takes_too_few_tokens(bert_folder: Path) -> None:
    # nine positions, two for special tokens: blocks of three
    with pytest.raises(InputProblem, match="takes 9 at once; a block of at least 4"):
        api.heads("the dog", str(bert_folder), probe=True)


def test_random_repeats_have_no_target(tmp_path: Path) -> None:
    from tests.seq2seq import SOURCE, TARGET, seq2seq

    with pytest.raises(UsageProblem, match="without a target"):
        api.heads(SOURCE, seq2seq(tmp_path / "two"), target=TARGET, probe=True)
