"""The cost model, compared with published throughput, and properties that every cost model must
have."""

import copy
import json
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fork_server
import project_config
from conftest import ROOT, path_of
from hardgrpo.planning import calibration, durations
from hardgrpo.runtime import gpu_kinds
from hardgrpo.study import memory
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import Model, Shape

CONFIG = project_config.config()
CHECKED = Configuration.of(CONFIG)


class Job(NamedTuple):
    """The rule and the wildcards of a job."""

    rule: str
    model: str | None = None
    task: str | None = None
    recipe: str | None = None
    policy: str | None = None
    seed: int | None = None
    eval_task: str | None = None


def resolve(config: dict | Configuration, job: Job, *results: str) -> durations.Job:
    return durations.Job.of(Configuration.of(config), job.rule, job._asdict(), *results)


TRAIN = Job("train_grpo", "qwen3-14b", "gsm8k", "as_written", "hard", 0)
PROBE = Job("probe", "qwen3-4b", "gsm8k")
EVALUATE = Job("evaluate_run", "qwen3-4b", "gsm8k", "as_written", "hard", 0, "gsm8k")

QWEN3_8B = Shape(  # no model of config/models.yaml has this shape
    hidden_size=4096, intermediate_size=12288, layers=36, heads=32, key_value_heads=8, head_size=128,
    vocabulary=151936, tied=False,
)  # fmt: skip
# (shape, sequences at once, output tokens/s) of vLLM on one H100 in bf16, with about 640 output
# tokens per sequence. The source for Llama does not give the number of sequences: 512 is assumed.
PUBLISHED = [
    (QWEN3_8B, 512, 8535),
    (CHECKED.models["qwen3-14b"].shape, 256, 5760),
    (CHECKED.models["llama-3.1-8b-instruct"].shape, 512, 9806),
]
OUTPUT_TOKENS = 640


def tokens_per_second(shape: Shape, at_once: int) -> float:
    tokens = OUTPUT_TOKENS * at_once
    return tokens / durations.sampling_seconds(
        shape, at_once, tokens, OUTPUT_TOKENS, "vllm", "h100", 1
    )


def test_sampling_is_within_a_quarter_of_every_published_throughput():
    for shape, at_once, published in PUBLISHED:
        assert tokens_per_second(shape, at_once) == pytest.approx(published, rel=0.25)


def test_the_estimate_of_a_run_equals_a_count_by_hand():
    estimate = durations.estimate(resolve(CONFIG, TRAIN), "h100")
    assert estimate.completions == 1000 * 32 * 8
    assert estimate.tokens_generated == pytest.approx(1000 * 256 * 250 * durations.FILL)
    assert estimate.tokens_trained == pytest.approx(
        estimate.tokens_generated + 1000 * 256 * durations.PROMPT_TOKENS["gpu"]
    )
    # Four passes of 2 FLOPs per weight and token: forward, backward, recomputed layers and reference
    # policy.
    learning = (
        4
        * 2
        * memory.parameters(CHECKED.models["qwen3-14b"].shape)
        * estimate.tokens_trained
        / (989e12 * 0.3)
    )
    assert learning < estimate.seconds < 1.6 * learning
    correction = {"importance_correction": {"mode": "token_truncate", "limit": 2.0}}
    config = project_config.config()
    config["recipes"]["as_written"] |= correction
    corrected = durations.estimate(resolve(config, TRAIN), "h100")
    assert corrected.seconds - estimate.seconds == pytest.approx(learning / 4)
    config = project_config.config()
    config["tasks"]["gsm8k"]["grader"] = "math"
    graded = durations.estimate(resolve(config, TRAIN), "h100")
    # four processes grade
    assert graded.seconds - estimate.seconds == pytest.approx(
        1000 * 256 * durations.MATH_SECONDS / 4
    )
    assert estimate.gpus == 1 and estimate.gpu_hours == estimate.seconds / 3600
    adapter = memory.adapter_parameters(CHECKED.models["qwen3-14b"].shape, 32) * 4
    assert (
        estimate.kept_bytes == 10 * adapter
        and estimate.scratch_bytes == 10 * adapter + 2 * 2 * adapter
    )


