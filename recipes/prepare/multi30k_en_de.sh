#!/usr/bin/env bash
# Multi30k, task 1: English image captions and their German translations (research use only).
#
#   [OUT=data/multi30k_en_de] [ARCHIVES=FOLDER WITH train.en.gz ...] recipes/prepare/multi30k_en_de.sh
set -euo pipefail
# shellcheck disable=SC2034
NAME=multi30k_en_de SRC=en TGT=de
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

for lang in en de; do
    for split in train val test_2016_flickr; do
        fetch "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/$split.$lang.gz"
    done
done
prepare() { gunzip -c "$ARCHIVES/$1.$2.gz" | repair_breaks | normalize "$2" | tokenize "$2" -a; }

for lang in en de; do
    write "$OUT/raw/test.$lang" gunzip -c "$ARCHIVES/test_2016_flickr.$lang.gz"
    write "$OUT/tok/train.$lang" prepare train "$lang"
    write "$OUT/tok/valid.$lang" prepare val "$lang"
    write "$OUT/tok/test.$lang" prepare test_2016_flickr "$lang"
done
count "$OUT/tok/train" 29,000
count "$OUT/tok/valid" 1,014
count "$OUT/tok/test" 1,000
learn_bpe 4000
apply_bpe train valid test
binarize test
