"""fairseq's tokenizer ``moses`` with typographic quotes, for ``--tokenizer moses_quotes``."""

from fairseq.data.encoders import register_tokenizer
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig

from cape_fairseq.data.languages import find_code
from cape_fairseq.data.quotes import attach_quotes, mark_quotes


@register_tokenizer("moses_quotes", dataclass=MosesTokenizerConfig)
class MosesQuotesTokenizer(MosesTokenizer):
    """Moses' tokens, detokenized with typographic quotes as texts have them."""

    def decode(self, x: str) -> str:
        marked = mark_quotes(x.split(), find_code(self.cfg.target_lang))
        return attach_quotes(super().decode(" ".join(marked)))
