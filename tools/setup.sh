# shellcheck shell=bash
# Shared functions of ./run, ./test and bench/run: finding interpreters, reporting missing tools, virtual environments
# and the wheel of this tree. Sourced, not run; sets `root`.
#
# Everything is created under .venv*/ and target/. Stamp files record the contents of a virtual environment. They are
# written last and removed before a change, so an interrupted set-up never counts as complete. One lock (`locked`)
# covers all set-up: the wheels of two interpreters share a target directory, and a second build would replace the
# library of the first before it is packed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }

die() {
  say "${0##*/}: $*"
  exit 1
}

# usage FILE: prints the comment at the top of a command.
usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$1"; }

# --- interpreters

# probe PYTHON: prints "KEY<tab>PATH<tab>BUILD" of a usable interpreter, where KEY is 3.X (3.Xt and 3.Xd for
# free-threaded and debug builds). Otherwise prints the reason and fails.
probe() {
  "$1" -I -c '
import importlib.util, sys, sysconfig
key = "%d.%d%s" % (sys.version_info[0], sys.version_info[1], getattr(sys, "abiflags", ""))
if sys.version_info < (3, 10) or sys.implementation.name != "cpython":
    print("%s is %s %s; CPython 3.10 or later is needed" % (sys.executable, sys.implementation.name, key))
    sys.exit(1)
if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
    print("%s has no venv module (on Debian: apt-get install python%s-venv)" % (sys.executable, key))
    sys.exit(1)
version = "%d.%d.%d" % sys.version_info[:3]
print(key, sys.executable, version + "-" + str(sysconfig.get_config_var("SOABI")), sep="\t")
' 2>/dev/null
}

# candidates: prints the paths of possible interpreters, preferred ones first.
candidates() {
  local minor
  if [[ -n ${MAINSPRING_PYTHON:-} ]]; then printf '%s\n' "$MAINSPRING_PYTHON"; fi
  type -aP python3 || true
  for minor in {20..10}; do type -aP "python3.$minor" || true; done
  for minor in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python; do
    if [[ -x $minor ]]; then printf '%s\n' "$minor"; fi
  done
}

# find_python: prints the probe of the default interpreter.
find_python() {
  local candidate found reasons=
  if [[ -n ${MAINSPRING_PYTHON:-} ]]; then
    found=$(probe "$MAINSPRING_PYTHON") || die "MAINSPRING_PYTHON: ${found:-$MAINSPRING_PYTHON does not run}"
    printf '%s\n' "$found"
    return
  fi
  while read -r candidate; do
    if found=$(probe "$candidate"); then
      printf '%s\n' "$found"
      return
    fi
    reasons+=${found:+$'\n'  $found}
  done < <(candidates)
  die "no usable Python found; CPython 3.10 or later with its venv module is needed (on Debian:" \
    "apt-get install python3 python3-venv), or set MAINSPRING_PYTHON=/path/to/python3.x$reasons"
}

# every_python: prints the probe of one interpreter for each KEY, lowest version first. Reports interpreters that only
# lack the venv module.
every_python() {
  local candidate found
  while read -r candidate; do
    if found=$(probe "$candidate"); then
      printf '%s\n' "$found"
    elif [[ $found == *"venv module"* ]]; then
      say "not used: $found"
    fi
  done < <(candidates) | sort -t $'\t' -k 1,1V -s -u
}

# --- the toolchain

