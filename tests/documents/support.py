"""Documents of random tokens, and models that know them."""

import torch
from torch.nn.utils.rnn import pad_sequence

from tests.support import EOS, PAD, SYSTEMS, WORDS, build

SEP = 0
# Encodings that documents allow.
NAMES = [name for name in SYSTEMS if "randpos" not in name and "mean" not in name]
WINDOW_NAMES = [name for name in NAMES if name != "fire"]  # which see earlier sentences


def make_documents(seed=1):
    """Two documents of three and of two sentence pairs, int lists without EOS."""
    generator = torch.Generator().manual_seed(seed)
    lengths = [[(5, 4), (3, 6), (7, 5)], [(4, 3), (6, 8)]]

    def make_sentence(length):
        return torch.randint(4, WORDS, (length,), generator=generator).tolist()

    return [[tuple(map(make_sentence, pair)) for pair in document] for document in lengths]


def join(sentences):
    """Sentences with separators between them and EOS."""
    return [token for s in sentences[:-1] for token in (*s, SEP)] + [*sentences[-1], EOS]


def pad(rows, left=False):
    """Pad lists of tokens to a batch."""
    rows = [torch.tensor(row) for row in rows]
    if left:
        return pad_sequence([row.flip(0) for row in rows], True, PAD).flip(1)
    return pad_sequence(rows, True, PAD)


def build_document_model(name, context, cross=0, target=None, **options):
    """A model with windows of ``context`` sentences."""
    return build(
        name,
        sentence_context=context,
        target_context=target,
        sentence_cross_context=cross,
        **options,
    )


def make_inputs(documents, left=False):
    """Source, decoder input and labels of a batch of documents."""
    source = pad([join([s for s, _ in d]) for d in documents], left)
    target = [join([t for _, t in d]) for d in documents]
    return source, pad([[EOS, *row[:-1]] for row in target], left), target


def compute_scores(model, source, previous):
    """Log-probabilities of a batch."""
    with torch.no_grad():
        return model.get_normalized_probs(model(source, None, previous), log_probs=True)
