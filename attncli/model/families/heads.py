"""Output heads that families share: a table alone, or what fills masks in front of one.

A file may hold the head's own table or leave it to the embedding. Its own one comes first, as in
transformers, which ties two tables only where one is absent or both are equal; without it the
configuration says whether the embedding serves (tie_word_embeddings, or what the family's class
takes when the key is absent). A checkpoint with neither has no head.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from attncli.model.config import ConfigReader
from attncli.model.families.names import linear, norm, old_norm_names
from attncli.model.params import HeadSources, Source
from attncli.model.spec import HeadSpec, ModelSpec

LM_HEAD = "lm_head"
_TIED = "tie_word_embeddings"


def is_tied(config: ConfigReader, default: bool) -> bool:
    """Tell whether the embedding serves as table of the head where the file holds no other."""
    if config.mentions(_TIED) and not config.has(_TIED):
        return False
    return config.flag(_TIED, default)


def lm_head(
    spec: ModelSpec,
    tensors: Collection[str],
    config: ConfigReader,
    *,
    tied: bool,
    names: Sequence[str] = (LM_HEAD,),
    bias: bool = False,
    width: int | None = None,
    head: HeadSpec | None = None,
    before: dict[str, Source] | None = None,
) -> HeadSources | None:
    """Return a head that is one table, [token, width].

    Args:
        spec: the model.
        tensors: names in the checkpoint.
        config: the configuration.
        tied: what tie_word_embeddings is when the configuration does not say.
        names: spellings of the table's name.
        bias: each token has a bias.
        width: of the table where it differs from the model's.
        head: arithmetic other than the plain product.
        before: sources of a projection in front of the table.
    """
    stack = spec.stack
    if not stack.causal:
        return None
    owned = re.compile(rf"(.*\.)?({'|'.join(map(re.escape, names))})\.")
    there = [name for name in tensors if owned.match(name)]
    if not there and not is_tied(config, tied):
        return None
    name = next((name for name in names if f"{name}.weight" in tensors), names[0])
    rows = spec.target_vocab_size or spec.vocab_size
    found = dict(before or {})
    if f"{name}.weight" in tensors or not is_tied(config, tied):
        found["head.token.weight"] = Source(f"{name}.weight", (rows, width or stack.d_model))
    if bias:
        found["head.bias"] = Source(f"{name}.bias", (rows,))
    return HeadSources(head or HeadSpec(), found, lambda tensor: bool(owned.match(tensor)))


def mask_head(
    spec: ModelSpec,
    tensors: Collection[str],
    config: ConfigReader,
    *,
    prefix: str,
    dense: str,
    norm_name: str,
    table: str | None,
    biases: Sequence[str],
    activation: str,
    width: int | None = None,
    tied: bool = True,
    plain: Collection[str] = (),
) -> HeadSources | None:
    """Return a head that fills masks: dense map, activation, norm, table, bias of each token.

    Args:
        spec: the model.
        tensors: names in the checkpoint.
        config: the configuration.
        prefix: pattern that all tensors of the head begin with; without any there is no head.
        dense: name of the dense map.
        norm_name: name of the norm.
        table: name of the table; None: always the embedding.
        biases: names of the tokens' biases; of several that are there the first counts. The last
            is the older spelling, which is read where the table is tied.
        activation: between dense map and norm.
        width: of the embedding where it differs from the model's.
        tied: what tie_word_embeddings is when the configuration does not say.
        plain: what has no bias: "dense", "norm" or "table".
    """
    owned = re.compile(prefix)
    if not any(owned.match(name) for name in tensors):
        return None
    stack, rows = spec.stack, spec.vocab_size
    width, tied = width or stack.d_model, table is None or is_tied(config, tied)
    found = linear("head.dense", dense, stack.d_model, width, bias="dense" not in plain)
    found |= norm("head.norm", norm_name, width, bias="norm" not in plain)
    known = set(biases)
    if table is not None and (f"{table}.weight" in tensors or not tied):
        found["head.token.weight"] = Source(f"{table}.weight", (rows, width))
    if "table" not in plain:
        first = next((name for name in biases if name in tensors), biases[-1])
        found["head.bias"] = Source(first if tied else biases[0], (rows,))
    return HeadSources(
        HeadSpec(activation=activation, eps=stack.eps),
        old_norm_names(found, tensors),
        lambda tensor: bool(owned.match(tensor)) and tensor not in known,
    )
