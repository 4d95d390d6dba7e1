"""Encoders: BERT and its relatives."""

from __future__ import annotations

from tests.parity.cases.case import Case

TINY_BERT = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 36,
    "vocab_size": 40,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "pad_token_id": 0,
}


TINY_DISTILBERT = {
    "dim": 24,
    "n_layers": 2,
    "n_heads": 3,
    "hidden_dim": 36,
    "vocab_size": 40,
    "max_position_embeddings": 16,
    "activation": "gelu",
}
TINY_MPNET = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "vocab_size": 40,
    "max_position_embeddings": 40,
}
TINY_MODERNBERT = {
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "vocab_size": 40,
    "local_attention": 5,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "cls_token_id": 1,
    "eos_token_id": 2,
    "sep_token_id": 2,
}
TINY_DEBERTA = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "vocab_size": 40,
    "max_position_embeddings": 32,
    "relative_attention": True,
    "position_biased_input": False,
    "pos_att_type": ["c2p", "p2c"],
    "max_relative_positions": 12,
}
TINY_DEBERTA_V3 = {
    **TINY_DEBERTA,
    "position_buckets": 6,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
}
PADDED = (0, 7, 12, 1, 33, 7, 1, 39, 20, 2)
"""With the padding token 1 inside the text, where it has no position of its own."""
PAIR = (0, 0, 0, 0, 0, 1, 1, 1, 1, 1)
"""Token types of two texts of five tokens."""
LONG = tuple(2 + 7 * i % 38 for i in range(28))
"""Reaches the first distance buckets that hold several distances."""

ENCODERS = [
    Case("bert", "bert", {**TINY_BERT, "hidden_act": "gelu"}),
    # a large eps, so that a wrong one shows
    Case("bert-eps-tanh", "bert", {**TINY_BERT, "hidden_act": "gelu_new", "layer_norm_eps": 0.01}),
    Case("bert-relu", "bert", {**TINY_BERT, "hidden_act": "relu", "num_attention_heads": 1}),
    # as many tokens as there are positions
    Case("bert-silu-full", "bert", {**TINY_BERT, "hidden_act": "silu"}, tuple(range(3, 19))),
    # encoders
    Case("bert-pair", "bert", TINY_BERT, types=PAIR),
    Case("electra-pair", "electra", {**TINY_BERT, "embedding_size": 10}, types=PAIR),
    Case("albert-pair", "albert", {**TINY_BERT, "embedding_size": 10}, types=PAIR),
    Case("deberta-v2-pair", "deberta-v2", {**TINY_DEBERTA_V3, "type_vocab_size": 2}, types=PAIR),
    Case("roberta", "roberta", {**TINY_BERT, "pad_token_id": 1, "type_vocab_size": 1}, PADDED),
    Case("roberta-pad-3-full", "roberta", {**TINY_BERT, "pad_token_id": 3}, tuple(range(5, 17))),
    Case("xlm-roberta", "xlm-roberta", {**TINY_BERT, "pad_token_id": 1}),
    Case("camembert", "camembert", {**TINY_BERT, "pad_token_id": 1}, PADDED),
    Case("distilbert", "distilbert", TINY_DISTILBERT),
    Case("electra", "electra", {**TINY_BERT, "embedding_size": 10}),
    Case("electra-same-width", "electra", {**TINY_BERT, "embedding_size": 24}),
    Case("albert", "albert", {**TINY_BERT, "embedding_size": 10, "hidden_act": "gelu_new"}),
    Case(
        "albert-groups",
        "albert",
        {
            **TINY_BERT,
            "hidden_size": 12,
            "num_attention_heads": 2,
            "intermediate_size": 18,
            "embedding_size": 12,
            "num_hidden_layers": 3,
            "num_hidden_groups": 2,
            "inner_group_num": 2,
        },
    ),
    Case("mpnet", "mpnet", TINY_MPNET, LONG),
    Case("modernbert", "modernbert", TINY_MODERNBERT),
    Case("deberta", "deberta", {**TINY_DEBERTA, "max_relative_positions": -1}),
    # distances beyond the table
    Case(
        "deberta-far",
        "deberta",
        {
            **TINY_DEBERTA,
            "max_relative_positions": 4,
            "position_biased_input": True,
            "type_vocab_size": 2,
        },
    ),
    Case("deberta-c2p", "deberta", {**TINY_DEBERTA, "pos_att_type": "c2p"}),
    Case("deberta-p2c", "deberta", {**TINY_DEBERTA, "pos_att_type": ["p2c"]}),
    Case("deberta-absolute", "deberta", {**TINY_DEBERTA, "relative_attention": False}),
    Case("deberta-v2", "deberta-v2", {**TINY_DEBERTA, "pos_att_type": "p2c|c2p"}),
    Case(
        "deberta-v2-biased-far",
        "deberta-v2",
        {
            **TINY_DEBERTA,
            "max_relative_positions": 4,
            "position_biased_input": True,
            "type_vocab_size": 2,
        },
    ),
    Case("deberta-v2-buckets-c2p", "deberta-v2", {**TINY_DEBERTA_V3, "pos_att_type": ["c2p"]}),
    Case(
        "deberta-v2-conv",
        "deberta-v2",
        {**TINY_DEBERTA_V3, "conv_kernel_size": 3, "conv_act": "gelu"},
    ),
    Case("deberta-v2-conv-short", "deberta-v2", {**TINY_DEBERTA, "conv_kernel_size": 5}, (7,)),
    Case("deberta-v3", "deberta-v2", TINY_DEBERTA_V3, LONG),
    Case(
        "deberta-v3-own-keys",
        "deberta-v2",
        {**TINY_DEBERTA_V3, "share_att_key": False, "layer_norm_eps": 0.01},
    ),
    Case(
        "modernbert-biases-scaled",
        "modernbert",
        {
            **TINY_MODERNBERT,
            "attention_bias": True,
            "mlp_bias": True,
            "norm_bias": True,
            "norm_eps": 0.01,
            "local_attention": 4,
            "num_hidden_layers": 3,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "max_position_embeddings": 6,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
            },
        },
    ),
]
