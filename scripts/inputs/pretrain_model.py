"""Train a small Qwen3 model from scratch on demonstrations with mistakes, and save it as a Hugging
Face folder.

--settings is the model's `source` in the configuration, with the `source` and `prompt` of each task
in `demonstrations`. --exclude: in the workflow, the splits of the demonstrated tasks, and of tasks
of the same families that a study uses with this model, but no facts.
"""

from hardgrpo.data import tasks
from hardgrpo.runtime import environments, errors, exact_products, files, provenance, warm

import time


def main() -> None:
    parser = errors.parser(__doc__, "--model", "--output")
    parser.add_argument("--settings", required=True, type=files.as_object, help="JSON; see above")
    parser.add_argument("--exclude", nargs="*", default=[], help="files of hidden problems")
    args = parser.parse_args()

    started = time.time()
    settings = args.settings
    excluded = {
        problem["question"] for path in args.exclude for problem in tasks.read_problems(path)
    }

    from hardgrpo.training import pretraining

    import torch  # imported here, see hardgrpo.runtime.warm
    from transformers import logging

    torch.set_num_threads(1)  # a second thread would not shorten the training
    if exact_products.is_narrow(settings["hidden_size"]) and environments.is_exact():
        exact_products.install()
    logging.set_verbosity_error()
    tokenizer = pretraining.build_tokenizer(
        {demonstration["source"]["family"] for demonstration in settings["demonstrations"].values()}
    )
    model = pretraining.build_model(settings, tokenizer).train()
    final_loss = pretraining.train(
        args.model, settings, pretraining.draw_batches(settings, excluded, tokenizer), model
    )

    with files.atomic(args.output) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        files.follow_umask(folder)
        record = provenance.describe(
            started, model=args.model, settings=settings, loss=round(final_loss, 6)
        )
        files.write_json(folder / "provenance.json", record)
        provenance.write_manifest(folder)
    parameters = sum(p.numel() for p in model.parameters())
    print(
        f"{args.output}: {parameters:,} parameters, {settings['steps']} steps, final loss {final_loss:.4f}"
    )


if __name__ == "__main__":
    warm.run(main)
