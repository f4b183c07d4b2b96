# Prints the words of its input, one a line, in lower case.
tr -cs '[:alpha:]' '\n' | tr '[:upper:]' '[:lower:]' | sed '/^$/d'