def test_the_completions_of_probes_and_evaluations_are_counted():
    # 7,473 problems in 4 shards
    assert durations.estimate(resolve(CONFIG, PROBE), "h100").completions == 1869 * 5
    # four samples and a greedy completion per problem, ten checkpoints
    assert durations.estimate(resolve(CONFIG, EVALUATE), "h100").completions == 1319 * 5 * 10


def write_prepared(results, task, split, rows):
    path = results / f"tasks/{task}/{split}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("{}\n" * rows)


def test_problems_of_own_files_are_counted_in_the_folder_of_results(tmp_path):
    config = copy.deepcopy(CONFIG)
    config["tasks"]["gsm8k"]["source"] = {"kind": "files", "train": "mine.csv"}
    write_prepared(tmp_path, "gsm8k", "train", 40)
    completions = lambda *results: resolve(config, PROBE, *results).completions
    assert completions(str(tmp_path)) == 10 * 5 and completions() == 250 * 5


@pytest.mark.parametrize("job", [TRAIN, PROBE, EVALUATE], ids=lambda job: job.rule)
def test_more_work_takes_longer_and_a_faster_gpu_less(job):
    def seconds(change=lambda config: None, gpu="h100"):
        config = copy.deepcopy(CONFIG)
        change(config)
        return durations.estimate(resolve(config, job), gpu).seconds

    assert (
        seconds(lambda config: config["tasks"]["gsm8k"].update(completion_tokens=1024))
        > 2 * seconds()
    )
    assert (
        seconds(lambda config: config["models"][job.model]["shape"].update(layers=80)) > seconds()
    )
    assert seconds(gpu="h200") <= seconds() < seconds(gpu="a100") < seconds(gpu="a40")


def test_updates_and_a_reference_policy_take_time_and_several_gpus_share_the_work():
    def seconds(change):
        config = copy.deepcopy(CONFIG)
        change(config)
        return durations.estimate(resolve(config, TRAIN), "h100").seconds

    recipe = lambda **values: lambda config: config["recipes"]["as_written"].update(values)
    recipe_seconds = seconds(recipe())
    assert seconds(recipe(updates=2000)) == pytest.approx(2 * recipe_seconds, rel=0.05)
    assert seconds(recipe(beta=0.0)) < recipe_seconds
    four = seconds(lambda config: config["models"]["qwen3-14b"]["gpus"]["adapter"].update(count=4))
    assert recipe_seconds / 4 < four < recipe_seconds / 2, (
        "four GPUs must need less than half of the time of one GPU, and more than a quarter, because each GPU reads all weights"
    )


@given(attempt=st.integers(1, 6))
def test_walltime_is_at_least_twice_the_estimate_and_grows_with_the_attempt(attempt):
    for job in (TRAIN, PROBE, EVALUATE, Job("pretrain_model", "tiny")):
        minutes_expected = durations.estimate(resolve(CONFIG, job), "h100").seconds / 60
        minutes = durations.walltime(resolve(CONFIG, job), "h100", attempt)
        assert minutes >= max(durations.LEAST_MINUTES, 2 * minutes_expected) and isinstance(
            minutes, int
        )
        assert durations.walltime(resolve(CONFIG, job), "h100", attempt + 1) > minutes


def test_an_estimate_is_unknown_until_the_size_of_the_model_is_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = copy.deepcopy(CONFIG)
    config["models"]["mine"] = {"source": {"kind": "folder", "path": "mine"}}
    job = Job("probe", "mine", "gsm8k")
    assert not durations.estimate(resolve(config, job), "h100").is_known
    (tmp_path / "results/models/mine").mkdir(parents=True)
    facts = {
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
    }
    facts |= {"vocab_size": 49152, "tie_word_embeddings": True}
    (tmp_path / "results/models/mine/config.json").write_text(json.dumps(facts))
    assert (
        durations.model_shape("mine", Model.of(config["models"]["mine"]), config["data"])
        == CHECKED.models["smollm2-135m"].shape
    )
    assert durations.estimate(resolve(config, job), "h100").is_known

    monkeypatch.setenv("HOME", str(tmp_path / "results/models"))
    source = {"kind": "folder", "path": "~/mine"}
    assert durations.model_shape("other", Model.of({"source": source}), config["data"]) is not None


