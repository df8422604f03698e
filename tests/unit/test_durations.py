"""The cost model, compared with published throughput, counts by hand and measured times."""

import copy
from dataclasses import replace
from typing import NamedTuple

import pytest

import project_config
from command_line import run
from conftest import ROOT
from hardgrpo.planning import calibration, durations
from hardgrpo.runtime import files
from hardgrpo.study import load, memory
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


TRAIN = Job("train_grpo", "qwen3-14b", "gsm8k", "as_written", "hard", 0)
SMALL_TRAIN = TRAIN._replace(model="qwen3-4b")
PROBE = Job("probe", "qwen3-4b", "gsm8k")
EVALUATE = Job("evaluate_run", "qwen3-4b", "gsm8k", "as_written", "hard", 0, "gsm8k")


def resolve(job: Job, changes: dict | None = None, *results: str) -> durations.Job:
    config = Configuration.of(load.lay_over(copy.deepcopy(CONFIG), changes)) if changes else CHECKED
    return durations.Job.of(config, job.rule, job._asdict(), *results)


def estimate(job: Job, changes=None, gpu="h100", calibrated=None) -> durations.Estimate:
    return durations.estimate(resolve(job, changes), gpu, calibrated)


def seconds(job: Job, changes=None, gpu="h100") -> float:
    return estimate(job, changes, gpu).seconds


def recipe(**keys) -> dict:
    return {"recipes": {"as_written": keys}}


def task(**keys) -> dict:
    return {"tasks": {"gsm8k": keys}}


def model(name: str, **keys) -> dict:
    return {"models": {name: keys}}


def pass_seconds(model: str, passes: int, tokens: float) -> float:
    """Seconds of passes of 2 FLOPs per weight and token on an H100."""
    return passes * 2 * memory.parameters(CHECKED.models[model].shape) * tokens / (989e12 * 0.3)


QWEN3_8B = Shape(  # no model of config/models.yaml has this shape
    hidden_size=4096, intermediate_size=12288, layers=36, heads=32, key_value_heads=8, head_size=128,
    vocabulary=151936, tied=False,
)  # fmt: skip


# vLLM on one H100 in bf16, with about 640 output tokens per sequence. The source for Llama does not
# give the number of sequences: 512 is assumed.
@pytest.mark.parametrize(
    ("shape", "at_once", "tokens_per_second"),
    [
        (QWEN3_8B, 512, 8535),
        (CHECKED.models["qwen3-14b"].shape, 256, 5760),
        (CHECKED.models["llama-3.1-8b-instruct"].shape, 512, 9806),
    ],
)
def test_sampling_is_within_a_quarter_of_every_published_throughput(
    shape, at_once, tokens_per_second
):
    tokens = 640 * at_once
    time = durations.sampling_seconds(shape, at_once, tokens, 640, "vllm", "h100", 1)
    assert tokens / time == pytest.approx(tokens_per_second, rel=0.25)


def test_the_estimate_of_a_run_equals_a_count_by_hand():
    run = estimate(TRAIN)
    assert run.completions == 1000 * 32 * 8
    assert run.tokens_generated == pytest.approx(1000 * 256 * 250 * durations.FILL)
    prompts = 1000 * 256 * durations.PROMPT_TOKENS["gpu"]
    assert run.tokens_trained == pytest.approx(run.tokens_generated + prompts)
    # forward, backward, recomputed layers and reference policy
    learning = pass_seconds("qwen3-14b", 4, run.tokens_trained)
    assert learning < run.seconds < 1.6 * learning
    correction = recipe(importance_correction={"mode": "token_truncate", "limit": 2.0})
    assert seconds(TRAIN, correction) - run.seconds == pytest.approx(learning / 4)
    grading = 1000 * 256 * durations.MATH_SECONDS / 4  # four processes grade
    assert seconds(TRAIN, task(grader="math")) - run.seconds == pytest.approx(grading)
    assert run.gpus == 1 and run.gpu_hours == run.seconds / 3600
    adapter = memory.adapter_parameters(CHECKED.models["qwen3-14b"].shape, 32) * 4
    assert run.kept_bytes == 10 * adapter and run.scratch_bytes == 10 * adapter + 4 * adapter
    # pruning leaves the last of ten checkpoints
    pruned = estimate(TRAIN._replace(rule="prune_checkpoints"))
    assert pruned.kept_bytes == pytest.approx(-0.9 * run.kept_bytes)


