"""Small GGUF files of the qwen2 architecture, and a pretrained model of the project as a GGUF file."""

from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config, Qwen2ForCausalLM
from transformers.convert_slow_tokenizer import bytes_to_unicode

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# The merge "1 2" does not apply if the pre-tokenization splits numbers into digits.
MERGES = ("1 2", "a l", "al l", "Ġ b")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NAMES = {  # {name of a layer's weights in GGUF: name in transformers}
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
QWEN3_NAMES = NAMES | {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}


def new_writer(path: Path, architecture: str, config, context_tokens: int) -> gguf.GGUFWriter:
    """A writer that has the sizes of a model."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(context_tokens)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    return writer


def write_file(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def build_qwen2(*, tied: bool) -> Qwen2ForCausalLM:
    """A model of two layers with random weights, norms and biases."""
    torch.manual_seed(1)
    config = Qwen2Config(
        vocab_size=len(vocabulary()), hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
        rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=tied, sliding_window=None,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def vocabulary() -> list[str]:
    return [*bytes_to_unicode().values(), *(merge.replace(" ", "") for merge in MERGES), *SPECIAL]


def write_qwen2(
    path: Path, model: Qwen2ForCausalLM, *, without: str = "", quantised: bool = False
) -> None:
    """Write a model as a GGUF file, without the weights whose GGUF names contain `without`."""
    config, weights, tokens = model.config, model.state_dict(), vocabulary()
    names = {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
    }
    if not config.tie_word_embeddings:
        names["output.weight"] = "lm_head.weight"
    for layer in range(config.num_hidden_layers):
        for short, long in NAMES.items():
            for kind in ("weight", "bias"):
                if (key := f"model.layers.{layer}.{long}.{kind}") in weights:
                    names[f"blk.{layer}.{short}.{kind}"] = key
    writer = new_writer(path, "qwen2", config, config.max_position_embeddings)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL else 1 for token in tokens])
    writer.add_token_merges(list(MERGES))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_pad_token_id(tokens.index("<|endoftext|>"))
    writer.add_chat_template(TEMPLATE)
    for name, key in names.items():
        if without and without in name:
            continue
        values = weights[key].numpy().astype(np.float32)
        if quantised and values.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, values)
    write_file(writer)


def write_pretrained(path: Path, folder: Path, context_tokens: int) -> None:
    """Write a model that this project has pretrained (a Qwen3 with a token for each word and digit)
    as a GGUF file. The chat template of the file puts a space before each prompt, because the first
    token of a prompt begins with a space."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)  # fmt: skip
    config, weights, vocabulary = model.config, model.state_dict(), tokenizer.get_vocab()
    tokens = [token.replace("\u2581", " ") for token in sorted(vocabulary, key=vocabulary.get)]
    special = {tokenizer.pad_token: "CONTROL", tokenizer.eos_token: "CONTROL", tokenizer.unk_token: "UNKNOWN"}  # fmt: skip
    names = {
        "token_embd": "model.embed_tokens",
        "output_norm": "model.norm",
        **{
            f"blk.{layer}.{short}": f"model.layers.{layer}.{long}"
            for layer in range(config.num_hidden_layers)
            for short, long in QWEN3_NAMES.items()
        },
    }
    writer = new_writer(path, "qwen3", config, context_tokens)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([gguf.TokenType[special.get(token, "USER_DEFINED")] for token in tokens])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_unk_token_id(tokenizer.unk_token_id)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template("{{ ' ' }}" + tokenizer.chat_template)
    for name, key in names.items():
        writer.add_tensor(f"{name}.weight", weights[f"{key}.weight"].float().numpy())
    write_file(writer)
