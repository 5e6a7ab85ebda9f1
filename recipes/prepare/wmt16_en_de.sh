#!/usr/bin/env bash
# WMT16 English-German as SHAPE prepares it (after Ott et al. 2018).
#
#   [OUT=data/wmt16_en_de] [ARCHIVES=FOLDER] recipes/prepare/wmt16_en_de.sh
set -euo pipefail
# shellcheck disable=SC2034
NAME=wmt16_en_de SRC=en TGT=de
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

fetch http://statmt.org/wmt13/training-parallel-europarl-v7.tgz
fetch http://statmt.org/wmt13/training-parallel-commoncrawl.tgz
fetch http://data.statmt.org/wmt16/translation-task/training-parallel-nc-v11.tgz
fetch http://data.statmt.org/wmt17/translation-task/dev.tgz
fetch http://data.statmt.org/wmt16/translation-task/test.tgz
fetch http://statmt.org/wmt14/test-full.tgz

train_text() {  # train_text LANG
    unpack training-parallel-europarl-v7.tgz "training/europarl-v7.de-en.$1" \
        && unpack training-parallel-commoncrawl.tgz "commoncrawl.de-en.$1" \
        && unpack training-parallel-nc-v11.tgz "training-parallel-nc-v11/news-commentary-v11.de-en.$1"
}
test_text() {  # test_text YEAR LANG
    local part=src; [ "$2" = de ] && part=ref
    case $1 in
        2014) unpack test-full.tgz "test-full/newstest2014-deen-$part.$2.sgm" | read_segments ;;
        2015) unpack dev.tgz "dev/newstest2015-ende-$part.$2.sgm" | read_segments ;;
        2016) unpack test.tgz "test/newstest2016-ende-$part.$2.sgm" | read_segments ;;
        *) unpack dev.tgz "dev/newstest$1.$2" ;;
    esac
}
valid_text() { for year in 2010 2011 2012 2013; do test_text $year "$1" || return 1; done; }

# Punctuation is not normalized and hyphens are not split.
prepare_train() { train_text "$1" | tokenize "$1"; }
prepare_valid() { valid_text "$1" | tokenize "$1"; }
prepare_test() { test_text "$1" "$2" | tokenize "$2"; }

YEARS="2014 2015 2016 2010 2011 2012 2013"  # test, test1, ... test6
for lang in en de; do
    write "$OUT/tok/all.$lang" prepare_train "$lang"
    write "$OUT/tok/valid.$lang" prepare_valid "$lang"
    for year in $YEARS; do
        write "$OUT/raw/$year.$lang" test_text "$year" "$lang"
        write "$OUT/tok/$year.$lang" prepare_test "$year" "$lang"
    done
done
count "$OUT/tok/all"
clean "$OUT/tok/all" "$OUT/tok/train" 80 9
count "$OUT/tok/train" "4.5 million"
learn_bpe 32000
# shellcheck disable=SC2086
apply_bpe train valid $YEARS
# shellcheck disable=SC2086
binarize $YEARS
