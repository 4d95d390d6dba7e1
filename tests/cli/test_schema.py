"""attn schema: the schemas that ship, printed."""

from __future__ import annotations

import json

import pytest


def test_every_name_it_lists_prints_a_schema_of_that_name(attn) -> None:
    names = attn("schema").out.splitlines()
    assert names == [
        "compare",
        "inspect",
        "models.info",
        "models.list",
        "models.verify",
        "predict",
        "tokens",
    ]
    for name in names:
        text = attn("schema", name).out
        assert f'"attn.{name}/1"' in text
        assert json.loads(text)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_command_of_two_words_may_be_typed_with_a_space(attn) -> None:
    assert attn("schema", "models info").out == attn("schema", "models.info").out


@pytest.mark.parametrize("name", ["inspekt", "../inspect", "models", ""])
def test_unknown_name_lists_the_known_ones(attn, name: str) -> None:
    ran = attn("schema", name)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "compare, inspect, models.info" in ran.err
