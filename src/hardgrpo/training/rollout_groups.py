"""Groups of rollouts that are kept after their sampling step, until an update is full or for replay. Imports torch."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from trl.trainer.utils import pad

from hardgrpo.runtime import files

# Tensors of a batch with one entry per token of a completion -> their padding (None: the padding token).
PER_TOKEN = {"completion_ids": None, "old_per_token_logps": 0.0, "sampling_per_token_logps": 0.0, "ref_per_token_logps": 0.0}
PER_TOKEN |= {"importance_sampling_ratio": 0.0}  # of the recipe's importance_correction; that of a completion counts for each token


@dataclass
class Group:
    """The rollouts of one prompt: its id, and the rows of TRL's batch without padding."""

    prompt: str
    prompt_ids: torch.Tensor  # (prompt's tokens,)
    rows: dict[str, list[torch.Tensor]]  # name in `PER_TOKEN` -> one tensor (tokens,) per rollout
    advantages: torch.Tensor  # (rollouts,)
    rewards: torch.Tensor  # (rollouts,)

    @property
    def is_mixed(self) -> bool:
        return bool((self.rewards != self.rewards[0]).any())


def split(batch: dict, prompts: list[str], rewards: torch.Tensor, size: int) -> list[Group]:
    """The groups of a batch that TRL has sampled and scored, on the CPU."""
    host = {name: value.cpu() for name, value in batch.items()}
    if "importance_sampling_ratio" in host:
        host["importance_sampling_ratio"] = host["importance_sampling_ratio"].expand_as(host["completion_ids"])
    lengths, groups = host["completion_mask"].sum(dim=1).tolist(), []
    for number, prompt in enumerate(prompts):
        rows = range(number * size, (number + 1) * size)
        first = rows[0]
        groups.append(
            Group(
                prompt,
                host["prompt_ids"][first][host["prompt_mask"][first].bool()].clone(),
                {name: [host[name][row, : lengths[row]].clone() for row in rows] for name in PER_TOKEN if name in host},
                host["advantages"][rows.start : rows.stop].clone(),
                rewards[rows.start : rows.stop].cpu().clone(),
            )
        )
    return groups


def join(groups: list[Group], padding: int, device) -> dict:
    """A batch in TRL's format with the rows of all groups, on `device`; `padding` is the id of the padding token."""
    size = len(groups[0].rewards)
    prompts = [group.prompt_ids for group in groups for _ in range(size)]
    batch = {
        "prompt_ids": pad(prompts, padding_value=padding, padding_side="left"),
        "prompt_mask": pad([torch.ones_like(prompt) for prompt in prompts], padding_value=0, padding_side="left"),
        "advantages": torch.cat([group.advantages for group in groups]),
    }
    for name, filling in PER_TOKEN.items():
        if all(name in group.rows for group in groups):
            rows = [row for group in groups for row in group.rows[name]]
            batch[name] = pad(rows, padding_value=padding if filling is None else filling, padding_side="right")
    completions = [row for group in groups for row in group.rows["completion_ids"]]
    batch["completion_mask"] = pad([torch.ones_like(row) for row in completions], padding_value=0, padding_side="right")
    batch["num_items_in_batch"] = batch["completion_mask"].sum()
    return {name: value.to(device) for name, value in batch.items()}


def save(path: Path, lists: dict[str, list[Group]]) -> None:
    """Write named lists of groups to a file in the format of safetensors."""
    tensors, named = {}, {}
    for name, groups in lists.items():
        named[name] = [group.prompt for group in groups]
        for number, group in enumerate(groups):
            stem = f"{name}.{number}"
            tensors |= {
                f"{stem}.prompt_ids": group.prompt_ids,
                f"{stem}.advantages": group.advantages,
                f"{stem}.rewards": group.rewards,
            }
            lengths = torch.tensor([len(row) for row in group.rows["completion_ids"]])
            tensors[f"{stem}.lengths"] = lengths
            tensors |= {f"{stem}.rows.{key}": torch.cat(rows) for key, rows in group.rows.items()}
    save_file(tensors, path)
    files.write_json(path.with_suffix(".json"), named)


def load(path: Path) -> dict[str, list[Group]]:
    """Read what `save` wrote."""
    tensors, lists = load_file(path), {}
    for name, prompts in files.read_json(path.with_suffix(".json")).items():
        lists[name] = []
        for number, prompt in enumerate(prompts):
            stem = f"{name}.{number}"
            lengths = tensors[f"{stem}.lengths"].tolist()
            rows = {key: list(tensors[f"{stem}.rows.{key}"].split(lengths)) for key in PER_TOKEN if f"{stem}.rows.{key}" in tensors}
            lists[name].append(
                Group(
                    prompt,
                    tensors[f"{stem}.prompt_ids"],
                    rows,
                    tensors[f"{stem}.advantages"],
                    tensors[f"{stem}.rewards"],
                )
            )
    return lists


def bytes_of(groups: int, size: int, prompt_tokens: int, completion_tokens: int) -> int:
    """Upper bound of the memory of `groups` groups of `size` rollouts: 8 bytes per token id, 4 for each of three log-probabilities
    and a ratio of a completion's token, and for each of three numbers of a rollout."""
    return groups * (prompt_tokens * 8 + size * (completion_tokens * 24 + 12))
