# Prints each word of its input once, with how often it comes.
# uniq indents its numbers: awk prints them as they are.
sh words.sh | sort | uniq -c | awk '{ print $1, $2 }'
