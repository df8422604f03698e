"""The tables of docs/costs.md: throughput by the cost model beside published throughput, and estimates
for a probe, a training and a test."""

from hardgrpo.planning import durations
from hardgrpo.planning.durations import Job
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import Shape

QWEN3_8B = Shape(  # no model of config/models.yaml has this shape
    hidden_size=4096, intermediate_size=12288, layers=36, heads=32, key_value_heads=8, head_size=128,
    vocabulary=151936, tied=False,
)  # fmt: skip
# (model, sequences at once, output tokens/s) of vLLM on one H100 in bf16, with about 640 output
# tokens per sequence. The source for Llama does not give the number of sequences: 512 is assumed.
PUBLISHED = [
    ("Qwen3-8B", 512, 8535),
    ("qwen3-14b", 256, 5760),
    ("llama-3.1-8b-instruct", 512, 9806),
]
OUTPUT_TOKENS = 640


def tokens_per_second(shape: Shape, at_once: int) -> float:
    tokens = OUTPUT_TOKENS * at_once
    return tokens / durations.sampling_seconds(
        shape, at_once, tokens, OUTPUT_TOKENS, "vllm", "h100", 1
    )


def shape_of(models: dict, model: str) -> Shape:
    return QWEN3_8B if model == "Qwen3-8B" else Shape.of(models[model]["shape"])


def tables(config: dict) -> str:
    checked = Configuration.of(config)
    lines = [
        "| one H100, bf16, vLLM | sequences at once | published tokens/s | tokens/s by the cost model | error of the cost model |",
        "|---|---|---|---|---|",
    ]
    for model, at_once, published in PUBLISHED:
        modelled = tokens_per_second(shape_of(config["models"], model), at_once)
        lines.append(
            f"| {model} | {at_once} | {published:,} | {modelled:,.0f} | {modelled / published - 1:+.0%} |"
        )
    lines += [
        "",
        "| one job of study `paper` (two of its models), uncalibrated, H100 | seconds | GPU-hours | tokens generated | tokens trained on | requested walltime |",
        "|---|---|---|---|---|---|",
    ]
    for model in config["studies"]["paper"]["models"][:2]:
        for job in (
            Job(checked, "probe", model, "gsm8k"),
            Job(checked, "train_grpo", model, "gsm8k", "as_written", "hard"),
            Job(checked, "evaluate_run", model, "gsm8k", "as_written", "hard", "gsm8k"),
        ):
            estimate = durations.estimate(job, "h100")
            trained_tokens = (
                f"{estimate.tokens_trained / 1e6:.1f} M" if estimate.tokens_trained else "-"
            )
            lines.append(
                f"| {job.rule} {model} | {estimate.seconds:,.0f} | {estimate.gpu_hours:.2f} | {estimate.tokens_generated / 1e6:.1f} M | {trained_tokens}"
                f" | {durations.walltime(job, 'h100', 1)} min |"
            )
    return "\n".join(lines)
