"""Groups of rollouts that are kept after their sampling step, until an update or for replay.
Imports torch."""

from dataclasses import dataclass
from pathlib import Path

import torch
from trl.trainer.utils import pad

# Tensors of a batch with one entry per completion token -> padding value (None: the padding token).
PER_TOKEN = {
    "completion_ids": None,
    "old_per_token_logps": 0.0,
    "sampling_per_token_logps": 0.0,
    "ref_per_token_logps": 0.0,
    # for importance_correction; if there is one ratio per completion, each token gets this ratio
    "importance_sampling_ratio": 0.0,
}


@dataclass
class Group:
    """The rollouts of one prompt, as rows of TRL's batch without padding."""

    prompt: str  # id
    prompt_ids: torch.Tensor  # (prompt tokens,)
    # name in `PER_TOKEN` -> one tensor (completion tokens,) per rollout
    rows: dict[str, list[torch.Tensor]]
    advantages: torch.Tensor  # (rollouts,)
    rewards: torch.Tensor  # (rollouts,)

    @property
    def is_mixed(self) -> bool:
        """Whether the rewards differ, so that the advantages are not all zero."""
        return bool((self.rewards != self.rewards[0]).any())


def split(batch: dict, prompts: list[str], rewards: torch.Tensor, group_size: int) -> list[Group]:
    """The groups of a sampled and scored batch of TRL, on the CPU."""
    batch = {name: value.cpu() for name, value in batch.items()}
    if "importance_sampling_ratio" in batch:
        ratios = batch["importance_sampling_ratio"]
        batch["importance_sampling_ratio"] = ratios.expand_as(batch["completion_ids"])
    lengths, groups = batch["completion_mask"].sum(dim=1).tolist(), []
    for index, prompt in enumerate(prompts):
        start, stop = index * group_size, (index + 1) * group_size
        groups.append(
            Group(
                prompt,
                batch["prompt_ids"][start][batch["prompt_mask"][start].bool()].clone(),
                {
                    name: [batch[name][row, : lengths[row]].clone() for row in range(start, stop)]
                    for name in PER_TOKEN
                    if name in batch
                },
                batch["advantages"][start:stop].clone(),
                rewards[start:stop].cpu().clone(),
            )
        )
    return groups


def join(groups: list[Group], pad_token_id: int, device) -> dict:
    """A batch in TRL's format, on `device`, with the rows of all groups."""
    group_size = len(groups[0].rewards)
    prompts = [group.prompt_ids for group in groups for _ in range(group_size)]
    batch = {
        "prompt_ids": pad(prompts, padding_value=pad_token_id, padding_side="left"),
        "prompt_mask": pad(
            [torch.ones_like(prompt) for prompt in prompts], padding_value=0, padding_side="left"
        ),
        "advantages": torch.cat([group.advantages for group in groups]),
    }
    for name, padding in PER_TOKEN.items():
        if all(name in group.rows for group in groups):
            rows = [row for group in groups for row in group.rows[name]]
            batch[name] = pad(
                rows,
                padding_value=pad_token_id if padding is None else padding,
                padding_side="right",
            )
    completion_ids = [row for group in groups for row in group.rows["completion_ids"]]
    batch["completion_mask"] = pad(
        [torch.ones_like(row) for row in completion_ids], padding_value=0, padding_side="right"
    )
    batch["num_items_in_batch"] = batch["completion_mask"].sum()
    return {name: value.to(device) for name, value in batch.items()}


def save(path: Path, groups_by_name: dict[str, list[Group]]) -> None:
    torch.save({name: list(map(vars, groups)) for name, groups in groups_by_name.items()}, path)


def load(path: Path) -> dict[str, list[Group]]:
    groups_by_name = torch.load(path, weights_only=True)
    return {name: [Group(**fields) for fields in groups] for name, groups in groups_by_name.items()}
