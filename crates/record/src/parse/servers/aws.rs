//! Load balancers and flow logs of AWS, as they are stored in S3.

use super::super::time::{self, Written};
use super::words::{
    ip_and_port, is_decimal, is_ip, is_number, is_number_or_nil, quoted_or_word, word,
};
use super::{Found, Name};

/// What follows the user agent in a line of an application load balancer. Further ones, which AWS
/// may add, stay in the message.
const BEHIND_AGENT: [Name; 17] = [
    Name::SslCipher,
    Name::SslProtocol,
    Name::TargetGroupArn,
    Name::TraceId,
    Name::Domain,
    Name::ChosenCertArn,
    Name::MatchedRulePriority,
    Name::RequestCreationTime,
    Name::ActionsExecuted,
    Name::RedirectUrl,
    Name::ErrorReason,
    Name::TargetPortList,
    Name::TargetStatusCodeList,
    Name::Classification,
    Name::ClassificationReason,
    Name::ConnTraceId,
    Name::Host,
];

/// `https 2026-01-31T12:00:00.250000Z app/NAME/ID 192.0.2.1:2817 10.0.0.1:80 0.000 0.001 0.000 200
/// 200 34 366 "GET http://x:80/ HTTP/1.1" "curl/8" - - …`
pub(super) fn application_balancer(message: &[u8], found: &mut Found) -> Option<()> {
    let (scheme, rest) = word(message);
    found.put(Name::Type, scheme);
    let rest = balancer(rest, found)?;
    behind_agent(rest, &BEHIND_AGENT[..16], found)
}

/// The same without the first word, of a classic load balancer.
pub(super) fn classic_balancer(message: &[u8], found: &mut Found) -> Option<()> {
    let rest = balancer(message, found)?;
    behind_agent(rest, &BEHIND_AGENT[..2], found)
}

fn balancer<'a>(text: &'a [u8], found: &mut Found) -> Option<&'a [u8]> {
    let (written, rest) = word(text);
    let (written, length) = time::iso(written).filter(|(_, length)| *length == written.len())?;
    (length >= 20).then_some(())?;
    let (elb, rest) = word(rest);
    let (client, rest) = word(rest);
    let (client_ip, client_port) = ip_and_port(client)?;
    let (target, mut rest) = word(rest);
    let target = match target {
        b"-" => None,
        _ => Some(ip_and_port(target)?),
    };
    found.written = Some(written);
    found.put(Name::Elb, elb);
    found.put(Name::ClientIp, client_ip);
    found.put(Name::ClientPort, client_port);
    if let Some((ip, port)) = target {
        found.put(Name::TargetIp, ip);
        found.put(Name::TargetPort, port);
    }
    use Name::{RequestProcessingTime, ResponseProcessingTime, TargetProcessingTime};
    for name in [RequestProcessingTime, TargetProcessingTime, ResponseProcessingTime] {
        let (value, behind) = word(rest);
        // -1: there was no answer.
        (value == b"-" || is_decimal(value.strip_prefix(b"-").unwrap_or(value))).then_some(())?;
        found.put(name, value);
        rest = behind;
    }
    let (status, rest) = word(rest);
    let (target_status, rest) = word(rest);
    let (received, rest) = word(rest);
    let (sent, rest) = word(rest);
    let all = [status, target_status, received, sent];
    all.iter().all(|value| is_number_or_nil(value)).then_some(())?;
    if status != b"-" {
        found.put_status(status);
    }
    found.put(Name::TargetStatusCode, target_status);
    found.put(Name::ReceivedBytes, received);
    found.put(Name::Bytes, sent);
    rest.starts_with(b"\"").then_some(())?;
    let (request, rest) = quoted_or_word(rest)?;
    found.put_request(request);
    Some(rest)
}

fn behind_agent(text: &[u8], names: &[Name], found: &mut Found) -> Option<()> {
    let (user_agent, mut rest) = quoted_or_word(text)?;
    found.put(Name::UserAgent, user_agent);
    for name in names {
        if rest.is_empty() {
            break;
        }
        let (value, behind) = quoted_or_word(rest)?;
        found.put(*name, value);
        rest = behind;
    }
    Some(())
}

/// The default format of flow logs, of version 2: `2 123456789012 eni-1 192.0.2.1 192.0.2.2 1234 80
/// 6 20 4249 1769860800 1769860860 ACCEPT OK`
pub(super) fn flow(message: &[u8], found: &mut Found) -> Option<()> {
    const NAMES: [Name; 14] = [
        Name::Version,
        Name::AccountId,
        Name::InterfaceId,
        Name::Srcaddr,
        Name::Dstaddr,
        Name::Srcport,
        Name::Dstport,
        Name::Protocol,
        Name::Packets,
        Name::Bytes,
        Name::Start,
        Name::End,
        Name::Action,
        Name::LogStatus,
    ];
    let mut values = [&b""[..]; NAMES.len()];
    let mut rest = message;
    for value in &mut values {
        (*value, rest) = word(rest);
        (!value.is_empty()).then_some(())?;
    }
    let numbers = values[5..10].iter().all(|value| is_number_or_nil(value));
    let addresses = values[3..5].iter().all(|value| *value == b"-" || is_ip(value));
    let status = matches!(values[13], b"OK" | b"NODATA" | b"SKIPDATA");
    let action = matches!(values[12], b"ACCEPT" | b"REJECT" | b"-");
    let is_it = rest.is_empty() && numbers && addresses && status && action;
    (is_it && is_number(values[10]) && is_number(values[11])).then_some(())?;
    let (local_s, nanos) = time::since_1970(values[10])?;
    found.written = Some(Written::of_utc(local_s, nanos));
    for (name, value) in NAMES.iter().zip(values) {
        found.put(*name, value);
    }
    Some(())
}
