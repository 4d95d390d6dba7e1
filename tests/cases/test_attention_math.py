"""What is easily computed nearly right: layers counted, windows, heads of a group, norms."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from attncli.model.params import Params
from tests.cases.folders import VOCABULARY, on_disk
from tests.parity.comparison import TOLERANCE, read_golden
from tests.toys import record

Array = np.ndarray


def cosine(a: Array, b: Array) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_states_are_the_embedding_and_each_layer_and_the_last_has_the_final_norm(
    attn, tmp_path: Path
) -> None:
    case = on_disk(tmp_path / "m", "gpt2")
    ids = case.golden.ids
    (a, b) = [i for i, token in enumerate(ids) if token == 7]  # one word at two places
    found = attn("compare", case.text, "-w", "w7", "-m", str(case.folder), "--json").document
    assert found["layers"] == ["embedding", "L0", "L1"]
    expected = [cosine(state[a], state[b]) for state in case.golden.resid]
    np.testing.assert_allclose(found["pairs"][0]["cosine"], expected, atol=1e-5)
    # the reference's last state is the normed one; without the norm the number is another
    spec, params = case.golden.model()
    forgotten = {n: s for n, s in params.sources.items() if not n.startswith("final_norm")}
    bare = record(spec, replace_sources(params, forgotten), ids).resid[-1]
    assert abs(cosine(bare[a], bare[b]) - expected[-1]) > 1e-3
    assert "after the final norm" in " ".join(attn("compare", "--help").out.split())
    ran = attn("compare", case.text, "-w", "w7", "-m", str(case.folder), "-l", "2")
    assert (ran.code, ran.out) == (2, "")
    assert "valid layers are 0 to 1" in ran.err


def replace_sources(params: Params, sources: dict) -> Params:
    """Forget parameters."""
    params.sources = sources
    return params


def test_masked_keys_are_no_top_keys(attn, tmp_path: Path) -> None:
    case = on_disk(tmp_path / "m", "mistral-window")
    options = ("-m", str(case.folder), "-H", "0.0", "-q", "9", "--top", "10", "--json")
    (row,) = attn("inspect", case.text, *options).document["top"]
    assert sorted(key["key"] for key in row["keys"]) == [6, 7, 8, 9]


def test_heads_are_query_heads_of_their_own_width(attn, tmp_path: Path) -> None:
    case = on_disk(tmp_path / "m", "qwen3")
    case.assert_numbers(attn)
    facts = attn("models", "info", str(case.folder), "--json").document["facts"]
    assert (facts["heads"], facts["key/value heads"], facts["width of a head"]) == (6, 3, 4)
    assert facts["scale of q·k"] == 0.5
    ran = attn("inspect", case.text, "-m", str(case.folder), "-H", "6")
    assert (ran.code, ran.out) == (2, "")
    assert "valid heads are 0 to 5" in ran.err


LINES = ["w1 w7 w12", " ".join(VOCABULARY[3:15]), "w4", "w9 w8 w7 w6 w5"]


@pytest.mark.parametrize("name", ["bert", "roberta", "llama"])
def test_lines_of_different_length_do_not_change_each_other(
    attn, tmp_path: Path, name: str
) -> None:
    case = on_disk(tmp_path / "m", name)
    options = ("-m", str(case.folder), "-H", "1.0", "--json")

    def rows(*lines: str) -> list[tuple[list[str], list[list[float]]]]:
        ran = attn("inspect", *options, stdin="".join(f"{line}\n" for line in lines).encode())
        assert (ran.code, ran.err) == (0, "")
        return [([t["text"] for t in d["tokens"]], d["weights"]) for d in ran.documents]

    together = rows(*LINES)
    assert [tokens for tokens, _ in together] == [line.split() for line in LINES]
    assert rows(*LINES[::-1]) == together[::-1]
    for line, found in zip(LINES, together, strict=True):
        assert rows(line) == [found]


def test_norm_of_olmo2_runs_over_all_heads_together() -> None:
    golden = read_golden("olmo2")
    found = record(*golden.model(), golden.ids)
    assert np.abs(found.weights - golden.weights).max() < TOLERANCE
    eps, width = golden.model()[0].stack.eps, golden.config["head_dim"]

    def keys(per_head: bool) -> Array:
        """Project, normalise and cut the keys of the first layer, by the formula."""
        k = found.resid[0] @ golden.tensors["layers.0.self_attn.k_proj.weight"].T
        k = k.reshape(len(k), -1, width) if per_head else k[:, None]
        k = k / np.sqrt((k**2).mean(-1, keepdims=True) + eps)
        k = k.reshape(len(k), -1) * golden.tensors["layers.0.self_attn.k_norm.weight"]
        return k.reshape(len(k), -1, width).swapaxes(0, 1)

    # the first token stands at position 0, where nothing turns
    np.testing.assert_allclose(found.k[0][:, 0], keys(per_head=False)[:, 0], atol=1e-5)
    assert np.abs(found.k[0][:, 0] - keys(per_head=True)[:, 0]).max() > 0.01


@pytest.mark.parametrize(
    ("unscaled", "by_layer"), [(True, False), (False, True), (True, True), (False, False)]
)
def test_each_switch_of_the_scale_of_gpt2_is_honoured(*, unscaled: bool, by_layer: bool) -> None:
    golden = read_golden("gpt2")
    golden.config |= {
        "scale_attn_weights": not unscaled,
        "scale_attn_by_inverse_layer_idx": by_layer,
    }
    found = record(*golden.model(), golden.ids)
    for layer in range(2):
        scale = (1.0 if unscaled else 6**-0.5) / (layer + 1 if by_layer else 1)
        x, part = found.resid[layer].astype(float), f"h.{layer}."
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.01)
        x = x * golden.tensors[part + "ln_1.weight"] + golden.tensors[part + "ln_1.bias"]
        x = x @ golden.tensors[part + "attn.c_attn.weight"]
        x = x + golden.tensors[part + "attn.c_attn.bias"]
        q, k, _ = x.reshape(len(x), 3, 3, 6).transpose(1, 2, 0, 3)
        expected = scale * q @ k.swapaxes(1, 2)
        seen = np.isfinite(found.scores[layer])
        np.testing.assert_allclose(found.scores[layer][seen], expected[seen], atol=1e-5)


def test_scores_beyond_any_mask_constant_stay_strict_json(attn, tmp_path: Path) -> None:
    bias = np.zeros(54, np.float32)
    bias[:18], bias[18:36] = 500, -500
    case = on_disk(tmp_path / "m", "gpt2", more={"h.0.attn.c_attn.bias": bias})
    ran = attn("inspect", case.text, "-m", str(case.folder), "-H", "0.0", "--json")
    assert (ran.code, ran.err) == (0, "")
    json.loads(ran.out, parse_constant=pytest.fail)
    scores = ran.document["scores"]
    weights = np.array(ran.document["weights"])
    for query, row in enumerate(scores):
        assert all(score < -6e5 for score in row[: query + 1])
        assert row[query + 1 :] == [None] * (len(row) - query - 1)
    assert not np.triu(weights, 1).any()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


@pytest.mark.parametrize("name", ["deberta-v3", "t5", "gpt-neo"])
def test_relative_of_a_plain_model_is_computed_as_itself(attn, tmp_path: Path, name: str) -> None:
    case = on_disk(tmp_path / "m", name)
    golden = case.golden
    expected = golden.weights if golden.encoder is None else golden.encoder.weights
    ids = golden.source or golden.ids
    text = " ".join(VOCABULARY[i] for i in ids)
    for layer, heads in enumerate(expected):
        options = ("-m", str(case.folder), "-H", f"{layer}.0", "--json")
        found = attn("inspect", text, *options).document["weights"]
        np.testing.assert_allclose(found, heads[0], atol=TOLERANCE)
    # under a name nobody knows it is refused, never read as its relative
    config = {**golden.config, "model_type": f"{name}-next"}
    (case.folder / "config.json").write_text(json.dumps(config))
    ran = attn("inspect", text, "-m", str(case.folder), "--json")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert f"{name}-next" in ran.err
