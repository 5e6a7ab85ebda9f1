#!/usr/bin/env bash
# IWSLT14 German-English as fairseq's example prepares it.
#
#   [OUT=data/iwslt14_de_en] [ARCHIVES=FOLDER] recipes/prepare/iwslt14_de_en.sh
set -euo pipefail
# shellcheck disable=SC2034
NAME=iwslt14_de_en SRC=de TGT=en
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

fetch http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz

train_text() {  # train_text LANG: without metadata, with titles and descriptions
    unpack de-en.tgz "de-en/train.tags.de-en.$1" \
        | grep -v -e '<url>' -e '<talkid>' -e '<keywords>' \
        | sed -e 's/<title>//' -e 's/<\/title>//' -e 's/<description>//' -e 's/<\/description>//'
}
test_text() {  # test_text LANG: five sets as one
    for set in TED.dev2010 TEDX.dev2012 TED.tst2010 TED.tst2011 TED.tst2012; do
        unpack de-en.tgz "de-en/IWSLT14.$set.de-en.$1.xml" | read_segments | straighten || return 1
    done
}
prepare_train() { train_text "$1" | tokenize "$1"; }
prepare_test() { test_text "$1" | tokenize "$1" | sed 's/./\L&/g'; }
lower() { sed 's/./\L&/g' "$1"; }

for lang in de en; do
    write "$OUT/raw/test.$lang" test_text "$lang"
    write "$OUT/tok/all.$lang" prepare_train "$lang"
    write "$OUT/tok/test.$lang" prepare_test "$lang"
done
clean "$OUT/tok/all" "$OUT/tok/clean" 175 1.5
for lang in de en; do write "$OUT/tok/lower.$lang" lower "$OUT/tok/clean.$lang"; done
hold_out "$OUT/tok/lower" "$OUT/tok/train" "$OUT/tok/valid" 23
count "$OUT/tok/train" 160,239
count "$OUT/tok/valid" 7,283
count "$OUT/tok/test" 6,750
learn_bpe 10000
apply_bpe train valid test
binarize test