# need_rust: unless a suitable Rust toolchain is installed, prints how to get one and exits.
need_rust() {
  local wanted found
  command -v cargo >/dev/null || PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
  wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml")
  command -v cargo >/dev/null ||
    die "cargo is missing: install Rust $wanted or later (rustup, from Rust's own site, or your distribution's package)"
  found=$(rustc --version 2>&1) || die "rustc does not run (with rustup: rustup default stable): $found"
  found=$(cut -d ' ' -f 2 <<<"$found")
  [[ $(printf '%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1) == "$wanted" ]] ||
    die "rustc $found is too old: $wanted or later is needed (with rustup: rustup update stable)"
  command -v cc >/dev/null || die "cc is missing: Rust links with it (on Debian: apt-get install gcc libc6-dev)"
}

# install_packages PACKAGE…: installs packages of Debian if this is possible without a prompt. Otherwise their users
# report them as missing. RUNLEVEL=1 keeps apt from starting services.
install_packages() {
  if (($# == 0 || EUID != 0)) || ! command -v apt-get >/dev/null; then return 0; fi
  say "installing $*"
  install() {
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      -o DPkg::Lock::Timeout=300 "$@" </dev/null >&2
  }
  # The package lists may be old or missing.
  install "$@" || { apt-get update -qq >&2 && install "$@"; } || say "apt-get could not install $*; continuing without"
}

# need_servers: PostgreSQL, Redis and Xvfb, which some tests start.
need_servers() {
  local lacking=()
  command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || lacking+=(postgresql)
  command -v redis-server >/dev/null || lacking+=(redis-server)
  command -v xvfb-run >/dev/null || lacking+=(xvfb xauth)
  install_packages "${lacking[@]}"
}

# need_valgrind: which counts instructions.
need_valgrind() { command -v valgrind >/dev/null || install_packages valgrind; }

# --- set-up, one at a time

# locked COMMAND…: runs COMMAND under the set-up lock of this tree. Its child processes do not inherit the lock, or a
# daemon that outlives it (a compiler cache) would hold the lock forever.
locked() {
  local lock
  command -v flock >/dev/null || die "flock is missing (on Debian: apt-get install util-linux)"
  mkdir -p "$root/.venv"
  exec {lock}>"$root/.venv/lock"
  if ! flock --nonblock "$lock"; then
    say "waiting for another set-up in this folder to finish"
    flock "$lock"
  fi
  "$@" {lock}>&-
  exec {lock}>&-
}

# stamped FILE VALUE: whether the stamp FILE contains VALUE.
stamped() { [[ -f $1 && $(<"$1") == "$2" ]]; }

# venv DIR PROBE [PIP-ARGUMENT…]: ensures a virtual environment of this interpreter with `pip install PIP-ARGUMENT…`.
# Recreates it if the interpreter changed. Requirement files are compared by content.
venv() {
  local dir=$1 probe=$2 python wanted argument
  shift 2
  python=$(cut -f 2 <<<"$probe")
  wanted="$*"
  for argument in "$@"; do
    if [[ -f $argument ]]; then wanted+=$'\n'$(<"$argument"); fi
  done
  if ! stamped "$dir/.made" "$probe" || [[ ! -x $dir/bin/python ]]; then
    say "creating ${dir#"$root"/} with $python"
    rm -rf "$dir"
    "$python" -m venv "$dir"
    printf '%s\n' "$probe" >"$dir/.made"
  fi
  if (($#)) && ! stamped "$dir/.installed" "$wanted"; then
    say "installing ${*#"$root"/} into ${dir#"$root"/}"
    rm -f "$dir/.installed"
    "$dir/bin/python" -m pip install --quiet --disable-pip-version-check "$@" ||
      die "pip could not install $*; see above"
    printf '%s\n' "$wanted" >"$dir/.installed"
  fi
}

# maturin: prints the path of the build back end, at the version in pyproject.toml. It runs on any interpreter that
# still works.
maturin() {
  local home=$root/.venv/tools probe
  if ! "$home/bin/python" -c 'import pip' 2>/dev/null || ! probe=$(<"$home/.made"); then probe=$(find_python); fi
  venv "$home" "$probe" "$(sed -n 's/^requires = \["\(maturin.*\)"\]/\1/p' "$root/pyproject.toml")"
  printf '%s\n' "$home/bin/maturin"
}

# source_hash PROBE PROFILE: prints a hash of the sources, the interpreter, the profile and the compiler flags.
source_hash() {
  {
    printf '%s\n' "$@" "${RUSTFLAGS:-}"
    cd "$root"
    find Cargo.toml Cargo.lock pyproject.toml python crates -regex 'crates/[^/]*/\(tests\|benches\|examples\)' -prune \
      -o -type f ! -name '*.pyc' ! -name '*.so' -print0 | sort -z | xargs -0 sha256sum
  } | sha256sum | cut -d ' ' -f 1
}

# install_mainspring DIR PROBE PROFILE: builds the package of this tree with cargo's PROFILE and installs it into the
# virtual environment DIR. Reuses a wheel that was built for a sibling environment.
install_mainspring() {
  local dir=$1 probe=$2 profile=$3 wanted builder other wheels=
  wanted=$(source_hash "$probe" "$profile")
  if stamped "$dir/.mainspring" "$wanted"; then return; fi
  rm -rf "$dir/.mainspring" "$dir/wheels"
  for other in "${dir%/*}"/*; do
    if [[ -d $other/wheels ]] && stamped "$other/.mainspring" "$wanted"; then wheels=$other/wheels; fi
  done
  if [[ -z $wheels ]]; then
    need_rust
    builder=$(maturin)
    wheels=$dir/wheels
    say "building mainspring for Python $(cut -f 1 <<<"$probe") (profile $profile)"
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/wheel "$builder" build --profile "$profile" \
      --manifest-path "$root/crates/mainspring-python/Cargo.toml" --interpreter "$(cut -f 2 <<<"$probe")" \
      --out "$wheels" >&2 || die "the build failed; see above"
  fi
  "$dir/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall \
    "$wheels"/*.whl
  printf '%s\n' "$wanted" >"$dir/.mainspring"
}
