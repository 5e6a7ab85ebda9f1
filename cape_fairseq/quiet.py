"""Import this first in a script whose output is for people: fairseq logs at every import, and makes others do so."""

import logging

logging.disable(logging.WARNING)
