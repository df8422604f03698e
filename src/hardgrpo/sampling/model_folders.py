"""Load configuration, tokenizer and weights of a model folder, and apply its chat template. Every
error that its files, which are untrusted, cause in a library becomes a `UserError`. Imports
transformers.
"""

import sys
from datetime import datetime
from pathlib import Path

from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, logging
from transformers.utils import chat_template_utils

from hardgrpo.runtime import errors, exact_products, replacements
from hardgrpo.runtime.errors import UserError

SAFE_FILES = {"local_files_only": True, "trust_remote_code": False}
SAFE_ARGUMENTS = SAFE_FILES | {"use_safetensors": True}
Conversation = list[dict[str, str]]

if not sys.stderr.isatty():
    logging.disable_progress_bar()  # a log would contain each state of the bar


class FixedDate(datetime):
    """The date that chat templates write into prompts (`strftime_now`): the default of Llama's
    templates, so that all jobs of a study have the same prompts."""

    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26, tzinfo=tz)


replacements.replace(chat_template_utils, "datetime", FixedDate)


def load_config(folder: str | Path):
    """The configuration of the model in a folder. Raise a `UserError` if it cannot be used."""
    with errors.while_loading(folder):
        return AutoConfig.from_pretrained(folder, **SAFE_FILES)


def load_tokenizer(folder: str | Path, **arguments):
    """The tokenizer in a folder. `arguments` are passed to `from_pretrained`. Raise a `UserError`
    if the tokenizer cannot be used."""
    with errors.while_loading(folder):
        return AutoTokenizer.from_pretrained(folder, **SAFE_FILES, **arguments)


def load_model(folder: str | Path, **arguments):
    """The model in a folder. `arguments` are passed to `from_pretrained`. Raise a `UserError` if
    the model cannot be used, or if its files lack weights."""
    arguments = SAFE_ARGUMENTS | exact_products.model_arguments() | arguments
    with errors.while_loading(folder):
        model, report = AutoModelForCausalLM.from_pretrained(
            folder, output_loading_info=True, **arguments
        )
    # transformers initialises missing weights at random
    if names := sorted(map(str, report["missing_keys"])):
        raise UserError(
            f"{folder}: the files lack {len(names)} weights of the model, the first is {names[0]}; fetch the model again, or choose another model"
        )
    return model


# --- the chat template


def token_ids(tokenizer, conversations: list[Conversation], chat: dict) -> list[list[int]]:
    """Token ids of each conversation, up to the start of the answer. `chat` are arguments of the
    chat template. Raise a `UserError` if the template or the tokenizer fails or returns no token.
    """

    def apply(conversation: Conversation) -> list[int]:
        ids = tokenizer.apply_chat_template(
            conversation, add_generation_prompt=True, return_dict=True, **chat
        )["input_ids"]
        if not ids:
            raise ValueError("the tokenizer makes no token of a prompt")
        return ids

    with errors.while_loading(tokenizer.name_or_path):
        return [apply(conversation) for conversation in conversations]
