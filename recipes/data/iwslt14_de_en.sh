#!/usr/bin/env bash
# Fetch and prepare the corpus iwslt14_de_en: bash recipes/data/iwslt14_de_en.sh --out DIR [--archives DIR] [--workers N] [--limit N]
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
case " $* " in *" -h "*|*" --help "*) usage; exit ;; esac
install_if_needed
exec cape-fairseq prepare-corpus iwslt14_de_en "$@"