def test_the_completions_of_probes_and_evaluations_are_counted(tmp_path):
    assert estimate(PROBE).completions == 1869 * 5  # 7,473 problems in 4 shards
    # four samples and a greedy completion per problem, ten checkpoints
    assert estimate(EVALUATE).completions == 1319 * 5 * 10
    # problems of own files, in 4 shards: prepared, and not prepared
    own = copy.deepcopy(CONFIG)
    own["tasks"]["gsm8k"]["source"] = {"kind": "files", "train": "mine.csv"}
    files.write_text(tmp_path / "tasks/gsm8k/train.jsonl", "{}\n" * 40)
    for results, problems in ((str(tmp_path), 40), ("results", 1000)):
        job = durations.Job.of(Configuration.of(own), "probe", PROBE._asdict(), results)
        assert job.completions == problems / 4 * 5


@pytest.mark.parametrize("job", [TRAIN, PROBE, EVALUATE], ids=lambda job: job.rule)
def test_more_work_takes_longer_and_a_faster_gpu_less(job):
    assert seconds(job, task(completion_tokens=1024)) > 2 * seconds(job)
    assert seconds(job, model(job.model, shape={"layers": 80})) > seconds(job)
    h200, h100, a100, a40 = (seconds(job, gpu=gpu) for gpu in ("h200", "h100", "a100", "a40"))
    assert h200 <= h100 < a100 < a40


def test_updates_and_a_reference_policy_take_time_and_several_gpus_share_the_work():
    plain = seconds(TRAIN)
    assert seconds(TRAIN, recipe(updates=2000)) == pytest.approx(2 * plain, rel=0.05)
    assert seconds(TRAIN, recipe(beta=0.0)) < plain
    four = seconds(TRAIN, model("qwen3-14b", gpus={"adapter": {"count": 4}}))
    assert plain / 4 < four < plain / 2, "each GPU reads all weights"
    base = Job("evaluate_base", "qwen3-4b", eval_task="gsm8k")
    engines = ("vllm", "auto", "transformers")
    vllm, auto, slow = (seconds(base, model("qwen3-4b", engine=engine)) for engine in engines)
    assert vllm == auto < slow


@pytest.mark.parametrize(
    "job", [TRAIN, PROBE, Job("pretrain_model", "tiny")], ids=lambda job: job.rule
)
def test_walltime_is_at_least_twice_the_estimate_and_grows_with_the_attempt(job):
    minutes = [durations.walltime(resolve(job), "h100", attempt) for attempt in range(1, 7)]
    assert minutes[0] >= max(durations.LEAST_MINUTES, 2 * seconds(job) / 60)
    assert sorted(set(minutes)) == minutes and all(isinstance(value, int) for value in minutes)


def test_an_estimate_is_unknown_until_the_size_of_the_model_is_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job, mine = (
        Job("probe", "mine", "gsm8k"),
        model("mine", source={"kind": "folder", "path": "mine"}),
    )
    assert not estimate(job, mine).is_known
    facts = {
        "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": True,
    }  # fmt: skip
    files.write_json("results/models/mine/config.json", facts)
    assert resolve(job, mine).shape == CHECKED.models["smollm2-135m"].shape
    assert estimate(job, mine).is_known
    monkeypatch.setenv("HOME", str(tmp_path / "results/models"))
    source = {"kind": "folder", "path": "~/mine"}
    assert durations.model_shape("other", Model.of({"source": source}), CONFIG["data"]) is not None


