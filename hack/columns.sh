#!/usr/bin/env bash
# Fails if a line of prose in a Markdown file has more than 100 columns. Tables, code and lines that
# contain only a link may be longer. `make verify` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

find . \( -name bin -o -name '.?*' \) -prune -o -name '*.md' -print0 | xargs -0 awk '
	FNR == 1 { fenced = 0 }
	/^ *(```|~~~)/ { fenced = !fenced; next }
	fenced || /^(    |\t| *\|)/ { next }                               # code, or a table
	/^ *([-*] )?(<?https?:[^ ]+|\[[^]]*\](: |\()[^ ]+)$/ { next }      # a link alone
	length($0) > 100 {
		print FILENAME ":" FNR ": prose with " length($0) " columns; at most 100 are allowed"
		failed = 1
	}
	END { exit failed }' >&2
