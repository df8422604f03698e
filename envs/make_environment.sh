# Makes an environment:
#
#     sh envs/make_environment.sh .venv/training.ready envs/training.lock PREREQUISITE...
#
# installs the packages of the lock in .venv and touches .venv/training.ready. The Makefile calls this script, with the prerequisites of
# its rule. uv installs the packages; pip installs only uv, in .venv-uv.
set -eu
stamp=$1
shift
lock=$1 folder=$(dirname "$stamp")
PYTHON=${PYTHON:-python3}

stop() {
  echo "error: $*" >&2
  trap - EXIT
  exit 1
}

# If another `make` makes the same environment, wait for it. (macOS has no flock.)
exec 9>>"$lock"
! command -v flock >/dev/null || flock 9
if [ -e "$stamp" ] && [ -z "$(find "$@" -newer "$stamp")" ]; then
  exit 0
fi

command -v "$PYTHON" >/dev/null || stop "there is no program $PYTHON; name a Python 3.11, 3.12 or 3.13: make PYTHON=python3.13 ..."
"$PYTHON" -I -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
  stop "Python 3.11, 3.12 or 3.13 is needed, and $PYTHON is $("$PYTHON" --version 2>&1); name another one: make PYTHON=python3.13 ..."
"$PYTHON" -I -c 'import venv, ensurepip' 2>/dev/null ||
  stop "$PYTHON has no venv module; install it (Debian: python3-venv) and run again"

exec 8>>envs/uv.lock
! command -v flock >/dev/null || flock 8
is_new=
if ! cmp -s envs/uv.lock .venv-uv/uv.lock || ! .venv-uv/bin/python -I -c '' 2>/dev/null; then
  is_new=true
  rm -rf .venv-uv
  "$PYTHON" -I -m venv .venv-uv
fi

# Files come from where pip is told to find them, by its files or by PIP_* variables. Pip's other settings (user, target, constraint ...)
# do not count: they would install packages elsewhere, or refuse packages of a lock.
settings=$(.venv-uv/bin/python -I -m pip config list) || stop "pip cannot read its settings, for the reason above; correct them"
setting() { # The list begins with variables (:env:), which take precedence over files.
  printf '%s\n' "$settings" | sed -n "s/^[a-z:]*\.$1='\(..*\)'\$/\1/p" | head -n 1 | sed 's/\\n/ /g; s/^ *//; s/  */ /g'
}
for variable in $(env | sed -n 's/^\(PIP_[A-Z_]*\)=.*/\1/p'); do
  unset "$variable"
done
export PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1
export PIP_INDEX_URL="$(setting index-url)" PIP_EXTRA_INDEX_URL="$(setting extra-index-url)" PIP_NO_INDEX="$(setting no-index)"
export PIP_FIND_LINKS="$(setting find-links)" PIP_CERT="$(setting cert)" PIP_PROXY="$(setting proxy)"
export PIP_TRUSTED_HOST="$(setting trusted-host)" PIP_DEFAULT_TIMEOUT="$(setting default-timeout)"
export UV_DEFAULT_INDEX="${PIP_INDEX_URL:-${UV_DEFAULT_INDEX:-}}" UV_INDEX="${PIP_EXTRA_INDEX_URL:-${UV_INDEX:-}}"
export UV_FIND_LINKS="$(echo "$PIP_FIND_LINKS" | tr ' ' ,)" UV_INSECURE_HOST="$PIP_TRUSTED_HOST" UV_HTTP_TIMEOUT="${PIP_DEFAULT_TIMEOUT:-60}"
export UV_INDEX_STRATEGY=unsafe-best-match # all indexes count equally, as for pip; checksums are compared
[ -z "$PIP_CERT" ] || export SSL_CERT_FILE="$PIP_CERT"
[ -z "$PIP_PROXY" ] || export ALL_PROXY="$PIP_PROXY"

trap 'test $? = 0 || echo "error: $lock was not installed, for the reason above; files come from where pip config list says;\
 for a file that is gone or has another checksum see docs/reproduce.md#if-a-download-is-gone" >&2' EXIT
if [ "$is_new" ]; then
  .venv-uv/bin/python -I -m pip install -qq --no-deps --require-hashes -r envs/uv.lock
  cp envs/uv.lock .venv-uv/uv.lock
fi
exec 8>&-

uv() { # uv COMMAND ARGUMENT... The only source distribution (connection-pool) and this clone's package are built with build.lock.
  .venv-uv/bin/uv pip "$@" --quiet --python "$folder/bin/python" --build-constraints envs/build.lock ${PIP_NO_INDEX:+--no-index}
}
mkdir -p "$(.venv-uv/bin/uv cache dir)" 2>/dev/null || export UV_NO_CACHE=1 # for example a home folder that is read-only

echo "packages of $lock"
if [ "$lock" = envs/development.lock ]; then
  uv install --no-deps --require-hashes -r "$lock" # in addition to the packages of training.lock
else
  rm -rf "$folder"
  "$PYTHON" -I -m venv --without-pip "$folder"
  cpu= cuda=
  case " $* " in *" envs/torch-cpu.lock "*)
    if answer=$(uv install --dry-run --no-deps --require-hashes -r envs/torch-cpu.lock 2>&1); then
      cpu=envs/torch-cpu.lock
    else
      case $answer in *"No solution found"*) cuda=envs/cuda.lock ;; *) echo "$answer" >&2 && exit 1 ;; esac
    fi
    ;;
  esac
  if [ "$cpu" ]; then
    uv sync --require-hashes envs/pip.lock "$lock" "$cpu"
  else # `===`, because `torch==2.13.0` would also mean torch's builds for CPUs or of this site, such as 2.13.0+cpu
    sed 's/==/===/' envs/pip.lock "$lock" $cuda | uv sync --require-hashes -
  fi
  uv install --no-deps --editable .
  # With -I, Python does not look at PYTHONPATH and PYTHONHOME, which an environment module may have set for another Python.
  case $lock in envs/training.lock | envs/figures.lock)
    cat >"$folder/bin/snakemake" <<'END'
#!/bin/sh
exec "${0%/*}/python" -Ic "import sys, snakemake.cli; sys.argv[0] = 'snakemake'; snakemake.cli.main()" "$@"
END
    chmod 755 "$folder/bin/snakemake"
    ;;
  esac
fi
touch "$stamp"
