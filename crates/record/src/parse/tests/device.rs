//! Messages that devices send as syslog.

use super::*;

#[test]
fn cisco() {
    let common = [
        "_remote_ip=10.0.0.7",
        "format=rfc3164",
        "_type=syslog",
        "facility=23",
        "facility_keyword=local7",
        "priority=189",
        "severity=5",
        "level=notice",
        "_level=notice",
    ];
    check(
        &syslog_udp(),
        &common,
        &[
            (
                "<189>1234: *Mar  1 18:46:11.123: %SYS-5-CONFIG_I: Configured from console by vty2 (10.34.195.36)",
                "_msg=%SYS-5-CONFIG_I: Configured from console by vty2 (10.34.195.36)|_note=the sender's clock is not set, arrival taken|app_name=SYS|msg_id=CONFIG_I|sequence=1234",
            ),
            (
                "<189>1234: *Nov 21 11:58:00.123: %SYS-5-CONFIG_I: x",
                "_msg=%SYS-5-CONFIG_I: x|app_name=SYS|msg_id=CONFIG_I|sequence=1234|@2026-11-21T11:58:00.123Z",
            ),
            (
                "<189>router1: 000123: Jan 31 12:00:00.123 UTC: %LINK-3-UPDOWN: Interface GigabitEthernet0/1, changed state to up",
                "_level=error|_msg=%LINK-3-UPDOWN: Interface GigabitEthernet0/1, changed state to up|app_name=LINK|hostname=router1|msg_id=UPDOWN|sequence=000123|@2026-01-31T12:00:00.123Z",
            ),
            (
                "<189>29: Nov 21 12:00:00.5 CET: %SEC_LOGIN-5-LOGIN_SUCCESS: x",
                "_msg=%SEC_LOGIN-5-LOGIN_SUCCESS: x|app_name=SEC_LOGIN|msg_id=LOGIN_SUCCESS|sequence=29|@2026-11-21T11:00:00.5Z",
            ),
            (
                "<189>45: 1w2d: %SYS-5-CONFIG_I: x",
                "_msg=%SYS-5-CONFIG_I: x|app_name=SYS|msg_id=CONFIG_I|sequence=45",
            ),
            (
                "<189>45: 00:00:46: %LINEPROTO-5-UPDOWN: x",
                "_msg=%LINEPROTO-5-UPDOWN: x|app_name=LINEPROTO|msg_id=UPDOWN|sequence=45",
            ),
            ("<189>%SYS-5-RESTART: x", "_msg=%SYS-5-RESTART: x|app_name=SYS|msg_id=RESTART"),
            // Nexus: the year first, no host.
            (
                "<189>: 2026 Nov 21 12:00:00 UTC: %ETHPORT-5-IF_UP: x",
                "_msg=%ETHPORT-5-IF_UP: x|app_name=ETHPORT|msg_id=IF_UP",
            ),
            // ASA with year, with and without host.
            (
                "<189>Jan 31 2026 12:00:00 asa1 : %ASA-6-302013: Built outbound TCP connection",
                "_level=info|_msg=%ASA-6-302013: Built outbound TCP connection|app_name=ASA|hostname=asa1|msg_id=302013|@2026-01-31T12:00:00Z",
            ),
            (
                "<189>Jan 31 2026 12:00:00: %ASA-session-6-302013: x",
                "_level=info|_msg=%ASA-session-6-302013: x|app_name=ASA-session|msg_id=302013|@2026-01-31T12:00:00Z",
            ),
            (
                "<189>Jan 31 2026 12:00:00 asa1 %ASA-6-302013: x",
                "_level=info|_msg=%ASA-6-302013: x|app_name=ASA|hostname=asa1|msg_id=302013|@2026-01-31T12:00:00Z",
            ),
            // A percent sign alone is not a mnemonic.
            ("<189>Nov 21 12:00:00 h %CPU high", "_msg=%CPU high|hostname=h"),
            ("<189>Nov 21 12:00:00 h %-5-: x", "_msg=%-5-: x|hostname=h"),
        ],
    );
}

#[test]
fn without_priority_the_mnemonic_gives_the_level() {
    check(
        &syslog_udp(),
        &["_remote_ip=10.0.0.7"],
        &[(
            "Jan 31 2026 12:00:00 asa1 : %ASA-3-106014: Deny inbound icmp",
            "_msg=%ASA-3-106014: Deny inbound icmp|app_name=ASA|format=rfc3164|hostname=asa1|level=error|_level=error|msg_id=106014|severity=3|_type=syslog|@2026-01-31T12:00:00Z",
        )],
    );
}

#[test]
fn others() {
    let common = [
        "_remote_ip=10.0.0.7",
        "_type=syslog",
        "facility=16",
        "facility_keyword=local0",
        "priority=134",
        "severity=6",
        "level=info",
        "_level=info",
    ];
    check(
        &syslog_udp(),
        &common,
        &[
            // FortiGate: no header at all, but pairs, which name the host.
            (
                "<134>date=2026-11-21 time=12:00:00 devname=\"FGT\" level=\"notice\"",
                "_level=notice|_msg=date=2026-11-21 time=12:00:00 devname=\"FGT\" level=\"notice\"|_type=logfmt|date=2026-11-21|devname=FGT|format=rfc3164|hostname=FGT|level=notice|time=12:00:00",
            ),
            // Junos, structured: RFC 5424 with a long element.
            (
                "<134>1 2026-11-21T12:00:00.000Z srx1 RT_FLOW - RT_FLOW_SESSION_CLOSE [junos@2636.1.1.1.2.129 reason=\"TCP FIN\" policy-name=\"a b\"]",
                "_msg=|app_name=RT_FLOW|format=rfc5424|hostname=srx1|junos@2636.1.1.1.2.129.policy-name=a b|junos@2636.1.1.1.2.129.reason=TCP FIN|msg_id=RT_FLOW_SESSION_CLOSE",
            ),
            // ESXi: ISO time in the old format.
            (
                "<134>2026-11-21T12:00:00.000Z esx1.example.com Hostd: info hostd[2099] x",
                "_msg=info hostd[2099] x|app_name=Hostd|format=rfc3164|hostname=esx1.example.com",
            ),
            // UniFi: model, address and version in place of the host.
            (
                "<134>Nov 21 12:00:00 US-8,18e829aabbcc,5.43: switch: x",
                "_msg=x|app_name=switch|format=rfc3164|hostname=US-8",
            ),
            // MikroTik: topics for a tag.
            (
                "<134>Nov 21 12:00:00 MikroTik system,info,account user admin logged in",
                "_msg=system,info,account user admin logged in|format=rfc3164|hostname=MikroTik",
            ),
            // A year behind the time, as some Junos have it.
            (
                "<134>Jan 31 12:00:00 2026 srx1 mgd[4321]: x",
                "_msg=x|app_name=mgd|format=rfc3164|hostname=srx1|proc_id=4321|@2026-01-31T12:00:00Z",
            ),
            (
                "<134>Nov 21 12:00:00.250 h a: x",
                "_msg=x|app_name=a|format=rfc3164|hostname=h|@2026-11-21T12:00:00.25Z",
            ),
        ],
    );
}
