"""Machine translation in the CAPE paper (Likhomanenko et al. 2021, Table 2 and Figure 8; D.1).

The paper takes ADMIN's recipes as they are; what it does not say is theirs (Liu et al. 2020).
"""

from __future__ import annotations

from dataclasses import replace

from cape_fairseq.experiments.table import Column, Experiment, Row

TRAINING = (
    *("--residual-init", "admin", "--share-all-embeddings"),
    *("--optimizer", "radam", "--radam-betas", "(0.9, 0.98)", "--clip-norm", "0"),
    *("--lr-scheduler", "inverse_sqrt", "--warmup-updates", "8000", "--warmup-init-lr", "1e-7"),
    *("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"),
    *("--dropout", "0.1", "--attention-dropout", "0.1", "--activation-dropout", "0.1"),
    *("--fp16-scale-window", "256", "--threshold-loss-scale", "0.03125"),
    *("--max-update", "500000", "--keep-last-epochs", "2"),
    *("--eval-bleu", "--eval-bleu-remove-bpe", "--eval-tokenized-bleu"),
    *("--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric"),
)
COLUMNS = (Column("valid", ("valid",)), Column("test", ("test",)))
CHOICES = (
    "validation and test BLEU are multi-bleu's on tokenized text, whose references are not "
    "normalized",
    "seeds are 10,000,000 apart, since fairseq seeds update n with seed + n",
)


def row(name, encoding, options=(), published=(None, None), spread=(0, 0), hours=120.0):
    """A row with validation and test BLEU."""
    known = published[0] is not None
    return Row(
        name,
        encoding,
        options,
        published=dict(zip(("valid", "test"), published, strict=True)) if known else {},
        spread=dict(zip(("valid", "test"), spread, strict=True)) if known else {},
        gpu_hours=hours,
        extra=not known,
    )


RELPOS = ("--relpos-max-distance", "150")
EN_DE_6L = Experiment(
    name="cape_en_de_6l",
    title="CAPE, Table 2, en-de, 6 + 6 layers",
    corpus="wmt14_en_de",
    rows=(
        row("sinpos", "sinpos", (), (26.88, 27.66), (0.05, 0.10)),
        row("abspos", "abspos", (), (26.68, 27.36), (0.06, 0.06)),
        row("relpos", "relpos", RELPOS, (26.81, 27.92), (0.16, 0.07)),
        row("cape5", "cape", ("--cape-global-shift", "5"), (26.86, 27.89), (0.13, 0.07)),
        row("cape10", "cape", ("--cape-global-shift", "10")),
        row("cape50", "cape", ("--cape-global-shift", "50"), (27.09, 27.77), (0.03, 0.16)),
    ),
    training=(
        *TRAINING,
        *("--lr", "1e-3", "--max-epoch", "150"),
        *("--eval-bleu-args", '{"beam": 4, "lenpen": 0.6}'),
    ),
    decoding=("--beam", "4", "--lenpen", "0.6"),
    columns=COLUMNS,
    tests={"valid": "valid", "test": "test"},
    score="tokenized_bleu",
    tokens=8192,
    effective_tokens=32768,
    seeds=(1111, 10001111, 20001111),
    reports=("loss by position",),
    choices=CHOICES,
)
EN_DE_18L = replace(
    EN_DE_6L,
    name="cape_en_de_18l",
    title="CAPE, Table 2, en-de, 18 + 18 layers",
    size="_wmt_en_de_18l",
    rows=(
        row("sinpos", "sinpos", (), (27.09, 28.28), (0.06, 0.28), 280.0),
        row("abspos", "abspos", (), (27.23, 28.26), (0.02, 0.22), 280.0),
        row("relpos", "relpos", RELPOS, hours=280.0),
        row("cape5", "cape", ("--cape-global-shift", "5"), hours=280.0),
        row("cape10", "cape", ("--cape-global-shift", "10"), (27.17, 28.44), (0.10, 0.06), 280.0),
        row("cape50", "cape", ("--cape-global-shift", "50"), hours=280.0),
    ),
    reports=(),
)
EN_FR_6L = replace(
    EN_DE_6L,
    name="cape_en_fr_6l",
    title="CAPE, Table 2, en-fr, 6 + 6 layers",
    corpus="wmt14_en_fr",
    rows=(
        row("sinpos", "sinpos", (), (47.27, 41.13), (0.03, 0.07), 480.0),
        row("abspos", "abspos", (), (47.22, 41.21), (0.03, 0.04), 480.0),
        row("relpos", "relpos", RELPOS, (47.12, 41.33), (0.03, 0.13), 480.0),
        row("cape5", "cape", ("--cape-global-shift", "5"), (47.22, 41.59), (0.03, 0.03), 480.0),
        row("cape10", "cape", ("--cape-global-shift", "10"), hours=480.0),
        row("cape50", "cape", ("--cape-global-shift", "50"), (47.14, 41.48), (0.02, 0.10), 480.0),
    ),
    training=(
        *TRAINING,
        *("--lr", "7e-4", "--max-epoch", "75"),
        *("--eval-bleu-args", '{"beam": 5, "lenpen": 0.8}'),
    ),
    decoding=("--beam", "5", "--lenpen", "0.8"),
    tokens=8000,
    effective_tokens=640_000,
    choices=(
        *CHOICES,
        "validation is every 1,333rd pair of the training text, as ADMIN's recipe takes it; its "
        "BLEU is above the test set's because it is of the training's domains",
    ),
)
EXPERIMENTS = (EN_DE_6L, EN_DE_18L, EN_FR_6L)
