"""Translating with fairseq: checkpoints of this project or of fairseq itself, also several."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY, build_model
from fairseq.sequence_generator import SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor

from cape_fairseq.checkpoints.reading import encoding_of, options_of
from cape_fairseq.errors import UserError
from cape_fairseq.models.loading import fitting, plain_task
from cape_fairseq.serving.results import Hypothesis, Search, Subwords, Waiting


class FairseqEngine:
    """One checkpoint, or several that translate together.

    Args:
        states: checkpoints as they were read.
        data: folder of the dictionaries.
        languages: of source and target.
        bos: whether the input must begin with the begin-of-sentence token (exported models).
        longest: source tokens for which a model of fairseq's sinusoids is prepared.
        cpu: whether to leave a GPU alone.

    Raises:
        UserError: one is no translation model, or does not fit the data.
    """

    def __init__(
        self,
        states: Sequence[dict[str, Any]],
        data: Path,
        languages: tuple[str, str],
        bos: bool = False,
        longest: int = 1024,
        cpu: bool = False,
    ) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() and not cpu else "cpu")
        self.bos = bos
        with fitting(f"the model cannot translate with {data}"):
            self.task = plain_task(states[0], data, languages)
            self.models = [self.build(state, longest) for state in states]

    def build(self, state: dict[str, Any], longest: int) -> Any:
        """A model of a checkpoint, for translation only."""
        options = Namespace(**vars(options_of(state)))
        name = getattr(options, "_name", None) or getattr(options, "arch", None)
        if name not in (*MODEL_REGISTRY, *ARCH_MODEL_REGISTRY):
            raise UserError(f"it is a {name}, which neither fairseq nor this plugin has")
        for side, stack in (("source", "encoder"), ("target", "decoder")):
            # fairseq's sinusoids end at training's limit; this plugin's have no end.
            stock = not hasattr(options, "position_encoding")
            if stock and encoding_of(options, stack) != "abspos":
                name = f"max_{side}_positions"
                setattr(options, name, max(getattr(options, name, None) or 0, 4 * longest))
        model = build_model(options, self.task).to(self.device)
        model.load_state_dict(state["model"], strict=True, model_cfg=options)
        for layer in model.encoder.layers:  # 0.12.2's own way for inference fails in new PyTorch
            layer.can_use_fastpath = False
        model.make_generation_fast_(need_attn=False)
        model.eval()
        return model

    @property
    def room(self) -> int:
        """Tokens of a line, or of its translation, that all models take, the end mark not
        counted: tables of positions have an end."""
        most = (model.max_positions() for model in self.models)
        return min(min(source - self.bos, target) for source, target in most) - 1

    @property
    def words(self) -> Collection[str]:
        """Subwords of the source that the model knows."""
        return self.source.indices

    @property
    def source(self) -> Dictionary:
        return self.task.source_dictionary

    @property
    def target(self) -> Dictionary:
        return self.task.target_dictionary

    def indices(self, dictionary: Dictionary, tokens: Sequence[str], bos: bool = False) -> Tensor:
        """int64 [tokens + 1], the end mark last."""
        begin = [dictionary.bos()] if bos else []
        found = [dictionary.index(token) for token in tokens]
        return torch.tensor([*begin, *found, dictionary.eos()])

    def sample(self, sources: Subwords) -> dict[str, Any]:
        """A batch as fairseq's search takes it, padded on the left."""
        rows = [self.indices(self.source, tokens, self.bos) for tokens in sources]
        tokens = collate_tokens(rows, self.source.pad(), left_pad=True).to(self.device)
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        return {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}

    def submit(self, sources: Subwords, search: Search, prefixes: Subwords = ()) -> Waiting:
        generator = SequenceGenerator(
            self.models,
            self.target,
            beam_size=search.beam,
            max_len_a=search.max_len_a,
            max_len_b=search.max_len_b,
            len_penalty=search.lenpen,
        )
        sample = self.sample(sources)
        begin = None
        if any(prefixes):
            rows = [self.indices(self.target, tokens)[:-1] for tokens in prefixes]
            begin = collate_tokens(rows, self.target.pad()).to(self.device)
        found = generator.generate(self.models, sample, prefix_tokens=begin)  # is done now
        width = sample["net_input"]["src_tokens"].size(1)
        most = min(search.most(width), generator.max_len - 1)
        padding = [width - len(tokens) - 1 for tokens in sources]  # the begin of sentence included
        best = [
            [self.hypothesis(one, most, first, search) for one in own[: search.nbest]]
            for own, first in zip(found, padding, strict=True)
        ]
        return lambda: best

    def hypothesis(
        self, found: dict[str, Any], most: int, first: int, search: Search
    ) -> Hypothesis:
        """What one of the search's results holds; ``first`` is the source's first column."""
        tokens = utils.strip_pad(found["tokens"].cpu(), self.target.pad()).tolist()
        alignment = []
        if search.details and found["attention"] is not None:
            own = found["attention"][first:-1, : len(tokens) - 1]  # [source, target], no end marks
            alignment = [(place, target) for target, place in enumerate(own.argmax(dim=0).tolist())]
        return Hypothesis(
            [self.target[token] for token in tokens[:-1]],
            float(found["score"]),
            found["positional_scores"].tolist() if search.details else [],
            alignment,
            len(tokens) > most,
        )

    def score(self, sources: Subwords, targets: Subwords) -> list[list[float]]:
        sample = self.sample(sources)
        rows = [self.indices(self.target, tokens) for tokens in targets]
        pad, eos = self.target.pad(), self.target.eos()
        sample["target"] = collate_tokens(rows, pad).to(self.device)
        previous = collate_tokens(rows, pad, eos, move_eos_to_beginning=True)
        sample["net_input"]["prev_output_tokens"] = previous.to(self.device)
        scorer = SequenceScorer(self.target)
        found = scorer.generate(self.models, sample)
        return [best[0]["positional_scores"].tolist() for best in found]
