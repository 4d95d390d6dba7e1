"""One sample of every kind of result, made once."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from attncli import api
from attncli.analyses.model_list import list_models
from attncli.analyses.models import describe_model
from attncli.model.load import load
from tests.outputs.streams import Stream
from tests.predictors import CONTINUED, MASKED, continuer, filler, pair_filler, translator
from tests.seq2seq import SOURCE, TARGET, seq2seq

JAM = "We were stuck in a traffic jam, unbelievable"
TOAST = "I love my toast with strawberry jam"


@cache
def _model(name: str) -> Any:
    return load(name)


@cache
def _seq2seq() -> Any:
    folder = TemporaryDirectory(prefix="attn-test-")
    atexit.register(folder.cleanup)
    return seq2seq(Path(folder.name))


@cache
def _predictor(make: Callable[[Path], Any], *, random: bool = False) -> Any:
    folder = TemporaryDirectory(prefix="attn-test-")
    atexit.register(folder.cleanup)
    return replace(make(Path(folder.name)), random=random)


SAMPLES: dict[str, tuple[str, Callable[[], Any]]] = {
    "overview": ("inspect", lambda: api.inspect(JAM, _model("minilm"))),
    "head": ("inspect", lambda: api.inspect(JAM, _model("minilm"), head="3.1")),
    "query": ("inspect", lambda: api.inspect(JAM, _model("minilm"), head="3.1", query=["jam"])),
    "words": ("inspect", lambda: api.inspect(JAM, _model("minilm"), words=True, by="weight")),
    "fold": ("inspect", lambda: api.inspect(JAM, _model("minilm"), special="fold")),
    "hide": ("inspect", lambda: api.inspect(JAM, _model("minilm"), special="hide", line=3)),
    "max": ("inspect", lambda: api.inspect(JAM, _model("minilm"), reduce="max", words=True)),
    "rollout": ("inspect", lambda: api.inspect(JAM, _model("minilm"), by="rollout")),
    "rollout query": (
        "inspect",
        lambda: api.inspect(JAM, _model("minilm"), by="rollout", query=["jam"], words=True),
    ),
    "random rollout": (
        "inspect",
        lambda: api.inspect(
            "i like jam", _model("random:d_model=8,heads=2,causal=true"), by="rollout"
        ),
    ),
    "value-zeroing": (
        "inspect",
        lambda: api.inspect(JAM, _model("minilm"), by="value-zeroing", query=["jam", "traffic"]),
    ),
    "cross value-zeroing": (
        "inspect",
        lambda: api.inspect(SOURCE, _seq2seq(), target=TARGET, by="value-zeroing"),
    ),
    "explained": ("explain", lambda: api.explain(JAM, _model("minilm"), query="jam")),
    "explained row": (
        "explain",
        lambda: api.explain(JAM, _model("minilm"), query="jam", key="We", head="3.1", line=2),
    ),
    "random explained": (
        "explain",
        lambda: api.explain(
            "i like jam", _model("random:d_model=8,heads=2,causal=true"), query="like", key="jam"
        ),
    ),
    "explained cross": (
        "explain",
        lambda: api.explain(SOURCE, _seq2seq(), target=TARGET, query="hund", brief=True),
    ),
    "explained decoder": (
        "explain",
        lambda: api.explain(SOURCE, _seq2seq(), target=TARGET, attention="self", query=1),
    ),
    "every head": (
        "inspect",
        lambda: api.inspect(TOAST, _model("minilm"), layer="0-1", every_head=True),
    ),
    "random": ("inspect", lambda: api.inspect("i like jam", _model("random:d_model=8,heads=2"))),
    "random causal head": (
        "inspect",
        lambda: api.inspect("i like jam", _model("random:d_model=8,heads=2,causal=true"), head=1),
    ),
    "heads": ("heads", lambda: api.heads(JAM, _model("minilm"), probe=True)),
    "heads sorted": (
        "heads",
        lambda: api.heads(
            JAM, _model("minilm"), layer="0-1", sort="previous", top=5, grid="sink", line=2
        ),
    ),
    "one head": ("heads", lambda: api.heads(JAM, _model("minilm"), head="0.2")),
    "linked heads": ("heads", lambda: api.heads(JAM, _model("minilm"), from_="jam", to="traffic")),
    "linked pieces": (
        "heads",
        lambda: api.heads(
            "A zebrafish likes jam",
            _model("minilm"),
            from_="zebrafish",
            to="jam",
            by="contribution",
            top=3,
        ),
    ),
    "paired heads": ("heads", lambda: api.heads(JAM, _model("minilm"), pair=TOAST, layer="0-1")),
    "contrasted heads": (
        "heads",
        lambda: api.heads(JAM, _model("minilm"), contrast="We were stuck in a jam jar"),
    ),
    "contrasted link": (
        "heads",
        lambda: api.heads(
            JAM, _model("minilm"), contrast="We saw a jam", from_="jam", to="we", layer=3
        ),
    ),
    "swapped heads": ("heads", lambda: api.heads(JAM, _model("minilm"), swap="we,they")),
    "random heads": ("heads", lambda: api.heads("i like jam", _model("random:d_model=8,heads=2"))),
    "random causal heads": (
        "heads",
        lambda: api.heads(
            "jam is jam is jam is jam", _model("random:d_model=8,heads=2,causal=true"), probe=True
        ),
    ),
    "random links": (
        "heads",
        lambda: api.heads("i like jam", _model("random:d_model=8,heads=2"), from_="jam", to="i"),
    ),
    "random contrast": (
        "heads",
        lambda: api.heads("i like jam", _model("random:d_model=8,heads=2"), contrast="i ate jam"),
    ),
    "cross heads": ("heads", lambda: api.heads(SOURCE, _seq2seq(), target=TARGET)),
    "cross links": (
        "heads",
        lambda: api.heads(SOURCE, _seq2seq(), target=TARGET, from_="hund", to="dog"),
    ),
    "decoder heads": (
        "heads",
        lambda: api.heads(SOURCE, _seq2seq(), target=TARGET, attention="self"),
    ),
    "encoder swap": ("heads", lambda: api.heads(SOURCE, _seq2seq(), swap="dog,cat")),
    "encoder": ("inspect", lambda: api.inspect(SOURCE, _seq2seq(), head="0.1")),
    "cross": ("inspect", lambda: api.inspect(SOURCE, _seq2seq(), target=TARGET)),
    "cross head": ("inspect", lambda: api.inspect(SOURCE, _seq2seq(), target=TARGET, head="1.0")),
    "cross query": (
        "inspect",
        lambda: api.inspect(SOURCE, _seq2seq(), target=TARGET, query=["hund"], by="weight"),
    ),
    "cross words": (
        "inspect",
        lambda: api.inspect(SOURCE, _seq2seq(), target=TARGET, words=True, special="fold"),
    ),
    "decoder": (
        "inspect",
        lambda: api.inspect(SOURCE, _seq2seq(), target=TARGET, attention="self", head="1.2"),
    ),
    "encoder pair": (
        "compare",
        lambda: api.compare(SOURCE, "a cat and the dog", model=_seq2seq(), word="cat"),
    ),
    "encoder tokens": ("tokens", lambda: api.tokens(SOURCE, _seq2seq())),
    "encoder info": ("models.info", lambda: describe_model(_seq2seq())),
    "sentence pair": ("inspect", lambda: api.inspect(TOAST, _model("minilm"), pair=JAM)),
    "sentence pair words": (
        "inspect",
        lambda: api.inspect(TOAST, _model("minilm"), pair=JAM, words=True, special="fold"),
    ),
    "sentence pair query": (
        "inspect",
        lambda: api.inspect(TOAST, _model("minilm"), pair=JAM, head="3.1", query=["jam#2"]),
    ),
    "sentence pair tokens": ("tokens", lambda: api.tokens(TOAST, _model("minilm"), pair=JAM)),
    "random sentence pair": (
        "inspect",
        lambda: api.inspect("i like", _model("random:d_model=8,heads=2"), pair="jam"),
    ),
    "pair": ("compare", lambda: api.compare(JAM, TOAST, model=_model("minilm"), word="jam")),
    "pair by rollout": (
        "compare",
        lambda: api.compare(JAM, TOAST, model=_model("minilm"), word="jam", by="rollout"),
    ),
    "several": ("compare", lambda: api.compare(JAM, TOAST, TOAST, model=_model("minilm"))),
    "anchors": (
        "compare",
        lambda: api.compare(JAM, model=_model("minilm"), word="jam", to=["food", f"jam: {TOAST}"]),
    ),
    "aligned": (
        "compare",
        lambda: api.compare(TOAST, f"{TOAST} today", model=_model("minilm"), word="toast"),
    ),
    "random pair": (
        "compare",
        lambda: api.compare("i like jam", "jam", model=_model("random:d_model=8,heads=2")),
    ),
    "many places": (
        "compare",
        lambda: api.compare(JAM, TOAST, "Jam and jam", model=_model("minilm"), word="jam"),
    ),
    "words at a state": (
        "compare",
        lambda: api.compare(JAM, TOAST, TOAST, model=_model("minilm"), state="L3", centred=True),
    ),
    "neighbours": (
        "compare",
        lambda: api.compare(
            JAM, TOAST, model=_model("minilm"), word="unbelievable", to=["food"], neighbours=3
        ),
    ),
    "random places": (
        "compare",
        lambda: api.compare(
            "jam and jam or jam",
            model=_model("random:d_model=8,heads=2,causal=true"),
            word="jam",
            neighbours=2,
        ),
    ),
    "next token": ("predict", lambda: api.predict(CONTINUED, _predictor(continuer), line=2)),
    "next token lens": (
        "predict",
        lambda: api.predict(CONTINUED, _predictor(continuer), lens=True, layer=1),
    ),
    "masks": ("predict", lambda: api.predict(MASKED, _predictor(filler), lens=True, top=3)),
    "masks of a pair": (
        "predict",
        lambda: api.predict(MASKED, _predictor(pair_filler), pair="a cat [MASK]", top=2),
    ),
    "next of target": (
        "predict",
        lambda: api.predict(SOURCE, _predictor(translator), target=TARGET, lens=True),
    ),
    "first of target": ("predict", lambda: api.predict(SOURCE, _predictor(translator))),
    "random prediction": (
        "predict",
        lambda: api.predict(CONTINUED, _predictor(continuer, random=True), lens=True),
    ),
    "tokens": ("tokens", lambda: api.tokens(f"{JAM} [SEP]", _model("minilm"), line=1)),
    "random tokens": ("tokens", lambda: api.tokens("i like", _model("random:d_model=8,heads=2"))),
    "info": ("models.info", lambda: describe_model(_model("minilm"))),
    "random info": ("models.info", lambda: describe_model(_model("random:ffn=false"))),
    "list": ("models.list", list_models),
}


@cache
def _made(name: str) -> Any:
    return SAMPLES[name][1]()


@pytest.fixture
def samples() -> Callable[[str], Any]:
    """Look up a result by name."""
    return _made


@pytest.fixture(params=SAMPLES)
def sample(request: pytest.FixtureRequest) -> Any:
    """Each result in turn."""
    return _made(request.param)


@pytest.fixture(params=SAMPLES)
def command_and_sample(request: pytest.FixtureRequest) -> tuple[str, Any]:
    """Each result in turn, after the command it is of."""
    return SAMPLES[request.param][0], _made(request.param)


@pytest.fixture(params=[name for name in SAMPLES if name.startswith("random")])
def random_sample(request: pytest.FixtureRequest) -> Any:
    """Each result of a model with random weights."""
    return _made(request.param)


@pytest.fixture
def stdout(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stream]:
    """Put a stream in the place of standard output."""

    def put(encoding: str = "utf-8", *, terminal: bool = False) -> Stream:
        stream = Stream(encoding, terminal=terminal)
        monkeypatch.setattr(sys, "stdout", stream)
        return stream

    return put
