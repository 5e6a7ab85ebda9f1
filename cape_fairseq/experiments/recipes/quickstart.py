"""The quick start: three small models on a corpus made on the spot, in minutes on a CPU."""

from __future__ import annotations

from cape_fairseq.experiments import corpora, steps
from cape_fairseq.experiments.jobs import Job, Plan, command
from cape_fairseq.experiments.recipes.settings import (
    PLAIN_SOURCE,
    QUICK,
    QUICK_STACK,
    QUICK_UPDATES,
    mixed,
)

LONG = mixed(QUICK_STACK, from_epoch=3)
# sinpos as everybody trains it, the others with some long text in training.
MODELS = {"sinpos": (), "cape": (*PLAIN_SOURCE, *LONG), "rope_cross": LONG}
TESTS = {"test": "test", "test1": "test_long"}


def jobs(plan: Plan, updates: int = QUICK_UPDATES) -> None:
    """Train, translate and score the models, and compare them."""
    text = corpora.quick_start(plan)
    results, scored = [], {}
    for name, own in MODELS.items():
        options = command(
            *("--arch", f"{name}_transformer_tiny", QUICK),
            *("--max-update", updates, "--seed", 1, own),
        )
        model = steps.train(plan, name, text, options)
        outputs = [steps.translate(plan, model, text, *test) for test in TESTS.items()]
        results.append(steps.score(plan, model, text, list(TESTS.values()), outputs))
        scored[name] = steps.score_references(plan, model, text, "test1", "score_long")
    losses = [f"{name}={path}" for name, path in scored.items()]
    words = command(
        *("cape-fairseq", "position-loss", losses, "--bin", 10, "--output", "loss_by_position"),
        *("--train-length", f"data-bin/train.{text.source}-{text.target}.{text.target}"),
    )
    figure = "loss_by_position.png"
    plan.add(Job("loss-by-position", (words,), tuple(scored.values()), (figure,)))
    words = command("cape-fairseq", "compare", results, "--baseline", "sinpos")
    plan.add(Job("compare", (words,), (*results, figure), ("table.txt",), stdout="table.txt"))
    plan.shown.append("table.txt")
