# Logins by SSH: accepted and refused ones of each user, and from how many addresses.
# type: syslog
# filter: app_name:sshd
# bucket: 1m
function word_behind(name,    i) {
    for (i = 1; i < NF; i++)
        if ($i == name)
            return $(i + 1)
    return ""
}
/ (Accepted|Failed) [a-z]+ for / {
    user = word_behind("for")
    if (user == "invalid")
        user = word_behind("user")
    address = word_behind("from")
    users[user]
    if (/ Accepted /)
        accepted[user]++
    else
        failed[user]++
    if (!((user, address) in seen)) {
        seen[user, address]
        addresses[user]++
    }
}
END {
    for (user in users)
        printf "{\"user\":\"%s\",\"accepted\":%d,\"failed\":%d,\"addresses\":%d}\n",
            escape(user), accepted[user], failed[user], addresses[user]
}
function escape(text) {
    gsub(/[\\"]/, "\\\\&", text)
    return text
}