def write_finished_run(folder, run, seconds, work, tokens, **changes):
    path = folder / "training" / run / "provenance.json"
    path.parent.mkdir(parents=True)
    facts = {
        "seconds": seconds,
        "update_seconds": work,
        "completion_tokens": tokens,
        "machine": {"gpus": 1},
        "resumed_from": 0,
    }
    path.write_text(json.dumps(facts | changes))


def read_finished_jobs(folder):
    return calibration.read_finished_jobs(str(folder), CHECKED)


def test_a_replicate_with_its_own_base_is_estimated_by_the_other_replicates_of_the_model(tmp_path):
    for seed in (0, 1):
        run = f"tiny-seed{seed}/swaps/mini/hard/seed{seed}"
        write_finished_run(tmp_path, run, 30, 28, 28 * 100, machine={"gpus": 0})
    calibrated = calibration.calibrate(read_finished_jobs(tmp_path), "h100")
    medians_of_new_seed, medians_of_finished_seed = (
        calibrated.find(
            resolve(CONFIG, Job("train_grpo", f"tiny-seed{seed}", "swaps", "mini", "hard", seed))
        )
        for seed in (7, 0)
    )
    assert calibrated.jobs == 2 and "fill" in medians_of_new_seed
    assert medians_of_new_seed == medians_of_finished_seed


def test_jobs_that_the_configuration_no_longer_has_are_left_out(tmp_path):
    record = {"seconds": 9, "work_seconds": 3, "completion_tokens": 50, "machine": {"gpus": 0}}
    for path in (
        "provenance/evaluation/tiny-seed0/reach/swaps.json",
        "provenance/evaluation/tiny-seed0/base/swaps.json",
        "models/tiny-seed0/provenance.json",
    ):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(json.dumps(record))
    config = copy.deepcopy(CONFIG)
    rules = lambda: [
        finished_job.job.rule
        for finished_job in calibration.read_finished_jobs(str(tmp_path), Configuration.of(config))
    ]
    assert rules() == ["evaluate_base", "sample_reach", "pretrain_model"]
    del config["tasks"]["swaps"]["test"]["reach"]
    assert rules() == ["evaluate_base", "pretrain_model"]
    del config["tasks"]["swaps"]["test"]
    shape = config["models"]["smollm2-135m"]["shape"]
    config["models"]["tiny"] = {"source": {"kind": "folder", "path": "tiny"}, "shape": shape}
    assert rules() == []


def test_the_speed_of_the_gpu_that_a_job_ran_on_is_expected(tmp_path):
    """The provenance of a job names the GPU. For equal times, `slowness` is lower on a
    slower GPU, because the cost model expects more time on it."""
    slowness = {}
    for gpu in ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA RTX A4000"):
        run, folder = "qwen3-14b/gsm8k/as_written/hard/seed0", tmp_path / gpu
        write_finished_run(folder, run, 30_100, 30_000, 25_600_000, gpus=[gpu])
        calibrated = calibration.calibrate(read_finished_jobs(folder), "b200")
        slowness[gpu] = calibrated.find(resolve(CONFIG, TRAIN))["slowness"]
    a100, h100, unknown = slowness.values()
    assert a100 < h100 < unknown, "the given kind, b200, must be assumed for an unknown GPU"


def calibrate(folder, *arguments):
    return fork_server.run(path_of("calibrate"), ["--results", str(folder), *arguments], ROOT)


def test_a_file_of_the_user_is_laid_over_the_configuration(tmp_path):
    config = {"models": {"mine": CONFIG["models"]["qwen3-14b"]}}
    (tmp_path / "my.yaml").write_text(json.dumps(config))
    write_finished_run(tmp_path, "mine/gsm8k/as_written/hard/seed0", 30_100, 30_000, 1000)
    output = ["--output", str(tmp_path / "calibration.json")]
    assert calibrate(tmp_path, *output).returncode == 1
    done = calibrate(tmp_path, *output, "--config", str(tmp_path / "my.yaml"))
    assert done.returncode == 0, done.stderr
    assert '"mine"' in (tmp_path / "calibration.json").read_text()


