#!/bin/sh
# The same bits on several instruction sets: builds logits_digest for this machine and for aarch64,
# runs it with each kernel set and on emulated processors, and compares what it prints.
# Needs (Debian): apt-get install qemu-user-static g++-aarch64-linux-gnu
# Usage: native/tools/cross_isa.sh [BUILD_FOLDER]
set -eu
native=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-build/cross-isa}
mkdir -p "$out"
seen=""
failed=0

# build NAME COMPILER: a static program, so that an emulator needs no libraries.
build() {
  cmake -S "$native" -B "$out/$1" -G Ninja -DCERNE_TOOLS=ON -DCMAKE_CXX_COMPILER="$2" \
    -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$1" > /dev/null
  cmake --build "$out/$1" --target logits_digest > /dev/null
}

# compare NAME COMMAND...: the digests must be those of the first run.
compare() {
  name=$1
  shift
  found=$("$@" 2> /dev/null) || { echo "$name: failed"; failed=1; return; }
  digests=${found#* }
  [ -n "$seen" ] || seen=$digests
  if [ "$digests" = "$seen" ]; then echo "same       $name ($found)"; else
    echo "DIFFERENT  $name ($found)"; failed=1
  fi
}

build x86_64 "${CXX:-c++}"
x86=$out/x86_64/logits_digest
compare "x86-64, scalar kernels" env CERNE_ISA=scalar "$x86"
compare "x86-64, best kernels" "$x86"
if command -v qemu-x86_64-static > /dev/null; then
  compare "x86-64 Haswell (emulated)" qemu-x86_64-static -cpu Haswell "$x86"
  compare "x86-64 Nehalem, no AVX (emulated)" qemu-x86_64-static -cpu Nehalem "$x86"
fi
if command -v aarch64-linux-gnu-g++ > /dev/null && command -v qemu-aarch64-static > /dev/null; then
  build aarch64 aarch64-linux-gnu-g++
  arm=$out/aarch64/logits_digest
  compare "aarch64 cortex-a72 (emulated)" qemu-aarch64-static -cpu cortex-a72 "$arm"
  compare "aarch64 max (emulated)" qemu-aarch64-static -cpu max "$arm"
else
  echo "skipped    aarch64: apt-get install qemu-user-static g++-aarch64-linux-gnu"
fi
exit $failed
