"""The numbers of the papers' tables, by recipe and row, and which of ours stands beside them."""

from __future__ import annotations

from typing import NamedTuple


class Table(NamedTuple):
    """A published table; ``score`` is the key of ours in results.json.

    It is averaged over the test sets, unless there is a column for each. ``swapped`` is SHAPE's
    Table 1: BLEU of joined sentences in their order, and with the first at the end; ours are in
    swap.json.
    """

    title: str
    score: str
    rows: dict[str, float | None]
    each_test: bool = False
    swapped: dict[str, tuple[float, float]] = {}  # noqa: RUF012


TABLES = {
    "cape_en_de_6l": Table(
        "CAPE, Table 2, en-de, 6 + 6 layers",
        "tokenized_bleu",
        {
            "sinpos": 27.66,
            "abspos": 27.36,
            "relpos": 27.92,
            "cape5": 27.89,
            "cape10": None,
            "cape50": 27.77,
        },
    ),
    "cape_en_de_18l": Table(
        "CAPE, Table 2, en-de, 18 + 18 layers",
        "tokenized_bleu",
        {
            "sinpos": 28.28,
            "abspos": 28.26,
            "relpos": None,
            "cape5": None,
            "cape10": 28.44,
            "cape50": None,
        },
    ),
    "cape_en_fr_6l": Table(
        "CAPE, Table 2, en-fr, 6 + 6 layers",
        "tokenized_bleu",
        {
            "sinpos": 41.13,
            "abspos": 41.21,
            "relpos": 41.33,
            "cape5": 41.59,
            "cape10": None,
            "cape50": 41.48,
        },
    ),
    "shape_vanilla": Table(
        "SHAPE, Table 2, Vanilla, test", "bleu", {"ape": 30.46, "rpe": 30.54, "shape": 30.49}
    ),
    "shape_extrapolate": Table(
        "SHAPE, Table 2, Extrapolate, test", "bleu", {"ape": 29.22, "rpe": 29.86, "shape": 29.80}
    ),
    "shape_interpolate": Table(
        "SHAPE, Table 2, Interpolate, test",
        "bleu",
        {"ape": 38.23, "rpe": None, "shape": 39.09},
        swapped={"ape": (28.81, 20.74), "shape": (28.51, 27.06)},
    ),
    "floater_table2": Table(
        "FLOATER, Table 2, en-de, base",
        "compound_bleu",
        {
            "floater-all": 28.6,
            "sinpos-all": 28.2,
            "abspos-all": 26.9,
            "floater-input": 28.3,
            "sinpos-input": 27.9,
            "abspos-input": 27.8,
        },
    ),
    "floater_table2_en_fr": Table(
        "FLOATER, Table 2, en-fr, base",
        "tokenized_bleu",
        {
            "floater-all": 41.6,
            "sinpos-all": 40.6,
            "abspos-all": 40.9,
            "floater-input": 41.1,
            "sinpos-input": 40.4,
            "abspos-input": 40.9,
        },
    ),
    "floater_table2_large_en_de": Table(
        "FLOATER, Table 2, en-de, large",
        "compound_bleu",
        {
            "floater-all": 29.2,
            "sinpos-all": 28.4,
            "abspos-all": 28.3,
            "floater-input": 29.1,
            "sinpos-input": 28.4,
            "abspos-input": 28.5,
        },
    ),
    "floater_table2_large_en_fr": Table(
        "FLOATER, Table 2, en-fr, large",
        "tokenized_bleu",
        {
            "floater-all": 42.7,
            "sinpos-all": 42.0,
            "abspos-all": 42.0,
            "floater-input": 42.4,
            "sinpos-input": 41.8,
            "abspos-input": 42.4,
        },
    ),
    "floater_table6": Table(
        "FLOATER, Table 6, en-de, base",
        "compound_bleu",
        {
            "sinpos": None,
            "ode": 28.57,
            "rnn-scalar": 27.99,
            "rnn2-scalar": 28.16,
            "rnn-vector": 27.99,
        },
    ),
    "floater_short_to_long": Table(
        "FLOATER, Figure 2 (its numbers are in a figure only)",
        "compound_bleu",
        {"sinpos": None, "abspos": None, "relpos": None, "floater": None},
        each_test=True,
    ),
}
