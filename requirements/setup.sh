#!/bin/sh
# Makes the virtual environment named by the first argument and installs the pinned requirements into it.
# What the system lacks is installed with apt by root; for anyone else one line says what is missing.
set -eu
venv=$1
python=${PYTHON:-python3}

need() { # need <what for people> <Debian packages>
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "set-up: installing $2"
        apt-get update -qq >/dev/null
        # shellcheck disable=SC2086
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $2 >/dev/null
    else
        echo "set-up: $1 is missing (on Debian: apt-get install $2)" >&2
        exit 1
    fi
}

command -v "$python" >/dev/null || need "Python 3.11 or newer" "python3 python3-venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "set-up: Python 3.11 or newer is needed, $python is $("$python" -V); try make PYTHON=python3.12" >&2
    exit 1
}
"$python" -c 'import ensurepip, venv' 2>/dev/null || need "Python's venv" python3-venv

echo "set-up: $venv (once)"
"$python" -m venv --clear "$venv"
"$venv/bin/pip" install --quiet --require-hashes -r requirements/dev.txt
"$venv/bin/pip" install --quiet --no-deps --no-build-isolation --no-index -e .
