"""Keys of configurations that change neither attention weights nor the residual stream of a text.

A key that is neither here nor read by a family is refused.
"""

from __future__ import annotations

import re
from typing import Any

NEUTRAL = frozenset(
    [
        "_flash_attn_2_enabled",
        "_name_or_path",
        "_num_labels",
        "architectures",
        "auto_map",
        "cache_implementation",
        "chunk_size_feed_forward",
        "classifier_dropout",
        "decoder_layerdrop",
        "dtype",
        "encoder_layerdrop",
        "finetuning_task",
        "gradient_checkpointing",
        "id2label",
        "initializer_factor",
        "initializer_range",
        "label2id",
        "language",
        "max_length",
        "max_sequence_length",
        "model_type",
        "name",
        "neftune_noise_alpha",
        "num_labels",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
        "pretraining_tp",
        "problem_type",
        "return_dict",
        "router_aux_loss_coef",
        "router_jitter_noise",
        "sentence_transformers",
        "task_specific_params",
        "tie_word_embeddings",
        "tokenizer_class",
        "torch_dtype",
        "torchscript",
        "transformers.js_config",
        "transformers_version",
        "unsloth_fixed",
        "unsloth_version",
        "use_cache",
    ]
)
"""Keys that do not change attention weights or the residual stream of one text."""

GENERATION = frozenset(
    [
        "bad_words_ids",
        "begin_suppress_tokens",
        "diversity_penalty",
        "do_sample",
        "early_stopping",
        "encoder_no_repeat_ngram_size",
        "exponential_decay_length_penalty",
        "force_bos_token_to_be_generated",
        "length_penalty",
        "min_length",
        "no_repeat_ngram_size",
        "num_beam_groups",
        "num_beams",
        "num_return_sequences",
        "output_past",
        "output_scores",
        "prefix",
        "remove_invalid_values",
        "repetition_penalty",
        "return_dict_in_generate",
        "suppress_tokens",
        "temperature",
        "top_k",
        "top_p",
        "typical_p",
    ]
)
"""Keys of text generation, which configurations before 2023 hold too."""

UNUSED: dict[str, Any] = {
    "add_cross_attention": False,
    "cross_attention_hidden_size": None,
    "is_decoder": False,
    "is_encoder_decoder": False,
    "pruned_heads": {},
    "tf_legacy_loss": False,
    "tie_encoder_decoder": False,
    "use_bfloat16": False,
}
"""Keys that change nothing with these values, which many files write out."""

NEUTRAL_PATTERN = re.compile(
    r".*(dropout|token_id)(_prob|_rate)?$|.*(_pdrop|layerdrop)$|^_attn_.*|^summary_.*"
)
