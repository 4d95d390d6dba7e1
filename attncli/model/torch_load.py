"""Load a model for the torch engine: any architecture with one stack that transformers knows.

No code from a model's folder is run, nothing is fetched, and no weight is made up. What a
configuration may not say, such as the number of heads, is read off a short run.
"""

from __future__ import annotations

import importlib.util
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attncli.checkpoints.gguf import GgufFile
from attncli.checkpoints.store import TensorStore
from attncli.errors import ModelProblem, UsageProblem, listing
from attncli.model.config import ConfigReader
from attncli.model.load import Device, Dtype
from attncli.model.locate import Place
from attncli.model.params import Params
from attncli.model.quantised import refuse_quantised
from attncli.model.resolve import open_weights
from attncli.model.spec import LayerSpec, ModelSpec, StackSpec
from attncli.model.torch_capture import recording, to_array
from attncli.model.torch_engine import TorchModel, first_line, forward, quiet
from attncli.tokenize import TextTokenizer

INSTALL = "--engine torch needs torch and transformers 5 or later: pip install 'attncli[torch]'."
PROBE = 4
"""Tokens of the run that shows a model's sizes."""
_IN_A_BLOCK = re.compile(r"\.\d+\.")
_UNUSED = re.compile(r"(^|\.)pooler\.")
"""Parameters that take no part in attention weights or states."""


def load_torch(place: Place, device: Device, dtype: Dtype) -> TorchModel:
    """Load a folder or GGUF file with transformers.

    Args:
        place: where the model is.
        device: where torch computes; `auto`: cuda or mps where there is one, else cpu.
        dtype: type that weights are cast to and everything is computed in.

    Raises:
        ModelProblem: torch is not installed, or transformers cannot read this model exactly.
        UsageProblem: there is no such device here.
    """
    require_torch()
    if place.kind not in ("bundled", "folder", "gguf"):
        raise ModelProblem(
            f"{place.path}: --engine torch reads model folders and GGUF files; leave it out."
        )
    where = _choose_device(device)
    store: TensorStore
    random = False
    if place.kind == "gguf":
        from attncli.model.gguf.tokenizer import build_tokenizer

        file = GgufFile(place.path)
        store, tokenizer = file, build_tokenizer(place.path, file.metadata)
        module = _from_pretrained(place.path, place.path.parent, dtype, gguf_file=place.path.name)
    else:
        check_config(place.path / "config.json")
        random = bool(ConfigReader.from_file(place.path / "config.json").look("random"))
        store = open_weights(place.path)
        tokenizer = TextTokenizer.from_file(place.path / "tokenizer.json")
        if any(info.dtype == "Q8" for info in store.tensors.values()):
            module = _unpacked(place.path, dtype)
        else:
            module = _from_pretrained(place.path, place.path, dtype)
    try:
        module = module.to(where)
    except RuntimeError as problem:
        raise ModelProblem(
            f"{place.path}: not moved to {where}: {first_line(problem)}"
        ) from problem
    spec = _read_spec(module, place.path)
    return TorchModel(
        place.name, spec, Params(store, {}), tokenizer, place, random, module, torch_dtype=dtype
    )


def require_torch() -> None:
    """Check that torch and transformers are there.

    Raises:
        ModelProblem: says how to install them.
    """
    if any(importlib.util.find_spec(name) is None for name in ("torch", "transformers")):
        raise ModelProblem(INSTALL)
    import transformers

    if int(transformers.__version__.split(".")[0]) < 5:
        raise ModelProblem(f"transformers {transformers.__version__} is too old. {INSTALL}")


def check_config(path: Path) -> None:
    """Stop at a configuration whose model this engine cannot run.

    Raises:
        ModelProblem: an architecture unknown to transformers (or only by code in the folder, which
            is never run), an encoder-decoder, quantised weights.
    """
    require_torch()
    from transformers import CONFIG_MAPPING

    config = ConfigReader.from_file(path)
    model_type = config.text("model_type")
    if model_type not in CONFIG_MAPPING:
        remote = (
            " without the code in its folder, which is never run" if config.has("auto_map") else ""
        )
        raise ModelProblem(
            f"{path}: model_type {model_type!r} is not one that transformers can run{remote}."
        )
    if config.look("is_encoder_decoder"):
        _refuse_two_stacks(path)
    refuse_quantised(config)


def _refuse_two_stacks(path: Path) -> None:
    raise ModelProblem(
        f"{path}: encoder-decoders are not run by --engine torch; leave it out for the families "
        "that attn computes itself."
    )


def _choose_device(device: Device) -> str:
    import torch

    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if device == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if there[name])
    if not there[device]:
        found = listing(name for name, available in there.items() if available)
        raise UsageProblem(f"--device {device}: torch finds no such device here, only {found}.")
    return device


def _unpacked(folder: Path, dtype: Dtype) -> Any:
    """Load a folder of attn's own 8-bit numbers, written out as float32 first."""
    from attncli.model.pack import pack_model

    with tempfile.TemporaryDirectory() as temporary:
        whole = Path(temporary) / "float32"
        pack_model(folder, whole, "f32")
        return _from_pretrained(folder, whole, dtype)


