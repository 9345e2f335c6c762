"""What nodes of ONNX Runtime's operators may have: onnx has no schemas of them.

Written from ONNX Runtime's documentation of its contrib operators.
"""

from __future__ import annotations

import onnx

from .checks import ELEMENT_TYPES, Formal, Spec

_INT, _INTS = int(onnx.AttributeProto.INT), int(onnx.AttributeProto.INTS)
_FLOAT, _STRING = int(onnx.AttributeProto.FLOAT), int(onnx.AttributeProto.STRING)
_FLOATS, _STRINGS = int(onnx.AttributeProto.FLOATS), int(onnx.AttributeProto.STRINGS)

_ANY = frozenset(ELEMENT_TYPES.values())

#: The attributes of each kind of operator; those with a mark have to be there.
_POOL = {
    "auto_pad": _STRING, "ceil_mode": _INT, "channels_last": _INT, "count_include_pad": _INT,
    "kernel_shape!": _INTS, "pads": _INTS, "strides": _INTS,
}  # fmt: skip

_ACTIVATION = {"activation": _STRING}
_CONV = {
    "auto_pad": _STRING, "dilations": _INTS, "group": _INT, "kernel_shape": _INTS, "pads": _INTS,
    "strides": _INTS, "activation_params": _FLOATS, **_ACTIVATION,
}  # fmt: skip
_MAX_POOL = {
    "auto_pad": _STRING, "ceil_mode": _INT, "dilations": _INTS, "kernel_shape!": _INTS,
    "pads": _INTS, "strides": _INTS,
}  # fmt: skip
_EPSILON = {"epsilon": _FLOAT}
_GROUP_NORM = {**_EPSILON, "activation!": _INT, "channels_last": _INT, "groups!": _INT}
_ATTENTION = {
    "mask_filter_value": _FLOAT, "num_heads!": _INT, "scale": _FLOAT, "unidirectional": _INT,
}  # fmt: skip
_EXPERTS = {
    "activation_alpha": _FLOAT, "activation_beta": _FLOAT, "activation_type": _STRING, "k": _INT,
    "normalize_routing_weights": _INT, "swiglu_fusion": _INT, "swiglu_limit": _FLOAT,
    "use_sparse_mixer": _INT,
}  # fmt: skip

