#!/usr/bin/env bash
# A real server of the S3 interface on loopback, for tests and measurements: versitygw over a local
# directory.
#
#   s3.sh install   builds it by Go
#   s3.sh start     starts it
#   s3.sh stop      ends it
#   s3.sh kill      kills it without warning
#   s3.sh wipe      ends it and deletes its data
#
# S3_PORT (19000) is its port; S3_KEY and S3_SECRET (loginson, loginson-secret) are the credentials.
# A directory below the data of the server is a bucket; S3_BUCKET (loginson) is there from the start.
. "$(dirname "$0")/common.sh"

version=v1.8.0
port=${S3_PORT:-19000}
program=$software/versitygw-$version

install() {
  [ ! -x "$program" ] || return 0
  local go
  go=$(PATH="$PATH:/usr/local/go/bin" command -v go) || fail "the command go is missing: see https://go.dev/dl"
  mkdir -p "$software/go"
  GOBIN=$software/go "$go" install "github.com/versity/versitygw/cmd/versitygw@$version" \
    >"$software/s3-install.log" 2>&1 || { tail -n 5 "$software/s3-install.log" >&2; fail "the build failed"; }
  mv "$software/go/versitygw" "$program"
}

# With extended attributes of the file system, the server writes an object and its metadata in one
# step. Without them it writes metadata into files beside the objects: a kill between both leaves
# metadata of an object that is not there, and then nothing can be written under its name.
has_attributes() {
  python3 -c 'import os, sys; os.setxattr(sys.argv[1], "user.loginson", b"tried")' "$1" 2>/dev/null
}

start() {
  ! is_up server || return 0
  need_free "$port" S3_PORT
  local place=()
  mkdir -p "$state/objects/${S3_BUCKET:-loginson}"
  if [ -d "$state/metadata" ] || ! has_attributes "$state/objects"; then
    mkdir -p "$state/metadata"
    place=(--sidecar "$state/metadata")
  fi
  ROOT_ACCESS_KEY=${S3_KEY:-loginson} ROOT_SECRET_KEY=${S3_SECRET:-loginson-secret} launch server \
    "$program" --quiet --port "$host:$port" posix "${place[@]}" "$state/objects"
  wait_until server 600 is_open "$port"
}

case ${1:-} in
  install) install ;;
  start) install; start ;;
  stop) end_all TERM ;;
  kill) end_all KILL ;;
  wipe) end_all KILL; rm -rf "$state" ;;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
