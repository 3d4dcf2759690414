import { expect, test } from 'vitest';
import { addressOf, waysToSend } from '../../src/lib/base/senders';

const textOf = (ways: ReturnType<typeof waysToSend>, id: string): string => ways.find((way) => way.id === id)?.text ?? '';

test('an address of every interface becomes that of the page', () => {
  expect(addressOf('0.0.0.0:5514', 'logs.example')).toEqual({ host: 'logs.example', port: '5514' });
  expect(addressOf('[::]:5514', 'logs.example')).toEqual({ host: 'logs.example', port: '5514' });
  expect(addressOf('[::1]:5514', 'x')).toEqual({ host: '::1', port: '5514' });
  expect(addressOf(null, 'x')).toBeNull();
});

test('each way names this server, its ports that are on, and a token only where one is needed', () => {
  const open = waysToSend({ origin: 'http://127.0.0.1:9514', listeners: { syslog_udp: '127.0.0.1:5514', syslog_tcp: null }, needsToken: false });
  expect(textOf(open, 'curl')).toBe(`curl --data-binary '{"_msg":"hello","level":"info"}' http://127.0.0.1:9514/insert/jsonline`);
  expect(textOf(open, 'files')).toMatch(/^loginson import \/var/);
  expect(textOf(open, 'rsyslog')).toBe('');
  expect(textOf(open, 'docker')).toContain('127.0.0.1:24224');
  expect(open.some(({ text }) => text.includes('TOKEN') || text.includes('tls'))).toBe(false);

  const secured = waysToSend({ origin: 'https://logs.example', listeners: { syslog_tcp: '0.0.0.0:5514', fluent: '0.0.0.0:24224' }, needsToken: true });
  for (const id of ['curl', 'kubernetes', 'fluentbit', 'vector', 'opentelemetry']) {
    expect(textOf(secured, id)).toContain('logs.example');
    expect(textOf(secured, id), id).toContain('LOGINSON_TOKEN');
  }
  expect(textOf(secured, 'fluentbit')).toMatch(/port: 443[\s\S]*tls: on/);
  expect(textOf(secured, 'docker')).toContain('fluentd-address=logs.example:24224');
  expect(textOf(secured, 'files')).toContain('--server https://logs.example --token-file FILE');
});
