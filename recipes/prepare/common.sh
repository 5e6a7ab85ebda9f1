# shellcheck shell=bash
# Sourced by the scripts beside it: steps from archives to binarized data in OUT/data-bin.
# A step whose output exists is skipped. ARCHIVES names a folder with archives that are already there.
export BPE=subword_nmt  # as the papers
source "$(dirname "${BASH_SOURCE[0]}")/../environment.sh"
[ $# = 0 ] || stop "the only option is --help"
OUT=${OUT:-data/$NAME}
export TEXT=$OUT/raw ARCHIVES=${ARCHIVES:-$OUT/archives} WORKERS=${WORKERS:-$(nproc)}
mkdir -p "$OUT/raw" "$OUT/tok" "$OUT/bpe" "$ARCHIVES"

fetch() {  # fetch URL: download to ARCHIVES, and continue a download that was cut off
    local file=$ARCHIVES/${1##*/}
    if [ -e "$file" ]; then return; fi
    echo "fetching $1"
    curl --fail --location --retry 3 --continue-at - --output "$file.part" "$1" && mv "$file.part" "$file"
}

extract_package() {  # extract_package NAME: the files of a Debian package in OUT/NAME
    compgen -G "$ARCHIVES/$1_*.deb" > /dev/null || (cd "$ARCHIVES" && apt-get download "$1")
    if [ -e "$OUT/$1" ]; then return; fi
    dpkg-deb --extract "$ARCHIVES/$1"_*.deb "$OUT/$1.part"
    mv "$OUT/$1.part" "$OUT/$1"
}

unpack() {  # unpack ARCHIVE MEMBER: print a member of a tar archive, gunzipped if it ends in .gz
    if [ "${2%.gz}" = "$2" ]; then
        tar -xOf "$ARCHIVES/$1" "$2" | repair_breaks
    else
        tar -xOf "$ARCHIVES/$1" "$2" | gunzip | repair_breaks
    fi
}

read_segments() {  # sentences of SGML or of IWSLT's XML
    sed -n 's/^ *<seg id="[0-9]*"> *\(.*[^ ]\) *<\/seg> *$/\1/p'
}

straighten() {  # straight apostrophes, as fairseq's scripts make them in test sets
    sed "s/’/'/g"
}

tokenize() {  # tokenize LANG [OPTIONS of sacremoses tokenize]
    local lang=$1; shift
    sacremoses -q -j "$WORKERS" -l "$lang" tokenize -x "$@"
}

normalize() {  # normalize LANG: punctuation and control characters, as Moses' scripts do
    sacremoses -q -j "$WORKERS" -l "$1" normalize -q -d -c
}

clean() {  # clean INPUT OUTPUT MAX RATIO: keep pairs of 1 to MAX tokens with a length ratio up to RATIO
    if [ -e "$2.$TGT" ]; then return; fi
    same_lines "$1.$SRC" "$1.$TGT"
    paste "$1.$SRC" "$1.$TGT" | awk -F '\t' -v max="$3" -v ratio="$4" -v s="$2.$SRC.part" -v t="$2.$TGT.part" '
        { n = split($1, a, " "); m = split($2, b, " ") }
        n && m && n <= max && m <= max && n <= ratio * m && m <= ratio * n { print $1 > s; print $2 > t }'
    mv "$2.$SRC.part" "$2.$SRC"
    mv "$2.$TGT.part" "$2.$TGT"
}

hold_out() {  # hold_out INPUT TRAIN VALID N: every Nth line becomes validation text
    same_lines "$1.$SRC" "$1.$TGT"
    for lang in $SRC $TGT; do
        write "$3.$lang" awk -v n="$4" 'NR % n == 0' "$1.$lang"
        write "$2.$lang" awk -v n="$4" 'NR % n' "$1.$lang"
    done
}

count() {  # count FILE [PUBLISHED]: print the number of pairs beside the published one
    same_lines "$1.$SRC" "$1.$TGT"
    echo "$1: $(wc -l < "$1.$SRC") pairs${2:+ (published: $2)}"
}
