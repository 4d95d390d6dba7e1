"""Weights quantised by other programs: refused by the name of the method, and first of all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.errors import ModelProblem
from attncli.model.load import load
from tests.parity.comparison import read_golden
from tests.toys import Tensors, write_folder


@pytest.mark.parametrize(
    ("settings", "method"),
    [
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
            "bitsandbytes nf4",
        ),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "gptq, 4 bits"),
        ({"quant_method": "awq", "bits": 4}, "awq"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"load_in_8bit": True}, "an unknown method"),
    ],
)
def test_quantised_folder_is_refused_by_method_before_its_tensors(
    settings: dict[str, Any], method: str, tmp_path: Path
) -> None:
    golden = read_golden("llama")
    packed: Tensors = {"model.layers.0.self_attn.q_proj.weight": np.ones(3, np.float32)}
    config = {**golden.config, "quantization_config": settings}
    folder = write_folder(tmp_path / "m", config, packed)
    with pytest.raises(ModelProblem) as caught:
        load(str(folder))
    message = str(caught.value)
    assert f"config.json: the weights are quantised with {method}" in message
    assert "GGUF" in message
    assert "tensor" not in message
    # even where there are no weights at all, or the quantised part is inside
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelProblem, match="quantised"):
        load(str(folder))
    inner = {"model_type": "llava", "text_config": config}
    with pytest.raises(ModelProblem, match="quantised"):
        load(str(write_folder(tmp_path / "inner", inner, packed)))