def _from_pretrained(path: Path, folder: Path, dtype: Dtype, **more: Any) -> Any:
    """Load from local files only, in eager mode; refuse weights that are missing or left over."""
    import torch
    from transformers import AutoConfig, AutoModel

    try:
        with quiet():
            config = AutoConfig.from_pretrained(
                folder, trust_remote_code=False, local_files_only=True, **more
            )
            if config.is_encoder_decoder:
                _refuse_two_stacks(path)
            module, found = AutoModel.from_pretrained(
                folder,
                config=config,
                attn_implementation="eager",
                experts_implementation="eager",
                trust_remote_code=False,
                local_files_only=True,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # they are refused by name below
                dtype=getattr(torch, dtype),
                output_loading_info=True,
                **more,
            )
    except (ValueError, OSError, ImportError, RuntimeError, KeyError, AttributeError) as problem:
        raise ModelProblem(
            f"{path}: transformers cannot load it: {first_line(problem)}"
        ) from problem
    missing = [name for name in found["missing_keys"] if not _UNUSED.search(name)]
    if missing or found["mismatched_keys"]:
        names = [*missing, *(str(key[0]) for key in found["mismatched_keys"])]
        raise ModelProblem(
            f"{path}: {len(names)} tensors are missing or have another shape ({listing(names)}); "
            "transformers would make up random ones, so attn stops here."
        )
    surplus = [name for name in found["unexpected_keys"] if _IN_A_BLOCK.search(name)]
    if surplus:
        raise ModelProblem(
            f"{path}: {len(surplus)} tensors that transformers does not know what to do with "
            f"({listing(surplus)}); results could be wrong, so attn stops here."
        )
    return module.eval()


def _read_spec(module: Any, path: Path) -> ModelSpec:
    """Read sizes off a short run: what a model shows is what its configuration may not say."""
    config = module.config.get_text_config()
    table = module.get_input_embeddings()
    ids = [token % table.num_embeddings for token in range(PROBE)]
    with recording(module) as record:
        try:
            out = forward(module, ids)
        except Exception as problem:
            first = (str(problem).strip() or type(problem).__name__).splitlines()[0]
            raise ModelProblem(
                f"{path}: transformers cannot run it on a text: {first[:200]}"
            ) from (problem)
    attentions, states = out.get("attentions"), out.get("hidden_states")
    if not attentions or not states or any(layer is None for layer in attentions):
        raise ModelProblem(f"{path}: transformers shows no attention weights of this architecture.")
    shapes = {tuple(layer.shape) for layer in attentions}
    n_layers, n_heads = len(attentions), int(attentions[0].shape[1])
    if shapes != {(1, n_heads, PROBE, PROBE)}:
        raise ModelProblem(
            f"{path}: attention has another shape in other layers ({listing(map(str, shapes))}), "
            "which attn cannot show."
        )
    if len(states) != n_layers + 1:
        raise ModelProblem(
            f"{path}: transformers shows attention of {n_layers} layers and {len(states)} states, "
            "expected one state more than layers: not every block has attention."
        )
    widths = {int(state.shape[-1]) for state in states}
    if len(widths) != 1:
        raise ModelProblem(
            f"{path}: states have another width in other layers ({listing(map(str, widths))}), so "
            "that they have no cosine."
        )
    call, d_model = record.call_of(0, attentions[0]), widths.pop()
    head_dim = d_model // n_heads if call is None else int(call.value.shape[-1])
    weights = np.stack([to_array(layer[0]) for layer in attentions])
    stack = StackSpec(
        layers=(LayerSpec(),) * n_layers,
        d_model=d_model,
        n_heads=n_heads,
        n_kv_heads=_kv_heads(config, n_heads if call is None else int(call.value.shape[1])),
        head_dim=head_dim,
        scale=head_dim**-0.5,
        causal=not weights[..., *np.triu_indices(PROBE, 1)].any(),
    )
    if getattr(config, "alibi", False):
        _compare_modes(module, ids, states[-1], path)
    return ModelSpec(
        family=str(config.model_type),
        stack=stack,
        vocab_size=int(table.num_embeddings),
        n_positions=_position_limit(module, table, config),
    )


def _kv_heads(config: Any, n_given: int) -> int:
    """Return key/value heads: as configured, at most as many as the attention function got."""
    if getattr(config, "multi_query", False) and not getattr(
        config, "new_decoder_architecture", False
    ):
        return 1
    named = getattr(config, "num_key_value_heads", None) or getattr(config, "num_kv_heads", None)
    return min(n_given, int(named or n_given))


def _compare_modes(module: Any, ids: Sequence[int], state: Any, path: Path) -> None:
    """Stop where the eager mode adds a position bias twice, which the default mode does not.

    Source: transformers/models/falcon/modeling_falcon.py, to the scores and again with the mask.
    """
    import torch

    module.config._attn_implementation = "sdpa"
    try:
        other = forward(module, ids, attentions=False).hidden_states[-1]
    finally:
        module.config._attn_implementation = "eager"
    far = 1e-3 if state.dtype == torch.float32 else 2e-2
    if (other - state).abs().max() > far * state.abs().max():
        raise ModelProblem(
            f"{path}: alibi is true, and eager mode of transformers adds that bias twice: its "
            "weights are not those of the model; leave --engine torch out."
        )


def _position_limit(module: Any, table: Any, config: Any) -> int | None:
    """Return how many tokens fit a learned position table; None where none is found.

    Such a table has as many rows as the configuration has positions, or a few more: rows before
    the first token's, by its attribute `offset` or up to its padding row.
    """
    import torch

    rows = getattr(config, "max_position_embeddings", None)
    if not isinstance(rows, int):
        return None
    for found in module.modules():
        is_table = isinstance(found, torch.nn.Embedding) and found is not table
        if is_table and 0 <= found.num_embeddings - rows <= 4:
            padding = found.padding_idx
            skipped = getattr(found, "offset", 0 if padding is None else padding + 1)
            return int(found.num_embeddings - skipped)
    return None
