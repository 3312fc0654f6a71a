#!/usr/bin/env bash
# Fails if a line has more than 100 columns: of prose in Markdown, where tables, code and lines that
# contain only a link may be longer, and of scripts and YAML, where lines of one word may be longer.
# The linter checks Go. `make verify` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

files() {
	find . \( -name bin -o -name generated -o -name testdata -o -name ".?*" ! -name .golangci.yml \) \
		-prune -o "$@" -print0
}

report='length($0) > 100 {
		print FILENAME ":" FNR ": a line of " length($0) " columns; at most 100 are allowed"
		failed = 1
	}
	END { exit failed }'

files -name '*.md' | xargs -0 awk '
	FNR == 1 { fenced = 0 }
	/^ *(```|~~~)/ { fenced = !fenced; next }
	fenced || /^(    |\t| *\|)/ { next }                               # code, or a table
	/^ *([-*] )?(<?https?:[^ ]+|\[[^]]*\](: |\()[^ ]+)$/ { next }      # a link alone
	'"${report}" >&2

files \( -name '*.sh' -o -name '*.y*ml' -o -name Makefile -o -name 'Dockerfile*' \) | xargs -0 awk '
	/^[ \t]*([-#] )?[^ ]+( \\)?$/ { next }                               # one word
	'"${report}" >&2
