"""The steps that experiments are made of, each as one job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cape_fairseq.checkpoints import TRAINED
from cape_fairseq.experiments.jobs import Job, Plan, command

# Translations of all experiments; a recipe may give others after these.
GENERATE = ("--max-tokens", "4096", "--log-format", "simple")
BEAM = ("--beam", "4")


@dataclass(frozen=True)
class Text:
    """Binarized data as the steps after it need them.

    Args:
        folder: what fairseq-preprocess wrote.
        ready: a file that is there when the data are.
        references: original references by the name of the test set here; others have their own.
        codes: BPE codes.
        options: of ``text-settings``: how it is tokenized.
    """

    folder: str
    ready: str
    source: str
    target: str
    references: Mapping[str, str]
    codes: str = ""
    options: tuple[str, ...] = ()

    @property
    def languages(self) -> tuple[str, ...]:
        return "--source-lang", self.source, "--target-lang", self.target


@dataclass(frozen=True)
class Model:
    """A trained model: the folder of its outputs, the checkpoint that is used (of that folder, or
    a file elsewhere), and what says that it is there."""

    run: str
    which: str
    ready: str
    file: str = ""

    @property
    def checkpoint(self) -> str:
        return self.file or f"{self.run}/checkpoints/checkpoint_{self.which}.pt"


def train(
    plan: Plan,
    run: str,
    text: Text,
    options: Sequence[str],
    parent: Model | None = None,
    *,
    gpus: int = 0,
    nodes: int = 1,
    hours: float = 24.0,
    name: str = "",
) -> Model:
    """fairseq-train in ``run``, or on from where it was; started anew when data or parent did."""
    begin = ("--parent", parent.checkpoint) if parent else ()
    many = ("--gpus", gpus, "--nodes", nodes) if gpus else ()
    words = command("cape-fairseq", "train-run", run, begin, many, "--", text.folder)
    serving = command(
        *("cape-fairseq", "text-settings", f"{run}/checkpoints", "--data-bin", text.folder),
        *(text.languages, ("--bpe-codes", text.codes) if text.codes else (), text.options),
    )
    ready = f"{run}/{TRAINED}"
    plan.add(
        Job(
            name or f"{run}/train",
            (words + command(text.languages, options), serving),
            (text.ready, *((parent.ready,) if parent else ())),
            (ready,),
            heavy=True,
            gpus=max(gpus, 1),
            nodes=nodes,
            hours=hours,
        )
    )
    return Model(run, "best", ready)


def average(plan: Plan, model: Model, last: int, every: int = 0) -> Model:
    """The mean of the last checkpoints, those of epochs or some updates apart."""
    found = Model(model.run, "average", f"{model.run}/checkpoints/checkpoint_average.pt")
    apart = ("--every", every) if every else ()
    words = command(
        *("cape-fairseq", "average", f"{model.run}/checkpoints", found.checkpoint),
        *("--last", last, apart),
    )
    plan.add(Job(f"{model.run}/average", (words,), (model.ready,), (found.ready,)))
    return found


def generate(
    plan: Plan, model: Model, text: Text, subset: str, name: str, options: Sequence[str]
) -> str:
    """fairseq-generate's output in RUN/NAME.out -> its path."""
    output = f"{model.run}/{name}.out"
    words = command(
        *("fairseq-generate", text.folder, "--path", model.checkpoint, text.languages),
        *("--gen-subset", subset, GENERATE, options),
    )
    plan.add(
        Job(
            f"{model.run}/{name}",
            (words,),
            (model.ready, text.ready),
            (output,),
            stdout=output,
            heavy=True,
            gpus=1,
        )
    )
    return output


def translate(
    plan: Plan,
    model: Model,
    text: Text,
    subset: str,
    name: str,
    options: Sequence[str] = BEAM,
) -> str:
    """Beam search, with subwords joined."""
    return generate(plan, model, text, subset, name, command(options, "--remove-bpe"))


def score_references(
    plan: Plan, model: Model, text: Text, subset: str, name: str, options: Sequence[str] = ()
) -> str:
    """Log-probabilities of the references, subword by subword."""
    return generate(plan, model, text, subset, name, command("--score-reference", options))


def score(
    plan: Plan,
    model: Model,
    text: Text,
    names: Sequence[str],
    outputs: Sequence[str],
    options: Sequence[str] = (),
) -> str:
    """RUN/results.json of the translations of one model -> its path."""
    tests = []
    for name in names:
        own = text.references.get(name)
        tests += ["--test", f"{name}={own}" if own else name]
    result = f"{model.run}/results.json"
    words = command(
        *("cape-fairseq", "score", model.run, "--checkpoint", model.which),
        *("--language", text.target, tests, options),
    )
    plan.add(Job(f"{model.run}/score", (words,), (*outputs, model.ready), (result,)))
    return result


def binarize(
    plan: Plan, name: str, folder: str, files: Mapping[str, str], options: Sequence[str], ready
) -> str:
    """fairseq-preprocess into a fresh folder -> its source dictionary.

    Args:
        files: prefixes of ``train``, ``valid`` and ``test`` (several with commas).
    """
    dictionary = f"{folder}/dict.{options[options.index('--source-lang') + 1]}.txt"
    prefixes = [word for split, prefix in files.items() for word in (f"--{split}pref", prefix)]
    words = command(
        "fairseq-preprocess", "--destdir", folder, "--joined-dictionary", prefixes, options
    )
    plan.add(Job(name, (("rm", "-rf", folder), words), tuple(ready), (dictionary,)))
    return dictionary
