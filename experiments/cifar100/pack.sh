#!/bin/sh
# Packs runs so that they can travel in pieces, what matters most first: recipes, metrics,
# frontiers and logs; then the weights of finished runs; then the checkpoints of others.
#
#   experiments/cifar100/pack.sh RUNS FOLDER [BYTES]    writes FOLDER/runs.tar.gz.00, .01, …
#   cat FOLDER/runs.tar.gz.* | tar xz                   unpacks RUNS where all pieces are
#
# Pieces have 15,000,000 bytes unless BYTES says otherwise. Of the first few alone tar unpacks
# what they hold, and says that the rest is missing.
set -eu
[ $# -ge 2 ] || { echo "pack.sh: want the folder of the runs, and one for the pieces" >&2; exit 2; }
parts=$(mkdir -p "$2" && cd "$2" && pwd)
cd "$(dirname "$1")"
runs=$(basename "$1")
rm -f "$parts"/runs.tar.gz.*
list=$(mktemp)
trap 'rm -f "$list"' EXIT
{
	find "$runs" -type f ! -name 'weights.safetensors' ! -name 'checkpoint.tips' ! -name 'judged.cache' ! -name '*.frontier' ! -name '*.tmp*' | sort
	find "$runs" -name '*.frontier' | sort
	find "$runs" -name 'weights.safetensors' | sort
	find "$runs" -name 'checkpoint.tips' | sort | while read -r file; do
		[ -e "$(dirname "$file")/weights.safetensors" ] || echo "$file"
	done
} >"$list"
[ -s "$list" ] || { echo "pack.sh: nothing in $1" >&2; exit 1; }
tar cf - -T "$list" | gzip -1 | split -a 2 -d -b "${3:-15000000}" - "$parts/runs.tar.gz."
ls -l "$parts"
