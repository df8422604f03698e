"""Model folders are untrusted: damaged or hostile files end a program soon, with a one-line error
that names the folder."""

import json
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

import small_model
from command_line import run_python
from hardgrpo.runtime.errors import UserError
from hardgrpo.sampling import engines, model_folders
from hardgrpo.sampling.requests import Request
from hardgrpo.training import recipes

REQUESTS = [
    Request(({"role": "user", "content": f"question {number}"},), 0, 1.0) for number in range(3)
]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A small model that can be loaded."""
    folder = tmp_path_factory.mktemp("model")
    sizes = {"hidden_size": 16, "intermediate_size": 16, "layers": 1, "key_value_heads": 1, "head_size": 8}  # fmt: skip
    model, tokenizer = small_model.build(**sizes, context_tokens=64, rotary_base=1e4)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(original, tmp_path):
    """A copy of the model."""
    for path in original.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def change(folder, name: str, **settings) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def change_template(folder, text: str) -> None:
    (folder / "chat_template.jinja").write_text(text)


def test_an_intact_model_is_loaded_and_its_prompts_equal_those_of_the_library(folder):
    engines.load(str(folder))
    tokenizer = engines.load_tokenizer(str(folder))
    template = {"add_generation_prompt": True, "return_dict": True}
    prompts = [
        tokenizer.apply_chat_template(list(request.messages), **template)["input_ids"]
        for request in REQUESTS
    ]
    assert engines.tokenize(tokenizer, REQUESTS * 2, {}) == prompts * 2
    assert engines.tokenize(tokenizer, [], {}) == []


def test_a_chat_template_that_asks_for_the_date_gives_the_same_prompt_on_every_day(folder):
    change_template(folder, "{{ strftime_now('%d %b %Y, %B, %H:%M') }} {{ messages[0].content }}")
    tokenizer = engines.load_tokenizer(str(folder))
    turns = [{"role": "user", "content": "a"}]
    expected = "26 Jul 2024, July, 00:00 a"
    assert tokenizer.apply_chat_template(turns, tokenize=False) == expected, "TRL makes this call"
    (ids,) = model_folders.token_ids(tokenizer, [turns], {})
    assert ids == tokenizer(expected, add_special_tokens=False)["input_ids"]


@pytest.mark.slow
def test_loading_a_model_prints_no_progress_bar(folder):
    program = f"from hardgrpo.sampling import engines; engines.load({str(folder)!r})"
    done = run_python("-c", program)
    assert done.returncode == 0, done.stderr
    assert "%|" not in done.stdout + done.stderr


def refusal(folder, read) -> str:
    """The error of `read`, one printable line that names the folder."""
    with pytest.raises(UserError) as error:
        read(str(folder))
    assert str(error.value).startswith(f"{folder}") and str(error.value).isprintable()
    return str(error.value)


def tokenize(folder: str):
    return engines.tokenize(engines.load_tokenizer(folder), REQUESTS, {})


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('\x1b]0;no\x07') }}",
        "{{ ''.__class__.__mro__ }}",
        "{% if %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "",
        " {#- nothing -#} ",
    ],
)
def test_a_hostile_chat_template_gives_a_one_line_error(folder, template):
    change_template(folder, template)
    refusal(folder, tokenize)


REGEX = {"type": "Split", "pattern": {"Regex": "(" * 1000}, "behavior": "Isolated", "invert": False}


@pytest.mark.parametrize(
    "settings",
    [
        {"model": []},
        {"model": {"type": "WordLevel", "vocab": 5, "unk_token": "<unk>"}},
        {"pre_tokenizer": REGEX},
        {"pre_tokenizer": None, "normalizer": 5},
    ],
)
def test_a_malformed_tokenizer_is_refused(folder, settings):
    change(folder, "tokenizer.json", **settings)
    refusal(folder, tokenize)


@pytest.mark.parametrize(
    "settings",
    [
        {"num_hidden_layers": "one"},
        {"num_attention_heads": 7},
        {"vocab_size": 10**12},
        {"hidden_size": 10**6, "intermediate_size": 10**6},
        {"hidden_act": "evil"},
        {"rms_norm_eps": "small"},
        {"rope_parameters": {"rope_type": "evil", "rope_theta": 1e4}},
        {"model_type": "\x1b[31m"},
        {"layer_types": ["full_attention"] * 5},
    ],
)
def test_hostile_settings_give_a_one_line_error(folder, settings):
    change(folder, "config.json", **settings)
    try:
        engines.load(str(folder))
    except UserError as error:
        assert str(error).startswith(f"{folder}: ") and str(error).isprintable()
    except (MemoryError, RuntimeError) as error:
        # `errors.run` prints one line about memory
        assert model_folders.errors.explain(error), error
    else:
        pytest.fail("the model was loaded")


@pytest.mark.parametrize(
    "settings",
    [
        {"dtype": "float7"},
        {"quantization_config": {"quant_method": "evil"}},
        {"architectures": 5},
    ],
)
def test_hostile_settings_that_loading_ignores_do_not_change_the_weights(folder, settings):
    weights = engines.load(str(folder)).state_dict()
    change(folder, "config.json", **settings)
    loaded = engines.load(str(folder)).state_dict()
    assert loaded.keys() == weights.keys() and all(
        torch.equal(loaded[name], weights[name]) for name in weights
    )


def header(**tensors) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        (2**63).to_bytes(8, "little") + b"{}",
        header(a={"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}),
        header(a={"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}) + bytes(4),
        header(a=5),
        header(),
        b"PK\x03\x04",
    ],
)
def test_damaged_weights_give_a_one_line_error_in_every_program_that_loads_weights(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    refusal(folder, engines.load)
    arguments = recipes.model_arguments({"base": "fp32"})
    refusal(folder, lambda path: model_folders.load_model(path, **arguments))


def test_a_model_that_lacks_one_of_its_weights_is_refused(folder):
    """transformers would initialise the missing weights at random."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    name = next(name for name in weights if name.endswith("down_proj.weight"))
    del weights[name]
    save_file(weights, path, metadata={"format": "pt"})
    assert f"lack 1 weights of the model, the first is {name}" in refusal(folder, engines.load)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
@pytest.mark.parametrize("token", ["</s>", [[1]], 1.5, True])
def test_an_end_token_that_is_no_number_is_refused(folder, name, token):
    change(folder, name, eos_token_id=token)
    read = lambda path: engines.end_tokens(path, engines.load_tokenizer(path))
    assert "eos_token_id" in refusal(folder, read)


def test_a_tokenizer_of_a_larger_model_is_refused(folder):
    tokenizer = engines.load_tokenizer(str(folder))
    message = refusal(folder, lambda path: engines.check_context(path, [[1, 5000]], 8))
    assert "the tokenizer gives a prompt the token id 5000" in message
    engines.check_context(str(folder), engines.tokenize(tokenizer, REQUESTS, {}), 8)


def test_the_context_of_a_nested_configuration_is_known(tmp_path):
    language_model = {"model_type": "gemma3_text", "max_position_embeddings": 512}
    settings = {"model_type": "gemma3", "text_config": language_model}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    assert engines.max_prompt_tokens(str(tmp_path), 112) == 400


def test_a_model_without_a_padding_token_pads_with_its_end_token(folder):
    change(folder, "tokenizer_config.json", pad_token=None)
    tokenizer = engines.load_tokenizer(str(folder))
    assert tokenizer.pad_token_id == tokenizer.eos_token_id
