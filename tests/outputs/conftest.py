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
from tests.predictors import CONTINUED, MASKED, continuer, filler, translator
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
    "every head": (
        "inspect",
        lambda: api.inspect(TOAST, _model("minilm"), layer="0-1", every_head=True),
    ),
    "random": ("inspect", lambda: api.inspect("i like jam", _model("random:d_model=8,heads=2"))),
    "random causal head": (
        "inspect",
        lambda: api.inspect("i like jam", _model("random:d_model=8,heads=2,causal=true"), head=1),
    ),
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
    "pair": ("compare", lambda: api.compare(JAM, TOAST, model=_model("minilm"), word="jam")),
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
    "next token": ("predict", lambda: api.predict(CONTINUED, _predictor(continuer), line=2)),
    "next token lens": (
        "predict",
        lambda: api.predict(CONTINUED, _predictor(continuer), lens=True, layer=1),
    ),
    "masks": ("predict", lambda: api.predict(MASKED, _predictor(filler), lens=True, top=3)),
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
