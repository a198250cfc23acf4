#!/usr/bin/env bash
# Check and time the attention kernels on a CUDA machine, and write records.
#
#   scripts/device_check.sh [FOLDER]      default: $OUT, else device-check
#
# Holds the Triton kernels against the torch reference and the NumPy selector, then times every layout for a few shapes.
# Writes kernel-check.json and one file of records a shape, attention-NAME.json. With the packages at hand it takes under
# three minutes. Where they are not, it makes a virtual environment and installs CUDA's torch, triton and what kvaudit
# needs; pip's own settings (PIP_NO_INDEX, PIP_FIND_LINKS) say where from.
#
#   PYTHON   the interpreter to use or to start from; python3
#   DEVICE   cuda, or cpu: the same steps with tiny shapes under Triton's interpreter, whose times say nothing
#   VENV     where the virtual environment goes; FOLDER/.venv
#
# Exit code 0: all kernels agree and all layouts were measured; 1: not; 3: the packages or the device are missing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${1:-${OUT:-device-check}}
python=${PYTHON:-python3}
device=${DEVICE:-cuda}
venv=${VENV:-$folder/.venv}
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONUNBUFFERED=1

case $device in
cuda)
    shapes=(
        "gqa-8k --batch 8 --query-heads 32 --kv-heads 8 --head-dimension 128 --rows 8192"
        "gqa-128k --batch 1 --query-heads 32 --kv-heads 8 --head-dimension 128 --rows 131072"
        "mha-d64-4k --batch 16 --query-heads 16 --kv-heads 16 --head-dimension 64 --rows 4096"
    )
    common=(--device cuda --dtype bfloat16 --kept 1/2 --page-tokens 64 --repetitions 50 --warm-up 5)
    ;;
cpu)
    export TRITON_INTERPRET=1
    shapes=("tiny --batch 1 --query-heads 4 --kv-heads 2 --head-dimension 16 --rows 40")
    common=(--device cpu --dtype float32 --kept 1/2 --page-tokens 16 --repetitions 2 --warm-up 0 --backend triton)
    ;;
*)
    echo "DEVICE is cuda or cpu, found $device" >&2
    exit 2
    ;;
esac

mkdir -p "$folder"
if ! "$python" "$root/scripts/check_kernel.py" "$device" --can-run; then
    echo "making a virtual environment in $venv" >&2
    base=$("$python" -c 'import site; print(*site.getsitepackages(), sep="\n")')
    "$python" -m venv "$venv"
    python=$venv/bin/python
    # What the base has is seen from the new one, a CUDA torch above all, and not installed again.
    echo "$base" >"$("$python" -c 'import site; print(site.getsitepackages()[0])')/base.pth"
    # What kvaudit needs, from its own pyproject.toml; it runs from this checkout and is not installed.
    mapfile -t needed < <("$python" - "$root/pyproject.toml" <<'PYTHON'
import sys, tomllib

with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
extras = project["optional-dependencies"]
print(*project["dependencies"], *extras["measure"], *extras["kernel"], sep="\n")
PYTHON
    )
    "$python" -m pip install --quiet --disable-pip-version-check "${needed[@]}" || exit 3
    if ! "$python" "$root/scripts/check_kernel.py" "$device" --can-run; then
        echo "the packages are there, but torch finds no $device device" >&2
        exit 3
    fi
fi

SECONDS=0
status=0
"$python" "$root/scripts/check_kernel.py" "$device" --out "$folder/kernel-check.json" || status=1
echo "kernels checked after $SECONDS s"

for shape in "${shapes[@]}"; do
    read -r -a words <<<"$shape"
    records=$folder/attention-${words[0]}.json
    "$python" -m kvaudit measure attention "${words[@]:1}" "${common[@]}" --format json >"$records" || status=1
    "$python" - "$records" <<'PYTHON'
import json, sys

with open(sys.argv[1], encoding="utf-8") as file:
    records = json.load(file)
for record in records:
    metrics, name = record["metrics"], record["layout"]["name"]
    if metrics is None:
        print(f"  {name:10} not measured: {record['outcome']['message']}")
        continue
    print(
        f"  {name:10} {record['execution']['backend']:7} {metrics['step_time']['value'] * 1e6:10.1f} us"
        f"  {metrics['effective_bandwidth']['value'] / 1e9:9.3f} GB/s  {metrics['bandwidth_ratio']['value']:.3f} of a copy"
    )
PYTHON
    echo "${words[0]} after $SECONDS s"
done
exit "$status"