def test_a_run_on_worked_solutions_samples_nothing_and_trains_on_its_texts(tmp_path):
    job = SMALL_TRAIN._replace(recipe="sft")
    run, grpo = estimate(job), estimate(SMALL_TRAIN)
    assert run.completions == run.tokens_generated == 0
    prompts = 1000 * 32 * durations.PROMPT_TOKENS["gpu"]
    assert run.tokens_trained == pytest.approx(1000 * 32 * 250 * durations.FILL + prompts)
    # forward, backward and recomputed layers
    learning = pass_seconds("qwen3-4b", 3, run.tokens_trained)
    updates = 1000 * durations.UPDATE_SECONDS["gpu"]
    assert run.seconds == pytest.approx(run.start_seconds + learning + updates)
    assert run.start_seconds < grpo.start_seconds and run.seconds < grpo.seconds / 3
    # a finished run corrects the assumed length of worked solutions, and does not calibrate GRPO
    tokens = 1000 * 32 * 125  # half the limit
    write_finished_run(tmp_path, job, 2_050, 2_000, 0, solution_tokens=tokens)
    calibrated = calibrate(tmp_path)
    corrected = estimate(job, calibrated=calibrated)
    assert corrected.seconds == pytest.approx(2_050, rel=1e-3) and corrected.completions == 0
    assert corrected.tokens_trained == pytest.approx(tokens + prompts)
    assert estimate(SMALL_TRAIN, calibrated=calibrated) == grpo


def test_each_job_of_a_run_in_two_rounds_keeps_half_of_the_checkpoints():
    of_policy = lambda policy: Job("train_grpo", "tiny", "swaps", "mini_rounds", policy, 0)
    one_round, two_rounds = (
        estimate(of_policy(name)).kept_bytes for name in ("random", "agreement_in_rounds")
    )
    assert two_rounds == one_round / 2 > 0


@pytest.mark.parametrize(
    ("job", "keys", "kind", "least", "most"),
    [
        # 256 rollouts of SmolLM2-135M on an H200: 10 to 12 s, although the arithmetic takes less
        # than a second
        (TRAIN._replace(model="smollm2-135m"), {}, "h200", 8, 13),
        # 32 rollouts of at most 200 tokens on a core with AVX-512: 440 s
        (Job("train_grpo", "qwen2.5-coder-0.5b-instruct", "gsm8k_small_cut", "small_lora", "hard", 0),
         {"base": "fp32", "precision": "fp32"}, "h100", 440, 880),
        # an update in which a quarter of the groups were learnable, on a core with AMX: 110 s
        (Job("train_grpo", "qwen2.5-coder-0.5b-instruct-bf16", "gsm8k_small_cut", "small_lora", "hard", 0),
         {}, "h100", 110, 330),
    ],
)  # fmt: skip
def test_estimates_are_near_measured_seconds_of_an_update(job, keys, kind, least, most):
    gpus = {"count": 1, "micro_batch": 16, "vllm_memory": 0.3, "vllm_sleep": True}
    stages = {"sampling": {"count": 1}, "adapter": gpus, "full": gpus}
    changes = model("smollm2-135m", gpus=stages) | {"recipes": {job.recipe: keys}}
    run = estimate(job, changes, kind)
    assert least < (run.seconds - run.start_seconds) / resolve(job, changes).updates < most


# --- calibration by finished jobs


def write_finished_run(folder, job: Job, seconds, work, tokens, **changes) -> None:
    facts = {"seconds": seconds, "update_seconds": work, "completion_tokens": tokens}
    facts |= {"machine": {"gpus": 1}, "resumed_from": 0} | changes
    run = f"{job.model}/{job.task}/{job.recipe}/{job.policy}/seed{job.seed}"
    files.write_json(folder / "training" / run / "provenance.json", facts)


def calibrate(folder, gpu="h100") -> calibration.Calibration:
    return calibration.calibrate(calibration.read_finished_jobs(str(folder), CHECKED), gpu)


def test_a_replicate_with_its_own_base_is_estimated_by_the_other_replicates_of_the_model(tmp_path):
    replicate = lambda seed: Job("train_grpo", f"tiny-seed{seed}", "swaps", "mini", "hard", seed)
    for seed in (0, 1):
        write_finished_run(tmp_path, replicate(seed), 30, 28, 28 * 100, machine={"gpus": 0})
    calibrated = calibrate(tmp_path)
    new, finished = (calibrated.find(resolve(replicate(seed))) for seed in (7, 0))
    assert calibrated.jobs == 2 and "fill" in new and new == finished


