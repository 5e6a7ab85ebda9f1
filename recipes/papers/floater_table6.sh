#!/usr/bin/env bash
# FLOATER, Table 6: other dynamics, WMT14 en-de, base size (Liu et al. 2020).
source "$(dirname "${BASH_SOURCE[0]}")/floater.sh"
row sinpos sinpos
row ode floater from=sinpos "${fine_tuning[@]}" "${solver[@]}"
for dynamics in rnn-scalar rnn2-scalar rnn-vector; do
    row "$dynamics" floater from=sinpos "${fine_tuning[@]}" --floater-dynamics "$dynamics"
done
experiment "$@"
