#!/usr/bin/env bash
# Gives the files of this checkout the times that they had when they were built last, where their content is the same.
#
# Cargo takes a file for changed when it is younger than what was built from it. In a fresh clone every file is young,
# and all is built again; a file that an older checkout brought back would be taken for unchanged. So each file's time
# is kept with the hash of its content, in the directory of what was built: same content, same time; other content,
# now. Files that git does not know, or that differ from what it knows, are left alone.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:?where cargo builds}
kept=$target/file-times/$(pwd | sha256sum | cut -c1-16)
mkdir -p "${kept%/*}"
touch "$kept"
now=$(date +%s)
changed=$(git diff --name-only HEAD --)

# Lines of what is kept, and of git ls-files --stage: HASH TIME<tab>PATH.
git ls-files --stage | awk -v now="$now" -F '\t' -v OFS='\t' '{ split($1, a, " "); print a[2] " " now, $2 }' >"$kept.now"
awk -F '\t' -v OFS='\t' '
  FILENAME == ARGV[1] { split($1, a, " "); hash[$2] = a[1]; time[$2] = a[2]; next }
  { split($1, a, " "); t = hash[$2] == a[1] ? time[$2] : a[2]; print a[1] " " t, $2 }
' "$kept" "$kept.now" >"$kept.next"
while IFS=$'\t' read -r head path; do
  # Of a file that is changed here, the hash that git knows says nothing.
  case $'\n'$changed$'\n' in *$'\n'"$path"$'\n'*) continue ;; esac
  printf '%s\t%s\n' "${head#* }" "$path"
done <"$kept.next" | sort -t "$(printf '\t')" -k1,1 | awk -F '\t' '
  # One call of touch for all files of a time.
  $1 != last { if (NR > 1) printf "\n"; printf "%s", $1; last = $1 }
  { printf "\t%s", $2 }
  END { printf "\n" }
' | while IFS=$'\t' read -r -a fields; do
  [ ${#fields[@]} -gt 1 ] && printf '%s\0' "${fields[@]:1}" | xargs -0 touch -c -d "@${fields[0]}" --
done
mv "$kept.next" "$kept"
rm -f "$kept.now"
