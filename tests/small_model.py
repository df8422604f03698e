"""An untrained model with a few thousand weights, and its tokenizer."""

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "layers": 2,
    "heads": 2,
    "key_value_heads": 2,
    "head_size": 16,
    "context_tokens": 96,
    "rotary_base": 100.0,
    "seed": 0,
}


def build(**changes):
    """(model, tokenizer); `changes` replace entries of SIZES."""
    from hardgrpo.training.pretraining import build_model, build_tokenizer

    tokenizer = build_tokenizer()
    return build_model(SIZES | changes, tokenizer), tokenizer