#: Operator -> its inputs ("?" may be left out, "*" repeats the last three), and its attributes.
_OPERATORS: dict[str, tuple[str, dict[str, int]]] = {
    "Attention": (
        "input weights bias? mask_index? past? attention_bias? past_sequence_length?",
        {
            **_ATTENTION,
            "do_rotary": _INT,
            "past_present_share_buffer": _INT,
            "qkv_hidden_sizes": _INTS,
            "rotary_embedding_dim": _INT,
        },
    ),
    "BiasAdd": ("X bias skip", {}),
    "BiasGelu": ("A B", {}),
    "BiasSplitGelu": ("X bias", {}),
    "BranchwiseRMSNorm": ("X scale?", {**_EPSILON, "num_branches": _INT}),
    "CDist": ("A B", {"metric": _STRING}),
    "CausalConvWithState": (
        "input weight bias? past_state?",
        {
            **_ACTIVATION,
            "channels_last": _INT,
            "dilation": _INT,
            "ndim": _INT,
            "state_window": _INT,
        },
    ),
    "DynamicQuantizeLSTM": (
        "X W R B? sequence_lens? h? c? P? W_scale W_zero_point R_scale R_zero_point",
        {
            "activation_alpha": _FLOATS,
            "activation_beta": _FLOATS,
            "activations": _STRINGS,
            "clip": _FLOAT,
            "direction": _STRING,
            "hidden_size": _INT,
            "input_forget": _INT,
        },
    ),
    "DynamicQuantizeMatMul": ("A B b_scale b_zero_point? bias?", {}),
    "EmbedLayerNormalization": (
        (
            "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma "
            "beta mask? position_ids?"
        ),
        {**_EPSILON, "mask_index_type": _INT},
    ),
    "ExpandDims": ("X axis", {}),
    "FastGelu": ("X bias?", {}),
    "FusedConv": ("X W B? Z?", _CONV),
    "FusedGemm": (
        "A B C?",
        {
            **_ACTIVATION,
            "activation_alpha": _FLOAT,
            "activation_beta": _FLOAT,
            "activation_gamma": _FLOAT,
            "alpha": _FLOAT,
            "beta": _FLOAT,
            "transA": _INT,
            "transB": _INT,
        },
    ),
    "FusedMatMul": (
        "A B",
        {
            "alpha": _FLOAT,
            "transA": _INT,
            "transB": _INT,
            "transBatchA": _INT,
            "transBatchB": _INT,
        },
    ),
    "GatedAdd": ("X Y gate", {}),
    "GatedRMSNorm": ("X scale gate", {**_ACTIVATION, **_EPSILON}),
    "GatherBlockQuantized": (
        "data indices scales zero_points?",
        {"bits": _INT, "block_size": _INT, "gather_axis": _INT, "quantize_axis": _INT},
    ),
    "GatherND": ("data indices", {}),
    "Gelu": ("X", {}),
    "GridSample": ("X Grid", {"align_corners": _INT, "mode": _STRING, "padding_mode": _STRING}),
    "GroupNorm": (
        "X gamma beta",
        _GROUP_NORM,
    ),
    "GroupQueryAttention": (
        (
            "query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? "
            "sin_cache? position_ids? attention_bias? head_sink? k_scale? v_scale? "
            "q_norm_weight? k_norm_weight?"
        ),
        {
            "causal": _INT,
            "do_rotary": _INT,
            "k_quant_type": _STRING,
            "kv_cache_bit_width": _INT,
            "kv_num_heads!": _INT,
            "local_window_size": _INT,
            "num_heads!": _INT,
            "qk_norm_epsilon": _FLOAT,
            "qk_output": _INT,
            "rotary_interleaved": _INT,
            "scale": _FLOAT,
            "sliding_window_cache": _INT,
            "smooth_softmax": _INT,
            "softcap": _FLOAT,
            "v_quant_type": _STRING,
        },
    ),
    "Inverse": ("X", {}),
    "LinearAttention": (
        "query key value past_state? decay? beta?",
        {
            "chunk_size": _INT,
            "kv_num_heads!": _INT,
            "q_num_heads!": _INT,
            "scale": _FLOAT,
            "state_window": _INT,
            "update_rule": _STRING,
        },
    ),
    "LinearAttentionGate": ("a dt_bias decay_scale b?", {}),
    "MRotaryEmbedding": (
        "input position_ids cos_cache sin_cache",
        {
            "interleaved": _INT,
            "is_packed_batching": _INT,
            "mrope_layout": _INT,
            "mrope_section!": _INTS,
            "num_heads": _INT,
            "rotary_embedding_dim": _INT,
            "scale": _FLOAT,
        },
    ),
    "MatMulBnb4": (
        "A B absmax",
        {
            "K!": _INT,
            "N!": _INT,
            "block_size!": _INT,
            "quant_type!": _INT,
            "training_mode": _INT,
            "transB": _INT,
        },
    ),
    "MatMulIntegerToFloat": ("A B a_scale b_scale a_zero_point? b_zero_point? bias?", {}),
    "MatMulNBits": (
        "A B scales zero_points? g_idx? bias?",
        {
            "K!": _INT,
            "N!": _INT,
            "accuracy_level": _INT,
            "bits": _INT,
            "block_size!": _INT,
            "weight_prepacked": _INT,
        },
    ),
    "MoE": (
        (
            "input router_probs fc1_experts_weights fc1_experts_bias? fc2_experts_weights "
            "fc2_experts_bias? fc3_experts_weights? fc3_experts_bias?"
        ),
        _EXPERTS,
    ),
    "MultiHeadAttention": (
        (
            "query key? value? bias? key_padding_mask? attention_bias? past_key? past_value? "
            "past_sequence_length? cache_indirection?"
        ),
        _ATTENTION,
    ),
    "NhwcConv": ("X W B?", {k: v for k, v in _CONV.items() if not k.startswith("activation")}),
    "NhwcFusedConv": ("X W B? Z?", _CONV),
    "NhwcMaxPool": ("x", _MAX_POOL),
    "Pad": ("data pads value?", {"mode": _STRING}),
    "QAttention": (
        (
            "input weight bias input_scale weight_scale mask_index? input_zero_point? "
            "weight_zero_point? past?"
        ),
        {**_ATTENTION, "do_rotary": _INT, "past_present_share_buffer": _INT},
    ),
    "QEmbedLayerNormalization": (
        (
            "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma "
            "beta mask? word_scale position_scale segment_scale? gamma_scale beta_scale word_zero "
            "position_zero segment_zero? gamma_zero beta_zero"
        ),
        _EPSILON,
    ),
    "QGemm": (
        "A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point?",
        {"alpha": _FLOAT, "transA": _INT, "transB": _INT},
    ),
    "QLinearAdd": ("A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?", {}),
    "QLinearAveragePool": ("X x_scale x_zero_point? y_scale y_zero_point?", _POOL),
    "QLinearConcat": ("Y_scale Y_zero_point X x_scale x_zero_point*", {"axis!": _INT}),
    "QLinearConv": (
        "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B?",
        {
            "channels_last": _INT,
            **{k: v for k, v in _CONV.items() if not k.startswith("activation")},
        },
    ),
    "QLinearGlobalAveragePool": (
        "X x_scale x_zero_point? y_scale y_zero_point?",
        {"channels_last": _INT},
    ),
    "QLinearLeakyRelu": ("X X_scale X_zero_point? Y_scale Y_zero_point?", {"alpha": _FLOAT}),
    "QLinearMul": ("A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?", {}),
    "QLinearReduceMean": (
        "data data_scale data_zero_point? reduced_scale reduced_zero_point?",
        {"axes": _INTS, "keepdims": _INT},
    ),
    "QLinearSigmoid": ("X X_scale X_zero_point? Y_scale Y_zero_point?", {}),
    "QLinearSoftmax": (
        "X X_scale x_zero_point? y_scale y_zero_point?",
        {"axis": _INT, "opset!": _INT},
    ),
    "QLinearWhere": (
        "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point",
        {},
    ),
    "QMoE": (
        (
            "input router_probs fc1_experts_weights fc1_scales? fc1_experts_bias? "
            "fc2_experts_weights fc2_scales? fc2_experts_bias? fc3_experts_weights? fc3_scales? "
            "fc3_experts_bias? fc1_zero_points? fc2_zero_points? fc3_zero_points? router_weights? "
            "fc1_global_scale? fc2_global_scale? fc1_act_scale? fc2_act_scale? "
            "fc1_act_block_scale? fc2_act_block_scale?"
        ),
        {
            **_EXPERTS,
            "accuracy_level": _INT,
            "block_size": _INT,
            "expert_weight_bits": _INT,
            "fc1_expert_weight_bits": _INT,
            "fc2_expert_weight_bits": _INT,
            "fc3_expert_weight_bits": _INT,
            "quant_type": _STRING,
            "weights_prepacked": _INT,
        },
    ),
    "QuickGelu": ("X", {"alpha": _FLOAT}),
    "Range": ("start limit delta?", {}),
    "RotaryEmbedding": (
        "input position_ids cos_cache sin_cache",
        {
            "interleaved": _INT,
            "is_packed_batching": _INT,
            "num_heads": _INT,
            "rotary_embedding_dim": _INT,
            "scale": _FLOAT,
        },
    ),
    "ScaledSiLU": ("X scale?", {"alpha": _FLOAT}),
    "SkipGroupNorm": ("X gamma beta skip bias?", _GROUP_NORM),
    "SkipLayerNormalization": ("input skip gamma beta? bias?", _EPSILON),
    "SkipSimplifiedLayerNormalization": ("input skip gamma bias?", _EPSILON),
    "TransposeMatMul": ("A B", {"alpha": _FLOAT, "transA": _INT, "transB": _INT}),
    "Trilu": ("X k?", {"upper": _INT}),
    "UnfoldTensor": ("input", {"dim": _INT, "size!": _INT, "step": _INT}),
}

