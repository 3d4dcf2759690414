// How to send lines to this server: text to copy for each kind of sender, with the addresses on which the server listens.

/** What the texts depend on. */
export interface Receiver {
  /** The origin of the page: it reaches the server whatever proxies are between. */
  origin: string;
  /** Addresses by listener, as the status has them; null where one is off. */
  listeners: Record<string, string | null | undefined>;
  /** Over HTTP only who has a token may send. */
  needsToken: boolean;
}

export interface Way {
  id: string;
  name: string;
  title: string;
  text: string;
  /** What is to be done first, or to be known. */
  note?: string;
}

interface Address {
  host: string;
  port: string;
}

/** An address to send to: `0.0.0.0` and `[::]` mean every interface, so they are replaced with the page's host. */
export function addressOf(listener: string | null | undefined, pageHost: string): Address | null {
  if (!listener) return null;
  const colon = listener.lastIndexOf(':');
  const host = listener.slice(0, colon).replace(/^\[|\]$/g, '');
  const any = host === '0.0.0.0' || host === '::' || host === '';
  return { host: any ? pageHost : host, port: listener.slice(colon + 1) };
}

export function isLocal(host: string): boolean {
  return host === 'localhost' || host === '::1' || host === '[::1]' || host.startsWith('127.');
}

/** All ways, the simplest first. A way whose listener is off says how to switch it on. */
export function waysToSend({ origin, listeners, needsToken }: Receiver): Way[] {
  const url = new URL(origin);
  const secure = url.protocol === 'https:';
  const [host, port] = [url.hostname, url.port || (secure ? '443' : '80')];
  const udp = addressOf(listeners['syslog_udp'], host);
  const tcp = addressOf(listeners['syslog_tcp'], host);
  const fluent = addressOf(listeners['fluent'], host);
  const ways: Way[] = [];

  const bearer = needsToken ? '-H "Authorization: Bearer $LOGINSON_TOKEN" ' : '';
  ways.push({ id: 'curl', name: 'curl', title: 'JSON with curl', text: `curl ${bearer}--data-binary '{"_msg":"hello","level":"info"}' ${origin}/insert/jsonline` });

  const isDefault = origin === 'http://127.0.0.1:9514' || origin === 'http://localhost:9514';
  const server = isDefault ? '' : `--server ${origin} `;
  ways.push({
    id: 'files',
    name: 'Files',
    title: 'Files, also compressed',
    text: `loginson import ${server}${needsToken ? '--token-file FILE ' : ''}/var/log/syslog /var/log/nginx/access.log.*.gz`,
    note: 'To follow files that are written to, name them under [[files]] in the configuration: docs/sources.md.',
  });

  if (udp) ways.push({ id: 'logger', name: 'logger', title: 'One line with logger', text: `logger --server ${udp.host} --port ${udp.port} --udp "hello from $(hostname)"` });
  if (tcp) {
    ways.push({
      id: 'rsyslog',
      name: 'rsyslog',
      title: 'Everything from rsyslog: /etc/rsyslog.d/60-loginson.conf',
      text: `*.* action(type="omfwd" target="${tcp.host}" port="${tcp.port}" protocol="tcp"\n           template="RSYSLOG_SyslogProtocol23Format" TCP_Framing="octet-counted")`,
    });
  }

  const docker = fluent
    ? { text: `docker run --log-driver fluentd --log-opt fluentd-address=${fluent.host}:${fluent.port} IMAGE` }
    : tcp
      ? { text: `docker run --log-driver syslog --log-opt syslog-address=tcp://${tcp.host}:${tcp.port} \\\n           --log-opt syslog-format=rfc5424micro --log-opt tag="{{.Name}}" IMAGE` }
      : { text: `docker run --log-driver fluentd --log-opt fluentd-address=${host}:24224 IMAGE`, note: 'First let this server listen: --fluent-listen 0.0.0.0:24224' };
  ways.push({ id: 'docker', name: 'Docker', title: 'One container', ...docker });

  const http = [
    ...(needsToken ? ['      header: Authorization Bearer ${LOGINSON_TOKEN}'] : []),
    ...(secure ? ['      tls: on'] : []),
  ];
  ways.push({
    id: 'kubernetes',
    name: 'Kubernetes',
    title: 'Every container of a cluster, with Fluent Bit: values.yaml of its Helm chart',
    text: [
      'config:',
      '  outputs: |',
      '    [OUTPUT]',
      '        name              http',
      '        match             kube.*',
      `        host              ${host}`,
      `        port              ${port}`,
      '        uri               /insert/jsonline?_time_field=date&_msg_field=log&_stream_fields=kubernetes.namespace_name,kubernetes.pod_name',
      '        format            json_lines',
      '        json_date_format  iso8601',
      ...(needsToken ? ['        header            Authorization Bearer ${LOGINSON_TOKEN}'] : []),
      ...(secure ? ['        tls               on'] : []),
    ].join('\n'),
  });
  ways.push({
    id: 'fluentbit',
    name: 'Fluent Bit',
    title: 'Fluent Bit: fluent-bit.yaml',
    text: ['pipeline:', '  outputs:', '    - name: http', "      match: '*'", `      host: ${host}`, `      port: ${port}`, '      uri: /insert/jsonline?_time_field=date&_msg_field=log', '      format: json_lines', '      json_date_format: iso8601', ...http].join('\n'),
  });
  ways.push({
    id: 'vector',
    name: 'Vector',
    title: 'Vector: vector.yaml',
    text: [
      'sinks:',
      '  loginson:',
      '    type: http',
      '    inputs: ["*"]',
      `    uri: ${origin}/insert/jsonline?_time_field=timestamp&_msg_field=message`,
      '    compression: gzip',
      '    encoding: {codec: json}',
      '    framing: {method: newline_delimited}',
      ...(needsToken ? ['    auth: {strategy: bearer, token: "${LOGINSON_TOKEN}"}'] : []),
    ].join('\n'),
  });
  ways.push({
    id: 'opentelemetry',
    name: 'OpenTelemetry',
    title: 'Any OpenTelemetry SDK',
    text: [
      'OTEL_LOGS_EXPORTER=otlp',
      `OTEL_EXPORTER_OTLP_LOGS_ENDPOINT=${origin}/v1/logs`,
      'OTEL_EXPORTER_OTLP_LOGS_PROTOCOL=http/protobuf',
      ...(needsToken ? ['OTEL_EXPORTER_OTLP_LOGS_HEADERS="Authorization=Bearer%20$LOGINSON_TOKEN"'] : []),
      'OTEL_TRACES_EXPORTER=none',
    ].join('\n'),
  });
  ways.push({
    id: 'elasticsearch',
    name: 'Elasticsearch, Loki, Splunk, …',
    title: 'What sends to another system already',
    text: [
      `Elasticsearch, OpenSearch  ${origin}/elastic`,
      `Loki (Promtail, Alloy)     ${origin}/loki/api/v1/push`,
      `Splunk (HEC)               ${origin}/services/collector`,
      `Datadog                    ${origin}/api/v2/logs`,
      `GELF over HTTP             ${origin}/gelf`,
    ].join('\n'),
    note: 'Give these addresses in place of those of the other system; docs/guide.md names more.',
  });
  return ways;
}
