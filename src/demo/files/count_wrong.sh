# Prints each word of its input once, with how often it comes.
sh words.sh | sort | uniq -c
