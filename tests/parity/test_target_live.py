"""What a decoder reads of a target, against what transformers makes of labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seq2seq import TARGET, seq2seq, tokenizer

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("default")]


@pytest.mark.parametrize(
    ("case", "template", "start"),
    [
        ("t5", "$A </s>", 0),
        ("mt5", "$A </s>", 0),
        ("umt5", "$A </s>", 0),
        ("bart", "<pad> $A </s>", 1),
        ("mbart", "$A </s> en_XX", None),
        ("mbart", "en_XX $A </s>", 1),
        ("marian", "$A </s>", 39),
        ("pegasus", "$A </s>", 0),
    ],
)
def test_decoder_input_equals_the_shifted_labels_of_transformers(
    case: str, template: str, start: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = seq2seq(tmp_path, case, template, decoder_start_token_id=start)
    labels = torch.tensor([tokenizer(template).encode(TARGET).ids])
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    config.pad_token_id = 38
    theirs = transformers.AutoModelForSeq2SeqLM.from_config(config)
    shifted = theirs.prepare_decoder_input_ids_from_labels(labels=labels)
    assert model.encode_target(TARGET).ids == shifted[0].tolist()
