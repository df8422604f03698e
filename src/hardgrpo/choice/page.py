"""The numbers of a choice, and its page `choice.html`."""

import csv
from collections import Counter
from pathlib import Path

from hardgrpo.choice.choose import FEWEST_SAMPLES, Choice
from hardgrpo.choice.measures import Measure

# written by scripts/maintenance/write_pages.py
POOLED_LEADS = Path(__file__).with_name("pooled_leads.csv")
MOST_BARS = 12  # of the histogram, if each number of right completions has a bar
EXAMPLES, LONGEST_TEXT = 5, 600
TOKENS = ("input_tokens", "output_tokens", "stored")
RULE_NAMES = {
    "random": "a random choice",
    "nearest_half": "nearest to one half",
    "band": "in the band",
    "middle": "nearest to the median",
    "hard_solvable": "lowest above 0",
    "hard": "lowest",
    "easy": "highest",
}


def numbers(choice: Choice) -> dict:
    """The numbers of the page, as in choice.json. Shares are between 0 and 1."""
    measured = [result for result in choice.measures.values() if result.samples]
    total = sum(result.samples for result in measured)
    share = lambda count: count / total if total else None
    rates = [result.pass_rate for result in measured if result.pass_rate is not None]
    lenient = sum(result.lenient or 0 for result in measured)
    correct = sum(result.correct or 0 for result in measured)
    return {
        "prompts": len(choice.pool.prompts),
        "chosen": len(choice.chosen),
        "policy": choice.policy,
        "grader": getattr(choice.grader, "name", choice.grader)
        if total or choice.is_labelled
        else None,
        "samples": choice.samples,
        "group": choice.options.group,
        "pass_rate": sum(rates) / len(rates) if rates else None,
        "never_solved": rates.count(0) / len(rates) if rates else None,
        "always_solved": rates.count(1) / len(rates) if rates else None,
        "expected_mixed": choice.expected,
        "completions": total,
        "unfinished": share(sum(result.unfinished for result in measured)),
        "unreadable": share(sum(r.samples - r.answered - r.unfinished for r in measured)),
        "right_only_lenient": share(lenient - correct),
        "tokens": {key: choice.facts[key] for key in TOKENS if choice.facts},
        "money": choice.facts.get("total_money"),
        "notes": choice.pool.notes,
    }


def remedies(choice: Choice) -> list[str]:
    """What deserves attention in the numbers, each with its remedy."""
    facts, lines = numbers(choice), list(choice.pool.notes)
    if choice.samples and choice.samples < FEWEST_SAMPLES:
        lines.append(
            f"K = {choice.samples}: with fewer than {FEWEST_SAMPLES} completions per prompt, many pass rates are equal and ties decide; take 4 to 8"
        )
    for name, text in (
        ("unfinished", "of the completions are unfinished: raise --completion-tokens"),
        ("unreadable", "of the completions have no answer that the grader reads: ask for the form with --prompt, or name another --grader"),
        ("right_only_lenient", "of the completions are right only if notation is ignored: name a lenient --grader"),
    ):  # fmt: skip
        if facts[name] and facts[name] >= 0.005 and choice.completions:
            lines.append(f"{100 * facts[name]:.1f} % {text}")
    return lines


def cost(facts: dict) -> str:
    """Tokens and money in words."""
    tokens = facts["tokens"] or dict.fromkeys(TOKENS, 0)
    text = "no request was sent"
    if sampled := tokens["output_tokens"]:
        text = f"{tokens['input_tokens']:,} tokens of prompts, {sampled:,} sampled tokens"
    text += f"; {tokens['stored']:,} completions were stored before" if tokens["stored"] else ""
    money = facts["money"]
    return text + (f"; {money:.4g} in all, with what was paid before" if money is not None else "")


def lead(choice: Choice) -> str | None:
    """The pooled lead of a rule by pass rates over a random choice, in points of accuracy, measured
    on small models (docs/which-prompts.md); None if no study has compared the rule."""
    with POOLED_LEADS.open(newline="") as file:
        rows = {row["way"]: row for row in csv.DictReader(file)}
    row = rows.get(choice.policy["rule"]) if choice.is_by_pass_rate else None
    if row is None:
        return None
    value, *ends = (
        f"{100 * float(row[name]):+.1f}" for name in ("lead", "low", "high") if row[name]
    )
    interval = f" [{', '.join(ends)}]" if ends else ""  # too few cases have no interval
    return f"small models gained {value}{interval} points of accuracy more than with a random choice (cases: {row['cases']})"


