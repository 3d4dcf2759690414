# Lines and bytes of each class of HTTP status.
# type: access
# bucket: 10s
# fields: status bytes
NR == 1 { next }                # the names of the columns
{
    class = substr($1, 1, 1) "xx"
    lines[class]++
    bytes[class] += $2
}
END {
    for (class in lines)
        print "class=" class, "lines=" lines[class], "bytes=" bytes[class]
}