def test_an_estimate_uses_the_measurements_of_the_model_or_else_of_all_models(tmp_path):
    tokens = 1000 * 256 * 100  # each completion has 100 tokens; the limit is 250
    write_finished_run(tmp_path, "qwen3-14b/gsm8k/as_written/hard/seed0", 30_100, 30_000, tokens)
    # ignored, because a resumed run records only the seconds of its last attempt
    write_finished_run(
        tmp_path, "qwen3-14b/gsm8k/as_written/hard/seed1", 9e9, 9e9, tokens, resumed_from=500
    )
    # ignored, because it is a user's copy and not a result of the workflow
    write_finished_run(tmp_path, "qwen3-14b/gsm8k/as_written/hard/seed0.old", 9e9, 9e9, tokens)
    calibrated = calibration.calibrate(read_finished_jobs(tmp_path), "h100")
    assert calibrated.jobs == 1
    estimate = durations.estimate(
        resolve(CONFIG, Job("train_grpo", "qwen3-14b", "gsm8k", "as_written", "hard", 7)),
        "h100",
        calibrated,
    )
    assert estimate.seconds == pytest.approx(30_100, rel=1e-3)
    assert estimate.tokens_generated == pytest.approx(tokens)
    # For another policy of the task, the estimate uses the measured token counts and times. For
    # another model, the estimate uses the measured slowness (see calibration.py), but the assumed
    # token counts.
    assert (
        durations.estimate(
            resolve(CONFIG, Job("train_grpo", "qwen3-14b", "gsm8k", "as_written", "easy", 0)),
            "h100",
            calibrated,
        ).seconds
        == estimate.seconds
    )
    other_job = Job("train_grpo", "qwen3-4b", "gsm8k", "as_written", "hard", 0)
    uncalibrated, other_estimate = (
        durations.estimate(resolve(CONFIG, other_job), "h100"),
        durations.estimate(resolve(CONFIG, other_job), "h100", calibrated),
    )
    assert other_estimate.tokens_generated == uncalibrated.tokens_generated
    assert other_estimate.seconds != uncalibrated.seconds
    # times on GPUs do not calibrate a CPU
    cpu = Job("train_grpo", "tiny", "swaps", "mini", "hard", 0)
    assert durations.estimate(resolve(CONFIG, cpu), "h100", calibrated) == durations.estimate(
        resolve(CONFIG, cpu), "h100"
    )


def test_a_run_on_worked_solutions_samples_nothing_and_trains_on_its_texts(tmp_path):
    job = Job("train_grpo", "qwen3-4b", "gsm8k", "sft", "hard", 0)
    estimate, grpo = (
        durations.estimate(
            resolve(CONFIG, Job("train_grpo", "qwen3-4b", "gsm8k", recipe, "hard", 0)),
            "h100",
        )
        for recipe in ("sft", "as_written")
    )
    assert estimate.completions == estimate.tokens_generated == 0
    assert estimate.tokens_trained == pytest.approx(
        1000 * 32 * (250 * durations.FILL + durations.PROMPT_TOKENS["gpu"])
    )
    # Three passes of 2 FLOPs per weight and token: forward, backward and recomputed layers.
    learning = (
        3
        * 2
        * memory.parameters(CHECKED.models["qwen3-4b"].shape)
        * estimate.tokens_trained
        / (989e12 * 0.3)
    )
    assert estimate.seconds == pytest.approx(
        estimate.start_seconds + learning + 1000 * durations.UPDATE_SECONDS["gpu"]
    )
    assert estimate.start_seconds < grpo.start_seconds and estimate.seconds < grpo.seconds / 3, (
        "supervised training starts no engine and has one text per prompt"
    )
    # a finished run corrects the assumed length of worked solutions
    tokens = 1000 * 32 * 125  # half the limit
    write_finished_run(
        tmp_path, "qwen3-4b/gsm8k/sft/hard/seed0", 2_050, 2_000, 0, solution_tokens=tokens
    )
    calibrated = calibration.calibrate(read_finished_jobs(tmp_path), "h100")
    calibrated_estimate = durations.estimate(resolve(CONFIG, job), "h100", calibrated)
    assert (
        calibrated_estimate.seconds == pytest.approx(2_050, rel=1e-3)
        and calibrated_estimate.completions == 0
    )
    assert (
        durations.estimate(
            resolve(CONFIG, job._replace(recipe="as_written")),
            "h100",
            calibrated,
        )
        == grpo
    ), "a run on worked solutions must not calibrate GRPO"
    assert calibrated_estimate.tokens_trained == pytest.approx(
        tokens + 1000 * 32 * durations.PROMPT_TOKENS["gpu"]
    )


