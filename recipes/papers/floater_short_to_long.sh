#!/usr/bin/env bash
# FLOATER, Figure 2: train on sentences under 80 tokens, test on longer ones (Liu et al. 2020, section 4.3).
source "$(dirname "${BASH_SOURCE[0]}")/floater.sh"
derive=short-to-long
decoding+=(--max-len-a 2 --max-len-b 200)  # fairseq would stop at 200 subwords
row sinpos sinpos
row abspos abspos
row relpos relpos
row floater floater from=sinpos "${fine_tuning[@]}" "${solver[@]}"
experiment "$@"
