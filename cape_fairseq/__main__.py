"""``python -m cape_fairseq TOOL ...``, the same as ``cape-fairseq TOOL ...``."""

import sys

from cape_fairseq.cli import main

sys.exit(main())
