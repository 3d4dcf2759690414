# Errors of each host, and the application that has most of them.
# filter: _level:in(error,critical,alert,emerg)
# bucket: 10s
# fields: hostname app_name
# timeout: 10s
NR == 1 { next }
{
    errors[$1]++
    count = ++pairs[$1, $2]
    if (count > most[$1]) {
        most[$1] = count
        worst[$1] = $2
    }
}
END {
    for (host in errors)
        print "hostname=\"" host "\" errors=" errors[host], "worst_app=\"" worst[host] "\" worst_errors=" most[host]
}