def test_jobs_that_the_configuration_no_longer_has_are_left_out(tmp_path):
    record = {"seconds": 9, "work_seconds": 3, "completion_tokens": 50, "machine": {"gpus": 0}}
    evaluations = (f"provenance/evaluation/tiny-seed0/{kind}/swaps" for kind in ("reach", "base"))
    for path in (*evaluations, "models/tiny-seed0/provenance"):
        files.write_json(tmp_path / f"{path}.json", record)
    config = copy.deepcopy(CONFIG)

    def rules() -> list[str]:
        jobs = calibration.read_finished_jobs(str(tmp_path), Configuration.of(config))
        return [finished_job.job.rule for finished_job in jobs]

    assert rules() == ["evaluate_base", "sample_reach", "pretrain_model"]
    del config["tasks"]["swaps"]["test"]["reach"]
    assert rules() == ["evaluate_base", "pretrain_model"]
    del config["tasks"]["swaps"]["test"]
    shape = config["models"]["smollm2-135m"]["shape"]
    config["models"]["tiny"] = {"source": {"kind": "folder", "path": "tiny"}, "shape": shape}
    assert rules() == []


def test_the_speed_of_the_gpu_that_a_job_ran_on_is_expected(tmp_path):
    """For equal times, `slowness` is lower on a slower GPU, because the cost model expects more time
    on it. For an unknown GPU, the given kind, b200, is assumed."""
    slowness = []
    for gpu in ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA RTX A4000"):
        write_finished_run(tmp_path / gpu, TRAIN, 30_100, 30_000, 25_600_000, gpus=[gpu])
        slowness.append(calibrate(tmp_path / gpu, "b200").find(resolve(TRAIN))["slowness"])
    assert slowness == sorted(set(slowness))


def test_an_estimate_uses_the_measurements_of_the_model_or_else_of_all_models(tmp_path):
    tokens = 1000 * 256 * 100  # the limit is 250
    write_finished_run(tmp_path, TRAIN, 30_100, 30_000, tokens)
    # ignored: a resumed run records only the seconds of its last attempt, and a user's copy is no
    # result of the workflow
    write_finished_run(tmp_path, TRAIN._replace(seed=1), 9e9, 9e9, tokens, resumed_from=500)
    write_finished_run(tmp_path, TRAIN._replace(seed="0.old"), 9e9, 9e9, tokens)
    calibrated = calibrate(tmp_path)
    assert calibrated.jobs == 1
    # The same and another policy of the task have the measured token counts and times; another
    # model has the measured slowness, but the assumed token counts.
    for job in (TRAIN._replace(seed=7), TRAIN._replace(policy="easy")):
        measured = estimate(job, calibrated=calibrated)
        assert measured.seconds == pytest.approx(30_100, rel=1e-3)
        assert measured.tokens_generated == pytest.approx(tokens)
    plain, corrected = estimate(SMALL_TRAIN), estimate(SMALL_TRAIN, calibrated=calibrated)
    assert corrected == replace(plain, seconds=corrected.seconds) != plain
    # times on GPUs do not calibrate a CPU
    cpu = Job("train_grpo", "tiny", "swaps", "mini", "hard", 0)
    assert estimate(cpu, calibrated=calibrated) == estimate(cpu)


@pytest.mark.slow
def test_a_file_of_the_user_is_laid_over_the_configuration(tmp_path):
    files.write_json(tmp_path / "my.yaml", {"models": {"mine": CONFIG["models"]["qwen3-14b"]}})
    write_finished_run(tmp_path, TRAIN._replace(model="mine"), 30_100, 30_000, 1000)
    options = {"results": tmp_path, "output": tmp_path / "calibration.json"}
    assert run(ROOT, "calibrate", **options).returncode == 1
    done = run(ROOT, "calibrate", **options, config=tmp_path / "my.yaml")
    assert done.returncode == 0 and '"mine"' in (tmp_path / "calibration.json").read_text()
