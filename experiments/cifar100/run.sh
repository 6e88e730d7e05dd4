#!/bin/sh
# Trains and then searches a list of runs, for as long as it may. Called again, it goes on
# where it was: runs from their checkpoints, searches from what they have judged.
#
#   experiments/cifar100/run.sh JOBS
#
# JOBS is a file with a run a line, done in this order (# begins a comment):
#
#   RECIPE METHOD SEED EPOCHS [KEY=VALUE ...]
#
# A run's folder is RUNS/RECIPE-METHOD-SEED-EPOCHS, with further keys and values at the end
# (method.factor=1: -factor-1); its log is beside it. What it is told by variables:
#
#   TIPS     the program (tips)                    RUNS  folder of the runs (runs)
#   DATA     the data, as --data takes it ("": what the recipes say)
#   LIMIT    seconds that it may take (0: any)     GRACE of which are for saving (45)
#   AT_ONCE  runs at a time (1)                    SEARCH_ONLY  set: train nothing
#   DEVICE   what computes, as --device takes it ("": the processor)
#   EVALUATIONS  subnetworks that a search judges (300)
#   TRAIN    further flags of tips train; the same each time, or it refuses to go on
#            (--set evaluate.every=5 --set checkpoint.epochs=10 --set metrics.every=50)
#
# Exit status: 0 all runs are trained and searched; 75 some are left, call it again; 1 a run
# failed, as its log says, and the others went on; 2 wrong usage.
set -u

TIPS=${TIPS-tips} RUNS=${RUNS-runs} DATA=${DATA-} LIMIT=${LIMIT-0} GRACE=${GRACE-45}
AT_ONCE=${AT_ONCE-1} DEVICE=${DEVICE-} EVALUATIONS=${EVALUATIONS-300} SEARCH_ONLY=${SEARCH_ONLY-}
TRAIN=${TRAIN---set evaluate.every=5 --set checkpoint.epochs=10 --set metrics.every=50}

usage() { echo "run.sh: $*" >&2; exit 2; }
[ $# -eq 1 ] || usage "want the file of jobs, and nothing else"
[ -r "$1" ] || usage "$1 cannot be read; want a file of jobs"
for number in "$LIMIT" "$GRACE" "$AT_ONCE" "$EVALUATIONS"; do
	case $number in '' | *[!0-9]*) usage "'$number' is not a number (LIMIT, GRACE, AT_ONCE, EVALUATIONS)" ;; esac
done
[ "$AT_ONCE" -ge 1 ] || usage "AT_ONCE is $AT_ONCE; want 1 or more"
command -v "$TIPS" >/dev/null || usage "TIPS is $TIPS, which is no program"
mkdir -p "$RUNS" || exit 1

deadline=0
[ "$LIMIT" -eq 0 ] || deadline=$(($(date +%s) + LIMIT - GRACE))
state=$(mktemp -d) || exit 1
trap 'rm -rf "$state"' EXIT
say() { echo "$(date +%H:%M:%S) $*" >&2; }

# limited runs a command until it ends or time is up: 0 done, 75 stopped and saved, else it failed.
# It asks it to stop with the signal TERM; INT is ignored by what runs in the background.
limited() {
	if [ "$deadline" -eq 0 ]; then
		"$@"
	else
		left=$((deadline - $(date +%s)))
		[ "$left" -gt 0 ] || return 75
		timeout -s TERM -k "$GRACE" "$left" "$@"
	fi
	status=$?
	case $status in
	124 | 130 | 143) return 75 ;;
	137) # killed: by us when time was up, or for want of memory
		[ "$deadline" -eq 0 ] || [ "$(date +%s)" -lt "$deadline" ] || return 75
		;;
	esac
	return $status
}

# job does one line: name, then recipe, method, seed, epochs, changes.
job() {
	name=$1 recipe=$2 method=$3 seed=$4 epochs=$5
	shift 5
	dir=$RUNS/$name log=$RUNS/$name.log
	if [ ! -e "$dir/weights.safetensors" ]; then
		if [ -n "$SEARCH_ONLY" ]; then
			: >"$state/left"
			return 0
		fi
		say "$name: training"
		# shellcheck disable=SC2086 # TRAIN is several flags
		limited "$TIPS" train "$recipe" --out "$dir" --method "$method" --seed "$seed" --epochs "$epochs" $TRAIN "$@" \
			${DEVICE:+--device "$DEVICE"} ${DATA:+--data "$DATA"} >>"$log" 2>&1 || return
	fi
	if [ ! -e "$dir/searched" ]; then
		say "$name: searching"
		limited "$TIPS" search "$dir" --evaluations "$EVALUATIONS" --cache none \
			${DEVICE:+--device "$DEVICE"} ${DATA:+--data "$DATA"} >>"$log" 2>&1 || return
		: >"$dir/searched"
	fi
}

# worker takes jobs that no other worker has taken.
worker() {
	number=0
	while read -r recipe method seed epochs changes; do
		case $recipe in '' | '#'*) continue ;; esac
		number=$((number + 1))
		mkdir "$state/$number" 2>/dev/null || continue
		changes=${changes%%#*}
		name=$(basename "$recipe" .yaml)-$method-$seed-$epochs
		set --
		for change in $changes; do
			name=$name-$(echo "$change" | sed 's/^[^=]*\.//; s/=/-/; s/[^A-Za-z0-9._-]/_/g')
			set -- "$@" --set "$change"
		done
		job "$name" "$recipe" "$method" "$seed" "$epochs" "$@" </dev/null
		status=$?
		case $status in
		0) ;;
		75)
			say "$name: time is up"
			: >"$state/left"
			break
			;;
		*)
			say "$name: failed with status $status; $RUNS/$name.log ends"
			tail -n 3 "$RUNS/$name.log" >&2
			: >"$state/failed"
			;;
		esac
	done
}

jobs=$1
while read -r recipe method seed epochs changes; do
	case $recipe in '' | '#'*) continue ;; esac
	case $seed$epochs in '' | *[!0-9]*) usage "$jobs: '$recipe $method $seed $epochs $changes'; want RECIPE METHOD SEED EPOCHS [KEY=VALUE ...]" ;; esac
	[ -n "$epochs" ] || usage "$jobs: '$recipe $method $seed'; want RECIPE METHOD SEED EPOCHS [KEY=VALUE ...]"
done <"$jobs"
n=0
while [ "$n" -lt "$AT_ONCE" ]; do
	worker <"$jobs" &
	n=$((n + 1))
done
wait
[ ! -e "$state/failed" ] || exit 1
[ ! -e "$state/left" ] || exit 75
