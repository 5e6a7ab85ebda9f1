#!/usr/bin/env bash
# WMT14 English-French as ADMIN and CAPE prepare it.
#
#   [OUT=data/wmt14_en_fr] [ARCHIVES=FOLDER] recipes/prepare/wmt14_en_fr.sh
set -euo pipefail
# shellcheck disable=SC2034
NAME=wmt14_en_fr SRC=en TGT=fr
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

fetch http://statmt.org/wmt13/training-parallel-europarl-v7.tgz
fetch http://statmt.org/wmt13/training-parallel-commoncrawl.tgz
fetch http://statmt.org/wmt13/training-parallel-un.tgz
fetch http://statmt.org/wmt14/training-parallel-nc-v9.tgz
fetch http://statmt.org/wmt10/training-giga-fren.tar
fetch http://statmt.org/wmt14/test-full.tgz

train_text() {  # train_text LANG
    unpack training-parallel-europarl-v7.tgz "training/europarl-v7.fr-en.$1" \
        && unpack training-parallel-commoncrawl.tgz "commoncrawl.fr-en.$1" \
        && unpack training-parallel-un.tgz "un/undoc.2000.fr-en.$1" \
        && unpack training-parallel-nc-v9.tgz "training/news-commentary-v9.fr-en.$1" \
        && unpack training-giga-fren.tar "giga-fren.release2.fixed.$1.gz"
}
test_text() {  # test_text LANG
    local part=src; [ "$1" = fr ] && part=ref
    unpack test-full.tgz "test-full/newstest2014-fren-$part.$1.sgm" | read_segments | straighten
}
prepare_train() { train_text "$1" | normalize "$1" | tokenize "$1" -a; }
prepare_test() { test_text "$1" | tokenize "$1" -a; }

for lang in en fr; do
    write "$OUT/raw/test.$lang" test_text "$lang"
    write "$OUT/tok/all.$lang" prepare_train "$lang"
    write "$OUT/tok/test.$lang" prepare_test "$lang"
done
count "$OUT/tok/all"
hold_out "$OUT/tok/all" "$OUT/tok/train" "$OUT/tok/valid" "${VALID_EVERY:-1333}"
learn_bpe 40000
SUFFIX=.all apply_bpe train valid
apply_bpe test
for split in train valid; do  # 1 to 250 subwords, length ratio up to 1.5
    clean "$OUT/bpe/$split.all" "$OUT/bpe/$split" 250 1.5
done
count "$OUT/bpe/train"
binarize test
