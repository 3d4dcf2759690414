#!/bin/sh
# Makes the trials of one store of a published run again, and what the documents say of it:
# lab-again.sh STUDY STORE, as "lab-again.sh collectors kafka". The run is resumed where an earlier
# call was stopped. Needs the lab in $LAB and a machine that nothing else uses.
set -eu
cd "$(dirname "$0")/.."
study=${1:?lab-again.sh STUDY STORE} store=${2:?lab-again.sh STUDY STORE}
published=docs/lab/$study-small run=lab-results/$study-small-$store
if [ ! -d "$run/replaced-$store" ]; then
    mkdir -p "$run"
    cp "$published/run.json" "$published/trials.jsonl.zst" "$run/"
    "$LAB" resume "$run" --again "$store"
else
    "$LAB" resume "$run"
fi
"$LAB" report "$run" --pack
cp "$run/run.json" "$run/trials.jsonl.zst" "$published/"
make lab-documents
echo "$published and the tables of docs/lab.md and README.md are new; sentences and bold letters are yours"