def prompt_table(choice: Choice) -> list[dict]:
    """A row for each prompt of the pool: its measures, whether it is chosen, and why."""
    shown = lambda value: "" if value is None else value
    chosen, rows = set(choice.chosen), []
    for prompt in choice.pool.prompts:
        result = choice.measures.get(prompt.id, Measure())
        unfinished_share = result.unfinished / result.samples if result.samples else ""
        rows.append(
            {
                "id": prompt.id,
                "row": prompt.place.removeprefix("row "),
                "question": prompt.question,
                "answer": prompt.answer or "",
                "samples": result.samples,
                "pass_rate": shown(result.pass_rate),
                "answered_share": shown(result.value("answered_share")),
                "unfinished_share": unfinished_share,
                "agreement": shown(result.value("agreement")),
                "mean_tokens": shown(result.tokens),
                "chosen": int(prompt.id in chosen),
                "why": choice.reasons[prompt.id],
            }
        )
    return rows


def histogram(choice: Choice) -> list[dict]:
    """The bars of pass rates with the chosen prompts: one bar for each number of right completions
    if all prompts have equally many and at most MOST_BARS; else never solved, tenths, and always
    solved."""
    rated = {key: r for key, r in choice.measures.items() if r.pass_rate is not None}
    sizes = {result.samples for result in rated.values()}
    if len(sizes) == 1 and max(sizes) <= MOST_BARS:
        (samples,) = sizes
        names = [f"{correct} of {samples}" for correct in range(samples + 1)]
        place = lambda result: result.correct
    else:
        names = ["never", *(f"{10 * i}–{10 * i + 10} %" for i in range(10)), "always"]
        place = lambda result: (
            0 if result.correct == 0
            else 11 if result.correct == result.samples
            else 1 + min(9, int(10 * result.pass_rate + 1e-9))
        )  # fmt: skip
    chosen = set(choice.chosen)
    counts = Counter(place(result) for result in rated.values())
    chosen_counts = Counter(place(result) for key, result in rated.items() if key in chosen)
    most = max(counts.values(), default=0)
    return [
        {
            "name": name,
            "prompts": counts[i],
            "height": 100 * counts[i] / most,
            "chosen_height": 100 * chosen_counts[i] / most,
        }
        for i, name in enumerate(names)
        if most
    ]


def examples(choice: Choice) -> list[tuple[str, list[dict]]]:
    """Prompts of both ends of the pool, with a completion of each."""
    rate = lambda prompt: choice.measures.get(prompt.id, Measure()).pass_rate
    measured = [prompt for prompt in choice.pool.prompts if rate(prompt) is not None]
    measured.sort(key=lambda prompt: (rate(prompt), prompt.id))
    cut = lambda text: text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} …"

    def entry(prompt) -> dict:
        result, completions = choice.measures[prompt.id], choice.completions.get(prompt.id)
        return {
            "question": cut(prompt.question),
            "answer": prompt.answer,
            "rate": f"{result.correct} of {result.samples} right",
            "chosen": prompt.id in choice.chosen,
            "completion": cut(completions[0].text) if completions else "",
        }

    count = min(EXAMPLES, len(measured) // 2)
    ends = (("Hardest", measured[:count]), ("Easiest", measured[::-1][:count]))
    return [(title, list(map(entry, prompts))) for title, prompts in ends if prompts]


def rule_rows(choice: Choice) -> list[dict]:
    """The rows of the comparison of rules, the highest share of mixed groups first."""
    own = choice.policy["rule"] if choice.own_share is not None else None
    return [
        {"rule": rule, "name": RULE_NAMES.get(rule, rule), "share": 100 * share, "own": rule == own}
        for rule, share in sorted(choice.expected.items(), key=lambda item: -item[1])
    ]


def render(choice: Choice, command: str) -> str:
    """The page as HTML."""
    facts = numbers(choice)
    from hardgrpo.report import web  # imports Jinja, which takes time

    return web.template("choice.html", Path(__file__).parent).render(
        facts=facts,
        rule=choice.policy_name,
        file=choice.pool.content.path,
        model=choice.options.model,
        bars=histogram(choice),
        rules=rule_rows(choice),
        ends=examples(choice),
        remedies=remedies(choice),
        lead=lead(choice),
        cost=cost(facts),
        chosen_prompts=[(p, choice.reasons[p.id]) for p in choice.prompts[:EXAMPLES]],
        command=command,
    )
