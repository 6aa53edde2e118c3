#!/usr/bin/env bash
# One call of GMP-ECM: Pollard's P-1 method, from the bound that was reached to the next one.
# It ends with 75 ("call me again") until the bound of this epoch is reached.
set -euo pipefail
cd "$JOBRUN_STATE_DIR"

reached=$(grep -o 'B1=[0-9]*' residue 2>/dev/null | cut -d= -f2 || true)
bound=$((${reached:-0} + JOBRUN_STEP))
begin=(-pm1 -x0 3)
[ ! -f residue ] || begin=(-resume residue)
rm -f next

# The exit code of ecm is 1 for an error; 2 and more, in bits, tell what was found.
code=0
ecm "${begin[@]}" -save next "$bound" <<<"$JOBRUN_NUMBER" >said || code=$?
if [ "$code" = 1 ] || [ "$code" -ge 128 ]; then
  cat said
  exit 1
fi
sed -n 's/^Found.* factor of \([0-9]*\) digits: \([0-9]*\)$/\1,\2/p' said | tee -a factors
# Who saved it and when is not part of what was computed.
sed 's/ WHO=.*//' next >residue
rm -f next said

largest=$(sort -n factors | tail -n 1 | cut -d, -f1)
printf 'bound,found,digits\n%d,%d,%d\n' "$bound" "$(wc -l <factors)" "${largest:-0}" \
  >"$JOBRUN_RUN_PATH/progress.csv"
[ "$bound" -ge $((JOBRUN_EPOCH * JOBRUN_CALLS * JOBRUN_STEP)) ] || exit 75
