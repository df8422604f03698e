"""What `hardgrpo choose` will do with a file: prompts, grader, policy and server."""

from dataclasses import dataclass

from hardgrpo.choice import measures
from hardgrpo.choice.choice_options import Options
from hardgrpo.choice.measures import OwnGrader
from hardgrpo.choice.prompts import Pool, Prompt, add_instructions, read_pool
from hardgrpo.choice.recordings import COMPLETIONS
from hardgrpo.data.row_files import Rows
from hardgrpo.grading import graders, proposals
from hardgrpo.runtime.errors import UserError, first_entries, printable
from hardgrpo.sampling.server_engine import Address, read_address
from hardgrpo.selection import policies


def prepare(content: Rows, options: Options) -> "Plan":
    """Read the prompts and decide how they are graded and chosen, before anything is asked."""
    options.check()
    pool = read_pool(content, options.question, options.answer, options.limit)
    grader = options.grader
    if grader is not None and grader not in graders.GRADERS:
        grader = measures.own_grader(grader, options.right_above)
    own = isinstance(grader, OwnGrader)
    has_answer_marks = any("####" in prompt.question for prompt in pool.prompts[:20])
    form = "marks" if has_answer_marks else "boxed"
    answered = [prompt for prompt in pool.prompts if prompt.answer]
    is_labelled = bool(own or options.pass_rate is not None) or 2 * len(answered) >= len(
        pool.prompts
    )
    is_graded = is_labelled and answered and not own and options.pass_rate is None
    if is_graded and not grader:
        grader = _propose(pool, answered, form)
    if is_graded:
        _leave_out_unreadable(pool, answered, grader)
    elif not is_labelled and answered:
        pool.notes.append(f"{len(answered)} prompts have an answer and are left out")
        pool.prompts = [prompt for prompt in pool.prompts if not prompt.answer]
    if isinstance(grader, str):
        rule = graders.GRADERS[grader]
        form = "marks" if rule.form.startswith("####") else form
        form = "letter" if rule.reads_letters else form
    if not pool.prompts:
        raise UserError(f"{content.path}: no prompts are left to choose from")
    add_instructions(pool, options.prompt, options.system, None if own else form)
    policy = options.policy_entry(is_labelled)
    if options.limit and isinstance(policy.get("budget"), dict):  # a trial of the first prompts
        policy["budget"]["prompts"] = min(policy["budget"]["prompts"], len(pool.prompts))
    return Plan(options, pool, grader, is_labelled, policy)


def _propose(pool: Pool, answered: list[Prompt], form: str) -> str:
    answers = [prompt.answer for prompt in answered]
    grader = proposals.propose(answers, form)
    if grader is None:
        unreadable = proposals.unreadable("math" if form == "boxed" else "final_word", answers)
        example = answered[unreadable[0] if unreadable else 0]
        raise UserError(
            f"{pool.content.path}: no grader reads the answers in column '{pool.columns.answer}' (for example {example.place}: '{printable(example.answer)[:60]}'); name another column with --answer, or a grader with --grader"
        )
    return grader


def _leave_out_unreadable(pool: Pool, answered: list[Prompt], grader: str) -> None:
    indices = proposals.unreadable(grader, [prompt.answer for prompt in answered])
    unreadable = [answered[index] for index in indices]
    missing = [prompt for prompt in pool.prompts if not prompt.answer]
    for prompts, problem in (
        (missing, "no answer"),
        (unreadable, f"an answer that {grader} cannot read"),
    ):
        if prompts:
            example = f" ('{printable(prompts[0].answer)[:40]}')" if prompts[0].answer else ""
            pool.notes.append(
                f"{len(prompts)} rows with {problem} are left out: {first_entries([prompt.place for prompt in prompts])}{example}"
            )
    left_out = {prompt.id for prompt in missing + unreadable}
    pool.prompts = [prompt for prompt in pool.prompts if prompt.id not in left_out]
    if len(unreadable) > max(1, len(answered) // 10):
        first = unreadable[0]
        raise UserError(
            f"{pool.content.path}: grader {grader} cannot read {len(unreadable)} of {len(answered)} answers, the first in {first.place}: '{printable(first.answer)[:60]}'; name another grader with --grader"
        )


@dataclass
class Plan:
    """What `run` will do: the pool, the policy and the grader (None: no reference answers; `choose`
    counts answers by `UNLABELLED_GRADER`)."""

    options: Options
    pool: Pool
    grader: str | OwnGrader | None
    is_labelled: bool
    policy: dict

    @property
    def needs_measure(self) -> bool:
        return policies.RULES[self.policy["rule"]].needs_measure

    @property
    def measure_name(self) -> str:
        return self.policy.get("by", "pass_rate")

    @property
    def is_by_pass_rate(self) -> bool:
        return self.needs_measure and self.measure_name == "pass_rate"

    @property
    def policy_name(self) -> str:
        return self.options.policy or self.policy["rule"]

    @property
    def address(self) -> Address:
        options = self.options
        settings = {"url": options.url, "key": options.key, "most_money": options.most_money}
        settings |= {"concurrency": options.concurrency}
        if options.price:
            settings["price"] = dict(zip(("input", "output"), options.price))
        settings = {key: value for key, value in settings.items() if value is not None}
        return read_address(settings, "the options of the server")

    def check(self) -> None:
        """Raise a `UserError` if the policy cannot choose from this pool, before anything is paid."""
        options, rule = self.options, self.policy["rule"]
        if "budget" in self.policy:
            policies.subset_size(self.policy["budget"], len(self.pool.prompts))
        if self.is_by_pass_rate and not self.is_labelled:
            raise UserError(
                f"--policy {rule} needs answers, and {self.pool.content.path} has none; name their column with --answer, or choose by --policy random"
            )
        if (
            self.needs_measure
            and not self.is_by_pass_rate
            and (options.pass_rate is not None or isinstance(self.grader, OwnGrader))
        ):
            raise UserError(
                f"--by {self.measure_name} needs the texts of completions and a grader of this project; leave --pass-rate or --grader out"
            )
        sources = (options.url, options.completions, options.pass_rate)
        if self.needs_measure and all(source is None for source in sources):
            usual = (column for column in self.pool.columns.unused if column in COMPLETIONS)
            hint = next((f"; the file has a column: --completions {name}" for name in usual), "")
            raise UserError(
                f"--policy {rule} needs completions: name a server with --url and --model, or files with --completions, or a column with --pass-rate{hint}"
            )
        if "highest_tier" in policies.RULES[rule].needs and not options.tier:
            raise UserError(f"--policy {rule}: name the column of tiers with --tier")
        if options.url:
            _ = self.address