def test_each_job_of_a_run_in_two_rounds_keeps_half_of_the_checkpoints():
    one_round, two_rounds = (
        durations.estimate(
            resolve(CONFIG, Job("train_grpo", "tiny", "swaps", "mini_rounds", policy, 0)),
            "h100",
        )
        for policy in ("random", "agreement_in_rounds")
    )
    assert two_rounds.kept_bytes == one_round.kept_bytes / 2 > 0


CPU_BF16 = "qwen2.5-coder-0.5b-instruct-bf16"
FP32 = {"updates": 1, "checkpoint_every": 1, "base": "fp32", "precision": "fp32"}


@pytest.mark.parametrize(
    ("job", "recipe", "kind", "least", "most"),
    [
        # 256 rollouts of SmolLM2-135M on an H200: 10 to 12 s, although the arithmetic takes less
        # than a second
        (("train_grpo", "smollm2-135m", "gsm8k", "as_written", "hard", 0), {}, "h200", 8, 13),
        # 32 rollouts of at most 200 tokens on a core with AVX-512: 440 s
        (("train_grpo", CPU_BF16.removesuffix("-bf16"), "gsm8k_small_cut", "small_lora", "hard", 0), FP32, "h100", 440, 880),
        # an update in which a quarter of the groups were learnable, on a core with AMX: 110 s
        (("train_grpo", CPU_BF16, "gsm8k_small_cut", "small_lora", "random", 0), {}, "h100", 110, 330),
        # 200 completions, 52,765 tokens together, on a core with AMX: 485 s
        (("probe", CPU_BF16, "gsm8k_small"), {}, "h100", 485, 970),
    ],
)  # fmt: skip
def test_estimates_are_near_measured_seconds_of_an_update_or_of_a_probe(
    job, recipe, kind, least, most
):
    config, job = project_config.config(), Job(*job)
    config["recipes"].get(job.recipe, {}).update(recipe)
    gpus = {"count": 1, "micro_batch": 16, "vllm_memory": 0.3, "vllm_sleep": True}
    stages = {"sampling": {"count": 1}, "adapter": gpus, "full": gpus}
    config["models"]["smollm2-135m"]["gpus"] = stages
    resolved = resolve(config, job)
    estimate = durations.estimate(resolved, kind)
    updates = resolved.updates if job.recipe else 1
    assert least < (estimate.seconds - estimate.start_seconds) / updates < most


@pytest.mark.parametrize(
    "name, kind",
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("nvidia_a100-sxm4-80gb", "a100"),
        ("nvidia_a40", "a40"),
        ("nvidia_rtx_a4000", None),
        ("NVIDIA GH200 480GB", None),
    ],
)
def test_the_kind_of_a_gpu_is_read_from_its_whole_name(name, kind):
    assert gpu_kinds.kind_of(name) == kind


def test_engine_auto_on_gpus_is_estimated_as_vllm():
    config = project_config.config()
    job = Job("evaluate_base", "qwen3-4b-seed0", eval_task="gsm8k")
    seconds = {}
    for engine in ("vllm", "auto", "transformers"):
        config["models"]["qwen3-4b"]["engine"] = engine
        seconds[engine] = durations.estimate(resolve(config, job), "h100").seconds
    assert seconds["auto"] == seconds["vllm"] < seconds["transformers"]