#: How many outputs a node has; one, where nothing is said.
_OUTPUTS = {
    "Attention": (1, 2),
    "CausalConvWithState": (1, 2),
    "DynamicQuantizeLSTM": (0, 3),
    "EmbedLayerNormalization": (1, 3),
    "GroupQueryAttention": (1, 4),
    "LinearAttention": (1, 2),
    "LinearAttentionGate": (1, 2),
    "MultiHeadAttention": (1, 4),
    "QAttention": (1, 2),
    "QEmbedLayerNormalization": (1, 2),
    "SkipGroupNorm": (1, 2),
    "SkipLayerNormalization": (1, 4),
    "SkipSimplifiedLayerNormalization": (1, 4),
}


def _spec(op: str, inputs: str, attributes: dict[str, int]) -> Spec:
    names = inputs.split()
    repeats = names[-1].endswith("*")
    formals = tuple(Formal(n.rstrip("?*"), "", _ANY, not n.endswith("?")) for n in names)
    least = max(i for i, f in enumerate(formals, 1) if f.required)
    return Spec(
        op,
        1,
        False,
        formals,
        (),
        repeats,
        (least, 2**31 if repeats else len(names)),
        _OUTPUTS.get(op, (1, 1)),
        {k.rstrip("!"): kind for k, kind in attributes.items()},
        tuple(k.rstrip("!") for k in attributes if k.endswith("!")),
        {},
    )


#: Operator of the domain com.microsoft -> what its nodes may have.
CONTRIB = {op: _spec(op, *entry) for op, entry in _OPERATORS.items()}
