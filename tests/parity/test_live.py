"""The same comparison with torch and transformers running beside us, on a written checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.disentangled import log_bucket
from attncli.model.families import Family, find_family
from attncli.model.load import load
from attncli.model.position import alibi, alibi_slopes, bucket
from attncli.model.spec import AlibiSpec, BucketSpec, DisentangledSpec, ModelSpec
from tests.parity.cases import CASES, TINY_DECODER, Case
from tests.parity.comparison import assert_same, read_golden
from tests.toys import record

pytestmark = [
    pytest.mark.reference,
    # torch and transformers warn about themselves
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    return request.param


def test_checkpoint_written_by_transformers_loads_and_equals_it(case: Case, tmp_path: Path) -> None:
    from tests.parity import reference

    theirs = reference.build(case, seed=1)
    model = load(str(reference.write_checkpoint(theirs, tmp_path, case.unwritten)))
    expected = reference.run(theirs, case.ids, case.source, case.types)
    found = record(model.spec, model.params, case.ids, case.source, case.types)
    assert_same(case.name, expected, found)
    # no tautology: our run formed its own scores, one block or more a layer
    assert found.blocks >= model.spec.stack.n_layers


@pytest.mark.parametrize("n_buckets", [4, 6, 32, 256, 512])
@pytest.mark.parametrize("n_positions", [512, 768, 1024, 4096])
def test_log_buckets_equal_those_of_transformers(n_buckets: int, n_positions: int) -> None:
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    distances = np.arange(-5000, 5001)
    expected = theirs.make_log_bucket_position(torch.tensor(distances), n_buckets, n_positions)
    spec = DisentangledSpec(
        n_positions, n_buckets, content_to_position=True, position_to_content=True
    )
    np.testing.assert_array_equal(log_bucket(distances, spec), expected.long().numpy())


def test_distance_buckets_equal_those_of_transformers() -> None:
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("transformers.models.mpnet.modeling_mpnet").MPNetEncoder
    offsets = np.arange(-600, 601)
    expected = theirs.relative_position_bucket(torch.tensor(offsets)).numpy()
    found = bucket(offsets, BucketSpec(32, 128), both_ways=True)
    np.testing.assert_array_equal(found, expected)


def test_falcon_adds_its_position_bias_once_as_its_default_mode_does(tmp_path: Path) -> None:
    # eager mode adds it to the scores and with the mask: its weights are not those of the outputs
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from transformers import AutoModel

    from tests.parity import reference

    case = next(case for case in CASES if case.name == "falcon-rw")
    folder = reference.write_checkpoint(reference.build(case), tmp_path)
    model = load(str(folder))
    found = record(model.spec, model.params, case.ids).resid
    for mode, same in (("sdpa", True), ("eager", False)):
        theirs = AutoModel.from_pretrained(folder, attn_implementation=mode, dtype=torch.float32)
        with torch.no_grad():
            out = theirs.eval()(torch.tensor([case.ids]), output_hidden_states=True)
        expected = np.stack([state[0].numpy() for state in out.hidden_states])
        assert (np.abs(found - expected).max() <= 1e-5) == same


@pytest.mark.parametrize("n_heads", [1, 2, 3, 5, 7, 8, 12, 16, 17, 32, 71, 112])
def test_alibi_of_a_long_text_equals_the_three_references(n_heads: int) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor as bloom
    from transformers.models.falcon.modeling_falcon import build_alibi_tensor as falcon
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor as mpt

    n, slopes = 700, alibi_slopes(n_heads)
    mask = torch.ones(1, n, dtype=torch.long)
    expected = {
        AlibiSpec(slopes): bloom(mask, n_heads, torch.float32),
        AlibiSpec(slopes, bfloat16=True): falcon(mask, n_heads, torch.float32),
        AlibiSpec(slopes, from_end=True): mpt(n_heads, n),
    }
    for spec, theirs in expected.items():
        values = theirs.numpy().reshape(n_heads, 1, n)
        found = alibi(spec, n)
        np.testing.assert_allclose(found, values, rtol=0 if spec.bfloat16 else 2e-6)


SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 2.0},
    "dynamic": {"factor": 3.0},
    "llama3": {
        "factor": 4.0,
        "original_max_position_embeddings": 6,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 6},
    "longrope": {
        "factor": 2.0,
        "original_max_position_embeddings": 6,
        "short_factor": [1.0, 1.2],
        "long_factor": [2.0, 3.0],
    },
}


@pytest.mark.parametrize("kind", SCALINGS)
def test_scaling_of_heads_that_turn_in_part_beyond_the_trained_length(
    kind: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.parity import reference

    rope = {"rope_type": kind, "rope_theta": 300.0, "partial_rotary_factor": 0.5}
    config = {
        **TINY_DECODER,
        "num_attention_heads": 2,
        "max_position_embeddings": 6,
        "rope_parameters": {**rope, **SCALINGS[kind]},
    }
    case = Case(kind, "gpt_neox", config)
    theirs = reference.build(case)
    model = load(str(reference.write_checkpoint(theirs, tmp_path)))
    for ids in (case.ids, case.ids[:5]):
        expected = reference.run(theirs, ids)
        assert_same(kind, expected, record(model.spec, model.params, ids))


DECODERS = (
    "bloom", "falcon", "gpt2", "gpt_neo", "gpt_neox", "gptj", "mpt", "opt", "phi", "phi3",
    "stablelm", "starcoder2",
)  # fmt: skip


@pytest.mark.parametrize("model_type", DECODERS)
def test_absent_key_is_refused_by_name_or_means_what_the_reference_takes(model_type: str) -> None:
    transformers = pytest.importorskip("transformers")
    written = json.loads(transformers.AutoConfig.for_model(model_type).to_json_string(False))
    family = find_family(model_type)
    whole = ConfigReader(written, "whole.json")
    expected = family.read_spec(whole)
    whole.finish()
    for key in written:
        part = {name: value for name, value in written.items() if name != key}
        assert _spec_or_problem(family, part) in (expected, f"part.json: the key {key} is missing.")


def _spec_or_problem(family: Family, values: dict[str, Any]) -> ModelSpec | str:
    try:
        return family.read_spec(ConfigReader(values, "part.json"))
    except ModelProblem as problem:
        return str(problem)


def test_golden_file_is_what_this_transformers_computes(case: Case) -> None:
    from tests.parity import reference

    golden, theirs = read_golden(case.name), reference.build(case)
    for name, values in reference.parameters(theirs).items():
        if name in golden.tensors:
            np.testing.assert_array_equal(values, golden.tensors[name], err_msg=name)
    expected = reference.run(theirs, golden.ids, golden.source, golden.types)
    np.testing.assert_allclose(golden.weights, expected.weights, atol=1e-6)
    np.testing.assert_allclose(golden.resid, expected.resid, atol=1e-5)
    for part in ("encoder", "cross"):
        frozen, live = getattr(golden, part), getattr(expected, part)
        assert (frozen is None) == (live is None)
        if frozen is not None:
            np.testing.assert_allclose(frozen.weights, live.weights, atol=1e-6)
            np.testing.assert_allclose(frozen.resid, live.resid, atol=1e-5)
