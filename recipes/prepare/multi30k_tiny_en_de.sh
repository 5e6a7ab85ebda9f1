#!/usr/bin/env bash
# Multi30k, English-German, as Wu et al. 2021 trained their Transformer-Tiny on it: lower case, normalized
# punctuation, Moses tokens without hyphen splitting, 10,000 joint merges (research use only). The authors'
# segmented files differ in one line, in the quotation marks of a sentence in train.de. The test sets of 2017 are
# fetched where there is a connection; run it again once there is one.
#
#   [OUT=data/multi30k_tiny_en_de] [ARCHIVES=FOLDER WITH train.en.gz ...] recipes/prepare/multi30k_tiny_en_de.sh
set -euo pipefail
# shellcheck disable=SC2034
NAME=multi30k_tiny_en_de SRC=en TGT=de
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

URL=https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw
for lang in en de; do
    for split in train val test_2016_flickr; do fetch "$URL/$split.$lang.gz"; done
done
TESTS=test_2016_flickr
for split in test_2017_flickr test_2017_mscoco; do
    # fairseq numbers test sets in order: test1 is that of 2017, test2 MSCOCO.
    if [ ! -e "$ARCHIVES/$split.en.gz" ] && ! curl --head --silent --fail --location --max-time 5 "$URL/$split.en.gz" > /dev/null; then
        echo "$split is not there, and there is no connection to fetch it"
        break
    fi
    for lang in en de; do fetch "$URL/$split.$lang.gz"; done
    TESTS="$TESTS $split"
done

lower() { sed 's/./\L&/g'; }
prepare() { gunzip -c "$ARCHIVES/$1.$2.gz" | repair_breaks | lower | normalize "$2" | tokenize "$2"; }

for lang in en de; do
    write "$OUT/tok/train.$lang" prepare train "$lang"
    write "$OUT/tok/valid.$lang" prepare val "$lang"
    for split in $TESTS; do
        write "$OUT/raw/$split.$lang" gunzip -c "$ARCHIVES/$split.$lang.gz"
        write "$OUT/tok/$split.$lang" prepare "$split" "$lang"
    done
done
count "$OUT/tok/train" 29,000
count "$OUT/tok/valid" 1,014
count "$OUT/tok/test_2016_flickr" 1,000
learn_bpe 10000
# shellcheck disable=SC2086
apply_bpe train valid $TESTS
# shellcheck disable=SC2086
binarize $TESTS
