"""The torch engine: what transformers computes reaches the same observers, unchanged."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from attncli import api
from attncli.analyses.inspection import Inspection
from attncli.errors import InputProblem, ModelProblem, UsageProblem
from attncli.model.load import load
from attncli.schemas import read_schema
from tests.gguf_converter import bytes_tokenizer, convert
from tests.ggufs import write_gguf
from tests.parity.cases import CASES, TINY_DECODER, Case
from tests.parity.comparison import read_golden

pytestmark = [
    pytest.mark.reference,
    # torch and transformers warn about themselves
    pytest.mark.filterwarnings("default"),
]

TEXT = "w3 w1 w4 w15 w9 w2 w6 w5 w35 w8"
IDS = [3, 1, 4, 15, 9, 2, 6, 5, 35, 8]
TOLERANCE = 1e-5
GROUPED = {**TINY_DECODER, "num_key_value_heads": 2}
UNKNOWN = [
    Case("cohere", "cohere", GROUPED),
    Case("glm", "glm", {**GROUPED, "head_dim": 4}),
    Case("persimmon", "persimmon", TINY_DECODER),
]
"""Families that attn does not compute itself."""


@pytest.fixture(autouse=True)
def _torch() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")


def written(case: Case | str, folder: Path) -> Path:
    """Write a random checkpoint of a case of the parity tests, or of one made here."""
    from tests.parity import reference

    if isinstance(case, str):
        case = next(known for known in CASES if known.name == case)
    return reference.write_checkpoint(reference.build(case), folder, case.unwritten)


def both(folder: Path, **choice: Any) -> tuple[Inspection, Inspection]:
    """Inspect the text with either engine."""
    models = load(str(folder)), load(str(folder), engine="torch")
    ours, theirs = (api.inspect(TEXT, model, **choice) for model in models)
    return ours, theirs


def assert_valid(command: str, record: dict[str, Any]) -> None:
    document = json.loads(json.dumps(record))
    Draft202012Validator(json.loads(read_schema(command))).validate(document)


SHOWN = (
    "bert", "gpt2", "llama", "roberta", "distilbert", "albert", "modernbert", "mistral-window",
    "mixtral", "qwen3", "gemma2", "olmo2", "phi", "opt", "gptj", "gpt-neox", "stablelm-parallel",
    "gpt-oss",
)  # fmt: skip
"""Their values, projections and scores can be recorded."""


@pytest.mark.parametrize("name", SHOWN)
def test_every_number_equals_that_of_the_other_engine(name: str, tmp_path: Path) -> None:
    ours, theirs = both(written(name, tmp_path), layer=-1, head=1)
    assert theirs.scores is not None
    assert theirs.contributions is not None
    for what in ("weights", "contributions", "shift"):
        np.testing.assert_allclose(getattr(theirs, what), getattr(ours, what), atol=TOLERANCE)
    np.testing.assert_array_equal(np.isneginf(theirs.scores), np.isneginf(ours.scores))
    size = np.abs(ours.scores[np.isfinite(ours.scores)]).max()
    np.testing.assert_allclose(theirs.scores, ours.scores, rtol=0, atol=TOLERANCE * size)
    sizes = ("layers", "heads", "kv_heads", "causal")
    assert [getattr(theirs.card, s) for s in sizes] == [getattr(ours.card, s) for s in sizes]
    assert theirs.has_sink == ours.has_sink == (name == "gpt-oss")
    whole_ours, whole_theirs = both(tmp_path)
    np.testing.assert_allclose(whole_theirs.weights, whole_ours.weights, atol=TOLERANCE)
    np.testing.assert_allclose(whole_theirs.contributions, whole_ours.contributions, atol=TOLERANCE)
    assert [row.telling and row.telling.head for row in whole_theirs.rows] == [
        row.telling and row.telling.head for row in whole_ours.rows
    ]


@pytest.mark.parametrize("name", ["mpnet", "deberta-v2", "gpt-neo", "bloom-3-heads", "falcon-40b"])
def test_contributions_are_left_out_where_values_are_not_shown(name: str, tmp_path: Path) -> None:
    ours, theirs = both(written(name, tmp_path), layer=-1, head=1, every_head=True)
    np.testing.assert_allclose(theirs.weights, ours.weights, atol=TOLERANCE)
    np.testing.assert_allclose(theirs.shift, ours.shift, atol=TOLERANCE)
    np.testing.assert_allclose(theirs.scores, ours.scores, atol=TOLERANCE)
    assert theirs.card.kv_heads == ours.card.kv_heads
    assert theirs.contributions is None
    assert [note for note in theirs.notes if note.startswith("contributions are left out")]
    record = theirs.record()
    assert_valid("inspect", record)
    assert record["contributions"] is None
    assert record["selection"]["by"] == "weight"
    assert {key["contribution"] for row in record["top"] for key in row["keys"]} == {None}
    assert [key["weight"] for key in record["top"][-1]["keys"]] == sorted(
        (key["weight"] for key in record["top"][-1]["keys"]), reverse=True
    )
    headers = [c.name for t in theirs.tables() for c in getattr(t, "columns", ())]
    assert "keys by weight" in headers
    assert not [name for name in headers if "contribution" in name]
    assert not [name for name in theirs.arrays() if "contribution" in name]
    assert theirs.arrays()["weights_by_head"].shape == (1, 1, 10, 10)
    one = api.inspect(TEXT, load(str(tmp_path), engine="torch"), query="w9")
    assert [column.name for column in one.tables()[0].columns][-1] == "weight as a bar"
    assert all(
        len(row) == len(table.columns)
        for result in (one, theirs)
        for table in result.tables()
        if hasattr(table, "columns")
        for row in table.rows
    )


@pytest.mark.parametrize("case", UNKNOWN, ids=lambda case: case.name)
def test_family_that_attn_does_not_know_shows_what_transformers_gives(
    case: Case, tmp_path: Path
) -> None:
    from tests.parity import reference

    folder = written(case, tmp_path)
    with pytest.raises(ModelProblem, match=f"model_type '{case.model_type}' is not supported"):
        load(str(folder))
    model = load(str(folder), engine="torch")
    found = api.inspect(TEXT, model, every_head=True)
    theirs = reference.build(case)
    expected = reference.run(theirs, IDS)
    np.testing.assert_allclose(found.by_head["weights"], expected.weights, atol=TOLERANCE)
    np.testing.assert_allclose(found.by_head["scores"], expected.scores, atol=TOLERANCE)
    assert model.spec.stack.causal
    assert model.spec.n_positions is None
    heads = case.config.get("num_key_value_heads", 4)
    assert (found.card.family, found.card.kv_heads) == (case.model_type, heads)
    assert_valid("inspect", found.record())
    # contributions of one head by hand: values as the projection in the checkpoint makes them
    attention = next(m for name, m in theirs.named_modules() if name.endswith("1.self_attn"))
    output = getattr(attention, "o_proj", None) or attention.dense
    mixed: dict[str, Any] = {}
    hook = output.register_forward_pre_hook(lambda _, inputs: mixed.update(mixed=inputs[0]))
    reference.run(theirs, IDS)
    hook.remove()
    head = 3
    dim = output.in_features // 4
    columns = slice(head * dim, (head + 1) * dim)
    o = output.weight.detach().numpy()[:, columns].T
    # with weights and what they mix known, values follow: the weights are a triangle
    v = np.linalg.solve(
        expected.weights[1, head].astype(float), mixed["mixed"][0, :, columns].detach().numpy()
    )
    lengths = expected.weights[1, head] * np.linalg.norm(v @ o, axis=1)
    shares = lengths / lengths.sum(axis=1, keepdims=True)
    one = api.inspect(TEXT, model, head=f"1.{head}")
    np.testing.assert_allclose(one.contributions, shares, atol=1e-4)


def test_keys_behind_the_query_have_no_score_however_they_are_masked(tmp_path: Path) -> None:
    tiny = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 16, "vocab_size": 40}
    folder = written(Case("gpt1", "openai-gpt", tiny), tmp_path)  # masks with -10000
    found = api.inspect(TEXT, load(str(folder), engine="torch"), head="1.2")
    assert found.scores is not None
    np.testing.assert_array_equal(np.isneginf(found.scores), np.triu(np.ones((10, 10), bool), 1))
    shares = np.exp(found.scores)
    shares /= shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.weights, shares, atol=TOLERANCE)


def test_comparison_equals_that_of_the_other_engine(tmp_path: Path) -> None:
    folder = written("bert", tmp_path)
    texts = ("w3 w7 w9 w2", "w5 w7 w8")
    ours, theirs = (
        api.compare(*texts, model=load(str(folder), engine=engine), word="w7", to="w2")
        for engine in ("numpy", "torch")
    )
    for mine, other in zip(ours.pairs, theirs.pairs, strict=True):
        np.testing.assert_allclose(other.cosine, mine.cosine, atol=TOLERANCE)
    for mine, other in zip(ours.changed[0], theirs.changed[0], strict=True):
        assert other.contribution == pytest.approx(mine.contribution, abs=TOLERANCE)
    record = theirs.record()
    assert record["model"]["engine"] == "torch"
    assert_valid("compare", record)
    # the same without contributions
    folder = written("mpnet", tmp_path / "without")
    without = api.compare(*texts, model=load(str(folder), engine="torch"), word="w7")
    assert_valid("compare", without.record())
    assert without.record()["changed"][0]["keys"][0]["contribution_change"] is None
    changed = next(table for table in without.tables() if table.name == "changed")
    assert [column.name for column in changed.columns].count("contribution") == 0
    assert {len(row) for row in changed.rows} == {len(changed.columns)}


def test_predict_says_that_this_engine_loads_no_head(tmp_path: Path) -> None:
    model = load(str(written("gpt2", tmp_path)), engine="torch")
    with pytest.raises(UsageProblem, match="the engine torch loads models without it"):
        api.predict(TEXT, model)


def test_card_says_which_engine_and_type(tmp_path: Path) -> None:
    folder = written("gpt2", tmp_path)
    exact = api.inspect(TEXT, load(str(folder)))
    assert (exact.card.engine, "torch" in exact.headline()) == ("numpy", False)
    for dtype, name, near in (("float32", "F32", 1e-6), ("bfloat16", "BF16", 0.02)):
        model = load(str(folder), engine="torch", dtype=dtype, device="cpu")
        found = api.inspect(TEXT, model)
        assert (found.card.engine, found.card.dtype) == ("torch", name)
        assert "computed by torch" in found.headline()
        assert np.abs(found.weights - exact.weights).max() <= near
        assert not found.has_sink
        assert {p.dtype for p in model.module.parameters()} == {
            getattr(importlib.import_module("torch"), dtype)
        }
    assert np.abs(found.weights - exact.weights).max() > 1e-6
    assert exact.card.record()["sha256"] == found.card.record()["sha256"]


def test_bundled_model_is_run_on_its_own_numbers() -> None:
    text = "The student did not answer the question because it was too difficult."
    ours, theirs = (api.inspect(text, load("minilm", engine=e)) for e in ("numpy", "torch"))
    np.testing.assert_allclose(theirs.weights, ours.weights, atol=TOLERANCE)
    np.testing.assert_allclose(theirs.contributions, ours.contributions, atol=TOLERANCE)


def test_device_that_is_not_there_is_named(tmp_path: Path) -> None:
    import torch

    folder = written("bert", tmp_path)
    missing = "mps" if torch.cuda.is_available() else "cuda"
    with pytest.raises(UsageProblem, match=f"--device {missing}: torch finds no such device here"):
        load(str(folder), engine="torch", device=missing)
    where = load(str(folder), engine="torch", device="auto").module.device.type
    assert where == ("cuda" if torch.cuda.is_available() else where)


def test_gguf_file_equals_the_other_engine(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "llama")
    golden = read_golden("llama")
    metadata, tensors = convert("llama", case.config, golden.tensors)
    metadata |= {
        "llama.attention.layer_norm_rms_epsilon": 1e-6,
        "llama.rope.freq_base": 10000.0,
        "llama.rope.dimension_count": 4,
        **bytes_tokenizer(40),
    }
    path = write_gguf(tmp_path / "tiny.gguf", metadata, tensors)
    ours, theirs = (api.inspect('!"#$%&!#', load(str(path), engine=e)) for e in ("numpy", "torch"))
    np.testing.assert_allclose(theirs.weights, ours.weights, atol=TOLERANCE)
    np.testing.assert_allclose(theirs.contributions, ours.contributions, atol=TOLERANCE)


@pytest.mark.parametrize("model_type", ["bert", "made-up"])
def test_code_in_the_folder_is_never_run(model_type: str, tmp_path: Path) -> None:
    folder, canary = written("bert", tmp_path / "model"), tmp_path / "canary"
    text = f"from pathlib import Path\nPath({str(canary)!r}).touch()\n"
    for name in ("configuration_x", "modeling_x"):
        (folder / f"{name}.py").write_text(text + "class X: pass\n")
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "configuration_x.X", "AutoModel": "modeling_x.X"}
    config["model_type"] = model_type
    (folder / "config.json").write_text(json.dumps(config))
    if model_type == "bert":
        found = api.inspect(TEXT, load(str(folder), engine="torch"))
        assert found.weights.shape == (10, 10)
    else:
        with pytest.raises(ModelProblem, match="without the code in its folder, which is never"):
            load(str(folder), engine="torch")
    assert not canary.exists()


def change(folder: Path, **values: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    return folder


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("bert", {"num_hidden_layers": 3}, "16 tensors are missing"),
        ("bert", {"num_hidden_layers": 1}, "tensors that transformers does not know what to do"),
        ("bert", {"intermediate_size": 30}, "have another shape"),
        ("bert", {"model_type": "nonesuch"}, "'nonesuch' is not one that transformers can run"),
        ("bert", {"quantization_config": {"quant_method": "gptq"}}, "quantised with gptq"),
        ("bert", {"is_encoder_decoder": True}, "encoder-decoders are not run by --engine torch"),
        ("falcon-rw", {}, "alibi is true, and eager mode of transformers adds that bias twice"),
        ("opt-post-norm", {}, "states have another width in other layers"),
    ],
)
def test_what_is_not_exact_is_refused(
    name: str, values: dict[str, Any], said: str, tmp_path: Path
) -> None:
    folder = change(written(name, tmp_path), **values)
    with pytest.raises(ModelProblem, match=said) as caught:
        load(str(folder), engine="torch")
    assert str(caught.value).startswith(str(folder))
    assert "\n" not in str(caught.value)


def test_architecture_without_attention_is_refused(tmp_path: Path) -> None:
    tiny = {"hidden_size": 16, "num_hidden_layers": 1, "vocab_size": 40, "state_size": 4}
    folder = written(Case("mamba", "mamba", tiny), tmp_path)
    with pytest.raises(ModelProblem, match=r"transformers (shows no attention|cannot run it)"):
        load(str(folder), engine="torch")


def test_text_longer_than_the_position_table_is_refused_before_it_runs(tmp_path: Path) -> None:
    from tests.parity import reference

    for name, limit in (("bert", 16), ("gpt2", 16), ("roberta", 16), ("opt", 16)):
        case = next(known for known in CASES if known.name == name)
        folder = tmp_path / name
        reference.write_checkpoint(reference.build(case), folder)
        model = load(str(folder), engine="torch")
        assert model.spec.n_positions == load(str(folder)).spec.n_positions, limit
        text = " ".join(["w5"] * (model.spec.n_positions + 1))
        with pytest.raises(InputProblem, match="takes at most"):
            api.inspect(text, model)
        api.inspect(text.removesuffix(" w5"), model)


def test_projection_that_reads_something_else_gives_no_contributions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.models.llama import modeling_llama

    folder = written("llama", tmp_path)
    whole = modeling_llama.eager_attention_forward

    def gated(module: Any, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        output, weights = whole(module, query, key, value, *args, **kwargs)
        return output * 0.5, weights

    monkeypatch.setattr(modeling_llama, "eager_attention_forward", gated)
    found = api.inspect(TEXT, load(str(folder), engine="torch"))
    assert found.contributions is None


def test_nothing_of_transformers_stays_changed(tmp_path: Path) -> None:
    import torch
    from transformers.models.bert import modeling_bert

    functions = (torch.nn.functional.softmax, modeling_bert.eager_attention_forward)
    model = load(str(written("bert", tmp_path)), engine="torch")
    api.inspect(TEXT, model)
    model.spec = replace(model.spec, n_positions=None)
    long = " ".join(["w5"] * 60)
    with pytest.raises(InputProblem, match="transformers cannot run this text of 60 tokens"):
        api.inspect(long, model)
    assert functions == (torch.nn.functional.softmax, modeling_bert.eager_attention_forward)
    hooks = [hook for module in model.module.modules() for hook in module._forward_hooks.values()]
    # transformers has some of its own
    assert not [hook for hook in hooks if hook.__module__.startswith("attncli")]


def test_neighbours_are_those_of_the_other_engine(tmp_path: Path) -> None:
    written("bert", tmp_path)
    ours, theirs = (
        api.compare(TEXT, "w1 w3", model=load(str(tmp_path), engine=engine), neighbours=4)
        for engine in ("numpy", "torch")
    )
    ids = [
        [[[near.id for near in state] for state in states] for states in result.neighbours]
        for result in (ours, theirs)
    ]
    assert ids[0] == ids[1]
    assert_valid("compare", theirs.record())


def test_neighbours_of_a_narrow_table_are_refused_where_its_projection_is_not_known(
    tmp_path: Path,
) -> None:
    written("electra", tmp_path)
    model = load(str(tmp_path), engine="torch")
    with pytest.raises(ModelProblem, match="10 dimensions, its states 24"):
        api.compare(TEXT, "w1 w3", model=model, neighbours=4)
