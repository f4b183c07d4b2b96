# Checks each script that is there. ralph runs this before it believes that a task is done.
text='The cat saw the dog. The end!'
code=0

check() { # SCRIPT EXPECTED ACTUAL
    [ "$2" = "$3" ] && echo "$1: ok" && return
    echo "$1: expected '$2', got '$3'"
    code=1
}

if [ -f words.sh ]; then
    check words.sh 'the cat saw the dog the end' "$(echo "$text" | sh words.sh | xargs)"
fi
if [ -f count.sh ]; then
    check count.sh '1 cat,1 dog,1 end,1 saw,3 the,' "$(echo "$text" | sh count.sh | tr '\n' ',')"
fi
if [ -f top.sh ]; then
    check top.sh '3 the,1 cat,' "$(echo "$text" | sh top.sh 2 | tr '\n' ',')"
fi
exit $code
