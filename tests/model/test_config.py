"""config.json: every key read with its type, and none that matters missed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attncli.checkpoints.arrays import ArrayStore
from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.resolve import resolve
from attncli.model.spec import ModelSpec
from tests.toys import tiny_bert


def read(**changes: Any) -> ModelSpec:
    """Resolve a tiny BERT whose configuration is changed; None removes a key."""
    config, tensors = tiny_bert()
    values = {k: v for k, v in {**config, **changes}.items() if v is not ...}
    spec, _ = resolve(ConfigReader(values, "config.json"), ArrayStore(Path("w"), tensors))
    return spec


@pytest.mark.parametrize("key", ["rope_scaling", "logit_softcap", "attention_window", "x"])
def test_key_that_could_change_the_numbers_is_refused_by_name(key: str) -> None:
    with pytest.raises(ModelProblem, match=rf"config\.json: .*{key}"):
        read(**{key: 1})


def test_several_unread_keys_are_listed_together() -> None:
    with pytest.raises(ModelProblem, match="alpha, zeta"):
        read(zeta=1, alpha=2)


def test_keys_without_effect_are_passed_over() -> None:
    # from configurations of transformers 3 to 5
    assert read(
        attention_probs_dropout_prob=0.1,
        classifier_dropout=None,
        tie_word_embeddings=True,
        bos_token_id=3,
        chunk_size_feed_forward=0,
        directionality="bidi",
        tokenizer_class="BertTokenizer",
        unheard_of=None,
    )


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("hidden_size", "12", "a whole number"),
        ("hidden_size", 12.0, "a whole number"),
        ("hidden_size", True, "a whole number"),
        ("num_hidden_layers", 0, "a whole number"),
        ("num_hidden_layers", -2, "a whole number"),
        ("num_hidden_layers", 1_000_000, "a whole number from 1 to 10,000"),
        ("vocab_size", 10**12, "a whole number"),
        ("layer_norm_eps", "1e-12", "a number"),
        ("layer_norm_eps", True, "a number"),
        ("layer_norm_eps", float("nan"), "a number"),
        ("layer_norm_eps", -1e-12, "a number"),
        ("hidden_act", "geglu", "one of gelu, "),
        ("hidden_act", ["gelu"], "one of gelu, "),
        ("position_embedding_type", "relative_key", '"absolute"'),
        ("is_decoder", True, "false"),
        ("model_type", 3, "a string"),
    ],
)
def test_wrong_value_is_named_with_what_is_expected(key: str, value: Any, expected: str) -> None:
    with pytest.raises(ModelProblem) as caught:
        read(**{key: value})
    assert key in str(caught.value)
    assert expected in str(caught.value)


def test_missing_key_is_named() -> None:
    with pytest.raises(ModelProblem, match="the key hidden_size is missing"):
        read(hidden_size=...)


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ModelProblem, match=r"hidden_size 12 does not divide by .* 5"):
        read(num_attention_heads=5)


def test_absent_optional_keys_take_the_familys_defaults() -> None:
    spec = read(layer_norm_eps=..., hidden_act=...)
    assert (spec.stack.eps, spec.stack.activation) == (1e-12, "gelu")


def test_unknown_family_is_named_with_those_known_and_a_close_one() -> None:
    with pytest.raises(ModelProblem, match=r"'bertt' is not supported.*bert.*Did you mean bert\?"):
        read(model_type="bertt")


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff\xfe\x00", b"[" * 100_000])
def test_file_that_is_no_json_object_is_a_one_line_problem(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ModelProblem) as caught:
        ConfigReader.from_file(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelProblem, match=r"config\.json: cannot be read"):
        ConfigReader.from_file(tmp_path / "config.json")


def test_assumed_value_stands_for_an_absent_key_but_not_for_null() -> None:
    config = ConfigReader({"window": None, "width": 3}, "config.json")
    config.assume({"window": 8, "width": 4, "heads": 2})
    assert not config.has("window")
    assert (config.count("width"), config.count("heads")) == (3, 2)
    config.finish()


def test_asking_for_a_key_is_not_reading_it() -> None:
    config = ConfigReader({"warp": 1}, "config.json")
    assert config.has("warp")
    assert config.look("warp") == 1
    with pytest.raises(ModelProblem, match="warp"):
        config.finish()
    config.pass_over("warp")
    config.finish()


def test_configuration_inside_another_is_read_and_finished_like_any() -> None:
    config = ConfigReader({"text_config": {"width": "3", "warp": 1}}, "config.json")
    inner = config.inner("text_config")
    with pytest.raises(ModelProblem, match=r'^config\.json, text_config: width is "3", expected'):
        inner.count("width")
    with pytest.raises(ModelProblem, match=r"^config\.json, text_config: .*warp"):
        config.finish()
    with pytest.raises(ModelProblem, match="the key vision_config is missing"):
        config.inner("vision_config")


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), True])
def test_number_must_be_above_its_bound(value: float) -> None:
    with pytest.raises(ModelProblem, match=r"scalar is .*, expected a number above 0"):
        ConfigReader({"scalar": value}, "config.json").number("scalar", above=0.0)


@pytest.mark.parametrize("value", ["1", 1, [1, -1], [1.0], [True]])
def test_list_of_counts_holds_nothing_else(value: object) -> None:
    with pytest.raises(ModelProblem, match=r"layers is .*, expected a list of whole numbers"):
        ConfigReader({"layers": value}, "config.json").counts("layers")


@pytest.mark.parametrize(
    ("key", "neutral", "other"),
    [("is_encoder_decoder", False, True), ("pruned_heads", {}, {"1": [0]})],
)
def test_key_that_is_neutral_with_one_value_only(key: str, neutral: Any, other: Any) -> None:
    assert read(**{key: neutral})
    with pytest.raises(ModelProblem, match=key):
        read(**{key: other})


def test_either_takes_the_spelling_that_is_there_and_refuses_two_that_differ() -> None:
    def reader(**values: Any) -> ConfigReader:
        return ConfigReader(values, "config.json")

    assert reader(n_embd=4).either("n_embd", "hidden_size") == "n_embd"
    assert reader(n_embd=None, hidden_size=4).either("n_embd", "hidden_size") == "hidden_size"
    assert reader().either("n_embd", "hidden_size") == "n_embd"
    both = reader(n_embd=4, hidden_size=4)
    both.either("n_embd", "hidden_size")
    both.finish()
    with pytest.raises(ModelProblem, match="n_embd and hidden_size should be equal"):
        reader(n_embd=4, hidden_size=5).either("n_embd", "hidden_size")


@pytest.mark.parametrize("key", ["is_encoder_decoder", "add_cross_attention", "is_decoder"])
def test_switch_is_passed_over_only_when_it_is_off(key: str) -> None:
    ConfigReader({key: False}, "config.json").finish()
    for value in (True, 1, "no"):
        with pytest.raises(ModelProblem, match=key):
            ConfigReader({key: value}, "config.json").finish()
