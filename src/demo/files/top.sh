# Prints the N (10) most frequent words of its input, the most frequent first.
sh count.sh | sort -k1,1nr -k2,2 | head -n "${1:-10}"
