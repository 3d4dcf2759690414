# The three paths with the most requests; paths that are equally frequent in the order of the text.
# type: access
# bucket: 5m
# fields: path
NR == 1 { next }
{
    sub(/\?.*/, "", $1)
    count[$1]++
}
END {
    for (rank = 1; rank <= 3; rank++) {
        best = ""
        for (path in count)
            if (best == "" || count[path] > count[best] || (count[path] == count[best] && path < best))
                best = path
        if (best == "")
            exit
        print "rank=" rank, "path=\"" quoted(best) "\" requests=" count[best]
        delete count[best]
    }
}
function quoted(text) {
    gsub(/"/, "\\\"", text)
    return text
}
