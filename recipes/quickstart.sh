#!/usr/bin/env bash
# Train, translate and score three small models on a made-up corpus, in minutes on a CPU.
#
#   bash recipes/quickstart.sh [--out DIR]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
recipe quick-start "$@"
