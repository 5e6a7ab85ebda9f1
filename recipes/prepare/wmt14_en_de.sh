#!/usr/bin/env bash
# WMT14 English-German as ADMIN and CAPE prepare it; with VARIANT=icml17 as fairseq and FLOATER do.
#
#   [OUT=data/wmt14_en_de_admin] [ARCHIVES=FOLDER] [VARIANT=icml17] recipes/prepare/wmt14_en_de.sh
set -euo pipefail
VARIANT=${VARIANT:-admin}
# shellcheck disable=SC2034
NAME=wmt14_en_de_$VARIANT SRC=en TGT=de
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

fetch http://statmt.org/wmt13/training-parallel-europarl-v7.tgz
fetch http://statmt.org/wmt13/training-parallel-commoncrawl.tgz
case $VARIANT in
    icml17) NEWS=v9; fetch http://statmt.org/wmt14/training-parallel-nc-v9.tgz ;;
    *) NEWS=v12; fetch http://data.statmt.org/wmt17/translation-task/training-parallel-nc-v12.tgz ;;
esac
fetch http://data.statmt.org/wmt17/translation-task/dev.tgz
fetch http://statmt.org/wmt14/test-full.tgz

train_text() {  # train_text LANG
    unpack training-parallel-europarl-v7.tgz "training/europarl-v7.de-en.$1" \
        && unpack training-parallel-commoncrawl.tgz "commoncrawl.de-en.$1" \
        && unpack training-parallel-nc-$NEWS.tgz "training/news-commentary-$NEWS.de-en.$1"
}
test_text() {  # test_text LANG
    local part=src; [ "$1" = de ] && part=ref
    unpack test-full.tgz "test-full/newstest2014-deen-$part.$1.sgm" | read_segments | straighten
}
prepare_train() { train_text "$1" | normalize "$1" | tokenize "$1" -a; }
prepare_test() { test_text "$1" | tokenize "$1" -a; }
prepare_valid() { unpack dev.tgz "dev/newstest2013.$1" | normalize "$1" | tokenize "$1" -a; }

for lang in en de; do
    write "$OUT/raw/test.$lang" test_text "$lang"
    write "$OUT/tok/all.$lang" prepare_train "$lang"
    write "$OUT/tok/test.$lang" prepare_test "$lang"
done
count "$OUT/tok/all"

if [ "$VARIANT" = icml17 ]; then  # limits in subwords, 40,000 merges, every 100th pair for validation
    hold_out "$OUT/tok/all" "$OUT/tok/train" "$OUT/tok/valid" 100
    learn_bpe 40000
    SUFFIX=.all apply_bpe train valid
    for split in train valid; do
        clean "$OUT/bpe/$split.all" "$OUT/bpe/$split" 250 1.5
    done
else  # 1 to 80 words, 32,764 merges; ADMIN's script normalizes newstest2013
    clean "$OUT/tok/all" "$OUT/tok/train" 80 9
    for lang in en de; do write "$OUT/tok/valid.$lang" prepare_valid "$lang"; done
    learn_bpe 32764
    apply_bpe train valid
fi
count "$OUT/bpe/train"
apply_bpe test
binarize test
